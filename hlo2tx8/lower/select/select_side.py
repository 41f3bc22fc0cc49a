"""One side of a contraction: its vector in SPM, in the layout of the matrix engine."""

from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.ct_arith import CtMaxVS, CtMinVS, CtSubVV
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.dialects import vec
from hlo2tx8.dialects.xla_dot import yielded
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.element_format import format_of
from hlo2tx8.lower.select.channel_blocks import Matrix, from_lanes, lanes_count, matrices_from_lanes
from hlo2tx8.lower.select.in_place import in_place
from hlo2tx8.lower.select.padded_blocks import load_in_blocks, load_padded_blocks
from hlo2tx8.lower.select.selector import Selector, Side
from hlo2tx8.lower.select.step_builder import StepBuilder

MULTIPLIED = {Format.INT8: Format.INT8, Format.FP16: Format.FP16, Format.BF16: Format.BF16, Format.FP32: Format.TF32}
"""The format in which the engine multiplies elements of a format."""


LARGEST_BITS = 0x7F7FFFFF
"""Of the largest finite FP32 number."""


@dataclass(frozen=True)
class Lanes:
    """The lane dimensions of a box that are batches, rows and columns of a contraction; `is_turned`: in the box the last of the
    rows is behind the columns."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    is_turned: bool = False

    @staticmethod
    def of(op: vec.VecDotOp) -> "Lanes":
        row, column = (tuple(lane for lane in vec.ints(side) if lane >= 0) for side in (op.row_lanes, op.column_lanes))
        shared = tuple(sorted(set(row) & set(column)))
        own = [tuple(lane for lane in side if lane not in shared) for side in (row, column)]
        if op.is_backward is not None:  # the engine's columns are channels of the image
            return Lanes(shared, (*own[0][:-1], *own[1]), own[0][-1:], is_turned=True)
        return Lanes((), own[0], shared) if op.is_per_channel is not None else Lanes(shared, own[0], own[1])


def select_side(s: Selector, op: vec.VecDotOp, number: int, lanes: Lanes) -> Side:
    """Instructions for rows (0) or columns (1)."""
    block, order = ((op.row.block, vec.ints(op.row_lanes)), (op.column.block, vec.ints(op.column_lanes)))[number]
    inner = s.within(_side_step(s.step, op, number, order))
    step = inner.step
    taps = len(op.window_list)
    own = [i for i, lane in enumerate(order) if lane not in lanes.batch]
    last = own[-1]
    is_transposed = order[last] >= 0 and op.is_per_channel is None and op.is_backward is None
    is_channel = [lane < 0 and -1 - lane >= taps for lane in order]
    if is_transposed:
        is_channel = [lane >= 0 for lane in order]
    elif op.is_per_channel is not None:
        is_channel = [lane in lanes.columns for lane in order]
    elif op.is_backward is not None:
        is_channel = [i == last for i in range(len(order))]
    points = [i for i in own if not is_channel[i]]
    if taps and is_transposed:  # a matrix for each element of a window and block of its channels
        points = [last - 1]
        own = [i for i in own if is_channel[i] or i in points]
    inner_lanes = [i for i in own if i > max(points)] if points else [last]
    blocks = [i for i in own if is_channel[i] and i not in inner_lanes]
    is_blocked = bool(blocks) and max(blocks) < min(points, default=len(order))
    width = prod(step.shape[i] for i in (inner_lanes if is_blocked else (*blocks, *inner_lanes)))
    outer = [i for i in range(len(order)) if i not in own]
    counts = [lanes_count(step, part) for part in (outer, points, [*blocks, *inner_lanes])]
    matrix = Matrix(counts[0], counts[1], counts[2], width, is_blocked)
    fmt, multiplied = format_of(op.element_type), MULTIPLIED[format_of(op.element_type)]
    if op.num_parts == 1 and (padded := load_padded_blocks(inner, block, matrix, multiplied)) is not None:
        s.step.origin = step.origin
        return Side((padded,), multiplied, is_transposed, order, step)
    if op.num_parts == 1 and (loaded := load_in_blocks(inner, block, matrix, multiplied)) is not None:
        s.step.origin = step.origin
        return Side((loaded,), multiplied, is_transposed, order, step)
    inner.take_units()
    inner.select(block)
    vector = in_place(inner.buffer(inner.vectors[yielded(block)]))
    s.step.origin = step.origin
    vectors = [vector]
    if op.num_parts > 1:
        fmt = multiplied = Format.BF16
        vectors = _parts(step, vector, op.num_parts)
    if inner.is_in_blocks(yielded(block)):
        return Side((vector,), multiplied, is_transposed, order, step)
    to_blocks = matrices_from_lanes if taps and is_transposed else from_lanes
    buffers = tuple(to_blocks(step, part, matrix, fmt, multiplied) for part in vectors)
    return Side(buffers, multiplied, is_transposed, order, step)


def _parts(step: StepBuilder, vector: SSAValue, count: int) -> list[SSAValue]:
    """BF16 vectors that add up to one of FP32, the largest first, each cut off, and the first one of it without
    infinities, of which the others are parts."""
    n = step.count()
    single: dict[str, Any] = {"fmt": Format.FP32, "n": n, "origin": step.origin}
    found = [_convert(step, vector, Format.FP32, Format.BF16, n)]
    rest = vector
    for bits, make in ((LARGEST_BITS, CtMinVS.make), (LARGEST_BITS | 1 << 31, CtMaxVS.make)):
        limited = step.alloc(Format.FP32)
        step.insert(make(dst=limited, a=rest, imm=bits, **single))
        rest = limited
    whole = limited = _convert(step, rest, Format.FP32, Format.BF16, n)
    for _ in range(count - 1):
        left = step.alloc(Format.FP32)
        step.insert(CtSubVV.make(dst=left, a=rest, b=_convert(step, whole, Format.BF16, Format.FP32, n), **single))
        rest, whole = left, _convert(step, left, Format.FP32, Format.BF16, n)
        found.append(whole)
    return [*found, limited]


def _convert(step: StepBuilder, src: SSAValue, source: Format, fmt: Format, n: Size) -> SSAValue:
    dst = step.alloc(fmt)
    rounding = Rounding.TOWARD_ZERO if fmt is Format.BF16 else Rounding.NEAREST_EVEN
    step.insert(CtConvert.make(fmt=fmt, fmt2=source, rnd=rounding, dst=dst, src=src, n=n, origin=step.origin))
    return dst


def _side_step(step: StepBuilder, op: vec.VecDotOp, number: int, order: tuple[int, ...]) -> StepBuilder:
    """The step of a box with the lanes of a side; a line of windows is as long as what is under them. Those of a convolution tap by
    tap are as many in all steps."""
    depth, windows = vec.ints(op.depth), {} if number else {w.lane: w for w in op.window_list}
    shape: list[int] = []
    valid: dict[int, SSAValue] = {}
    for i, lane in enumerate(order):
        size = step.shape[lane] if lane >= 0 else depth[-1 - lane]
        rows: Size = size if op.is_tap_by_tap else step.valid.get(lane, size)
        if lane in windows:
            window = windows[lane]
            reach = window.extent(1, depth[window.depth])
            size = window.extent(size, depth[window.depth])
            rows = size if op.is_tap_by_tap else step.add(step(step.subtract(rows, 1), window.stride), reach)
        shape.append(size)
        if isinstance(rows, SSAValue):
            valid[i] = rows
    return StepBuilder(step.builder, step.prologue, tuple(shape), valid, step.origin)
