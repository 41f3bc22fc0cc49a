"""The definition of CT logic on packed bools, of counting, extremes, and of what takes its constants from the chip description."""

import numpy as np

from hlo2tx8.device import status
from hlo2tx8.device.arithmetic import float_rules, stochastic
from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.ct_activation import CtLeakyRelu
from hlo2tx8.device.isa.ct_auxiliary import CtArgMin
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.forms import BITS


def bits_not(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = every bit of src inverted."""
    m.write(o["dst"], record.kind.COMPUTE(m.read(o["src"], o["n"] // BITS, o.fmt)), o.fmt)


def bits_binary(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = the bits of a and b combined."""
    a, b = (m.read(o[name], o["n"] // BITS, o.fmt) for name in "ab")
    m.write(o["dst"], record.kind.COMPUTE(a, b), o.fmt)


def bits_unit(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = the bits of a combined with a unit that is repeated along them."""
    a, unit = m.read(o["a"], o["n"] // BITS, o.fmt), m.read(o["unit"], o["u"] // BITS, o.fmt)
    m.write(o["dst"], record.kind.COMPUTE(a, np.resize(unit, a.shape)), o.fmt)


def bits_unit_loop(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = the bits of a combined, round by round, with a unit per round."""
    n, u = o["n"] // BITS, o["u"] // BITS
    a, unit = m.read(o["a"], o["full_n"] // BITS, o.fmt), m.read(o["unit"], o["full_u"] // BITS, o.fmt)
    turns = np.arange(a.size)
    m.write(o["dst"], record.kind.COMPUTE(a, unit[turns // n * u + turns % n % u]), o.fmt)


def bit_to_float(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = 1.0 and 0.0 for the bits of src."""
    data = m.read(o["src"], o["n"] // BITS, Format.BOOL)
    m.write(o["dst"], np.unpackbits(data, bitorder="little").astype(o.fmt.numpy_dtype), o.fmt)


def count(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = how many elements of src are not zero, as one INT32."""
    x = m.read(o["src"], o["n"], o.fmt)
    m.write(o["dst"], np.array([np.count_nonzero(float_rules.widen(x, o.fmt))]), Format.INT32)


def extreme(m: TileMachine, record: Record, o: Operands) -> None:
    """NaN first, then the order of numbers with -0 < +0."""
    x = m.read(o["src"], o["n"], o.fmt)
    wide = float_rules.widen(x, o.fmt)
    ranks = float_rules.order_of(wide)
    ranks = -ranks if record.kind is CtArgMin else ranks
    place = int(np.argmax(np.where(np.isnan(wide), np.iinfo(np.int64).max, ranks)))
    m.spm.check(o["dst"], o.fmt.bytes, m.place)
    m.write(o["index"], np.array([place]), Format.INT32)
    m.write(o["dst"], x[place : place + 1], o.fmt)


def activation(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = an activation of src and a constant of the chip description, which is rounded to the format first."""
    x = float_rules.widen(m.read(o["src"], o["n"], o.fmt), o.fmt)
    constant = float_rules.round_to(np.array(m.laws[record.kind.LAW], np.float64), o.fmt).astype(np.float32)
    value = float_rules.round_to(record.kind.COMPUTE(x, constant), o.fmt)
    if record.kind is CtLeakyRelu and record.rounding is not Rounding.NEAREST_EVEN:
        value = np.where(x > 0, value, stochastic.round_by(x.astype(np.float64) * constant, o.fmt, record.rounding))
    if m.keeps_status:
        m.status |= status.of_elements(record.kind, [x, np.broadcast_to(constant, x.shape)], value)
    m.write(o["dst"], value, o.fmt)


def exp_low_precision(m: TileMachine, record: Record, o: Operands) -> None:
    """dst = exp(src), an FP32 result with the bits of TF32."""
    from hlo2tx8.device import approx

    fmt = Format.TF32 if o.fmt is Format.FP32 else o.fmt
    x = m.read(o["src"], o["n"], o.fmt)
    if record.rounding is Rounding.NEAREST_EVEN:
        value = float_rules.canonical_nan(approx.evaluate("exp", x, fmt_name=fmt.name), fmt)
    else:
        value = stochastic.round_by(approx.evaluate("exp", x.astype(np.float64), fmt_name=Format.FP64.name), fmt, record.rounding)
    if m.keeps_status:
        m.status |= status.of_elements(record.kind, [x], value)
    m.write(o["dst"], value, o.fmt)
