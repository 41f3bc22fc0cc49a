"""Group emitter: convolutions and what is between them as one kernel, a turn of which computes a band of rows of each.

    %0 = conv1x1(%x, %w0), %1 = conv3x3(%0, %w1), %2 = conv1x1(%1, %w2) + %x

    func.func @group(%p0, %p1, %p2, %p3, %r0) attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %x = xla.allocate_scratch in_spm : tensor<8x56x56x256xbf16>         // of which a turn has a band, in the scratchpad
      %s0 = xla.allocate_scratch in_spm : tensor<8x56x56x64xbf16>
      ...
      scf.for %turn ... {
        xla.loop (%tile, %turn)[...] ... { a copy of 16 rows of %p0, inserted into %x }
        xla.loop (%tile, %turn)[...] ... { the first convolution of those, inserted into %s0 }
        xla.loop (%tile, %turn)[...] ... { 14 rows of the second one, inserted into %s1 }
        xla.loop (%tile, %turn)[...] ... { 14 rows of the third one and of %x, inserted into %r0 }
      }

Rows that two bands need are computed in both, so no tile waits for another one.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation

from hlo2tx8.dialects.hlo import FusionOp, GroupOp, origin
from hlo2tx8.dialects.xla import BAND_TURNS
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits
from hlo2tx8.emitters.emitter import Fusion
from hlo2tx8.emitters.hero import heroes
from hlo2tx8.emitters.join_members import join_members
from hlo2tx8.emitters.loop import Nest, emit_loops
from hlo2tx8.errors import CapacityError, UnsupportedError, UnsupportedOp
from hlo2tx8.schedule.band_group_member import BandGroupMember, band_group_member
from hlo2tx8.schedule.plan_band_group import BandChain, BandGroupPlan
from hlo2tx8.schedule.work_split import Target


def emit_band_group(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group by bands whose members stand in order of execution.

    `notes` gets a line per plan; `chooser` says which of them is taken, the group's own is asked first. UnsupportedError if a
    fusion of it is no member, CapacityError if no plan fits the scratchpad.
    """
    notes = [] if notes is None else notes
    chain = chain_of(group, target)
    assert group.band_rows is not None
    wanted = group.band_rows.value.data
    plans = chain.plans()
    own = next((plan for plan in plans if plan.bands[-1].rows == wanted), None)
    candidates = [plan.candidate for plan in sorted(plans, key=lambda plan: plan is not own)]
    schedule, kernel = (chooser or FirstThatFits()).choose(
        [candidates], target.rates.spm_bytes, lambda plan: emit_bands(group, name, chain, target, plan)
    )
    notes += schedule.explain(name)
    if kernel is None:
        raise CapacityError("E3101", f"no band of group {name} fits the scratchpad", hint="take its fusions apart")
    notes.append(f"{name}: group emitter, {len(chain.fusions)} fusions by bands")
    return kernel


def chain_of(group: GroupOp, target: Target) -> BandChain:
    """The members of a group by bands. UnsupportedError if a fusion of it is none."""
    fusions = [op for op in group.body.block.ops if isinstance(op, FusionOp)]
    members = [_member(op, number, target) for number, op in enumerate(fusions)]
    return BandChain(tuple(fusions), tuple(members), target.rates)


def _member(op: FusionOp, number: int, target: Target) -> BandGroupMember:
    member = band_group_member(op.body.block, target)
    if isinstance(member, str):
        raise UnsupportedError([UnsupportedOp(GroupOp.name, (origin(op),), f"member {number} of a group by bands: {member}")])
    return member


def emit_bands(group: Operation, name: str, chain: BandChain, target: Target, plan: BandGroupPlan) -> ModuleOp:
    """The LOOPS module of a group with this plan."""
    kernels: list[ModuleOp] = []
    for number, (op, member, bands) in enumerate(zip(chain.fusions, chain.members, plan.bands, strict=True)):
        fusion = Fusion(op, f"{name}_{number}", heroes(op)[0], target)
        nests: Sequence[Nest] = [member.nest(plan.split, bands)]
        kernels.append(emit_loops(fusion, member.partitioned, member.accesses, lambda _, nests=nests: nests))
    attributes = {BAND_TURNS: UnitAttr()} if plan.is_overlapped else {}
    return join_members(group, name, kernels, [(plan.split.num_turns, "turn", attributes)])
