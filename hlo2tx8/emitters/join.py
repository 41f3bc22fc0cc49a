"""Join emitter: updates of lines that a step holds in the scratchpad, or of columns of them.

func.func @join(%p0: tensor<4x512x64xf32>, %p1: tensor<4x2048xi32>, %p2: tensor<4x2048x64xf32>, %r0: ...) -> ... {
  %tile = xla.tile_id [0, 15]
  %0 = xla.loop (%tile)[%step, %lane0, %lane1] -> (%i, %j, %k) in #map lanes 2 iter_args(%t = %r0) -> (...) {
    %x = tensor.extract %p0[%i, %j, %k]
    %y = xla.join_at along 0 updates 2048 init(%x : f32) { %p1[%i, %n] } of { %p2[%i, %n, %k] } by { ... }
    %1 = tensor.insert %y into %t[%i, %j, %k]
    ...
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.hlo_lines import JoinAtOp as HloJoinAtOp
from hlo2tx8.dialects.made import extract_op, insert_op
from hlo2tx8.dialects.xla import ENTRY, ApplyIndexingOp, IndexingMapAttr, JoinAtOp, TileIdOp, YieldOp, index
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import emit_loop
from hlo2tx8.emitters.scalar import constant_array, inline_body, location, scalar_constant
from hlo2tx8.errors import UnsupportedOp
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.join import lines_of
from hlo2tx8.indexing import Dim, IndexingMap, delinearize, linearize
from hlo2tx8.partitioner.instruction import is_inlined_constant, shape_of, tensor_type
from hlo2tx8.schedule.join_lines import UpdatedLines
from hlo2tx8.schedule.work_split import split_work


@dataclass(frozen=True)
class JoinEmitter:
    """Takes a fusion of one `hlo.join_at` of its parameters; but for places they may be constants whose elements are all equal."""

    name = "join"

    def match(self, fusion: Fusion) -> Match | Declined:
        op, terminator = fusion.hero.op, fusion.body.last_op
        assert op is not None and terminator is not None
        others = [other for other in fusion.body.ops if other not in (op, terminator) and not is_inlined_constant(other)]
        if isinstance(op, HloJoinAtOp) and not others and tuple(terminator.operands) == tuple(op.results):
            return Match(fusion)
        reason = "updates of lines are a fusion of their own"
        return Declined(reason, (UnsupportedOp(op.name, (origin(op),), reason),))

    def emit(self, match: Match) -> ModuleOp:
        fusion, op = match.fusion, match.fusion.hero.op
        assert op is not None
        params = tuple(fusion.body.args)
        types = [value.type for value in (*params, *op.results)]
        block = Block(arg_types=types)
        for position, arg in enumerate(block.args):
            arg.name_hint = f"p{position}" if position < len(params) else f"r{position - len(params)}"
        tensors: dict[SSAValue, SSAValue] = dict(zip(params, block.args, strict=False))
        tile = TileIdOp(fusion.target.rates.tiles)
        tile.tile.name_hint = "tile"
        rates, own, attributes = fusion.target.rates, shape_of(op.results[0]), attributes_of(op)
        shape, first, last = lines_of(attributes, own), int(attributes["places"]), int(attributes["columns"])
        num_updates = prod(shape_of(op.operands[1])) // shape[0]
        width, is_loaded = numpy_dtype(tensor_type(op.results[0]).element_type).itemsize, op.operands[0] in params
        lines = UpdatedLines.of(shape, num_updates, width, is_loaded=is_loaded)
        parts = zip((own[:first], own[first:last], own[last:]), map(Dim, range(3)), strict=True)
        exprs = [expr for part, dim in parts for expr in delinearize(dim, part)]
        box = lines.box(rates, fusion.target.step_elements)
        split = split_work(shape, exprs, 0, rates.tiles, box=box)
        loop = emit_loop(split, tile.tile, block.args[-1:])
        body, target, at = loop.body.block, loop.iter_block_args[0], loop.index_args
        old = _element(op.operands[0], at, tensors, body)
        line, column = (linearize([Dim(d) for d in dims], [own[d] for d in dims]) for dims in (range(first), range(last, len(own))))
        place = line * num_updates + Dim(len(own))
        regions: list[Block] = []
        for value, position in ((op.operands[1], place), (op.operands[2], place * shape[2] + column)):
            region = Block(arg_types=[index])
            where = IndexingMap.from_shape(delinearize(position, shape_of(value)), (*own, num_updates))
            apply = ApplyIndexingOp(IndexingMapAttr(where), [*at, region.args[0]])
            region.add_op(apply)
            region.add_op(YieldOp([_element(value, apply.res, tensors, region)]))
            regions.append(region)
        new = JoinAtOp(split.lane_dims.index(1), num_updates, old, regions[0], regions[1], _combiner(op, old))
        new.attributes |= location(op)
        insert = insert_op(new.res, target, list(at))
        body.add_ops([new, insert, YieldOp([insert.result])])
        block.add_ops([tile, loop, func.ReturnOp(*loop.res)])
        entry = func.FuncOp(fusion.name, FunctionType.from_lists(types, types[-1:]), Region(block))
        entry.attributes[ENTRY] = UnitAttr()
        return ModuleOp([entry], sym_name=StringAttr(fusion.name))


def _combiner(op: Operation, like: SSAValue) -> Block:
    """What is there and an update, joined."""
    block = Block(arg_types=[like.type, like.type])
    joined = inline_body(op.regions[0].block, list(block.args), block) if op.regions else block.args[1:]
    block.add_op(YieldOp(list(joined)))
    return block


def _element(value: SSAValue, at: Sequence[SSAValue], tensors: dict[SSAValue, SSAValue], block: Block) -> SSAValue:
    """An element of a parameter or of a constant whose elements are all equal."""
    type_, owner = tensor_type(value).element_type, value.owner
    if isinstance(owner, Operation):
        found = scalar_constant(constant_array(owner), type_)
    else:
        found = extract_op(tensors[value], list(at), type_)
    block.add_op(found)
    return found.results[0]
