"""The loop of a contraction, by blocks that one instruction of the matrix engine adds up. Contractions with the same rows have one
loop, which carries the sums of each: what they share is read once.

%1 = scf.for %t = 0 to 3 iter_args(%acc = %zero) {
  %2 = xla.dot lanes [256] init(%acc : f32) { ... the row's element at t * 256 + lane ... } by { ... the column's ... }
  scf.yield %2
}
%3 = xla.dot lanes [256] init(%1 : f32) { ... } by { ... }            // the last block can be written in another format
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.xla import ApplyIndexingOp, DotOp, IndexingMapAttr, YieldOp, index
from hlo2tx8.dialects.xla_dot import sums_type
from hlo2tx8.emitters.reduce_blocks import counted_loop
from hlo2tx8.emitters.scalar import location, scalar_constant, scalar_op_named
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.indexing import Dim, IndexingMap, Variable
from hlo2tx8.partitioner.contraction import Contraction
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.partitioner.reduction_paths import loop_counters

Elements = Callable[[Operation, Sequence[SSAValue], Block, Sequence[int]], list[SSAValue]]
"""Emits the elements of some operands of a dot at these counters into a block."""


@dataclass
class ContractionLoop:
    """Emits the loop of dots with the same rows; `elements` is called once per operand for full blocks, once for what is left."""

    ops: Sequence[Operation]
    contraction: Contraction
    elements: Elements
    zero: SSAValue = field(init=False)

    def emit(self, block: Block) -> list[SSAValue]:
        """The sums of each dot, in the type of the engine's partial sums."""
        type_ = sums_type(tensor_type(self.ops[0].operands[0]).element_type)
        assert type_ is not None
        zero = scalar_constant(np.zeros((), numpy_dtype(type_)), type_)
        block.add_op(zero)
        self.zero = zero.results[0]
        counters: dict[int, SSAValue] = {}
        nest: list[scf.ForOp] = []
        sums: Sequence[SSAValue] = [self.zero] * len(self.ops)
        for number in self.contraction.loops:
            turns = loop_counters(self.ops[0])[number].hi + 1
            if turns == 1:
                first = arith.ConstantOp(IntegerAttr(0, index))
                block.add_op(first)
                counters[number] = first.result
                continue
            loop = counted_loop(turns, sums, block)
            block, sums = loop.body.block, loop.body.block.args[1:]
            counters[number] = block.args[0]
            nest.append(loop)
        sums = self._blocks(sums, counters, block)
        for loop in reversed(nest):
            loop.body.block.add_op(scf.YieldOp(*sums))
            sums = loop.results
        return list(sums)

    def _blocks(self, sums: Sequence[SSAValue], counters: dict[int, SSAValue], block: Block) -> list[SSAValue]:
        lanes = self.contraction.lanes
        turns, rest = divmod(self.contraction.extent, lanes)
        if not rest:
            turns, rest = turns - 1, lanes
        if turns == 1:
            sums = self._dots(sums, counters, lanes, None, 0, block)
        elif turns:
            loop = counted_loop(turns, sums, block)
            inner = loop.body.block
            carried = self._dots(inner.args[1:], counters, lanes, (inner.args[0], turns), 0, inner)
            inner.add_op(scf.YieldOp(*carried))
            sums = loop.results
        return self._dots(sums, counters, rest, None, turns * lanes, block)

    def _dots(
        self,
        sums: Sequence[SSAValue],
        counters: dict[int, SSAValue],
        lanes: int,
        turn: tuple[SSAValue, int] | None,
        start: int,
        block: Block,
    ) -> list[SSAValue]:
        """One block of each dot, as `_dot`."""
        return [self._dot(op, own, counters, lanes, turn, start, block) for op, own in zip(self.ops, sums, strict=True)]

    def _dot(
        self,
        dot: Operation,
        sums: SSAValue,
        counters: dict[int, SSAValue],
        lanes: int,
        turn: tuple[SSAValue, int] | None,
        start: int,
        block: Block,
    ) -> SSAValue:
        """One block from product `start`, and `lanes` more per turn, on."""
        sides: list[Block] = []
        taps = self.contraction.window_counters
        for number in (self.contraction.rows, 1 - self.contraction.rows):
            side = Block(arg_types=[index] * (len(taps) + 1))
            for arg in side.args:
                arg.name_hint = "lane"
            own = counters | dict(zip(taps, side.args, strict=False))
            own[self.contraction.block] = self._counter(side.args[-1], lanes, turn, start, side)
            (element,) = self.elements(dot, [own[i] for i in range(len(own))], side, (number,))
            side.add_op(YieldOp([element]))
            sides.append(side)
        sizes = [loop_counters(dot)[counter].hi + 1 for counter in taps]
        contraction = self.contraction
        op = DotOp(
            [*sizes, lanes],
            self.zero if contraction.is_added_to_nearest else sums,
            sides[0],
            sides[1],
            contraction.windows,
            is_per_channel=contraction.is_per_channel,
            is_backward=contraction.is_backward,
            parts=contraction.parts,
        )
        op.attributes |= location(dot)
        block.add_op(op)
        if not contraction.is_added_to_nearest:
            return op.res
        add = scalar_op_named("stablehlo.add", [sums, op.res], sums.type, {}, location(dot))
        block.add_op(add)
        return add.results[0]

    def _counter(self, lane: SSAValue, lanes: int, turn: tuple[SSAValue, int] | None, start: int, block: Block) -> SSAValue:
        """The counter of the block's dimension at a lane."""
        if turn is None and not start:
            return lane
        variables, values, position = [Variable(0, lanes - 1, "lane")], [lane], Dim(0) + start
        if turn is not None:
            variables.append(Variable(0, turn[1] - 1, "turn"))
            values.append(turn[0])
            position = position + Dim(1) * lanes
        apply = ApplyIndexingOp(IndexingMapAttr(IndexingMap(tuple(variables), (), (), (position,))), values)
        block.add_op(apply)
        return apply.res[0]
