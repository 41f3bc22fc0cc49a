"""Selects whose condition is one on indices, as little work as the lanes need in which it is not the same for all.

    select(row >= column, %x, -1e9) of [blocks of columns, rows, columns of a block], in the buffer of %x

    blocks on the diagonal     CT_ge of what a lane's number is against where the step is, maskmove of -1e9
    blocks behind it           TDMA_memset of -1e9
    blocks in front of it      nothing

The number of a lane in its slice, column - row + 63 say, is a vector made before the steps. It is biased by 2^m, m the bits of the
mantissa, so that the step's limit is an immediate whose bits are an affine expression: those of 2^m and so many units.

Rows in padded channel blocks are two such boxes: the whole blocks, and the narrower one behind them.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVS, CtMulVV
from hlo2tx8.device.isa.ct_move import CtConvert, CtMaskMove
from hlo2tx8.device.isa.ct_relation import CtEqVS, CtGeVS
from hlo2tx8.device.isa.kc_move import KcVIota
from hlo2tx8.device.isa.lsu import TdmaMemset
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Variable
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.element_format import Splat, Vector
from hlo2tx8.lower.select.index_conditions import HalfSpace, LanesMeant
from hlo2tx8.lower.select.padded_step import PaddedStep
from hlo2tx8.lower.select.select_memory import iota_sum, stride_terms
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import INDEX, StepBuilder

MANTISSA = {Format.BF16: 7, Format.FP16: 10, Format.FP32: 23}
"""Bits of the mantissa: a number of so many bits more is exact, and one unit of the last place is 1 above 2^m."""
LEAST_SLICE = 256
"""Elements of a slice that is looked at by itself; an instruction takes longer to start than smaller ones to compute."""
LEAST_DOUBLED = 4096
"""Elements of a vector that the vector engine makes in fewer cycles than the kernel core."""
LEAST_CUT = 2
"""Dimensions of more than one lane of a box that is cut in slices."""
BIAS = 127
"""Of the exponent in FP32."""


@dataclass(frozen=True)
class _Slices:
    """A box as `count` slices along its first lane, each in `parts` of `sizes` lanes. The half-space moves by `stride` from slice
    to slice, by `part_stride` from part to part and by `strides` along a part's lanes; their numbers are in `fmt`."""

    count: int
    stride: int
    parts: int
    part_stride: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    fmt: Format

    @property
    def lowest(self) -> int:
        return sum(min(0, stride * (size - 1)) for size, stride in zip(self.sizes, self.strides, strict=True))

    @property
    def width(self) -> int:
        """How far the numbers of a part's lanes lie apart."""
        return sum(abs(stride) * (size - 1) for size, stride in zip(self.sizes, self.strides, strict=True))


@dataclass(frozen=True)
class _RegionPart:
    """A part of a box of `shape`, of which `half` has some lanes; its dimensions are these `lanes` of the box, -1 for its blocks.
    It begins behind `first` columns of all rows."""

    shape: tuple[int, ...]
    lanes: tuple[int, ...]
    half: HalfSpace
    first: int = 0

    def slices(self, valid: Container[int], fmt: Format) -> _Slices | None:
        """How it is cut, if a step has fewer lanes along dimensions `valid` of the box."""
        return _slices(self.shape, [place for place, lane in enumerate(self.lanes) if lane in valid], self.half, fmt)


def fits_regions(step: StepBuilder, lanes: LanesMeant, fmt: Format) -> bool:
    """Can such lanes be told by numbers in a box of this format? The tail of a step must not lie inside of a slice's rows."""
    parts = (_region_parts(step.shape, half, in_blocks=isinstance(step, PaddedStep)) for half in lanes.halves)
    return _are_told(chain.from_iterable(parts), step.valid, fmt)


def fits_blocks(shape: Sequence[int], valid: Container[int], lanes: LanesMeant, fmt: Format) -> bool:
    """The same of a box of that shape whose rows lie in padded channel blocks."""
    return _are_told(chain.from_iterable(_region_parts(shape, half, in_blocks=True) for half in lanes.halves), valid, fmt)


def _are_told(parts: Iterable[_RegionPart], valid: Container[int], fmt: Format) -> bool:
    return fmt in MANTISSA and all(part.slices(valid, fmt) is not None for part in parts)


