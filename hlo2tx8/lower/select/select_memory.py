"""Loads, stores, masks and index vectors of a box as DMA, TDMA and kernel-core instructions.

A load goes through the stages it needs and no others:

    RDMA      the box's distinct elements, dense, in iteration order; in the order they have in DDR, if their runs are longer there;
              with what lies between them, if that is little
    permute   those to iteration order, by TDMA; without what lies between them
    gather    lanes that run backwards: the kernel core reorders them
    expand    lanes that repeat an element (stride 0): TDMA reads it again
    place     clipped boxes: TDMA puts them into a buffer that holds the fill value
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.kc_move import KcVGather, KcVIota
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.dialects import vec
from hlo2tx8.indexing import Expr, Sym, split_terms
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.select.channel_blocks import SHORT_RUN_BYTES
from hlo2tx8.lower.select.repeat import repeat
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True)
class Clip:
    """lower <= lane < upper on one lane dimension."""

    lane: int
    lower: Size
    upper: Size


@dataclass(frozen=True)
class Box:
    """The lanes a load touches: first lane and number of lanes per dimension."""

    starts: tuple[Size, ...]
    extents: tuple[Size, ...]
    is_clipped: bool


def bound_of(value: SSAValue, slots: Mapping[SSAValue, SSAValue]) -> Size:
    """A bound of a clip, as a number if it is the same in all steps."""
    constant = value.owner.constant if isinstance(value.owner, vec.ExtentOp) else None
    return slots[value] if constant is None else constant


def clips_of(op: vec.LoadOp, slots: Mapping[SSAValue, SSAValue]) -> list[Clip]:
    """The lanes that a load has."""
    bounds = zip(vec.ints(op.clipped), op.lower, op.upper, strict=True)
    return [Clip(lane, bound_of(lower, slots), bound_of(upper, slots)) for lane, lower, upper in bounds]


def clipped_box(step: StepBuilder, clips: Sequence[Clip]) -> Box:
    """The box of a step, cut down to the clips."""
    starts: list[Size] = [0] * len(step.shape)
    extents = list(step.extents)
    for clip in clips:
        upper = clip.upper
        if clip.lane in step.valid:
            upper = step.minimum(upper, step.valid[clip.lane])
        starts[clip.lane] = clip.lower
        extents[clip.lane] = step.at_least_zero(step.subtract(upper, clip.lower))
    return Box(tuple(starts), tuple(extents), bool(clips))


def load_box(step: StepBuilder, source: SSAValue, offset: Size, strides: Sequence[int], box: Box, fmt: Format) -> SSAValue:
    """The elements of a box, dense in the order of its lanes; the box must not be empty."""
    start = offset
    levels: list[BoxLevel] = []
    for k, stride in enumerate(strides):
        start = step.add(start, step(box.starts[k], stride))
        if stride < 0:
            start = step.add(start, step(step.subtract(box.extents[k], 1), stride))
        levels.append(BoxLevel(1 if stride == 0 else box.extents[k], (abs(stride),)))
    buffer = step.alloc(fmt, _static_size(step, strides))
    if (order := _ddr_order(step, levels, fmt)) is None:
        if (apart := _apart_in_line(step, levels, fmt)) is None:
            step.load(buffer, source, start, levels, fmt)
        else:
            _load_with_gaps(step, buffer, source, start, levels, apart, fmt)
    else:
        loaded = step.alloc(fmt, _static_size(step, strides))
        step.load(loaded, source, start, [levels[k] for k in order], fmt)
        _permute(step, buffer, loaded, [lv.extent for lv in levels], order, fmt, to_iteration_order=True)
    distinct = [lv.extent for lv in levels]
    if any(s < 0 for s in strides):
        buffer = _reorder(step, buffer, distinct, strides, fmt)
    if any(s == 0 and e != 1 for s, e in zip(strides, box.extents, strict=True)):
        buffer = _expand(step, buffer, distinct, box.extents, fmt, _static_size(step, strides))
    return buffer


def store_box(step: StepBuilder, target: SSAValue, offset: Size, source: SSAValue, strides: Sequence[int], fmt: Format) -> None:
    """A vector to DDR, in the order it has there if the runs are longer so."""
    levels = [BoxLevel(extent, (stride,)) for extent, stride in zip(step.extents, strides, strict=True)]
    if (order := _ddr_order(step, levels, fmt)) is not None:
        permuted = step.alloc(fmt)
        _permute(step, permuted, source, step.extents, order, fmt, to_iteration_order=False)
        source, levels = permuted, [levels[k] for k in order]
    step.store(target, offset, source, levels, fmt)


def _ddr_order(step: StepBuilder, levels: Sequence[BoxLevel], fmt: Format) -> list[int] | None:
    """The lane dimensions by decreasing stride, if a transfer in this order has the longer runs and the other's are too short."""
    sizes = [1 if lv.extent == 1 else size for lv, size in zip(levels, step.shape, strict=True)]
    strides = [stride for lv in levels for stride in lv.strides if isinstance(stride, int)]
    order = sorted(range(len(levels)), key=lambda k: -strides[k])
    own = _run_elements(sizes, strides, range(len(levels)))
    if own * fmt.bytes >= SHORT_RUN_BYTES or _run_elements(sizes, strides, order) <= own:
        return None
    return order


