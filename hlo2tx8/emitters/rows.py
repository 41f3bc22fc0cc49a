"""Row emitter: reductions of rows and what depends on them, while a step holds the rows whole.

    func.func @softmax(%p0: tensor<4096x1024xf32>, %r0: tensor<4096x1024xf32>) -> ... attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %0 = xla.loop (%tile)[%step, %lane0, %lane1] -> (%i, %j) in #map lanes 2 iter_args(%t = %r0) -> (...) {
        %x = tensor.extract %p0[%i, %j]
        %m = xla.reduce_lanes over [1] of (%x : f32) init (%lowest : f32) { ... arith.maximumf ... }
        %d = arith.subf %x, %m
        %e = math.exp %d
        %s = xla.reduce_lanes over [1] of (%e : f32) init (%zero : f32) { ... arith.addf ... }
        %y = arith.divf %e, %s
        %1 = tensor.insert %y into %t[%i, %j]
        ...

Every tensor is read once and written once, whatever the number of reductions in a chain; roots may be as large as the space or
have one element per row. Rows that do not fit the scratchpad are left to the reduction emitter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import LoopEmitter, emit_loops
from hlo2tx8.partitioner.computation import PartitionedComputation, SubgraphFunction, partition_rows
from hlo2tx8.partitioner.row_space import RowSpace, row_space
from hlo2tx8.schedule.accesses import AccessAnalysis
from hlo2tx8.schedule.row_split import JoinedLanes, RowSplit, split_rows
from hlo2tx8.schedule.transpose_tiles import split_tiles
from hlo2tx8.schedule.work_split import WorkSplit


@dataclass(frozen=True)
class _Plan:
    partitioned: PartitionedComputation
    accesses: AccessAnalysis
    space: RowSpace
    rows: RowSplit


@dataclass(frozen=True)
class RowEmitter:
    """Takes fusions whose reductions go over the same dimensions of one shape, if what is as large depends on them."""

    name = "row"

    def match(self, fusion: Fusion) -> Match | Declined:
        plan = _plan(fusion)
        return Declined(plan) if isinstance(plan, str) else LoopEmitter().match(fusion)

    def emit(self, match: Match) -> ModuleOp:
        plan = _plan(match.fusion)
        assert not isinstance(plan, str)

        def split(function: SubgraphFunction) -> Sequence[tuple[WorkSplit, Mapping[Operation, JoinedLanes]]]:
            if function is plan.partitioned.functions[0]:
                return [(plan.rows.split, dict.fromkeys(plan.space.reductions, plan.rows.joined))]
            return [(split_tiles(function, plan.accesses), {})]

        return emit_loops(match.fusion, plan.partitioned, plan.accesses, split)


def _plan(fusion: Fusion) -> _Plan | str:
    """How the fusion is emitted, or why it cannot be."""
    space = row_space(fusion.body)
    if isinstance(space, str):
        return space
    partitioned = partition_rows(fusion.body, space)
    whole = partitioned.functions[0]
    for op in space.reductions:
        place = partitioned.places.get(op)
        if place is not None and (place.function is not whole or place.scope is not whole.top or not space.is_of_row(place.map)):
            return "a reduction is read at other places than its rows"
    accesses = AccessAnalysis(partitioned, fusion.target)
    rows = split_rows(space, whole, accesses)
    return rows if isinstance(rows, str) else _Plan(partitioned, accesses, space, rows)