def _region_parts(shape: Sequence[int], half: HalfSpace, *, in_blocks: bool) -> list[_RegionPart]:
    """A box as it is, or as its whole blocks of columns and the narrower one behind them."""
    lanes = tuple(range(len(shape)))
    if not in_blocks:
        return [_RegionPart(tuple(shape), lanes, half)]
    *rows, columns = shape
    layout, stride, found = Blocked(Format.FP32, 1, prod(rows), columns), half.strides[-1], list[_RegionPart]()
    width, first = layout.block_width, layout.num_blocks * layout.block_width
    if layout.num_blocks:
        blocks = replace(half, strides=(width * stride, *half.strides))
        found.append(_RegionPart((layout.num_blocks, *rows, width), (-1, *lanes), blocks))
    if layout.tail_width:
        found.append(_RegionPart((*rows, layout.tail_width), lanes, replace(half, base=half.base + first * stride), first))
    return found


def fill_region(s: Selector, dst: SSAValue, value: Vector, lanes: Sequence[HalfSpace], fmt: Format) -> None:
    """dst = `value` in the lanes of each of these half-spaces."""
    step = s.step
    for half in lanes:
        for part in _region_parts(step.shape, half, in_blocks=isinstance(step, PaddedStep)):
            slices, own = part.slices(step.valid, fmt), s
            assert slices is not None
            if isinstance(step, PaddedStep):
                valid = {place: step.valid[lane] for place, lane in enumerate(part.lanes) if lane in step.valid}
                own = s.within(StepBuilder(step.builder, step.prologue, part.shape, valid, step.origin))
            first = step(step.num_rows(), part.first * fmt.bytes) if isinstance(step, PaddedStep) and part.first else 0
            source = value if isinstance(value, Splat) else step.at(value, first)
            _Fill(own, step.at(dst, first), source, part.half, fmt, slices).run()


def truth_of(s: Selector, lanes: LanesMeant) -> SSAValue:
    """1 in the lanes meant, 0 in the others, a byte each; those of `fits_regions` in FP32."""
    step, n = s.step, s.step.count()
    found: SSAValue | None = None
    for half in lanes.halves:
        whole = _whole(step.shape, half, Format.FP32)
        truth = _compare(s, whole, _limit(s, half, whole, None), n)
        if found is not None:
            both = step.alloc(Format.FP32)
            step.insert(CtMulVV.make(fmt=Format.FP32, dst=both, a=found, b=truth, n=n, origin=step.origin))
            truth = both
        found = truth
    assert found is not None
    if lanes.is_outside:
        other = step.alloc(Format.FP32)
        step.insert(CtEqVS.make(fmt=Format.FP32, dst=other, a=found, imm=0, n=n, origin=step.origin))
        found = other
    return _as_bytes(step, found, Format.FP32, step.num_lanes, n)


