"""Contractions as gemms and convolutions of the matrix engine, whose partial sums stay in SPM in the engine's layout.

    %s0 = scf.for %t iter_args(%a = zero) { vec.dot(%a) ... }        NE_gemm psum → psum, which counts as zero in the first turn
    %s1 = vec.dot(%s0) ...; %y = arith.truncf %s1 : bf16             NE_gemm psum → a buffer of bf16

Where the lanes of a vector are in the engine's order it is read and written as it is; else TDMA moves it to channel blocks and
back.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ne import NE_RESULTS, NeGemm, psum_format
from hlo2tx8.device.isa.ne_conv import NeConv, NeConvBackwardWeight, NeDepthwise
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.dialects.xla_dot import PASSES
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.element_format import Splat, format_of
from hlo2tx8.lower.select.channel_blocks import EngineOrderError, Matrix, lanes_count, to_lanes, to_turned_lanes
from hlo2tx8.lower.select.padded_step import PaddedStep
from hlo2tx8.lower.select.select_side import Lanes, select_side
from hlo2tx8.lower.select.selector import Selector, Side, Sums
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.select.store_blocks import InBlocks, can_be_stored, is_stored_in_blocks
from hlo2tx8.lower.select.tap_by_tap import TapPlane, from_plane, insert_products


def select_dot(s: Selector, op: vec.VecDotOp) -> None:
    """Records the result of a block of a contraction in the selector."""
    step, lanes = s.step, Lanes.of(op)
    left, right = (_side(s, op, number, lanes) for number in range(2))
    fmt = left.fmt
    narrow = _narrowed(op, fmt)
    sums = _sums_of(s, op.init)
    in_place = narrow is None and is_handed_on(op.res)
    target = psum_format(fmt) if narrow is None else format_of(narrow.results[0].type)
    dst = sums.buffer if in_place and sums is not None else _allocate(step, op, lanes, target)
    started: Size = 0 if sums is None else sums.started
    accumulate = started if isinstance(started, int) else step.minimum(started, 1)
    *first, last = PASSES[op.num_parts]
    kept = sums.buffer if sums is not None else _allocate(step, op, lanes, psum_format(fmt)) if first else dst
    for i, j in first:
        addresses = {"dst": kept, "psum": kept, "accumulate": accumulate}
        _compute(step, op, lanes, left.part(i), right.part(j), psum_format(fmt), addresses)
        accumulate = 1
    addresses = {"dst": dst, "psum": kept, "accumulate": accumulate}
    _compute(step, op, lanes, left.part(last[0]), right.part(last[1]), target, addresses)
    if in_place:
        s.sums[op.res] = Sums(dst, 1)
        return
    value = op.res if narrow is None else narrow.results[0]
    _record(s, value, op, lanes, dst, target)
    if narrow is not None:
        s.narrowed.add(narrow)


def _compute(
    step: StepBuilder, op: vec.VecDotOp, lanes: Lanes, left: Side, right: Side, target: Format, addresses: dict[str, Any]
) -> None:
    if op.is_tap_by_tap:
        insert_products(step, op, lanes, left, right, target, addresses)
        return
    make = _backward if op.is_backward is not None else _convolution if op.window_list else _gemm
    step.insert(make(step, op, lanes, left, right, target, addresses))


def _side(s: Selector, op: vec.VecDotOp, number: int, lanes: Lanes) -> Side:
    """A side of a dot; that of a dot before it in its block, if it is the same."""
    known = s.sides.setdefault(op.parent_block(), [])
    for other, own, side in known:
        if own == number and _has_same_side(op, other, number):
            return side
    known.append((op, number, select_side(s, op, number, lanes)))
    return known[-1][2]


def _has_same_side(op: vec.VecDotOp, other: vec.VecDotOp, number: int) -> bool:
    """Have two dots of a block the same rows (0) or columns (1), in the same lanes?"""
    names = [name for name in op.properties if name not in (("row_lanes", "column_lanes")[1 - number],)]
    if any(op.properties[name] != other.properties.get(name) for name in names):
        return False
    return op.regions[number].is_structurally_equivalent(other.regions[number])


def _gemm(
    step: StepBuilder, op: vec.VecDotOp, lanes: Lanes, left: Side, right: Side, target: Format, addresses: dict[str, Any]
) -> Operation:
    return NeGemm.make(
        fmt=target,
        fmt2=left.fmt,
        left=left.buffer,
        right=right.buffer,
        rows=lanes_count(step, lanes.rows),
        columns=lanes_count(step, lanes.columns),
        depth=prod(vec.ints(op.depth)),
        batch=lanes_count(step, lanes.batch),
        transpose_left=int(left.is_transposed),
        transpose_right=int(right.is_transposed),
        origin=step.origin,
        **addresses,
    )


def _convolution(
    step: StepBuilder, op: vec.VecDotOp, lanes: Lanes, image: Side, weight: Side, target: Format, addresses: dict[str, Any]
) -> Operation:
    """Of an image without pads: the vector has zeros where there is no image."""
    depth, windows = vec.ints(op.depth), {w.lane: w for w in op.window_list}
    if len(lanes.rows) > 2:
        raise EngineOrderError("E3208", "no convolution goes over several images at once")
    fields: dict[str, Any] = dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    for axis, lane in zip("hw", lanes.rows if len(lanes.rows) > 1 else (None, *lanes.rows), strict=True):
        window = None if lane is None else windows.get(lane)
        fields[axis] = 1 if lane is None else image.step.extents[image.order.index(lane)]
        fields[f"kernel_{axis}"] = 1 if window is None else depth[window.depth]
        fields[f"stride_{axis}"] = 1 if window is None else window.stride
        fields[f"dilation_{axis}"] = 1 if window is None else window.dilation
    fields |= {"batch": 1, "image": image.buffer, "weight": weight.buffer, **addresses}
    channels = lanes_count(step, lanes.columns)
    if op.is_per_channel is not None:
        return NeDepthwise.make(fmt=target, fmt2=image.fmt, c=channels, origin=step.origin, **fields)
    features = prod(depth[len(windows) :])
    return NeConv.make(fmt=target, fmt2=image.fmt, c=features, filters=channels, origin=step.origin, **fields)


def _backward(
    step: StepBuilder, op: vec.VecDotOp, lanes: Lanes, image: Side, gradient: Side, target: Format, addresses: dict[str, Any]
) -> Operation:
    """The gradient of weights from one image without pads. Rows of the box are elements of the kernel, the depth its windows: what
    is stride along a line and what is dilation is the other way round."""
    fields: dict[str, Any] = dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    for axis, window in zip("hw", op.window_list, strict=True):
        fields[axis] = image.step.extents[image.order.index(window.lane)]
        fields[f"kernel_{axis}"] = step.extents[window.lane]
        fields[f"stride_{axis}"], fields[f"dilation_{axis}"] = window.dilation, window.stride
    fields |= {"batch": 1, "gradient": gradient.buffer, "image": image.buffer, **addresses}
    counts = {"c": lanes_count(step, lanes.columns), "filters": lanes_count(step, lanes.rows[len(op.window_list) :])}
    return NeConvBackwardWeight.make(fmt=target, fmt2=image.fmt, origin=step.origin, **counts, **fields)


def select_sums_loop(s: Selector, op: scf.ForOp) -> bool:
    """Selects a loop of all lanes that carries partial sums; False if it is another loop."""
    if not _is_carrying_sums(op):
        return False
    step, old, block = s.step, op.body.block, Block(arg_types=[xla.index])
    block.args[0].name_hint = old.args[0].name_hint
    s.slots[old.args[0]] = block.args[0]
    dot, fmt = _first_dot(old), format_of(op.results[0].type)
    lanes = Lanes.of(dot)
    carried = [_sums_of(s, init) or Sums(_allocate(step, dot, lanes, fmt), 0) for init in op.iter_args]
    lower, upper, stride = (s.slots[bound] for bound in (op.lb, op.ub, op.step))
    step.insert(for_op(lower, upper, stride, [], block))
    outer, step.builder = step.builder, Builder(InsertPoint.at_end(block))
    for arg, sums in zip(old.args[1:], carried, strict=True):
        inside = sums.started if sums.started == 1 else step.add(sums.started, block.args[0])
        s.sums[arg] = Sums(sums.buffer, inside)
    s.select(old)
    step.insert(yield_op())
    step.builder = outer
    for result, sums in zip(op.results, carried, strict=True):
        s.sums[result] = Sums(sums.buffer, 1)
        if not is_handed_on(result):
            _record(s, result, dot, lanes, sums.buffer, fmt)
    return True


def is_handed_on(value: SSAValue) -> bool:
    """Do only further blocks of the same contraction use these sums?"""
    users = [use.operation for use in value.uses]
    return all(isinstance(user, vec.VecDotOp | scf.ForOp) or (isinstance(user, scf.YieldOp) and _carries(user)) for user in users)


def _carries(terminator: Operation) -> bool:
    loop = terminator.parent_op()
    return isinstance(loop, scf.ForOp) and _is_carrying_sums(loop)


def _is_carrying_sums(loop: scf.ForOp) -> bool:
    """Is what a loop carries added to by contractions only?"""
    users = [[use.operation for use in arg.uses] for arg in loop.body.block.args[1:]]
    return bool(users) and all(bool(own) and all(map(_adds_up, own)) for own in users)


def _adds_up(op: Operation) -> bool:
    """Does it go on with sums?"""
    return isinstance(op, vec.VecDotOp) or (isinstance(op, scf.ForOp) and _is_carrying_sums(op))


def _first_dot(block: Block) -> vec.VecDotOp:
    return next(op for op in block.walk() if isinstance(op, vec.VecDotOp))


def _sums_of(s: Selector, init: SSAValue) -> Sums | None:
    """The sums a contraction goes on from; None for zero."""
    if init in s.sums:
        return s.sums[init]
    value = s.vector(init)
    if isinstance(value, Splat) and value.bits == 0:
        return None
    raise CompileError("E3208", "a contraction starts from a vector that is not zero")


def _narrowed(op: vec.VecDotOp, fmt: Format) -> Operation | None:
    """The conversion that is all that happens to the sums, if the engine can write its result."""
    users = [use.operation for use in op.res.uses]
    if len(users) != 1 or users[0].parent is not op.parent:
        return None
    user = users[0]
    is_named = isinstance(user, xla.ElementwiseOp) and user.op.data == "stablehlo.convert"
    if fmt is Format.INT8 or not (is_named or isinstance(user, arith.TruncFOp)):
        return None
    return user if format_of(user.results[0].type) in NE_RESULTS[fmt] else None


def _allocate(step: StepBuilder, op: vec.VecDotOp, lanes: Lanes, fmt: Format) -> SSAValue:
    """A buffer for all results of a step in the engine's layout."""
    batch, rows, columns = (prod(step.shape[lane] for lane in part) for part in (lanes.batch, lanes.rows, lanes.columns))
    if op.is_tap_by_tap:
        rows = TapPlane.of(op, lanes, step.shape).rows
    return step.alloc(fmt, Blocked(fmt, batch, rows, columns).size_bytes // fmt.bytes)


def _record(s: Selector, value: SSAValue, op: vec.VecDotOp, lanes: Lanes, buffer: SSAValue, fmt: Format) -> None:
    """What the engine wrote is a value of the box: dense, or as it lies if it is only stored."""
    if not isinstance(s.step, PaddedStep) and not lanes.is_turned and not op.is_tap_by_tap and is_stored_in_blocks(s.step, value):
        matrix = _result_matrix(s.step, lanes)
        if can_be_stored(s.step, matrix, fmt):
            s.in_blocks[value] = InBlocks(buffer, matrix, fmt)
            return
    s.vectors[value] = _as_vector(s.step, op, lanes, buffer, fmt)


def _as_vector(step: StepBuilder, op: vec.VecDotOp, lanes: Lanes, buffer: SSAValue, fmt: Format) -> SSAValue:
    """What the engine wrote as a vector of the box, dense or in padded blocks."""
    if isinstance(step, PaddedStep):
        return buffer
    if not lanes.is_turned:
        matrix = _result_matrix(step, lanes)
        return from_plane(step, op, lanes, buffer, fmt) if op.is_tap_by_tap else to_lanes(step, buffer, matrix, fmt)
    *outer, inner = lanes.rows
    counts = [lanes_count(step, part) for part in (outer, (inner,), lanes.columns)]
    return to_turned_lanes(step, buffer, counts[0], counts[1], counts[2], fmt)


def _result_matrix(step: StepBuilder, lanes: Lanes) -> Matrix:
    """The box as a result: blocks of columns, rows, columns of a block."""
    columns: Sequence[int] = lanes.columns
    order = [lane for lane in (*lanes.batch, *columns[:-1], *lanes.rows, *columns[-1:]) if step.shape[lane] > 1]
    if order != [lane for lane in range(len(step.shape)) if step.shape[lane] > 1 and lane in order]:
        raise EngineOrderError("E3208", f"the lanes of a step are in no order of the matrix engine: {order} of {list(step.shape)}")
    is_blocked = any(step.shape[lane] > 1 for lane in columns[:-1])
    inner = step.shape[columns[-1]] if columns else 1
    counts = [lanes_count(step, part) for part in (lanes.batch, lanes.rows, columns)]
    return Matrix(counts[0], counts[1], counts[2], inner, is_blocked)
