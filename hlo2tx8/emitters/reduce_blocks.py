"""The loop of a reduction, by blocks of lanes.

%1 = scf.for %t = 0 to 96 iter_args(%acc = %init) {            // turns of 8192 elements each
  %2 = xla.reduce lanes 8192 init(%acc) { ... the element at t * 8192 + lane ... } by { ... }
  scf.yield %2
}
%3 = xla.reduce lanes 5 init(%1) { ... the element at 786432 + lane ... } by { ... }            // what is left
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.made import constant_index, for_op, yield_op
from hlo2tx8.dialects.xla import ApplyIndexingOp, IndexingMapAttr, ReduceLanesOp, ReduceOp, YieldOp, index
from hlo2tx8.emitters.accumulate import Accumulation
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Variable, delinearize
from hlo2tx8.partitioner.reduction_paths import loop_counters
from hlo2tx8.schedule.reduction_blocks import Blocks

Elements = Callable[[Sequence[SSAValue], Block], list[SSAValue]]
"""Emits the inputs' elements at these counters into a block."""


@dataclass
class BlockLoop:
    """Emits the loop of one reduction; `elements` is called once for full blocks and once for what is left."""

    op: Operation
    blocks: Blocks
    elements: Elements

    def emit(self, carried: list[SSAValue], block: Block) -> list[SSAValue]:
        """The accumulators after all turns."""
        counters: dict[int, SSAValue] = {}
        nest: list[scf.ForOp] = []
        for number in self.blocks.loops:
            loop = counted_loop(loop_counters(self.op)[number].hi + 1, carried, block)
            block, carried = loop.body.block, list(loop.body.block.args[1:])
            counters[number] = block.args[0]
            nest.append(loop)
        carried = self._block_loop(carried, counters, block)
        for loop in reversed(nest):
            loop.body.block.add_op(yield_op(*carried))
            carried = list(loop.results)
        return carried

    def _block_loop(self, carried: list[SSAValue], counters: dict[int, SSAValue], block: Block) -> list[SSAValue]:
        turns, rest = divmod(self.blocks.extent, self.blocks.lanes)
        if turns == 1:
            carried = self._reduce(carried, counters, self.blocks.lanes, None, 0, block)
        elif turns:
            loop = counted_loop(turns, carried, block)
            inner = loop.body.block
            found = self._reduce(list(inner.args[1:]), counters, self.blocks.lanes, (inner.args[0], turns), 0, inner)
            inner.add_op(yield_op(*found))
            carried = list(loop.results)
        if rest:
            carried = self._reduce(carried, counters, rest, None, turns * self.blocks.lanes, block)
        return carried

    def _reduce(
        self,
        carried: list[SSAValue],
        counters: dict[int, SSAValue],
        lanes: int,
        turn: tuple[SSAValue, int] | None,
        start: int,
        block: Block,
    ) -> list[SSAValue]:
        """One block from element `start`, and `lanes` more per turn, on."""
        accumulation, types = Accumulation(self.op), [value.type for value in carried]
        inside, combiner = Block(arg_types=[index]), Block(arg_types=[*types, *types])
        inside.args[0].name_hint = "lane"
        own = counters | self._counters(inside.args[0], lanes, turn, start, inside)
        found = self.elements([own[number] for number in range(len(own))], inside)
        inside.add_op(YieldOp(accumulation.widened(found, inside)))
        half = len(types)
        combiner.add_op(YieldOp(accumulation.join(combiner.args[:half], combiner.args[half:], combiner)))
        op = ReduceOp(lanes, carried, inside, combiner, is_outer=self.blocks.is_outer)
        op.attributes |= accumulation.loc
        block.add_op(op)
        return list(op.res)

    def _counters(
        self, lane: SSAValue, lanes: int, turn: tuple[SSAValue, int] | None, start: int, block: Block
    ) -> dict[int, SSAValue]:
        """The counters of the block's dimensions at a lane."""
        variables, values = [Variable(0, lanes - 1, "lane")], [lane]
        position: Expr = Dim(0) + start
        if turn is not None:
            variables.append(Variable(0, turn[1] - 1, "turn"))
            values.append(turn[0])
            position = position + Dim(1) * lanes
        ranges = loop_counters(self.op)
        coordinates = delinearize(position, [ranges[i].hi + 1 for i in self.blocks.block]) if self.blocks.block else ()
        if coordinates == (Dim(0),):
            return {self.blocks.block[0]: lane}
        map = IndexingMap(tuple(variables), (), (), tuple(coordinates) or (Const(0),))
        apply = ApplyIndexingOp(IndexingMapAttr(map), values)
        if coordinates:
            block.add_op(apply)
        return dict(zip(self.blocks.block, apply.res, strict=False))


def join_lanes(
    accumulation: Accumulation, lanes: Sequence[int], elements: Sequence[SSAValue], init: Sequence[SSAValue], block: Block
) -> list[SSAValue]:
    """The accumulators after a turn per lane of the step, along these dimensions of it."""
    types = [value.type for value in init]
    combiner, half = Block(arg_types=[*types, *types]), len(types)
    combiner.add_op(YieldOp(accumulation.join(combiner.args[:half], combiner.args[half:], combiner)))
    op = ReduceLanesOp(lanes, elements, init, combiner)
    op.attributes |= accumulation.loc
    block.add_op(op)
    return list(op.res)


def counted_loop(count: int, carried: Sequence[SSAValue], block: Block) -> scf.ForOp:
    """An empty loop of `count` turns at the end of a block."""
    lower, upper, step = bounds = [constant_index(bound) for bound in (0, count, 1)]
    body = Block(arg_types=[index, *(value.type for value in carried)])
    body.args[0].name_hint = "k"
    for arg in body.args[1:]:
        arg.name_hint = "acc"
    loop = for_op(lower.result, upper.result, step.result, carried, body)
    block.add_ops([*bounds, loop])
    return loop
