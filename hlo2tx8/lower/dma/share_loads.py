"""SCHEDULED → SCHEDULED: operands that several tiles multiply are read from DDR by one of them, which sends them to the others.

Before:                                     After:
    scf.for %step = 0 to 4 {                    load(0); wait; load(1); barrier; send(0)
      scf.for %k = 0 to 31 {                    scf.for %step = 0 to 4 {
        load(%a); load(%b)                        scf.for %k = 0 to 31 {        // panel s = %step * 32 + %k
        gemm(%a, %b)                                wait(RDMA, TDMA)            // panel s + 1 is here, its slot free on this tile
      }                                             token(s + 2); load(s + 2)
      load(%a'); load(%b')                          wait(DTE)                   // this tile has sent panel s
      gemm(%a', %b')                                barrier                     // so have all; the slot of s + 1 is free
      store                                         send(s + 1)
    }                                               gemm(s)
                                                  ... the same for %k = 31 ...
                                                  store

Panel s lies in slot `s mod copies` of a buffer for rows and one for columns. A load goes straight to its slot on the tile that
makes it, and from there to the same slot of the tiles in its mesh row or column. A token is a memset of a few bytes of a slot: the
range check holds it back until whoever read the slot has finished, so that a wait for TDMA says that the slot is free.

Where several steps in a row go over the same panels of one side, and those fit, they stay: each has a slot of its own, and is
loaded in the first of these steps only.

What the vector engine makes of a load before it is multiplied, the parts of f32 say, is made where it is loaded, and sent instead:
a load goes to one of two buffers of its own three panels ahead, and `split` takes the place of the load above. Nobody waits for the
vector engine: a read of a few bytes of the last part, which the range check holds back, says that all parts are there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.lower.dma.bring_early import bring_early, is_as_good
from hlo2tx8.lower.dma.column_sets import num_kept
from hlo2tx8.lower.dma.defer_epilogue import defer_epilogue
from hlo2tx8.lower.dma.finish_columns import finish, finish_in_place, hand_over
from hlo2tx8.lower.dma.gather_results import gather_results
from hlo2tx8.lower.dma.gather_rows import load_before_meeting
from hlo2tx8.lower.dma.idle_rows import take_idle_rows_along
from hlo2tx8.lower.dma.join_tails import join_tails
from hlo2tx8.lower.dma.keep_results import ResultBuffer, find_kept_results, interleave_kept
from hlo2tx8.lower.dma.kept_places import know_turns
from hlo2tx8.lower.dma.mesh import Mesh, TileIndex
from hlo2tx8.lower.dma.panels import find_panels, take_certain_branches
from hlo2tx8.lower.dma.postpone_moves import postpone_moves
from hlo2tx8.lower.dma.ring_at_once import AT_ONCE, Weights
from hlo2tx8.lower.dma.shared_loop import SharedLoop
from hlo2tx8.lower.dma.sharing_plan import LoopPlan, loop_plans
from hlo2tx8.lower.dma.slices import instructions_in, turns_of
from hlo2tx8.lower.dma.units_first import load_units_first
from hlo2tx8.lower.dma.widen_loads import SPM_PART
from hlo2tx8.lower.select.channel_blocks import EngineOrderError

Planner: TypeAlias = Callable[..., list[LoopPlan]]
"""What plans the loops of a function, as `loop_plans`."""


@dataclass(frozen=True)
class ShareLoadsPass(ModulePass):
    """Multicasts of panels that tiles of a mesh row or column have in common; see the module docstring.

    chip: file of the description, "" for the built-in one.
    """

    name = "share-loads"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            mesh = Mesh.of(function)
            if mesh is None:
                continue
            chip = load_chip(self.chip)
            tile = next(op.tile for op in function.body.block.ops if isinstance(op, xla.TileIdOp))
            index = TileIndex.of(mesh, tile)
            every = [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
            by_rows = [loop for loop in every if xla.ROW_TURNS in loop.attributes]
            rings = [loop for loop in every if AT_ONCE in loop.attributes]
            loops = [loop for loop in every if loop not in (*by_rows, *rings)]
            for loop in loops:
                _put_in_order(loop, index)
            for loop in by_rows:
                know_turns(loop, index)
            joined = list(join_tails(loops, index))
            for loop in joined:
                postpone_moves(loop)
                load_units_first(loop, chip.spm_bytes // SPM_PART)
            panels = [find_panels(loop, index) for loop in joined]
            if interleave_kept(function, [own for own in panels if own is not None], index):
                index = TileIndex.of(index.mesh, tile)
                for loop in joined:
                    index.add_counter(loop.body.block.args[0], turns_of(loop) or 1)
                for loop in by_rows:
                    know_turns(loop, index)
                panels = [find_panels(loop, index) for loop in joined]
            kept = find_kept_results(function, [own for own in panels if own is not None], tile, index)
            for own in kept:
                own.read_in_place(function)
            num_parts = function.attributes.get(xla.PHASE_STEPS)
            in_turns = isinstance(num_parts, IntegerAttr)
            known = [own for own in panels if own is not None]
            plan = partial(loop_plans, known, kept, chip, in_turns=in_turns)
            weights, plan = _with_early_weights(Weights.of(function, known), plan)
            brought, found = bring_early(known, plan) if xla.BRINGS_EARLY in function.attributes else ([], plan())
            plans = [plan for plan in found if plan.is_shared]
            if in_turns and (len(plans) < len(loops) or len(kept) < num_parts.value.data or not all(map(_has_turns, plans))):
                raise EngineOrderError("E3208", "parts of phases do not stay with their tiles")
            if kept:
                _constants_first(function)
            shared = [
                SharedLoop(plan, before, index.mesh, tile, Rates.of(chip)) for before, plan in pairwise((None, *plans)) if plan
            ]
            needless = [_meeting_before(following.loop) for following in shared if following.follows_at_once]
            for sharing, following in zip_longest(shared, shared[1:]):
                sharing.run(following if following is not None and following.is_early else None)
            for own in brought:
                own.load()
            for early in weights:
                early.bring(next((its.behind_loads for its in shared if its.loop is early.carrier.loop), None))
            for sharing in shared:
                _finish(sharing, chip, kept)
            if not shared or ((kept or brought) and len(shared) < len(panels)):
                raise EngineOrderError("E3208", "no three panels of what tiles load alike fit the scratchpad")
            for meeting in needless:
                meeting.detach()
                meeting.erase(safe_erase=False)
            for own in kept:
                own.take_over(function)
            gather_results(kept, index.mesh, tile)
            if xla.GATHERS_ROWS in function.attributes:
                load_before_meeting(by_rows[0])
            _check_loads([*by_rows, *rings])


def _has_turns(plan: LoopPlan) -> bool:
    return plan.panels.sites[0].loop is not None


def _put_in_order(loop: scf.ForOp, index: TileIndex) -> None:
    """Makes a step loop one whose turns all tiles have, and in which nothing but products comes before the last product."""
    take_certain_branches(loop, index)
    take_idle_rows_along(loop, index)
    defer_epilogue(loop)


def _with_early_weights(weights: list[Weights], plan: Planner) -> tuple[list[Weights], Planner]:
    """The weights of rings that are sent during the loop before, all if there is room, and how loops are planned beside."""
    beside = partial(plan, early_weights={own.carrier.loop: own.num_bytes for own in weights})
    has_room = not weights or all(is_as_good(new, old) for new, old in zip(beside(), plan(), strict=True))
    return (weights, beside) if has_room else ([], plan)


def _finish(shared: SharedLoop, chip: Chip, kept: Sequence[ResultBuffer]) -> None:
    """Rewrites what follows the last products of a loop's steps, as it is planned, of which some is `kept` by tiles."""
    plan = shared.plan
    if plan.hands_over:
        hand_over(plan.panels, plan.sets, plan.hands_over)
    elif plan.in_place:
        finish_in_place(plan.panels, plan.sets[0])
    elif plan.sets:
        staying = {own.kept.slot for own in kept if not own.kept.is_read_by_others}
        finish(plan.panels, plan.sets, num_kept(plan.panels, plan.sets[0], min(plan.slots.values()), chip, staying))
    shared.skip_idle()


def _meeting_before(loop: scf.ForOp) -> xla.SyncTilesOp:
    """The meeting of tiles between a loop and the one before it."""
    op = loop.prev_op
    while op is not None and not isinstance(op, xla.SyncTilesOp):
        op = op.prev_op
    assert op is not None
    return op


def _check_loads(loops: Sequence[scf.ForOp]) -> None:
    """EngineOrderError if loops load what the kernel has made, which should have stayed."""
    slots = [op.field("slot") for loop in loops for op in instructions_in(loop) if isinstance(op, Rdma)]
    if any(isinstance(slot, SSAValue) and not isinstance(slot, BlockArgument) for slot in slots):
        raise EngineOrderError("E3208", "what a tile has computed is not what it reads later")


def _constants_first(function: func.FuncOp) -> None:
    """Moves constants to the function's beginning, so that what is computed of them may be computed early."""
    block = function.body.block
    for op in [op for op in block.ops if isinstance(op, arith.ConstantOp)]:
        op.detach()
        first = block.first_op
        assert first is not None
        block.insert_op_before(op, first)
