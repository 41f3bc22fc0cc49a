"""Scan emitter: lines that a step holds whole, each of whose elements is joined with those before it.

func.func @scan(%p0: tensor<64x512x1xf32>, %p1: tensor<64x1x1xf32>, %r0: ...) -> (...) attributes {xla.entry} {
  %tile = xla.tile_id [0, 15]
  %0 = xla.loop (%tile)[%step, %lane0, %lane1] -> (%i, %j, %k) in #map lanes 2 iter_args(%t = %r0) -> (...) {
    %x = tensor.extract %p0[%i, %j, %k]
    %s = tensor.extract %p1[%i, 0, %k]
    %y = xla.scan_lanes over [1] of (%x : f32) init (%s : f32) { ... arith.addf ... }
    %1 = tensor.insert %y into %t[%i, %j, %k]
    ...
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.hlo_lines import ScanOp
from hlo2tx8.dialects.made import extract_op, insert_op
from hlo2tx8.dialects.xla import ENTRY, ApplyIndexingOp, IndexingMapAttr, ScanLanesOp, TileIdOp, YieldOp
from hlo2tx8.emitters.accumulate import Accumulation
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import emit_loop
from hlo2tx8.emitters.scalar import constant_array, scalar_constant
from hlo2tx8.errors import UnsupportedOp
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.indexing import Const, Dim, IndexingMap, delinearize, linearize
from hlo2tx8.partitioner.instruction import is_inlined_constant, shape_of, tensor_type
from hlo2tx8.schedule.scan_lines import box_of_scan
from hlo2tx8.schedule.work_split import WorkSplit, split_work


@dataclass(frozen=True)
class ScanEmitter:
    """Takes a fusion of one `hlo.scan` of its parameters, which may be reshaped; starts may be constants."""

    name = "scan"

    def match(self, fusion: Fusion) -> Match | Declined:
        op, terminator = fusion.hero.op, fusion.body.last_op
        assert op is not None and terminator is not None
        others = [other for other in fusion.body.ops if other not in (op, terminator) and not _is_at_hand(other)]
        if isinstance(op, ScanOp) and not others and tuple(terminator.operands) == tuple(op.results):
            return Match(fusion)
        reason = "a scan is a fusion of its own"
        return Declined(reason, (UnsupportedOp(op.name, (origin(op),), reason),))

    def emit(self, match: Match) -> ModuleOp:
        fusion, op = match.fusion, match.fusion.hero.op
        assert op is not None
        params = tuple(fusion.body.args)
        types = [value.type for value in (*params, *op.results)]
        block = Block(arg_types=types)
        for position, arg in enumerate(block.args):
            arg.name_hint = f"p{position}" if position < len(params) else f"r{position - len(params)}"
        tile = TileIdOp(fusion.target.rates.tiles)
        tile.tile.name_hint = "tile"
        split = _split(fusion, op)
        loop = emit_loop(split, tile.tile, block.args[len(params) :])
        body = loop.body.block
        lines = _Lines(op, dict(zip(params, block.args, strict=False)), split, body)
        body.add_op(YieldOp(lines.scan(loop.index_args, loop.iter_block_args)))
        block.add_ops([tile, loop, func.ReturnOp(*loop.res)])
        entry = func.FuncOp(fusion.name, FunctionType.from_lists(types, types[len(params) :]), Region(block))
        entry.attributes[ENTRY] = UnitAttr()
        return ModuleOp([entry], sym_name=StringAttr(fusion.name))


def _is_at_hand(op: Operation) -> bool:
    """Is it a constant, or a parameter in another shape?"""
    return is_inlined_constant(op) or (isinstance(op, stablehlo.OPS["reshape"]) and isinstance(op.operands[0], BlockArgument))


def _split(fusion: Fusion, op: Operation) -> WorkSplit:
    """Steps of whole lines."""
    shape, target = shape_of(op.results[0]), fusion.target
    width = sum(max(4, numpy_dtype(tensor_type(value).element_type).itemsize) for value in op.results)
    box = box_of_scan(shape, target.step_elements, width, target.rates)
    return split_work(shape, [Dim(d) for d in range(len(shape))], 0, target.rates.tiles, box=box)


@dataclass(frozen=True)
class _Lines:
    """The body of the loop over lines of `op`; `tensors` are the entry function's arguments for the fusion's parameters."""

    op: Operation
    tensors: dict[SSAValue, SSAValue]
    split: WorkSplit
    block: Block

    def scan(self, indices: Sequence[SSAValue], targets: Sequence[SSAValue]) -> list[SSAValue]:
        """The targets with the results inserted."""
        accumulation, half = Accumulation(self.op), len(self.op.results)
        given = [self._element(value, indices) for value in self.op.operands]
        elements, init = accumulation.widened(given[:half], self.block), accumulation.start(given[half:], self.block)
        combiner = Block(arg_types=[*accumulation.types, *accumulation.types])
        combiner.add_op(YieldOp(accumulation.join(combiner.args[:half], combiner.args[half:], combiner)))
        new = ScanLanesOp([self.split.lane_dims.index(1)], elements, init, combiner)
        new.attributes |= accumulation.loc
        self.block.add_op(new)
        found = zip(accumulation.finish(new.res, self.block), targets, strict=True)
        return [self._add(insert_op(value, target, list(indices))) for value, target in found]

    def _element(self, value: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """The element of an operand at the loop's index, a line's only one, or a scalar."""
        owner, own = value.owner, tensor_type(value)
        if isinstance(owner, Operation) and not is_inlined_constant(owner):
            position = linearize([Dim(d) for d in range(len(indices))], shape_of(value))
            value = owner.operands[0]
            own = tensor_type(value)
            map = IndexingMap.from_shape(delinearize(position, own.get_shape()), shape_of(self.op.results[0]))
            indices = self._apply(map, indices)
        elif isinstance(owner, Operation):
            return self._add(scalar_constant(constant_array(owner), own.element_type))
        elif not own.get_shape():
            indices = ()
        elif own.get_shape()[1] == 1:
            map = IndexingMap.from_shape([Dim(0), Const(0), Dim(2)], shape_of(self.op.results[0]))
            indices = self._apply(map, indices)
        return self._add(extract_op(self.tensors[value], list(indices), own.element_type))

    def _apply(self, map: IndexingMap, indices: Sequence[SSAValue]) -> Sequence[SSAValue]:
        apply = ApplyIndexingOp(IndexingMapAttr(map), indices)
        self.block.add_op(apply)
        return apply.res

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]
