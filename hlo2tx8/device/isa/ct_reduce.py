"""CT reductions of tensors in Cx or NCx over one of their dimensions."""

from enum import IntEnum

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.fields import Constraint, Field, Operands, Role
from hlo2tx8.device.isa.forms import CtInstruction
from hlo2tx8.device.layouts import Blocked

MOST_REDUCED = 16384
MOST_POINTS = 4096


class ReduceDim(IntEnum):
    """Dimensions that go. The machine's headers also name N and HWC, which are never emitted and not executed."""

    C = 0
    W = 1
    H = 2
    HW = 3


def source_layout(o: Operands) -> Blocked:
    """[batch, h, w, c]."""
    return Blocked(o.fmt, o["batch"], o["h"] * o["w"], o["c"])


def result_shape(o: Operands) -> tuple[int, int, int, int]:
    """The reduced dimensions are 1."""
    dim = o["dim"]
    h = 1 if dim in (ReduceDim.H, ReduceDim.HW) else o["h"]
    w = 1 if dim in (ReduceDim.W, ReduceDim.HW) else o["w"]
    return o["batch"], h, w, 1 if dim == ReduceDim.C else o["c"]


def result_layout(o: Operands) -> Blocked:
    """[batch, h, w, c] of the result; one channel is padded to four."""
    batch, h, w, c = result_shape(o)
    return Blocked(o.fmt, batch, h * w, c)


class CtReduce(CtInstruction):
    """dst = src without dimension `dim`, accumulated in FP32 and rounded once.

    Over C 64 lanes each take the channels l, l + 64, ... in order, then neighbours join, lanes 2i and 2i + 1, until one is left;
    lanes without a channel take no part. Over W, H and HW each channel goes in order. Padding of src is not read, that of dst is
    written as zeros.
    """

    FORM = "REDUCE"
    ROUNDS = True
    FIELDS = (
        Field("dst", Role.SPM_WRITE, lambda o: result_layout(o).size_bytes),
        Field("src", Role.SPM_READ, lambda o: source_layout(o).size_bytes),
        Field("batch", Role.COUNT, least=1, most=MOST_POINTS),
        Field("h", Role.COUNT, least=1, most=MOST_POINTS),
        Field("w", Role.COUNT, least=1, most=MOST_POINTS),
        Field("c", Role.COUNT, least=1, most=MOST_REDUCED),
        Field("dim", Role.IMMEDIATE, least=0, most=max(ReduceDim)),
    )
    CONSTRAINTS = (
        Constraint(
            f"h * w <= {MOST_REDUCED} for dim = {ReduceDim.HW.value}",
            lambda o: o["dim"] != ReduceDim.HW or o["h"] * o["w"] <= MOST_REDUCED,
        ),
    )


@instruction
class CtReduceSum(CtReduce):
    """dst = the sum of src over `dim`."""

    MNEMONIC = "CGRATensor_ReduceOp_T_T_sum"
    OPCODE = 86
    COMPUTE = np.add


@instruction
class CtReduceAvg(CtReduce):
    """dst = the FP32 sum of src over `dim`, divided by the number of elements."""

    MNEMONIC = "CGRATensor_ReduceOp_T_T_avg"
    OPCODE = 87
    COMPUTE = np.add
    AVERAGES = True


@instruction
class CtReduceMax(CtReduce):
    """dst = the largest of src over `dim`, NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ReduceOp_T_T_max"
    OPCODE = 88
    COMPUTE = float_rules.maximum
    JOIN = "MAX"


@instruction
class CtReduceMin(CtReduce):
    """dst = the smallest of src over `dim`, NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_ReduceOp_T_T_min"
    OPCODE = 89
    COMPUTE = float_rules.minimum
    JOIN = "MIN"