def _apart_in_line(step: StepBuilder, levels: Sequence[BoxLevel], fmt: Format) -> int | None:
    """The innermost lane dimension, if several of its elements lie apart from each other in what DDR charges for one."""
    inner = max((k for k, size in enumerate(step.shape) if size != 1 and levels[k].extent != 1), default=None)
    stride = 0 if inner is None else levels[inner].strides[0]
    return inner if isinstance(stride, int) and stride > 1 and stride * fmt.bytes < SHORT_RUN_BYTES else None


def _load_with_gaps(
    step: StepBuilder, dst: SSAValue, source: SSAValue, start: Size, levels: Sequence[BoxLevel], inner: int, fmt: Format
) -> None:
    """A box whose elements along the `inner` lane dimension are apart: with what lies between them, which TDMA leaves out."""
    extents, stride = [level.extent for level in levels], levels[inner].strides[0]
    assert isinstance(stride, int)
    static = [1 if level.extent == 1 else size for level, size in zip(levels, step.shape, strict=True)]
    static[inner] = (static[inner] - 1) * stride + 1
    with_gaps = list(extents)
    with_gaps[inner] = step.add(step(step.subtract(extents[inner], 1), stride), 1)
    runs = [BoxLevel(n, (1,)) if k == inner else level for k, (n, level) in enumerate(zip(with_gaps, levels, strict=True))]
    loaded = step.alloc(fmt, prod(static))
    step.load(loaded, source, start, runs, fmt)
    read = dense_strides(step, with_gaps)
    read[inner] = stride
    step.move(
        dst,
        loaded,
        [BoxLevel(*own) for own in zip(extents, zip(read, dense_strides(step, extents), strict=True), strict=True)],
        fmt,
    )


