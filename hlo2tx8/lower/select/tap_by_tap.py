"""A convolution as products of matrices, one per element of the window and block of channels, whose weights lie as HLO has them.

    out[y * pitch + x, o] += image[(y + ky) * pitch + x + kx, c] * weight[ky, kx, c, o]      x < pitch, y * pitch + x < rows

Channels that are no whole blocks are multiplied block by block, and then each block of filters by itself: their weights are a part
of those of the element.

The rows of a product are points of the image from that of the window's element on, one after the other: lines of the result are as
far apart as those of the image, and what lies between them belongs to no result. Where windows move by several points, points that
as many windows share a residue with are a plane of their own.
"""

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ne import NeGemm, psum_format
from hlo2tx8.device.layouts import Block, Blocked
from hlo2tx8.dialects import vec
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.select.select_memory import dense_strides
from hlo2tx8.lower.select.select_side import Lanes, Side
from hlo2tx8.lower.select.step_builder import StepBuilder, Strip


@dataclass(frozen=True)
class TapPlane:
    """Where the points of an image are for such products. Per lane dimension of rows: `results` of the box, `extents` of the image
    under their windows, `strides` and `dilations` of these, `taps` their elements (1 where there is no window), and `sizes` of a
    plane, whose points lie one after the other."""

    results: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    taps: tuple[int, ...]

    @staticmethod
    def of(op: vec.VecDotOp, lanes: Lanes, shape: tuple[int, ...]) -> "TapPlane":
        """The plane of a block whose box has that shape."""
        depth, windows = vec.ints(op.depth), {w.lane: w for w in op.window_list}
        found = [windows.get(lane) for lane in lanes.rows]
        results = tuple(shape[lane] for lane in lanes.rows)
        taps = tuple(1 if w is None else depth[w.depth] for w in found)
        extents = tuple(n if w is None else w.extent(n, count) for w, n, count in zip(found, results, taps, strict=True))
        strides, dilations = (tuple(1 if w is None else getattr(w, name) for w in found) for name in ("stride", "dilation"))
        return TapPlane(results, extents, strides, dilations, taps)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(-(-extent // stride) for extent, stride in zip(self.extents, self.strides, strict=True))

    @property
    def pitches(self) -> tuple[int, ...]:
        """Points between neighbours along each dimension."""
        return tuple(prod(self.sizes[i + 1 :]) for i in range(len(self.sizes)))

    @property
    def points(self) -> int:
        """Of a plane."""
        return prod(self.sizes)

    @property
    def rows(self) -> int:
        """Of a product: from the first result to the last one."""
        return 1 + sum((n - 1) * pitch for n, pitch in zip(self.results, self.pitches, strict=True))

    def places(self) -> list[tuple[int, int]]:
        """For each element of the window its plane's number and the point in it with which it begins."""
        found: list[tuple[int, int]] = []
        for element in product(*(range(count) for count in self.taps)):
            moved = [tap * dilation for tap, dilation in zip(element, self.dilations, strict=True)]
            plane = 0
            for place, stride in zip(moved, self.strides, strict=True):
                plane = plane * stride + place % stride
            steps = (place // stride * pitch for place, stride, pitch in zip(moved, self.strides, self.pitches, strict=True))
            found.append((plane, sum(steps)))
        return found


def insert_products(
    step: StepBuilder,
    op: vec.VecDotOp,
    lanes: Lanes,
    image: Side,
    weight: Side,
    target: Format,
    addresses: dict[str, Any],
) -> None:
    """All products of a block, with `addresses` as of one instruction; partial sums get a buffer if there is none for them."""
    plane, depth = TapPlane.of(op, lanes, step.shape), vec.ints(op.depth)
    *blocks, features = depth[len(op.window_list) :]
    num_blocks, columns = prod(blocks), prod(step.shape[lane] for lane in lanes.columns)
    fmt, sums = image.fmt, psum_format(image.fmt)
    width = sums.bytes if fmt is Format.TF32 else fmt.bytes
    source = _in_planes(step, plane, image.buffer, num_blocks, features, fmt)
    rows, filters = Blocked(fmt, 1, plane.points, features), Blocked(fmt, 1, features, columns)
    parts = list(rows.blocks())
    sets = list(filters.blocks()) if len(parts) > 1 else [Block(0, columns, filters.aligned_channels, 0)]
    psum = addresses["psum"]
    if psum is addresses["dst"] and target is not sums:
        psum = step.alloc(sums, plane.rows * filters.aligned_channels)
    products = [(place, block, part) for place in plane.places() for block in range(num_blocks) for part in parts]
    accumulate: Size = addresses["accumulate"]
    for number, ((which, point), block, part) in enumerate(products):
        is_last, fmt_of_sums = number == len(products) - 1, target if number == len(products) - 1 else sums
        left = (which * num_blocks + block) * plane.points * rows.aligned_channels + part.offset + point * part.width
        matrix = number // len(parts) * features * filters.aligned_channels
        for own in sets:
            first = plane.rows * own.first
            step.insert(
                NeGemm.make(
                    fmt=fmt_of_sums,
                    fmt2=fmt,
                    dst=step.at(addresses["dst"] if is_last else psum, first * fmt_of_sums.bytes),
                    psum=step.at(psum, first * sums.bytes),
                    left=step.at(source, left * width),
                    right=step.at(weight.buffer, (matrix + own.offset + part.first * own.width) * width),
                    rows=plane.rows,
                    columns=own.channels,
                    depth=part.channels,
                    batch=1,
                    transpose_left=0,
                    transpose_right=1,
                    accumulate=accumulate,
                    origin=step.origin,
                )
            )
        accumulate = 1


def _in_planes(step: StepBuilder, plane: TapPlane, image: SSAValue, blocks: int, features: int, fmt: Format) -> SSAValue:
    """The image with a plane for each residue of a point by the strides of windows; zeros where a plane has no points."""
    if prod(plane.strides) == 1:
        return image
    source, rows = (Blocked(fmt, 1, points, features) for points in (prod(plane.extents), plane.points))
    size, planes = blocks * plane.points * rows.aligned_channels, list(product(*(range(stride) for stride in plane.strides)))
    moved, parts = step.alloc(fmt, len(planes) * size), list(rows.blocks())
    together = blocks if len(parts) == 1 else 1  # neighbours in memory
    starts = [block * plane.points * rows.aligned_channels for block in range(blocks // together)]
    strips = [
        replace(strip, start=strip.start + number * size + start + part.offset)
        for number, residues in enumerate(planes)
        for i, (extent, stride, residue) in enumerate(zip(plane.extents, plane.strides, residues, strict=True))
        if (count := max(0, -(-(extent - residue) // stride))) < plane.sizes[i]
        for start, part in product(starts, parts)
        for strip in (Strip.of((together, *plane.sizes, part.width), i + 1, count, plane.sizes[i]),)
    ]
    step.fill_strips(moved, 0, fmt, strips, len(planes) * size)
    dense = [prod(plane.extents[i + 1 :]) for i in range(len(plane.extents))]
    for (number, residues), (old, new) in product(enumerate(planes), zip(source.blocks(), parts, strict=True)):
        levels = [BoxLevel(blocks, (prod(plane.extents) * source.aligned_channels, plane.points * rows.aligned_channels))]
        for i, (extent, stride, residue) in enumerate(zip(plane.extents, plane.strides, residues, strict=True)):
            count = -(-(extent - residue) // stride)
            levels.append(BoxLevel(max(0, count), (dense[i] * stride * old.width, plane.pitches[i] * new.width)))
        if min(level.extent for level in levels if isinstance(level.extent, int)) == 0:
            continue
        levels.append(BoxLevel(new.channels, (1, 1)))
        first = old.offset + sum(residue * points for residue, points in zip(residues, dense, strict=True)) * old.width
        begin = number * size + new.offset
        step.move(step.at(moved, begin * fmt.bytes), step.at(image, first * fmt.bytes), levels, fmt)
    return moved


def from_plane(step: StepBuilder, op: vec.VecDotOp, lanes: Lanes, buffer: SSAValue, fmt: Format) -> SSAValue:
    """The results of a block without what lies between their lines, and without the lines and filters that a step does not have."""
    plane = TapPlane.of(op, lanes, step.shape)
    *blocks, inner = (step.shape[lane] for lane in lanes.columns)
    layout = Blocked(fmt, 1, plane.rows, inner)
    is_dense = len(list(layout.blocks())) == 1 and layout.aligned_channels == inner
    results, filters = [step.extents[lane] for lane in lanes.rows], step.extents[lanes.columns[-1]]
    is_whole = (*results, filters) == (*plane.results, inner)
    if plane.rows == prod(plane.results) and is_dense and is_whole:
        return buffer
    (of_block, *dense, _), vector = dense_strides(step, (1, *results, filters)), step.alloc(fmt)
    for part in layout.blocks():
        levels = [BoxLevel(prod(blocks), (plane.rows * inner, of_block))]
        points = zip(results, plane.pitches, dense, strict=True)
        levels += [BoxLevel(n, (pitch * part.width, own)) for n, pitch, own in points]
        target, source = step.at(vector, part.first * fmt.bytes), step.at(buffer, part.offset * fmt.bytes)
        channels = step.minimum(step.subtract(filters, part.first), part.channels)
        with step.if_positive([channels]):
            step.move(target, source, [*levels, BoxLevel(channels, (1, 1))], fmt)
    return vector
