"""SCHEDULED → SCHEDULED: what a turn loads of the one before is taken from there.

Before:                                                 After:
    scf.for %turn {                                         scf.for %turn {
      scf.if %turn + 1 < 7 {                                  scf.if %turn + 1 < 7 {
        RDMA_load dst(%x[%turn + 1]) n1(336)                    TDMA %x[%turn + 1][0:112] = %x[%turn][224:336]
      }                                                         RDMA_load dst(%x[%turn + 1][112:336]) n1(224)
                                                              }

Windows of two bands of an image overlap: of 6 rows of 56 points that a turn reads, two are those that the turn before has read
last. They are in its copy of the buffer, and TDMA moves them ten times as fast as DDR gives them to all tiles. How many there are
may depend on the turn: there are fewer at the edges of an image, none where another one begins. So may how many rows are loaded, if
those outside of an image are not.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.dialects.nested import nested_of, nested_ops, ops_of
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Variable, simplify_expr
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.branches import branch, leave
from hlo2tx8.lower.dma.load_levels import LEVELS, levels_of, sizes_of
from hlo2tx8.lower.dma.mesh import Mesh, TileIndex, quotient
from hlo2tx8.lower.dma.slices import turns_of, writers_in
from hlo2tx8.lower.dma.turn_values import TurnValues
from hlo2tx8.lower.select.step_builder import StepBuilder, step_at

NAMES = tuple(count for count, _ in reversed(LEVELS))
"""The fields with the counts of a load, the innermost first."""
LEAST_BYTES = 4096
"""Of what may stay that are worth a move."""
MOST_PLACES = 2048
"""Tiles times turns whose places are compared."""


@dataclass(frozen=True)
class KeepRowsPass(ModulePass):
    """Moves what the turn before has loaded instead of loading it again; see the module docstring."""

    name = "keep-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            tile = next((op for op in nested_ops(function) if isinstance(op, xla.TileIdOp)), None)
            for loop in nested_of(function, scf.ForOp):
                if tile is not None and (turns := turns_of(loop)) is not None:
                    for load, turn, conditions in list(_loads_ahead(loop)):
                        if (slide := _slide_of(load, turn, conditions, tile, turns)) is not None:
                            slide.keep(tile.tile, turn)


def _loads_ahead(loop: scf.ForOp) -> Sequence[tuple[Rdma, SSAValue, Sequence[SSAValue]]]:
    """The loads of a later turn that a loop makes, each all there is of its buffer's copy; with the number of that turn, and the
    conditions under which there is one in it."""
    found: list[tuple[Rdma, SSAValue, Sequence[SSAValue]]] = []
    guards = [op for op in ops_of(loop.body.block) if op.regions and isinstance(op, scf.IfOp) and not op.false_region.blocks]
    writers = writers_in(loop) if guards else {}
    for guard in guards:
        for op, conditions in _loads_in(guard.true_region.block):
            dst = op.field("dst")
            if not isinstance(dst, SSAValue) or not isinstance(copy := dst.owner, spm.TurnOp):
                continue
            later = copy.turn.owner
            is_next = isinstance(later, arith.AddiOp) and loop.is_ancestor(later)
            if is_next and len(writers[spm.root_buffer(dst)]) == 1:
                found.append((op, copy.turn, conditions))
    return found


def _loads_in(block: Block) -> Generator[tuple[Rdma, list[SSAValue]]]:
    """The loads of a block and of branches in it, with the conditions of these."""
    for op in ops_of(block):
        if isinstance(op, Rdma):
            yield op, []
        elif isinstance(op, scf.IfOp) and not op.false_region.blocks:
            yield from ((load, [op.cond, *others]) for load, others in _loads_in(op.true_region.block))


@dataclass(frozen=True)
class _Slide:
    """From turn to turn a load moves on along one of its levels: `distance` of tile and turn says by how many of the `size`
    of that `level`, and lies between `least` and `most`. `sizes` and `strides` are those of all levels."""

    op: Rdma
    level: int
    sizes: Sequence[int]
    strides: Sequence[int]
    distance: IndexingMap
    least: int
    most: int

    @property
    def size(self) -> int:
        return self.sizes[self.level]

    def keep(self, tile: SSAValue, turn: SSAValue) -> None:
        """Moves what is there, loads what is left."""
        step = step_at(InsertPoint.before(self.op))
        fresh: Size = self.least
        if self.least < self.most:
            fresh = step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(self.distance), [tile, turn])).results[0]
            fresh = step.minimum(fresh, self.size) if self.most > self.size else fresh
        kept = step.subtract(self.size, fresh)
        rest = _Rest(self.op, self.level, self.sizes, self.sizes, self.strides, fresh, kept, fresh)
        rest.load(step, turn, is_kept=self.most < self.size, is_fresh=self.least > 0)


@dataclass(frozen=True)
class _ClippedSlide:
    """A load that moves on along a `level` whose size a turn decides, at the edges of an image; `values` are known in all turns."""

    op: Rdma
    level: int
    sizes: Sequence[Size]
    strides: Sequence[int]
    values: TurnValues

    @staticmethod
    def of(load: Rdma, conditions: Sequence[SSAValue], values: TurnValues) -> "_ClippedSlide | None":
        """How a load moves on; None if more is not known of it, or turns have too little in common."""
        levels, offset = sizes_of(load), load.field("offset")
        decided = [place for place, (size, _) in enumerate(reversed(levels or ())) if isinstance(size, SSAValue)]
        if levels is None or len(decided) != 1 or not isinstance(offset, SSAValue):
            return None
        sizes, strides = [size for size, _ in reversed(levels)], [distance for _, distance in reversed(levels)]
        level, unit = decided[0], strides[decided[0]] * load.fmt.bytes
        known = [values.of(value) for value in (sizes[level], offset, *conditions) if isinstance(value, SSAValue)]
        found = [own for own in known if own is not None]
        if len(found) < len(known) or not unit:
            return None
        size, begin, *are_there = found
        if any(not np.array_equal(own, size > 0) for own in are_there):
            return None
        moved = begin[:, 1:] - begin[:, :-1]
        kept = np.clip(size[:, :-1] - moved // unit, 0, size[:, 1:])
        if (moved < 0).any() or (moved[kept > 0] % unit).any():
            return None
        each = prod(own for own in sizes if isinstance(own, int)) * load.fmt.bytes
        return _ClippedSlide(load, level, sizes, strides, values) if kept.mean() * each >= LEAST_BYTES else None

    def keep(self, tile: SSAValue, turn: SSAValue) -> None:
        """Moves what is there, loads what is left."""
        step, offset, size = step_at(InsertPoint.before(self.op)), self.op.field("offset"), self.sizes[self.level]
        assert isinstance(offset, SSAValue) and isinstance(size, SSAValue)
        before = {turn: step.value(step.subtract(turn, 1))}
        size_before, begin = self.values.earlier(step, size, before), self.values.earlier(step, offset, before)
        moved = quotient(step, step.value(step.subtract(offset, begin)), self.strides[self.level] * self.op.fmt.bytes)
        common = step.insert(arith.MaxSIOp(step.value(step.subtract(size_before, moved)), step.value(0))).result
        kept = step.minimum(size, common)
        sizes_before = [size_before if place == self.level else own for place, own in enumerate(self.sizes)]
        rest = _Rest(self.op, self.level, self.sizes, sizes_before, self.strides, moved, kept, step.subtract(size, kept))
        rest.load(step, turn, is_kept=False, is_fresh=False)


@dataclass(frozen=True)
class _Rest:
    """Of the turn before, whose load had other `sizes_before`, what is `moved` along a `level` and behind is there, so many of the
    `sizes` that are `kept`; the others are `fresh`."""

    op: Rdma
    level: int
    sizes: Sequence[Size]
    sizes_before: Sequence[Size]
    strides: Sequence[int]
    moved: Size
    kept: Size
    fresh: Size

    def load(self, step: StepBuilder, turn: SSAValue, *, is_kept: bool, is_fresh: bool) -> None:
        """Moves what is there, loads what is left: apart for each turn of the levels outside, so that the one does not wait for the
        other, as ranges that lie between each other's would. Is something kept, or fresh, in any case?"""
        builders, width, level = [step.builder], self.op.fmt.bytes, self.level
        inner = _elements(step, self.sizes, level, width)
        dst, offset = self.op.field("dst"), self.op.field("offset")
        assert isinstance(dst, SSAValue)
        before = step.insert(spm.TurnOp(spm.root_buffer(dst), step.value(step.subtract(turn, 1)))).result
        outer = [place for place in range(level + 1, len(NAMES)) if self.sizes[place] != 1]
        for place in reversed(outer):
            counter = _begin_loop(step, self.sizes[place])
            builders.append(step.builder)
            dst = step.at(dst, step(counter, _elements(step, self.sizes, place, width)))
            before = step.at(before, step(counter, _elements(step, self.sizes_before, place, width)))
            offset = step.add(offset, step(counter, self.strides[place] * width))
        with _if_positive(step, self.kept, is_sure=is_kept):
            once: dict[str, Any] = {
                f"{side}{kind}{number}": int(kind == "n") for side in "rw" for kind in "sn" for number in (1, 2, 3)
            }
            src, run = step.at(before, step(self.moved, inner)), step(self.kept, inner)
            step.insert(TdmaGatherScatter.make(fmt=Format.INT8, dst=dst, src=src, run_bytes=run, origin=self.op.origin, **once))
        with _if_positive(step, self.fresh, is_sure=is_fresh):
            fields: dict[str, Any] = self.op.values() | {NAMES[place]: 1 for place in outer}
            fields["dst"] = step.at(dst, step(self.kept, inner))
            fields["offset"] = step.add(offset, step(self.kept, self.strides[level] * width))
            fields[NAMES[level]] = self.fresh
            step.insert(Rdma.make(fmt=self.op.fmt, origin=self.op.origin, **fields))
        for builder in reversed(builders[:-1]):
            step.insert(yield_op())
            step.builder = builder
        self.op.detach()
        self.op.erase()


