"""Group emitter: fusions of the same rows as one kernel, a step of which computes some rows of each of them.

    attention, scores = q k^T, weights = softmax(scores), result = weights v

    func.func @attention(%q, %k, %v, %r0) attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %s = xla.allocate_scratch in_spm : tensor<12x512x512xbf16>          // of which a step has its rows, in the scratchpad
      %w = xla.allocate_scratch in_spm : tensor<12x512x512xbf16>
      scf.for %turn ... { scf.for %step ... {
        xla.loop (%tile, %turn, %step)[%lane0, %lane1] ... { the dot of q and k, inserted into %s }
        xla.loop (%tile, %turn, %step)[%lane0, %lane1] ... { softmax of rows of %s, inserted into %w }
        xla.loop (%tile, %turn, %step)[%lane0, %lane1] ... { the dot of %w and v, inserted into %r0 }
      } }

A member is a dot whose rows are the group's, or a fusion whose reductions go over whole rows. Intermediates are read at the rows
that the step has just computed, so they never leave the scratchpad.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import BlockArgument, Operation

from hlo2tx8.dialects.hlo import FusionOp, GroupOp, origin
from hlo2tx8.dialects.xla import ROW_STEPS, ROW_TURNS
from hlo2tx8.emitters.choose_plan import Chooser, FirstThatFits
from hlo2tx8.emitters.emitter import Fusion
from hlo2tx8.emitters.hero import heroes
from hlo2tx8.emitters.join_members import join_members
from hlo2tx8.emitters.loop import Nest, emit_loops
from hlo2tx8.errors import CapacityError, UnsupportedError, UnsupportedOp
from hlo2tx8.ir import index_attr
from hlo2tx8.schedule.plan_row_group import row_group_plans
from hlo2tx8.schedule.row_group import RowGroupSplit
from hlo2tx8.schedule.row_group_member import RowGroupMember, row_group_member
from hlo2tx8.schedule.work_split import Target


def emit_row_group(
    group: GroupOp, name: str, target: Target, notes: list[str] | None = None, chooser: Chooser | None = None
) -> ModuleOp:
    """The LOOPS module `name` of a group by rows whose members stand in order of execution.

    `notes` gets a line per plan; `chooser` says which of them is taken, the group's own is asked first. UnsupportedError if a
    fusion of it is no member, CapacityError if no plan fits the scratchpad.
    """
    notes = [] if notes is None else notes
    fusions = [op for op in group.regions[0].block.ops if isinstance(op, FusionOp)]
    members = [member_of(op, number, target) for number, op in enumerate(fusions)]
    parameters = [
        [arg for arg, value in zip(op.body.block.args, op.operands, strict=True) if isinstance(value, BlockArgument)]
        for op in fusions
    ]
    plans = row_group_plans(members, parameters, target.rates)
    plans.sort(key=lambda plan: (plan.split.rows_of_chunk_and_step != _wanted(group), plan.cycles))
    plans[1:] = sorted(plans[1:], key=lambda plan: plan.cycles)
    candidates = [plan.candidate for plan in plans]
    schedule, kernel = (chooser or FirstThatFits()).choose(
        [candidates], target.rates.spm_bytes, lambda plan: emit_rows(group, name, fusions, members, target, plan.split)
    )
    notes += schedule.explain(name)
    if kernel is None:
        raise CapacityError("E3101", f"no rows of group {name} fit the scratchpad", hint="take its fusions apart")
    notes.append(f"{name}: group emitter, {len(fusions)} fusions by rows")
    return kernel


def _wanted(group: Operation) -> tuple[int, ...]:
    """Rows of a chunk and of a step, as the group says."""
    assert isinstance(group, GroupOp) and group.row_split is not None
    return tuple(int(n) for n in group.row_split.get_values())


def member_of(op: FusionOp, number: int, target: Target) -> RowGroupMember:
    """A fusion as the member of that number; UnsupportedError if it is none."""
    member = row_group_member(op.body.block, target)
    if isinstance(member, str):
        raise UnsupportedError([UnsupportedOp("hlo.group", (origin(op),), f"member {number} of a group by rows: {member}")])
    return member


def emit_rows(
    group: Operation,
    name: str,
    fusions: Sequence[FusionOp],
    members: Sequence[RowGroupMember],
    target: Target,
    split: RowGroupSplit,
) -> ModuleOp:
    """The LOOPS module `name` of a group whose fusions are these members, by such steps."""
    kernels: list[ModuleOp] = []
    for number, (op, member) in enumerate(zip(fusions, members, strict=True)):
        fusion = Fusion(op, f"{name}_{number}", heroes(op)[0], target)
        nests: Sequence[Nest] = member.nests(split)
        kernels.append(emit_loops(fusion, member.partitioned, member.accesses, lambda _, nests=nests: nests))
    turns = split.num_turns, "turn", {ROW_TURNS: index_attr(split.copies)}
    return join_members(group, name, kernels, [turns, (split.num_steps, "step", {ROW_STEPS: UnitAttr()})])
