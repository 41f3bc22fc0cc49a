"""Contractions as gemms of the matrix engine, whose partial sums stay in SPM in the engine's layout from block to block.

    %s0 = scf.for %t iter_args(%a = zero) { vec.dot(%a) ... }        NE_gemm psum → psum, which counts as zero in the first turn
    %s1 = vec.dot(%s0) ...; %y = arith.truncf %s1 : bf16             NE_gemm psum → a buffer of bf16

Where the lanes of a vector are in the engine's order it is read and written as it is; else TDMA moves it to channel blocks and
back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ne import NE_RESULTS, NeGemm, psum_format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.xla_dot import yielded
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import Level, Size
from hlo2tx8.lower.element_format import Splat, Vector, format_of
from hlo2tx8.lower.step_builder import StepBuilder

if TYPE_CHECKING:
    from hlo2tx8.lower.select_box import BoxSelector

MULTIPLIED = {Format.INT8: Format.INT8, Format.FP16: Format.FP16, Format.BF16: Format.BF16, Format.FP32: Format.TF32}
"""The format in which the engine multiplies elements of a format."""


@dataclass(frozen=True)
class Sums:
    """Partial sums in a buffer, in the engine's layout; where `started` is 0 they count as zero, whatever the buffer holds."""

    buffer: SSAValue
    started: Size


@dataclass(frozen=True)
class _Matrix:
    """Lanes of a vector as the engine sees them: `batch` matrices of `points` rows of `channels`, those of a row next to each
    other in blocks of `inner`."""

    batch: Size
    points: Size
    channels: Size
    inner: int
    is_blocked: bool

    def lies_as(self, fmt: Format) -> bool:
        """Is that the layout of the engine in a format?"""
        width = Blocked(fmt, 1, 1, 1).block_width
        if self.is_blocked:
            return self.inner == width
        return self.inner <= width and self.inner >= 4 and self.inner & (self.inner - 1) == 0


def select_dot(s: "BoxSelector", op: vec.DotOp) -> None:
    """Records the result of a block of a contraction in the selector."""
    step, fmt = s.step, MULTIPLIED[format_of(op.element_type)]
    box = range(len(step.shape))
    shared = set(vec.ints(op.row_lanes)) & set(vec.ints(op.column_lanes)) & set(box)
    lanes = [[lane for lane in vec.ints(side) if lane >= 0 and lane not in shared] for side in (op.row_lanes, op.column_lanes)]
    left, right = (_operand(s, op, number, sorted(shared), fmt) for number in range(2))
    batch, rows, columns = (_count(step, part) for part in (sorted(shared), *lanes))
    result = _result_matrix(step, sorted(shared), *lanes)
    narrow = _narrowed(op, fmt)
    sums = _sums_of(s, op.init)
    in_place = narrow is None and is_handed_on(op.res)
    target = psum_format(fmt) if narrow is None else format_of(narrow.results[0].type)
    dst = sums.buffer if in_place and sums is not None else _allocate(step, op, target)
    started: Size = 0 if sums is None else sums.started
    accumulate = started if isinstance(started, int) else step.minimum(started, 1)
    step.insert(
        NeGemm.make(
            fmt=target,
            fmt2=fmt,
            dst=dst,
            left=left[0],
            right=right[0],
            psum=dst if sums is None else sums.buffer,
            rows=rows,
            columns=columns,
            depth=prod(vec.ints(op.depth)),
            batch=batch,
            transpose_left=left[1],
            transpose_right=right[1],
            accumulate=accumulate,
            origin=step.origin,
        )
    )
    if in_place:
        s.sums[op.res] = Sums(dst, 1)
        return
    s.vectors[op.res if narrow is None else narrow.results[0]] = _to_lanes(step, dst, result, target)
    if narrow is not None:
        s.narrowed.add(narrow)