@dataclass(frozen=True)
class _Fill:
    """`value` into the lanes of `dst` that lie in a half-space."""

    s: Selector
    dst: SSAValue
    value: Vector
    half: HalfSpace
    fmt: Format
    slices: _Slices

    def run(self) -> None:
        slices, step = self.slices, self.s.step
        moving = [extent for extent, size in zip(step.extents, step.shape, strict=True) if size > 1]
        if slices.count == 1:
            self._mixed(_limit(self.s, self.half, slices, None), 0, step.count())
            return
        stride: Size = 1
        for extent in reversed(moving[1:]):
            stride = step(stride, extent)
        size = prod(slices.sizes)
        for part in range(slices.parts):
            n, start = size, part * size
            if isinstance(moving[1], SSAValue):
                rows = step.at_least_zero(step.subtract(moving[1], part * slices.sizes[0]))
                n = step(step.minimum(rows, slices.sizes[0]), size // slices.sizes[0])
            with step.if_positive([n]):
                self._part(replace(self.half, base=self.half.base + part * slices.part_stride), moving[0], stride, start, n)

    def _part(self, half: HalfSpace, count: Size, stride: Size, start: int, n: Size) -> None:
        """`n` elements from `start` of each slice, which are `stride` apart."""
        slices, step = self.slices, self.s.step
        near, far = half.base + slices.lowest, half.base + (slices.lowest + slices.width)
        if slices.stride > 0:
            some, full = (step.minimum(_extent(self.s, half, -(end // slices.stride), slices.count), count) for end in (far, near))
            self._mixed_slices(half, some, full, stride, start, n)
            self._whole_slices(full, step.subtract(count, full), stride, start, n)
        else:
            by = -slices.stride
            full, some = (step.minimum(_extent(self.s, half, end // by + 1, slices.count), count) for end in (near, far))
            self._whole_slices(0, full, stride, start, n)
            self._mixed_slices(half, full, some, stride, start, n)

    def _mixed_slices(self, half: HalfSpace, lower: Size, upper: Size, stride: Size, start: int, n: Size) -> None:
        step, block = self.s.step, Block(arg_types=[INDEX])
        bounds = [step.value(bound) for bound in (lower, upper, 1)]
        step.insert(for_op(bounds[0], bounds[1], bounds[2], [], Region(block)))
        outer, step.builder = step.builder, Builder(InsertPoint.at_end(block))
        at = step.add(step(block.args[0], stride), start)
        self._mixed(_limit(self.s, half, self.slices, block.args[0]), at, n)
        step.insert(yield_op())
        step.builder = outer

    def _mixed(self, limit: Size, at: Size, n: Size) -> None:
        """Some lanes of `n` elements from `at`: those whose number is not below the limit."""
        step, slices = self.s.step, self.slices
        mask, mask_format = _compare(self.s, slices, limit, n), slices.fmt
        if mask_format is not self.fmt:
            mask, mask_format = _as_bytes(step, mask, slices.fmt, prod(slices.sizes), n), Format.INT8
        dst = step.at(self.dst, step(at, self.fmt.bytes))
        if isinstance(self.value, Splat):
            src = self.s.filled_before_steps(self.value, prod(slices.sizes))
        else:
            src = step.at(self.value, step(at, self.fmt.bytes))
        step.insert(CtMaskMove.make(fmt=self.fmt, fmt2=mask_format, dst=dst, src=src, mask=mask, n=n, origin=step.origin))

    def _whole_slices(self, first: Size, count: Size, stride: Size, start: int, n: Size) -> None:
        """All lanes of `count` slices."""
        if count == 0:  # of no step: there is nothing to guard
            return
        step = self.s.step
        with step.if_positive([count]):
            at = step(step.add(step(first, stride), start), self.fmt.bytes)
            if isinstance(self.value, Splat):
                dst, make = step.at(self.dst, at), TdmaMemset.make
                bits = self.value.bits
                step.insert(make(fmt=self.fmt, dst=dst, value=bits, n=n, s1=stride, n1=count, s2=0, n2=1, origin=step.origin))
                return
            levels = [BoxLevel(count, (stride, stride)), BoxLevel(n, (1, 1))]
            step.move(step.at(self.dst, at), step.at(self.value, at), levels, self.fmt)


def _slices(shape: Sequence[int], valid: Sequence[int], half: HalfSpace, fmt: Format) -> _Slices | None:
    """How a box is cut that has a tail in `valid` dimensions, None if none can be there. Whole, if that can be, where most slices
    would be mixed."""
    moving = [lane for lane, size in enumerate(shape) if size > 1]
    whole = _whole(shape, half, fmt)
    is_whole = whole.width < 1 << MANTISSA[Format.FP32] and all(lane in moving[:1] for lane in valid)
    if len(moving) < LEAST_CUT or not all(lane in moving[:2] for lane in valid):
        return whole if is_whole else None
    (count, size), (stride, own) = ([values[lane] for lane in moving[:2]] for values in (shape, half.strides))
    mixed: _Slices | None = None
    for parts in (n for n in range(1, size + 1) if size % n == 0):
        sizes = (size // parts, *(shape[lane] for lane in moving[2:]))
        found = _Slices(count, stride, parts, own * sizes[0], sizes, (own, *(half.strides[lane] for lane in moving[2:])), fmt)
        is_mixed = prod(sizes) < LEAST_SLICE or 2 * found.width > abs(stride) * count
        if is_mixed and is_whole:
            return whole
        if found.width < 1 << MANTISSA[fmt]:
            if not is_mixed:
                return found
            mixed = mixed or found
    return whole if is_whole else mixed


def _whole(shape: Sequence[int], half: HalfSpace, fmt: Format) -> _Slices:
    """A box as one slice."""
    moving = [lane for lane, size in enumerate(shape) if size > 1]
    sizes, strides = (tuple(values[lane] for lane in moving) for values in (shape, half.strides))
    found = _Slices(1, 0, 1, 0, sizes, strides, fmt)
    return found if found.width < 1 << MANTISSA[fmt] else replace(found, fmt=Format.FP32)


def _limit(s: Selector, half: HalfSpace, slices: _Slices, number: SSAValue | None) -> Size:
    """The bits, as FP32, of the least number in a half-space: of a slice of which some lanes are in it, or of any."""
    step, limit = s.step, -(half.base + slices.lowest)
    if number is None:
        least: Size = _extent(s, half, limit, slices.width + 1)
    else:
        dims = (*half.map.dims, Variable(0, slices.count - 1, "slice"))
        map = IndexingMap(dims, (), (), (limit - Dim(len(half.map.dims)) * slices.stride,), ())
        least = step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(map), [*_values(s, half), number])).results[0]
    bits = MANTISSA[slices.fmt]
    return step.add(step(least, 1 << MANTISSA[Format.FP32] - bits), (BIAS + bits) << MANTISSA[Format.FP32])


def _extent(s: Selector, half: HalfSpace, expr: Expr, most: int) -> Size:
    """The expression, in [0, most]."""
    if isinstance(expr, Const):
        return min(max(expr.value, 0), most)
    map = IndexingMap(half.map.dims, (), (), (expr,), ())
    return s.step.insert(vec.ExtentOp(_values(s, half), map, "min", 0, most)).result


def _values(s: Selector, half: HalfSpace) -> list[SSAValue]:
    return [s.slots[value] for value in half.ivs]


def _compare(s: Selector, slices: _Slices, limit: Size, n: Size) -> SSAValue:
    """1.0 in the lanes of a part whose number is at least the limit."""
    step, key = s.step, ("lanes", slices.sizes, slices.strides, slices.fmt)
    if key not in s.hoisted:
        s.hoisted[key] = s.in_prologue(lambda: _numbers(step, slices))
    truth = step.alloc(slices.fmt, prod(slices.sizes))
    step.insert(CtGeVS.make(fmt=slices.fmt, dst=truth, a=s.hoisted[key], imm=limit, n=n, origin=step.origin))
    return truth


def _numbers(step: StepBuilder, slices: _Slices) -> SSAValue:
    """The numbers of a part's lanes, from 2^m. Where there are many, the vector engine makes them of those of the innermost
    dimension, twice as many each time: the kernel core would take longer for each dimension than a group for its steps."""
    part = StepBuilder(step.builder, step.prologue, slices.sizes, {}, step.origin)
    lowest, num_lanes, fmt = (1 << MANTISSA[slices.fmt]) - slices.lowest, prod(slices.sizes), slices.fmt
    if num_lanes < LEAST_DOUBLED:
        return iota_sum(part, num_lanes, lowest, stride_terms(part, slices.strides), fmt)
    numbers, made = step.alloc(fmt, num_lanes), slices.sizes[-1]
    last, make = slices.strides[-1], KcVIota.make
    step.insert(make(fmt=fmt, dst=numbers, n=made, start=lowest, step=last, div=1, mod=made, origin=step.origin))
    for size, stride in zip(slices.sizes[-2::-1], slices.strides[-2::-1], strict=True):
        inner, count = made, 1
        while count < size:
            more, imm = min(count, size - count), int(np.float32(stride * count).view(np.uint32))
            place = step.at(numbers, made * fmt.bytes)
            step.insert(CtAddVS.make(fmt=fmt, dst=place, a=numbers, imm=imm, n=more * inner, origin=step.origin))
            count, made = count + more, made + more * inner
    return numbers


def _as_bytes(step: StepBuilder, truth: SSAValue, fmt: Format, num_elements: int, n: Size) -> SSAValue:
    """A byte per truth value."""
    dst = step.alloc(Format.INT8, num_elements)
    step.insert(CtConvert.make(fmt=Format.INT8, fmt2=fmt, dst=dst, src=truth, n=n, origin=step.origin))
    return dst
