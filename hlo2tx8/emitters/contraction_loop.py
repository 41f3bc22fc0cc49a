"""The loop of a contraction, by blocks that one instruction of the matrix engine adds up. Contractions with the same rows have one
loop, which carries the sums of each: what they share is read once.

%1 = scf.for %t = 0 to 3 iter_args(%acc = %zero) {
  %2 = xla.dot lanes [256] init(%acc : f32) { ... the row's element at t * 256 + lane ... } by { ... the column's ... }
  scf.yield %2
}
%3 = xla.dot lanes [256] init(%1 : f32) { ... } by { ... }            // the last block can be written in another format

Where several counters are added up and blocks are all as large, the one loop goes over all of them: turn %t is block %t mod 4 of
element %t div 4 of the other. Else there are loops around that of the blocks.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.made import constant_index, yield_op
from hlo2tx8.dialects.xla import ApplyIndexingOp, DotOp, IndexingMapAttr, YieldOp, index
from hlo2tx8.dialects.xla_dot import sums_type
from hlo2tx8.emitters.reduce_blocks import counted_loop
from hlo2tx8.emitters.scalar import location, scalar_constant, scalar_op_named
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Variable, delinearize
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
        is_one = self.contraction.is_one_loop
        for number in self.contraction.loops:
            turns = self._turns(number)
            if turns == 1:
                first = constant_index(0)
                block.add_op(first)
                counters[number] = first.result
            elif not is_one:
                loop = counted_loop(turns, sums, block)
                block, sums = loop.body.block, loop.body.block.args[1:]
                counters[number] = block.args[0]
                nest.append(loop)
        sums = self._blocks(sums, counters, block)
        for loop in reversed(nest):
            loop.body.block.add_op(yield_op(*sums))
            sums = loop.results
        return list(sums)

    def _turns(self, number: int) -> int:
        """Of a counter."""
        return loop_counters(self.ops[0])[number].hi + 1

    def _others(self, counters: Container[int]) -> list[int]:
        """The counters that the loop over blocks goes over too: those that nothing else counts."""
        return [number for number in self.contraction.loops if number not in counters]

    def _blocks(self, sums: Sequence[SSAValue], counters: dict[int, SSAValue], block: Block) -> list[SSAValue]:
        lanes = self.contraction.lanes
        others = self._others(counters)
        blocks, rest = divmod(self.contraction.extent, lanes)
        turns = blocks * prod(map(self._turns, others)) - (rest == 0)
        if turns == 1:
            sums = self._dots(sums, counters, lanes, 0, block)
        elif turns:
            loop = counted_loop(turns, sums, block)
            inner = loop.body.block
            carried = self._dots(inner.args[1:], counters, lanes, (inner.args[0], turns), inner)
            inner.add_op(yield_op(*carried))
            sums = loop.results
        return self._dots(sums, counters, rest or lanes, turns, block)

    def _dots(
        self,
        sums: Sequence[SSAValue],
        counters: dict[int, SSAValue],
        lanes: int,
        turn: tuple[SSAValue, int] | int,
        block: Block,
    ) -> list[SSAValue]:
        """One block of each dot, as `_dot`."""
        return [self._dot(op, own, counters, lanes, turn, block) for op, own in zip(self.ops, sums, strict=True)]

    def _dot(
        self,
        dot: Operation,
        sums: SSAValue,
        counters: dict[int, SSAValue],
        lanes: int,
        turn: tuple[SSAValue, int] | int,
        block: Block,
    ) -> SSAValue:
        """The block of a turn, or of one of so many turns."""
        sides: list[Block] = []
        taps = self.contraction.window_counters
        for number in (self.contraction.rows, 1 - self.contraction.rows):
            side = Block(arg_types=[index] * (len(taps) + 1))
            for arg in side.args:
                arg.name_hint = "lane"
            own = counters | dict(zip(taps, side.args, strict=False))
            own |= self._counters(side.args[-1], lanes, turn, self._others(counters), side)
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

    def _counters(
        self, lane: SSAValue, lanes: int, turn: tuple[SSAValue, int] | int, others: Sequence[int], block: Block
    ) -> dict[int, SSAValue]:
        """The counter of the block's dimension at a lane, and the `others` that the loop goes over, in a turn."""
        contraction, variables, values = self.contraction, [Variable(0, lanes - 1, "lane")], [lane]
        if isinstance(turn, int):
            number: Expr = Const(turn)
        else:
            variables.append(Variable(0, turn[1] - 1, "turn"))
            values.append(turn[0])
            number = Dim(1)
        blocks = -(-contraction.extent // contraction.lanes)
        *outer, own = delinearize(number, [*map(self._turns, others), blocks]) if others else [number]
        position = Dim(0) + own * contraction.lanes
        found: dict[int, SSAValue] = {}
        for counter, place in zip([*others, contraction.block], [*outer, position], strict=True):
            map_ = IndexingMap(tuple(variables), (), (), (place,)).simplify()
            if map_.results == (Dim(0),):
                found[counter] = lane
                continue
            apply = ApplyIndexingOp(IndexingMapAttr(map_), values)
            block.add_op(apply)
            found[counter] = apply.res[0]
        return found