def _run_elements(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> int:
    """Elements next to each other at the inner end of a walk in this order."""
    run = 1
    for k in reversed(order):
        if sizes[k] != 1 and strides[k] != run:
            break
        run *= sizes[k]
    return run


def _permute(
    step: StepBuilder,
    dst: SSAValue,
    src: SSAValue,
    extents: Sequence[Size],
    order: Sequence[int],
    fmt: Format,
    *,
    to_iteration_order: bool,
) -> None:
    """Between a vector that is dense in iteration order and one whose dimensions follow each other in `order`."""
    dense = dense_strides(step, extents)
    ordered: list[Size] = [0] * len(extents)
    for k, stride in zip(order, dense_strides(step, [extents[k] for k in order]), strict=True):
        ordered[k] = stride
    read, write = (ordered, dense) if to_iteration_order else (dense, ordered)
    step.move(dst, src, [BoxLevel(e, (r, w)) for e, r, w in zip(extents, read, write, strict=True)], fmt)


def _static_size(step: StepBuilder, strides: Sequence[int]) -> int:
    size = 1
    for extent, stride in zip(step.shape, strides, strict=True):
        size *= extent if stride else 1
    return size


def dense_strides(step: StepBuilder, extents: Sequence[Size]) -> list[Size]:
    """Elements between neighbours along each dimension of a vector without gaps."""
    strides: list[Size] = []
    running: Size = 1
    for extent in reversed(extents):
        strides.append(running)
        running = step(running, extent)
    return strides[::-1]


def _expand(
    step: StepBuilder, src: SSAValue, distinct: Sequence[Size], extents: Sequence[Size], fmt: Format, most: int
) -> SSAValue:
    read, write = dense_strides(step, distinct), dense_strides(step, extents)
    levels = [BoxLevel(extent, (0 if d == 1 else r, w)) for extent, d, r, w in zip(extents, distinct, read, write, strict=True)]
    dst = step.alloc(fmt)
    repeat(step, dst, src, levels, fmt, most)
    return dst


def place(step: StepBuilder, dst: SSAValue, src: SSAValue, box: Box, fmt: Format) -> None:
    """Puts a dense box into its lanes of a whole vector."""
    read, write = dense_strides(step, box.extents), dense_strides(step, step.extents)
    at: Size = 0
    for start, stride in zip(box.starts, write, strict=True):
        at = step.add(at, step(start, stride))
    levels = [BoxLevel(e, (r, w)) for e, r, w in zip(box.extents, read, write, strict=True)]
    step.move(step.at(dst, step(at, fmt.bytes)), src, levels, fmt)


def _reorder(step: StepBuilder, src: SSAValue, extents: Sequence[Size], strides: Sequence[int], fmt: Format) -> SSAValue:
    """Turns the lanes that run backwards around."""
    n: Size = 1
    for extent in extents:
        n = step(n, extent)
    start: Size = 0
    terms: list[tuple[Size, Size, Size]] = []
    dense = dense_strides(step, extents)
    for extent, stride, size in zip(extents, strides, dense, strict=True):
        if extent == 1:
            continue
        if stride < 0:
            start = step.add(start, step(step.subtract(extent, 1), size))
        terms.append((size, extent, step(size, -1) if stride < 0 else size))
    index = iota_sum(step, n, start, terms, Format.INT32)
    dst = step.alloc(fmt)
    step.insert(KcVGather.make(fmt=fmt, dst=dst, src=src, index=index, n=n, origin=step.origin))
    return dst


def iota_sum(step: StepBuilder, n: Size, start: Size, terms: Sequence[tuple[Size, Size, Size]], fmt: Format) -> SSAValue:
    """value[i] = start + sum(((i div d) mod m) * s) over terms (d, m, s)."""
    total: SSAValue | None = None
    for div, mod, stride in terms or ((1, 1, 0),):
        part = step.alloc(fmt)
        first = start if total is None else 0
        step.insert(KcVIota.make(fmt=fmt, dst=part, n=n, start=first, step=stride, div=div, mod=mod, origin=step.origin))
        if total is None:
            total = part
            continue
        both = step.alloc(fmt)
        step.insert(KcVAdd.make(fmt=fmt, dst=both, a=total, b=part, n=n, origin=step.origin))
        total = both
    assert total is not None
    return total


def lane_terms(step: StepBuilder, expr: Expr) -> tuple[Expr, list[tuple[Size, Size, Size]]] | None:
    """An expression affine in the lanes as (part without lanes, iota terms); None if it is not affine."""
    leaves = tuple(Sym(k) for k in range(len(step.shape)))
    split = split_terms(expr, leaves)
    if split is None:
        return None
    base, coefficients = split
    return base, stride_terms(step, [coefficients.get(leaf, 0) for leaf in leaves])


def stride_terms(step: StepBuilder, strides: Sequence[int]) -> list[tuple[Size, Size, Size]]:
    """sum(strides[k] * lk) as iota terms."""
    dense, extents = dense_strides(step, step.extents), (step.shape[0], *step.extents[1:]) if step.shape else ()
    return [(dense[k], extents[k], stride) for k, stride in enumerate(strides) if stride and step.shape[k] != 1]
