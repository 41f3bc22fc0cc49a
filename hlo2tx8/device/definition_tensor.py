"""The definition of instructions on Cx and NCx tensors: gemm, convolutions and reductions."""

from collections.abc import Callable

import numpy as np

from hlo2tx8.device import conv_rules, float_rules, ne_rules, reduce_rules, status
from hlo2tx8.device.isa import ct_reduce, ne, ne_conv
from hlo2tx8.device.isa.base import Instruction, Operands
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.tile_machine import TileMachine


def gemm(m: TileMachine, record: Record, o: Operands) -> None:
    """All batches; every operand is read before anything is written."""
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
    """Every operand is read before anything is written."""
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
    values = float_rules.round_to(joined, o.fmt).reshape(target.batch, target.points, target.channels)
    if m.keeps_status:
        m.status |= status.of_accumulation([x], values)
    m.write_blocked(o["dst"], target, values)
