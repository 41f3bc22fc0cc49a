"""Update emitter: tensors with some elements replaced, at places known at run time; slices that are updated, scatters.

    func.func @scatter(%p0: tensor<..>, %p1: updates, %p2: indices, %r0: tensor<..>) -> tensor<..>
        attributes {xla.entry, xla.updates = [0]} {                                       %r0 begins as %p0
      %0 = scf.for %k = 0 to N iter_args(%t = %r0) {                                      one update after the other
        %1 = xla.loop (%tile)[%step, %lane] -> (window...) in #map iter_args(%u = %t) {
          %where = every index is inside of its room, and the place is one of %tile
          %old = xla.extract_at %u[...] by [..](shifts)
          %new = the region on %old and the update
          %2 = xla.insert_at %new into %u[...] by [..](shifts) where %where
        }
      } {xla.in_order}
    }

What one tile writes no other reads: windows are shared; of many windows that are too small for that all those of one place
are one tile's. Constants that are updated are written to the results first, and tiles meet behind that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.made import constant_index, extract_op, for_op, insert_op, yield_op
from hlo2tx8.dialects.xla import (
    ENTRY,
    IN_ORDER,
    UPDATES,
    ApplyIndexingOp,
    IndexingMapAttr,
    SyncTilesOp,
    TileIdOp,
    YieldOp,
    index,
)
from hlo2tx8.emitters.emitter import Declined, Fusion, Match
from hlo2tx8.emitters.loop import emit_loop
from hlo2tx8.emitters.runtime_index import RuntimeIndices
from hlo2tx8.emitters.scalar import constant_array, inline_body, scalar_constant
from hlo2tx8.errors import UnsupportedOp
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Sym, Variable
from hlo2tx8.ir import i64_array
from hlo2tx8.partitioner.instruction import is_inlined_constant, shape_of, tensor_type
from hlo2tx8.partitioner.reduction_paths import has_scalar_body
from hlo2tx8.schedule.work_split import DEFAULT_STEP_ELEMENTS, MIN_CHUNK_ELEMENTS, MOST_ALONE_ELEMENTS, WorkSplit, split_work

NAME = "hlo.write_at"
MOST_TURNS = 4096
"""Turns of a loop whose indices are loaded at once."""
SHORT_RUN_ELEMENTS = 32
"""Elements of a window that are worth a tile."""
SHORT_RUN_BYTES = 64
"""A window of fewer bytes is loaded with its index, as DDR charges so many for it."""


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
        replaced = op.operands[: len(op.results)]
        pairs = zip(replaced, op.results, strict=True)
        is_in_place = update.is_any() and all(
            value in params and value.type == new.type and list(op.operands).count(value) == 1 for value, new in pairs
        )
        results = update.emit(block.args[len(params) :], block, is_in_place)
        block.add_op(func.ReturnOp(*results))
        entry = func.FuncOp(fusion.name, FunctionType.from_lists(types, types[len(params) :]), Region(block))
        entry.attributes[ENTRY] = UnitAttr()
        if is_in_place:
            entry.attributes[UPDATES] = i64_array([params.index(value) for value in replaced])
        return ModuleOp([entry], sym_name=StringAttr(fusion.name))


@dataclass(frozen=True)
class _Update:
    """`tensors` are the entry function's arguments for the fusion's parameters."""

    op: Operation
    fusion: Fusion
    tensors: dict[SSAValue, SSAValue]
    tile: SSAValue

    def is_any(self) -> bool:
        """Is anything updated?"""
        return 0 not in (*shape_of(self.op.operands[len(self.op.results)]), *shape_of(self.op.results[0]))

    def emit(self, targets: Sequence[SSAValue], block: Block, is_in_place: bool) -> Sequence[SSAValue]:
        """The tensors that `targets` become; `is_in_place`: they hold what is updated already."""
        if not is_in_place:
            operands = self.op.operands[: len(targets)]
            targets = [self._copy(value, target, block) for value, target in zip(operands, targets, strict=True)]
            if not self.is_any():
                return targets
            sync = SyncTilesOp(targets)
            block.add_op(sync)
            targets = sync.results
        return self._in_order(list(self.in_order), {}, targets, block)

    @cached_property
    def in_order(self) -> tuple[int, ...]:
        """The dimensions of the updates along which one is done after the other."""
        return attributes_of(self.op)["in_order"]

    @cached_property
    def window(self) -> tuple[int, ...]:
        """The other dimensions of the updates."""
        return tuple(d for d in range(len(self._shape)) if d not in self.in_order)

    @property
    def _shape(self) -> tuple[int, ...]:
        return shape_of(self.op.operands[len(self.op.results)])

    @cached_property
    def is_by_place(self) -> bool:
        """Do tiles share many updates by their places, as windows are too small to be shared?"""
        size = prod(self._shape[d] for d in self.window)
        is_large = prod(self._shape) > MOST_ALONE_ELEMENTS
        return bool(self._access.dims) and bool(self.in_order) and size < 2 * MIN_CHUNK_ELEMENTS and is_large

    @cached_property
    def _access(self) -> IndexedAccess:
        return IndexedAccess.of(attributes_of(self.op))

    def _copy(self, value: SSAValue, target: SSAValue, block: Block) -> SSAValue:
        shape = shape_of(value)
        if 0 in shape:
            return target
        loop = emit_loop(self._split(shape, prod(shape), self.fusion.target.rates.tiles), self.tile, [target])
        body = loop.body.block
        element = self._element(value, loop.index_args, body)
        insert = insert_op(element, loop.iter_block_args[0], loop.index_args)
        body.add_ops([insert, YieldOp([insert.result])])
        block.add_op(loop)
        return loop.res[0]

    def _split(self, shape: Sequence[int], num_elements: int, num_tiles: int) -> WorkSplit:
        """Of a loop over that shape, which computes so many elements in all of its turns."""
        dims = [Dim(d) for d in range(len(shape))]
        target = self.fusion.target
        alone = MOST_ALONE_ELEMENTS if target.meeting and num_elements <= MOST_ALONE_ELEMENTS else 0
        box = () if alone or target.step_elements else _equal_shares(shape, num_tiles)
        return split_work(shape, dims, target.step_elements, num_tiles, box=box, alone=alone)

    def _in_order(
        self, dims: Sequence[int], counters: dict[int, SSAValue], carried: Sequence[SSAValue], block: Block
    ) -> Sequence[SSAValue]:
        """A loop over each of the dimensions, and the windows in it; a long last one goes by chunks, whose indices are loaded at
        once."""
        if not dims:
            return self._window(counters, carried, block)
        size = self._shape[dims[0]]
        chunk = MOST_TURNS if len(dims) == 1 and size > MOST_TURNS else size
        full = size // chunk
        carried = self._turns(dims, (full, chunk) if full > 1 else (chunk,), 0, counters, carried, block)
        if rest := size - full * chunk:
            carried = self._turns(dims, (rest,), full * chunk, counters, carried, block)
        return carried

    def _turns(
        self,
        dims: Sequence[int],
        sizes: Sequence[int],
        first: int,
        counters: dict[int, SSAValue],
        carried: Sequence[SSAValue],
        block: Block,
    ) -> Sequence[SSAValue]:
        """Nested loops of `sizes` turns, which go through the first of the dimensions from its index `first` on."""
        loops: list[scf.ForOp] = []
        for size in sizes:
            lower, upper, step = (constant_index(bound) for bound in (0, size, 1))
            body = Block(arg_types=[index, *(value.type for value in carried)])
            body.args[0].name_hint = "k"
            loops.append(for_op(lower.result, upper.result, step.result, carried, body))
            loops[-1].attributes[IN_ORDER] = UnitAttr()
            block.add_ops([lower, upper, step, loops[-1]])
            block, carried = body, body.args[1:]
        expr: Expr = Const(first)
        for k in range(len(sizes)):
            expr += Dim(k) * prod(sizes[k + 1 :])
        (place,) = _apply(IndexingMap.from_shape([expr], sizes), [loop.body.block.args[0] for loop in loops], block)
        results = self._in_order(dims[1:], counters | {dims[0]: place}, carried, block)
        for loop in reversed(loops):
            loop.body.block.add_op(yield_op(*results))
            results = loop.results
        return results

    def _window(self, counters: dict[int, SSAValue], targets: Sequence[SSAValue], block: Block) -> Sequence[SSAValue]:
        """All updates of one turn, which tiles share unless they share the places, and lanes share."""
        tiles = self.fusion.target.rates.tiles
        split = self._split([self._shape[d] for d in self.window], prod(self._shape), 1 if self.is_by_place else tiles)
        if split.num_steps == 1 and counters:
            split = replace(split, map=_without_steps(split.map))
        if self.is_by_place:
            split = replace(split, map=replace(split.map, dims=(Variable(0, tiles - 1, "tile"),)))
        loop = emit_loop(split, self.tile, targets)
        places = counters | dict(zip(self.window, loop.index_args, strict=True))
        body = loop.body.block
        new = self._updated([places[d] for d in range(len(self._shape))], loop.iter_block_args, body)
        body.add_op(YieldOp(new))
        block.add_op(loop)
        return loop.res

    def _updated(self, where: list[SSAValue], targets: Sequence[SSAValue], block: Block) -> list[SSAValue]:
        """The targets with the update at index `where` done."""
        count, place = len(targets), self._access
        at = RuntimeIndices(self.op, block)
        indices = _apply(place.map, where, block)
        moved = zip(self.op.operands[2 * count :], place.index_maps, strict=True)
        runtime = [self._element(value, _apply(map, where, block), block) for value, map in moved]
        updates = self.op.operands[count : 2 * count]
        item_bytes = numpy_dtype(tensor_type(updates[0]).element_type).itemsize
        is_small = prod(self._shape[d] for d in self.window) * item_bytes <= SHORT_RUN_BYTES
        is_ahead = is_small or not self.is_by_place  # most updates of the tile are done, so their loads need not wait for the index
        ahead = [self._element(u, where, block) for u in updates] if is_ahead else []
        shifts, checks = at.shifts(self.op.results[0], runtime)
        if self.is_by_place:
            checks.append(at.is_own(indices, shifts, self.tile, self.fusion.target.rates.tiles))
        condition = at.all_of(checks)
        own = ahead or [self._element(u, where, block) for u in updates]
        if self.op.regions:
            old = [at.read_shifted(target, indices, shifts) for target in targets]
            own = inline_body(self.op.regions[0].block, [*old, *own], block)
        return [at.write(value, target, indices, shifts, condition) for value, target in zip(own, targets, strict=True)]

    def _element(self, value: SSAValue, indices: Sequence[SSAValue], block: Block) -> SSAValue:
        """An element of a parameter or of a constant whose elements are all equal."""
        type_ = tensor_type(value).element_type
        owner = value.owner
        if isinstance(owner, Operation):
            return _add(block, scalar_constant(constant_array(owner), type_))
        return _add(block, extract_op(self.tensors[value], list(indices), type_))


def _equal_shares(shape: Sequence[int], num_tiles: int) -> tuple[int, ...]:
    """A box of which every tile has one, where the outermost dimension of more than one index allows that; else ()."""
    dim = next((d for d, size in enumerate(shape) if size > 1), None)
    if dim is None or shape[dim] % num_tiles:
        return ()
    box = (*(1 for _ in shape[:dim]), shape[dim] // num_tiles, *shape[dim + 1 :])
    return box if SHORT_RUN_ELEMENTS <= prod(box) <= DEFAULT_STEP_ELEMENTS else ()


def _without_steps(map: IndexingMap) -> IndexingMap:
    """The map of a work split of one step, without the variable of steps: then the turns' own loop holds the loads."""
    dims, syms = [Dim(0)], [Const(0), *(Sym(k) for k in range(len(map.ranges) - 1))]
    constraints = tuple((expr.substitute(dims, syms), interval) for expr, interval in map.constraints)
    return IndexingMap(map.dims, map.ranges[1:], (), tuple(r.substitute(dims, syms) for r in map.results), constraints)


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