def select_sums_loop(s: "BoxSelector", op: scf.ForOp) -> bool:
    """Selects a loop of all lanes that carries partial sums; False if it is another loop."""
    if len(op.iter_args) != 1 or not _is_carrying_sums(op):
        return False
    step, old, block = s.step, op.body.block, Block(arg_types=[xla.index])
    block.args[0].name_hint = old.args[0].name_hint
    s.slots[old.args[0]] = block.args[0]
    sums = _sums_of(s, op.iter_args[0])
    if sums is None:
        sums = Sums(_allocate(step, _first_dot(old), format_of(op.results[0].type)), 0)
    lower, upper, stride = (s.slots[bound] for bound in (op.lb, op.ub, op.step))
    step.insert(scf.ForOp(lower, upper, stride, [], block))
    outer, step.builder = step.builder, Builder(InsertPoint.at_end(block))
    inside = sums.started if sums.started == 1 else step.add(sums.started, block.args[0])
    s.sums[old.args[1]] = Sums(sums.buffer, inside)
    s.select(old)
    step.insert(scf.YieldOp())
    step.builder = outer
    s.sums[op.results[0]] = Sums(sums.buffer, 1)
    if not is_handed_on(op.results[0]):
        dot = _first_dot(old)
        shared, *lanes = _lane_classes(dot, len(step.shape))
        fmt = format_of(op.results[0].type)
        s.vectors[op.results[0]] = _to_lanes(step, sums.buffer, _result_matrix(step, shared, *lanes), fmt)
    return True


def is_handed_on(value: SSAValue) -> bool:
    """Do only further blocks of the same contraction use these sums?"""
    users = [use.operation for use in value.uses]
    return all(isinstance(user, vec.DotOp | scf.ForOp) or (isinstance(user, scf.YieldOp) and _carries(user)) for user in users)


def _carries(terminator: Operation) -> bool:
    loop = terminator.parent_op()
    return isinstance(loop, scf.ForOp) and _is_carrying_sums(loop)


def _is_carrying_sums(loop: scf.ForOp) -> bool:
    """Is what a loop carries added to by contractions only?"""
    if len(loop.iter_args) != 1:
        return False
    users = [use.operation for use in loop.body.block.args[1].uses]
    return bool(users) and all(
        isinstance(user, vec.DotOp) or (isinstance(user, scf.ForOp) and _is_carrying_sums(user)) for user in users
    )


def _first_dot(block: Block) -> vec.DotOp:
    return next(op for op in block.walk() if isinstance(op, vec.DotOp))


def _sums_of(s: "BoxSelector", init: SSAValue) -> Sums | None:
    """The sums a contraction goes on from; None for zero."""
    if init in s.sums:
        return s.sums[init]
    value = s.vectors[init]
    if isinstance(value, Splat) and value.bits == 0:
        return None
    raise CompileError("E3208", "a contraction starts from a vector that is not zero")


def _narrowed(op: vec.DotOp, fmt: Format) -> Operation | None:
    """The conversion that is all that happens to the sums, if the engine can write its result."""
    users = [use.operation for use in op.res.uses]
    if len(users) != 1 or users[0].parent is not op.parent:
        return None
    user = users[0]
    is_named = isinstance(user, xla.ElementwiseOp) and user.op.data == "stablehlo.convert"
    if fmt is Format.INT8 or not (is_named or isinstance(user, arith.TruncFOp)):
        return None
    return user if format_of(user.results[0].type) in NE_RESULTS[fmt] else None


def _lane_classes(op: vec.DotOp, rank: int) -> tuple[list[int], list[int], list[int]]:
    """The lane dimensions of a box that are batches, rows and columns, as the operands have them."""
    row, column = ([lane for lane in vec.ints(side) if lane >= 0] for side in (op.row_lanes, op.column_lanes))
    shared = sorted(set(row) & set(column))
    return shared, [lane for lane in row if lane not in shared], [lane for lane in column if lane not in shared]


def _count(step: StepBuilder, lanes: Sequence[int]) -> Size:
    count: Size = prod(step.shape[lane] for lane in lanes if lane not in step.valid)
    for lane in lanes:
        if lane in step.valid:
            count = step(step.valid[lane], count)
    return count


