"""Update emitter: tensors with some elements replaced, at places known at run time; slices that are updated, scatters.

    func.func @scatter(%p0: tensor<..>, %p1: updates, %p2: indices, %r0: tensor<..>) -> tensor<..> attributes {xla.entry} {
      %0 = xla.loop (%tile)[%step, %lane] ... { the elements of %p0 into %r0 }
      %1 = xla.sync_tiles %0
      %2 = scf.for %k = 0 to N iter_args(%t = %1) {                                       one update after the other
        %3 = xla.loop (%tile)[%step, %lane] -> (window...) in #map iter_args(%u = %t) {
          %old = xla.extract_at %u[...] by [..](shifts)
          %new = the region on %old and the update
          %4 = xla.insert_at %new into %u[...] by [..](shifts)
        }
      } {xla.in_order}
    }

Tiles share the dimensions along which all places differ, so what one tile writes no other reads. An update whose index is out of
its room writes back what it read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.xla import IN_ORDER, ApplyIndexingOp, ExtractAtOp, IndexingMapAttr, SyncTilesOp, TileIdOp, YieldOp, index
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import emit_loop
from hlo2tx8.emitters.runtime_index import RuntimeIndices
from hlo2tx8.emitters.scalar import constant_array, inline_body, location, scalar_constant, scalar_op_named
from hlo2tx8.errors import UnsupportedOp
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.partitioner.instruction import is_inlined_constant, shape_of, tensor_type
from hlo2tx8.partitioner.reduction_paths import has_scalar_body
from hlo2tx8.schedule.work_split import MOST_ALONE_ELEMENTS, WorkSplit, split_work

NAME = "hlo.write_at"


@dataclass(frozen=True)
class UpdateEmitter:
    """Takes a fusion of one `hlo.write_at` whose operands are in memory or constant."""

    name = "update"

    def match(self, fusion: Fusion) -> Match | Declined:
        ops = [op for op in fusion.body.ops if op is not fusion.body.last_op and not is_inlined_constant(op)]
        found = [op for op in ops if op.name == NAME]
        if not found:
            return Declined("nothing is updated")
        terminator = fusion.body.last_op
        assert terminator is not None
        if len(ops) > 1 or tuple(terminator.operands) != tuple(found[0].results):
            reason = "an update is a fusion of its own"
        elif found[0].regions and not has_scalar_body(found[0]):
            reason = "its combiner is not made of elementwise instructions"
        else:
            return Match(fusion)
        return Declined(reason, tuple(UnsupportedOp(op.name, (origin(op),), reason) for op in found))

    def emit(self, match: Match) -> ModuleOp:
        fusion = match.fusion
        op = next(op for op in fusion.body.ops if op.name == NAME)
        params = tuple(fusion.body.args)
        types = [value.type for value in (*params, *op.results)]
        block = Block(arg_types=types)
        for position, arg in enumerate(block.args):
            arg.name_hint = f"p{position}" if position < len(params) else f"r{position - len(params)}"
        tile = TileIdOp(fusion.target.rates.tiles)
        tile.tile.name_hint = "tile"
        block.add_op(tile)
        update = _Update(op, fusion, dict(zip(params, block.args, strict=False)), tile.tile)
        results = update.emit(block.args[len(params) :], block)
        block.add_op(func.ReturnOp(*results))
        entry = func.FuncOp(fusion.name, FunctionType.from_lists(types, types[len(params) :]), Region(block))
        entry.attributes["xla.entry"] = UnitAttr()
        return ModuleOp([entry], sym_name=StringAttr(fusion.name))


@dataclass(frozen=True)
class _Update:
    """`tensors` are the entry function's arguments for the fusion's parameters."""

    op: Operation
    fusion: Fusion
    tensors: dict[SSAValue, SSAValue]
    tile: SSAValue

    def emit(self, targets: Sequence[SSAValue], block: Block) -> Sequence[SSAValue]:
        """The tensors that `targets` become."""
        count = len(self.op.results)
        copied = [self._copy(value, target, block) for value, target in zip(self.op.operands[:count], targets, strict=True)]
        if not copied or 0 in shape_of(self.op.operands[count]) or 0 in shape_of(self.op.results[0]):
            return copied
        sync = SyncTilesOp(copied)
        block.add_op(sync)
        in_order: tuple[int, ...] = attributes_of(self.op)["in_order"]
        return self._in_order(list(in_order), {}, sync.results, block)

    def _copy(self, value: SSAValue, target: SSAValue, block: Block) -> SSAValue:
        shape = shape_of(value)
        if 0 in shape:
            return target
        loop = emit_loop(self._split(shape), self.tile, [target])
        body = loop.body.block
        element = self._element(value, loop.index_args, body)
        insert = tensor.InsertOp(element, loop.iter_block_args[0], loop.index_args)
        body.add_ops([insert, YieldOp([insert.result])])
        block.add_op(loop)
        return loop.res[0]

    def _split(self, shape: Sequence[int]) -> WorkSplit:
        dims = [Dim(d) for d in range(len(shape))]
        target = self.fusion.target
        alone = MOST_ALONE_ELEMENTS if target.meeting else 0
        return split_work(shape, dims, target.step_elements, target.rates.tiles, alone=alone)

    def _in_order(
        self, dims: list[int], counters: dict[int, SSAValue], carried: Sequence[SSAValue], block: Block
    ) -> Sequence[SSAValue]:
        """A loop over each of the dimensions, and the windows in it."""
        if not dims:
            return self._window(counters, carried, block)
        updates = self.op.operands[len(self.op.results)]
        lower, upper, step = (arith.ConstantOp(IntegerAttr(bound, index)) for bound in (0, shape_of(updates)[dims[0]], 1))
        body = Block(arg_types=[index, *(value.type for value in carried)])
        body.args[0].name_hint = "k"
        loop = scf.ForOp(lower.result, upper.result, step.result, carried, body)
        loop.attributes[IN_ORDER] = UnitAttr()
        block.add_ops([lower, upper, step, loop])
        body.add_op(scf.YieldOp(*self._in_order(dims[1:], counters | {dims[0]: body.args[0]}, body.args[1:], body)))
        return loop.results

    def _window(self, counters: dict[int, SSAValue], targets: Sequence[SSAValue], block: Block) -> Sequence[SSAValue]:
        """All updates of one turn: tiles and lanes share them."""
        shape = shape_of(self.op.operands[len(targets)])
        inner = [d for d in range(len(shape)) if d not in counters]
        loop = emit_loop(self._split([shape[d] for d in inner]), self.tile, targets)
        places = counters | dict(zip(inner, loop.index_args, strict=True))
        body = loop.body.block
        new = self._updated([places[d] for d in range(len(shape))], loop.iter_block_args, body)
        body.add_op(YieldOp(new))
        block.add_op(loop)
        return loop.res

    def _updated(self, where: list[SSAValue], targets: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        """The targets with the update at index `where` done."""
        count, place = len(targets), IndexedAccess.of(attributes_of(self.op))
        at = RuntimeIndices(self.op, block)
        indices = _apply(place.map, where, block)
        own = [self._element(u, where, block) for u in self.op.operands[count : 2 * count]]
        moved = zip(self.op.operands[2 * count :], place.index_maps, strict=True)
        runtime = [self._element(value, _apply(map, where, block), block) for value, map in moved]
        shifts, inside = at.shifts(self.op.results[0], runtime)
        old: list[SSAValue] = []
        if inside or self.op.regions:
            old = [self._old(target, indices, shifts, place, block) for target in targets]
        new = inline_body(self.op.regions[0].block, [*old, *own], block) if self.op.regions else own
        if inside:
            new = [self._select(inside, a, b, block) for a, b in zip(new, old, strict=True)]
        return [at.write(value, target, indices, shifts) for value, target in zip(new, targets, strict=True)]

    def _old(
        self, target: SSAValue, indices: Sequence[SSAValue], shifts: Sequence[SSAValue], place: IndexedAccess, block: Block
    ) -> SSAValue:
        if not shifts:
            return _add(block, tensor.ExtractOp(target, list(indices), tensor_type(target).element_type))
        return _add(block, ExtractAtOp(target, indices, place.dims, shifts))

    def _select(self, checks: Sequence[SSAValue], new: SSAValue, old: SSAValue, block: Block) -> SSAValue:
        """The new element where all checks hold."""
        loc = location(self.op)
        holds = checks[0]
        for check in checks[1:]:
            holds = _add(block, scalar_op_named("stablehlo.and", [holds, check], i1, {}, loc))
        return _add(block, scalar_op_named("stablehlo.select", [holds, new, old], new.type, {}, loc))

    def _element(self, value: SSAValue, indices: Sequence[SSAValue], block: Block) -> SSAValue:
        """An element of a parameter or of a constant whose elements are all equal."""
        type_ = tensor_type(value).element_type
        owner = value.owner
        if isinstance(owner, Operation):
            return _add(block, scalar_constant(constant_array(owner), type_))
        return _add(block, tensor.ExtractOp(self.tensors[value], list(indices), type_))


def _apply(map: IndexingMap, values: Sequence[SSAValue], block: Block) -> Sequence[SSAValue]:
    """The results of a map."""
    if not map.results:
        return ()
    op = ApplyIndexingOp(IndexingMapAttr(map), values)
    block.add_op(op)
    return op.res


def _add(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]
