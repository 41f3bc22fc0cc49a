"""Sort emitter: lines that a step holds whole, put in order in the scratchpad.

    func.func @sort(%p0: tensor<16x4096xf32>, %p1: ..., %r0: ..., %r1: ...) -> (...) attributes {xla.entry} {
      %tile = xla.tile_id [0, 15]
      %0:2 = xla.loop (%tile)[%step, %lane] -> (%i, %j) in #map lanes 1 iter_args(%s = %r0, %t = %r1) -> (...) {
        %x = tensor.extract %p0[%i, %j]
        %y = tensor.extract %p1[%i, %j]
        %q = xla.apply_indexing #map<(d0) -> (d0 mod 2)>(%i)
        %a, %b = xla.sort_lanes along 0 of (%x, %y : f32, f32) descending(%q)
        %1 = tensor.insert %a into %s[%i, %j]
        ...

A step has a part of each dimension that divides it, so that all steps have the same lanes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.hlo_lines import SortWordsOp
from hlo2tx8.dialects.made import extract_op, insert_op
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.dialects.xla import ENTRY, ApplyIndexingOp, IndexingMapAttr, SortLanesOp, TileIdOp, YieldOp
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import emit_loop
from hlo2tx8.errors import UnsupportedOp
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.schedule.sort_lines import box_of_lines
from hlo2tx8.schedule.work_split import WorkSplit, split_work


@dataclass(frozen=True)
class SortEmitter:
    """Takes a fusion of one `hlo.sort_words` of its parameters."""

    name = "sort"

    def match(self, fusion: Fusion) -> Match | Declined:
        op, terminator = fusion.hero.op, fusion.body.last_op
        assert op is not None and terminator is not None
        is_alone = ops_of(fusion.body) == [op, terminator] and tuple(terminator.operands) == tuple(op.results)
        if isinstance(op, SortWordsOp) and is_alone and tuple(op.operands) == tuple(fusion.body.args):
            return Match(fusion)
        reason = "a sort of words is a fusion of its own"
        return Declined(reason, (UnsupportedOp(op.name, (origin(op),), reason),))

    def emit(self, match: Match) -> ModuleOp:
        fusion, op = match.fusion, match.fusion.hero.op
        assert op is not None
        types = [value.type for value in (*op.operands, *op.results)]
        block, count = Block(arg_types=types), len(op.operands)
        for position, arg in enumerate(block.args):
            arg.name_hint = f"p{position}" if position < count else f"r{position - count}"
        tile = TileIdOp(fusion.target.rates.tiles)
        tile.tile.name_hint = "tile"
        split = _split(fusion, op)
        loop = emit_loop(split, tile.tile, block.args[count:])
        body, params = loop.body.block, block.args[:count]
        body.add_op(YieldOp(_sorted(op, split, params, loop.index_args, loop.iter_block_args, body)))
        block.add_ops([tile, loop, func.ReturnOp(*loop.res)])
        entry = func.FuncOp(fusion.name, FunctionType.from_lists(types, types[count:]), Region(block))
        entry.attributes[ENTRY] = UnitAttr()
        return ModuleOp([entry], sym_name=StringAttr(fusion.name))


def _split(fusion: Fusion, op: Operation) -> WorkSplit:
    """Steps of whole lines, none of which differ in direction."""
    shape, attributes, target = shape_of(op.results[0]), attributes_of(op), fusion.target
    alternating = int(attributes["alternating"])
    rates = target.rates
    wanted = target.step_elements or -(-prod(shape) // rates.tiles)
    box = box_of_lines(shape, int(attributes["dimension"]), alternating, wanted, len(op.operands), rates)
    return split_work(shape, [Dim(d) for d in range(len(shape))], 0, rates.tiles, box=box)


def _sorted(
    op: Operation,
    split: WorkSplit,
    params: Sequence[SSAValue],
    indices: Sequence[SSAValue],
    targets: Sequence[SSAValue],
    block: Block,
) -> list[SSAValue]:
    """The targets with the sorted words inserted."""
    attributes, words, descending = attributes_of(op), list[SSAValue](), None
    for param in params:
        extract = extract_op(param, list(indices), f32)
        block.add_op(extract)
        words.append(extract.result)
    alternating = int(attributes["alternating"])
    if alternating >= 0:
        map = IndexingMap.from_shape([Dim(0) % 2], (shape_of(op.results[0])[alternating],))
        odd = ApplyIndexingOp(IndexingMapAttr(map), [indices[alternating]])
        block.add_op(odd)
        descending = odd.res[0]
    lane = split.lane_dims.index(int(attributes["dimension"]))
    new = SortLanesOp(lane, words, descending, is_bitonic=bool(attributes["is_bitonic"]))
    new.attributes |= {name: value for name, value in op.attributes.items() if name == "loc"}
    block.add_op(new)
    inserts = [insert_op(value, target, list(indices)) for value, target in zip(new.res, targets, strict=True)]
    block.add_ops(inserts)
    return [insert.result for insert in inserts]