def _allocate(step: StepBuilder, op: vec.DotOp, fmt: Format) -> SSAValue:
    """A buffer for all results of a step in the engine's layout."""
    batch, rows, columns = (prod(step.shape[lane] for lane in lanes) for lanes in _lane_classes(op, len(step.shape)))
    return step.alloc(fmt, Blocked(fmt, batch, rows, columns).size_bytes // fmt.bytes)


def _result_matrix(step: StepBuilder, shared: Sequence[int], rows: Sequence[int], columns: Sequence[int]) -> _Matrix:
    """The box as a result: blocks of columns, rows, columns of a block."""
    order = [*shared, *columns[:-1], *rows, *columns[-1:]]
    known = [lane for lane in range(len(step.shape)) if step.shape[lane] > 1 and lane in order]
    if [lane for lane in order if step.shape[lane] > 1] != known:
        raise CompileError("E3208", f"the lanes of a step are in no order of the matrix engine: {order} of {list(step.shape)}")
    is_blocked = any(step.shape[lane] > 1 for lane in columns[:-1])
    inner = step.shape[columns[-1]] if columns else 1
    return _Matrix(_count(step, shared), _count(step, rows), _count(step, columns), inner, is_blocked)


def _operand(s: "BoxSelector", op: vec.DotOp, number: int, shared: Sequence[int], fmt: Format) -> tuple[SSAValue, int]:
    """An operand in the engine's layout, and whether it is transposed."""
    block, order = ((op.row.block, op.row_lanes), (op.column.block, op.column_lanes))[number]
    lanes, depth, step = vec.ints(order), vec.ints(op.depth), s.step
    shape = tuple(step.shape[lane] if lane >= 0 else depth[-1 - lane] for lane in lanes)
    valid = {i: step.valid[lane] for i, lane in enumerate(lanes) if lane in step.valid}
    inner = s.within(StepBuilder(step.builder, step.prologue, shape, valid, step.origin))
    inner.select(block)
    vector = inner.buffer(inner.vectors[yielded(block)])
    step.origin = inner.step.origin
    own = [i for i, lane in enumerate(lanes) if lane not in shared]
    outer = [i for i in range(len(lanes)) if i not in own]
    channels = own[-1]
    is_transposed = lanes[channels] >= 0
    of_depth = [i for i in own if lanes[i] < 0]
    points = [i for i in own if (lanes[i] < 0) == is_transposed]
    blocks = [i for i in own if i not in points and i != channels]
    is_blocked = bool(blocks) and max(blocks) < min(points, default=len(lanes))
    if not is_blocked and blocks:  # all channels of a point follow each other
        width = _count(inner.step, [*blocks, channels])
    else:
        width = shape[channels]
    assert of_depth
    size = width if isinstance(width, int) else prod(shape[i] for i in (*blocks, channels))
    batch, rows, columns = (_count(inner.step, part) for part in (outer, points, [*blocks, channels]))
    matrix = _Matrix(batch, rows, columns, size, is_blocked)
    return _from_lanes(inner.step, vector, matrix, format_of(op.element_type), fmt), int(is_transposed)


def _from_lanes(step: StepBuilder, vector: SSAValue, matrix: _Matrix, fmt: Format, multiplied: Format) -> SSAValue:
    """A vector as the engine reads it."""
    if matrix.lies_as(multiplied):
        return vector
    if matrix.is_blocked or not isinstance(matrix.channels, int) or matrix.batch != 1:
        raise CompileError("E3208", f"no moves bring {matrix} into channel blocks")
    most = step.num_lanes // matrix.channels
    layout = Blocked(multiplied, 1, most, matrix.channels)
    buffer = step.alloc(fmt, layout.size_bytes // fmt.bytes)
    for block in layout.blocks():
        dst = step.at(buffer, step(matrix.points, block.first * fmt.bytes))
        levels = [Level(matrix.points, (matrix.channels, block.width)), Level(block.channels, (1, 1))]
        step.move(dst, step.at(vector, block.first * fmt.bytes), levels, fmt)
    return buffer


def _to_lanes(step: StepBuilder, buffer: SSAValue, matrix: _Matrix, fmt: Format) -> Vector:
    """What the engine wrote as a dense vector of the box."""
    if matrix.lies_as(fmt):
        return buffer
    if matrix.is_blocked or not isinstance(matrix.channels, int) or matrix.batch != 1:
        raise CompileError("E3208", f"no moves bring {matrix} out of channel blocks")
    most = step.num_lanes // matrix.channels
    vector = step.alloc(fmt)
    for block in Blocked(fmt, 1, most, matrix.channels).blocks():
        src = step.at(buffer, step(matrix.points, block.first * fmt.bytes))
        levels = [Level(matrix.points, (block.width, matrix.channels)), Level(block.channels, (1, 1))]
        step.move(step.at(vector, block.first * fmt.bytes), src, levels, fmt)
    return vector