def _elements(step: StepBuilder, sizes: Sequence[Size], place: int, times: int) -> Size:
    """So many times the elements of all levels inside of one."""
    found: Size = times
    for size in sizes[:place]:
        found = step(size, found)
    return found


def _slide_of(
    load: Rdma, turn: SSAValue, conditions: Sequence[SSAValue], tile: xla.TileIdOp, turns: int
) -> _Slide | _ClippedSlide | None:
    """How a load moves on; None if its sizes are not known, or turns have too little in common."""
    levels = levels_of(load)
    offset, tiles = load.field("offset"), int(tile.range.get_values()[1]) + 1
    if not isinstance(offset, SSAValue) or not 1 < turns * tiles <= MOST_PLACES:
        return None
    if levels is None or conditions:
        return _ClippedSlide.of(load, conditions, TurnValues(tile.tile, tiles, turn, turns))
    sizes, strides = ([level[of] for level in reversed(levels)] for of in (0, 1))
    index = TileIndex.of(Mesh(1, tiles), tile.tile)
    index.add_counter(turn, turns)
    place = index.expr(offset)
    if place is None:
        return None
    moved = index.simplified(place - place.substitute([*index.dims[:-1], index.dims[-1] - 1], ()))
    found = [_number(moved.substitute([Const(0), Const(t), Const(k)], ())) for t in range(tiles) for k in range(1, turns)]
    slides: list[tuple[float, int]] = []
    for level, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        unit = stride * load.fmt.bytes
        if unit and min(found) >= 0 and not any(number % unit for number in found):
            slides.append((sum(max(0, size - number // unit) for number in found) / size, level))
    part, level = max(slides, default=(0.0, 0))
    if part / len(found) * prod(sizes) * load.fmt.bytes < LEAST_BYTES:
        return None
    unit = strides[level] * load.fmt.bytes
    variables = (Variable(0, tiles - 1, "tile"), Variable(1, turns - 1, "turn"))
    distance = IndexingMap(variables, (), (), ((moved // unit).substitute([Const(0), Dim(0), Dim(1)], ()),)).simplify()
    return _Slide(load, level, sizes, strides, distance, min(found) // unit, max(found) // unit)


def _number(expr: Expr) -> int:
    constant, terms = simplify_expr(expr, (), ()).affine_terms()
    assert not terms
    return constant


@contextmanager
def _if_positive(step: StepBuilder, size: Size, *, is_sure: bool) -> Generator[None]:
    """Emits what follows if there is something of a size."""
    outer = step.builder
    if not is_sure:
        branch(step, step.value(size), "sgt", 0)
    yield
    leave(step, outer)


def _begin_loop(step: StepBuilder, turns: Size) -> SSAValue:
    """Emits what follows in a loop of so many turns, the counter of which it returns."""
    block = Block(arg_types=[xla.index])
    step.insert(for_op(step.value(0), step.value(turns), step.value(1), [], Region(block)))
    step.builder = Builder(InsertPoint.at_end(block))
    return block.args[0]
