"""The definition of instructions on Cx and NCx tensors: gemm, convolutions, reductions and pooling."""

from collections.abc import Callable

import numpy as np

from hlo2tx8.device import status
from hlo2tx8.device.arithmetic import float_rules, stochastic
from hlo2tx8.device.definition import conv_rules, ne_rules, pool_rules, reduce_rules
from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import ct_pool, ct_reduce, ne, ne_conv
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import Operands


def gemm(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = the product of left and right in every batch; all operands are read before anything is written."""
    left, right = m.read_blocked(o["left"], ne.left_layout(o)), m.read_blocked(o["right"], ne.right_layout(o))
    target = ne.result_layout(o, o.fmt)
    m.spm.check(o["dst"], target.size_bytes, m.place)
    psum = m.read_blocked(o["psum"], ne.result_layout(o, ne.psum_format(o.fmt2))) if o["accumulate"] else None
    if o["transpose_left"]:
        left = left.swapaxes(1, 2)
    if o["transpose_right"]:
        right = right.swapaxes(1, 2)
    if record.kind is ne.NeGemmQuantised:
        left = left.astype(np.int16) - np.int16(o["zp_left"])
    values = np.empty((target.batch, target.points, target.channels), o.fmt.numpy_dtype)
    for b in range(o["batch"]):
        acc = ne_rules.accumulate(left[b], right[b], None if psum is None else psum[b], o.fmt2)
        if record.kind is ne.NeGemmQuantised:
            values[b] = ne_rules.quantise(acc, o["q1"], o["q2"], o["scale"], o["zp_out"])
        else:
            values[b] = ne_rules.result(acc, o.fmt)
    if m.keeps_status:
        m.status |= status.of_accumulation([left, right, *([] if psum is None else [psum])], values)
    m.write_blocked(o["dst"], target, values)


# Kind -> the sums of its first and its second operand.
_SUMS: dict[type[Instruction], Callable[[np.ndarray, np.ndarray, np.ndarray | None, Operands], np.ndarray]] = {
    ne_conv.NeConv: conv_rules.forward,
    ne_conv.NeConvQuantised: conv_rules.forward,
    ne_conv.NeDepthwise: conv_rules.depthwise,
    ne_conv.NeDepthwiseQuantised: conv_rules.depthwise,
    ne_conv.NeConvBackwardImage: conv_rules.backward_image,
    ne_conv.NeConvBackwardWeight: conv_rules.backward_weight,
}


def convolution(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = a convolution, forward or backward; all operands are read before anything is written."""
    assert issubclass(record.kind, ne_conv.NeConvForm)
    result, *operands = record.kind.LAYOUTS
    names = [f.name for f in record.kind.FIELDS]
    first, second = (m.read_blocked(o[name], layout(o, o.fmt2)) for name, layout in zip(names[1:3], operands, strict=True))
    target = result(o, o.fmt)
    m.spm.check(o["dst"], target.size_bytes, m.place)
    psum = m.read_blocked(o["psum"], result(o, ne.psum_format(o.fmt2))) if o["accumulate"] else None
    is_quantised = "zp_image" in names
    if is_quantised:
        first = first.astype(np.int16) - np.int16(o["zp_image"])
    acc = _SUMS[record.kind](first, second, psum, o)
    if is_quantised:
        values = ne_rules.quantise(acc, o["q1"], o["q2"], o["scale"], o["zp_out"])
    else:
        values = ne_rules.result(acc, o.fmt)
    if m.keeps_status:
        m.status |= status.of_accumulation([first, second, *([] if psum is None else [psum])], values)
    m.write_blocked(o["dst"], target, values)


def reduce(m: TileMachine, record: Record, o: Operands) -> None:
    """Widened to FP32, joined in the order of the rules, rounded once."""
    shape = (o["batch"], o["h"], o["w"], o["c"])
    x = float_rules.widen(m.read_blocked(o["src"], ct_reduce.source_layout(o)), o.fmt).reshape(shape)
    joined = reduce_rules.reduce(x, o["dim"], record.kind.COMPUTE)
    if record.kind is ct_reduce.CtReduceAvg:
        joined = joined.astype(np.float64) / (x.size // joined.size)
    target = ct_reduce.result_layout(o)
    values = stochastic.round_by(joined, o.fmt, record.rounding).reshape(target.batch, target.points, target.channels)
    if m.keeps_status:
        m.status |= status.of_accumulation([x], values)
    m.write_blocked(o["dst"], target, values)


def pool(m: TileMachine, record: Record, o: Operands) -> None:
    """Widened to FP32, joined window by window, rounded once."""
    x = float_rules.widen(m.read_blocked(o["src"], ct_pool.image_layout(o)), o.fmt)
    target = ct_pool.pooled_layout(o)
    m.spm.check(o["dst"], target.size_bytes, m.place)
    if issubclass(record.kind, ct_pool.CtPoolIndexed):
        indices = ct_pool.pooled_layout(o, Format.INT32)
        m.spm.check(o["index"], indices.size_bytes, m.place)
        joined, index = pool_rules.pool_indexed(x, record.kind.COMPUTE, o)
        values = stochastic.round_by(joined, o.fmt, record.rounding)
        _note(m, x, values)
        m.write_blocked(o["dst"], target, values)
        m.write_blocked(o["index"], indices, index)
        return
    joined = pool_rules.pool(x, record.kind.COMPUTE, o)
    if record.kind is ct_pool.CtPoolAvg:
        joined = joined.astype(np.float64) / (o["kernel_h"] * o["kernel_w"])
    values = stochastic.round_by(joined, o.fmt, record.rounding)
    _note(m, x, values)
    m.write_blocked(o["dst"], target, values)


def unpool(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = the sum, for each point of the image, of the windows that hold it."""
    x = float_rules.widen(m.read_blocked(o["src"], ct_pool.pooled_layout(o)), o.fmt)
    if record.kind is ct_pool.CtUnpoolIndexed:
        index = m.read_blocked(o["index"], ct_pool.pooled_layout(o, Format.INT32))
        wrong = index[(index < 0) | (index >= o["h"] * o["w"])]
        if wrong.size:
            raise Fault(FaultKind.OUT_OF_BOUNDS, f"index {wrong[0]} is outside of {o['h']} x {o['w']} points", m.place)
        total = pool_rules.unpool_indexed(x, index, o)
    else:
        total = pool_rules.unpool(x, o)
    if record.kind is ct_pool.CtUnpoolAvg:
        total = total.astype(np.float64) / (o["kernel_h"] * o["kernel_w"])
    values = stochastic.round_by(total, o.fmt, record.rounding)
    _note(m, x, values)
    m.write_blocked(o["dst"], ct_pool.image_layout(o), values)


def _note(m: TileMachine, x: np.ndarray, values: np.ndarray) -> None:
    """The exception bits of a pooling."""
    if m.keeps_status:
        m.status |= status.of_accumulation([x], values)
