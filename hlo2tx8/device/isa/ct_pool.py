"""CT pooling of NHWC images in Cx or NCx over windows, and its way back."""

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.fields import Constraint, Field, Operands, Role
from hlo2tx8.device.isa.forms import CtInstruction
from hlo2tx8.device.isa.window import IMAGE, KERNEL, PADS, STRIDES, no_dilation, num_windows, window_fits
from hlo2tx8.device.layouts import Blocked

MOST_CHANNELS = 16384


def windows(o: Operands) -> tuple[int, int]:
    """Rows and columns of windows."""
    return num_windows(o, "h", no_dilation), num_windows(o, "w", no_dilation)


def image_layout(o: Operands) -> Blocked:
    """[batch, h, w, c]."""
    return Blocked(o.fmt, o["batch"], o["h"] * o["w"], o["c"])


def pooled_layout(o: Operands, fmt: Format | None = None) -> Blocked:
    """[batch, windows, c]."""
    rows, columns = windows(o)
    return Blocked(o.fmt if fmt is None else fmt, o["batch"], rows * columns, o["c"])


def _index(role: Role) -> Field:
    return Field("index", role, lambda o: pooled_layout(o, Format.INT32).size_bytes)


GEOMETRY = (*IMAGE, Field("c", Role.COUNT, least=1, most=MOST_CHANNELS), *KERNEL, *STRIDES, *PADS)
PADS_OF = {"kernel_h": ("pad_top", "pad_bottom"), "kernel_w": ("pad_left", "pad_right")}
IMAGE_READ = Field("src", Role.SPM_READ, lambda o: image_layout(o).size_bytes)
IMAGE_WRITE = Field("dst", Role.SPM_WRITE, lambda o: image_layout(o).size_bytes)
POOLED_READ = Field("src", Role.SPM_READ, lambda o: pooled_layout(o).size_bytes)
POOLED_WRITE = Field("dst", Role.SPM_WRITE, lambda o: pooled_layout(o).size_bytes)


class CtPoolForm(CtInstruction):
    """Windows of [batch, h, w, c], window (y, x) at row y * stride_h - pad_top and column x * stride_w - pad_left.

    Every window holds a point of the image. Accumulated in FP32, row by row, and rounded once. Padding of channels is not read,
    that of results is written as zeros.
    """

    ROUNDS = True
    CONSTRAINTS = (
        *window_fits(no_dilation),
        *(
            Constraint(f"{pad} < {kernel}", lambda o, pad=pad, kernel=kernel: o[pad] < o[kernel])
            for kernel, pads in PADS_OF.items()
            for pad in pads
        ),
    )


class CtPool(CtPoolForm):
    """dst = the points of src in each window joined; what is outside of the image takes no part."""

    FORM = "POOL"
    FIELDS = (POOLED_WRITE, IMAGE_READ, *GEOMETRY)


@instruction
class CtPoolMax(CtPool):
    """dst = the largest point of src in each window, NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_PoolOp_T_T_max"
    OPCODE = 90
    COMPUTE = float_rules.maximum
    JOIN = "MAX"


@instruction
class CtPoolMin(CtPool):
    """dst = the smallest point of src in each window, NaN if one is NaN, -0 < +0."""

    MNEMONIC = "CGRATensor_PoolOp_T_T_min"
    OPCODE = 91
    COMPUTE = float_rules.minimum
    JOIN = "MIN"


@instruction
class CtPoolSum(CtPool):
    """dst = the sum of src in each window."""

    MNEMONIC = "CGRATensor_PoolOp_T_T_sum"
    OPCODE = 92
    COMPUTE = np.add


@instruction
class CtPoolAvg(CtPool):
    """dst = the FP32 sum of src in each window, divided by kernel_h * kernel_w: what is outside of the image counts as zeros."""

    MNEMONIC = "CGRATensor_PoolOp_T_T_avg"
    OPCODE = 93
    COMPUTE = np.add
    AVERAGES = True


class CtPoolIndexed(CtPoolForm):
    """index = y * w + x, an INT32, of the first point of src that dst is equal to, the first NaN if there is one."""

    FORM = "POOL_INDEXED"
    FIELDS = (POOLED_WRITE, IMAGE_READ, _index(Role.SPM_WRITE), *GEOMETRY)


@instruction
class CtPoolMaxIndexed(CtPoolIndexed):
    """dst = the largest point of src in each window, -0 < +0; index = y * w + x of the first one, an INT32; NaN is largest."""

    MNEMONIC = "CGRATensor_PoolOp_T_T_max_indexed"
    OPCODE = 94
    COMPUTE = np.greater
    JOIN = "MAX"


@instruction
class CtPoolMinIndexed(CtPoolIndexed):
    """dst = the smallest point of src in each window, -0 < +0; index = y * w + x of the first one, an INT32; NaN is smallest."""

    MNEMONIC = "CGRATensor_PoolOp_T_T_min_indexed"
    OPCODE = 95
    COMPUTE = np.less
    JOIN = "MIN"


class CtUnpool(CtPoolForm):
    """dst[point] = 0 + src of the windows that hold the point, in their order: the way back from a sum."""

    FORM = "UNPOOL"
    FIELDS = (IMAGE_WRITE, POOLED_READ, *GEOMETRY)


@instruction
class CtUnpoolSum(CtUnpool):
    """dst[point] = 0 + src of the windows that hold the point, in their order."""

    MNEMONIC = "CGRATensor_UnpoolOp_T_T_unpool"
    OPCODE = 80
    COMPUTE = np.add


@instruction
class CtUnpoolAvg(CtUnpool):
    """dst[point] = (0 + src of the windows that hold the point, in their order) / (kernel_h * kernel_w)."""

    MNEMONIC = "CGRATensor_UnpoolOp_T_T_unpool_avg"
    OPCODE = 81
    COMPUTE = np.add
    AVERAGES = True


@instruction
class CtUnpoolIndexed(CtPoolForm):
    """dst[point] = 0 + src of the windows whose index, an INT32, is the point, in their order.

    An index outside of the image faults.
    """

    FORM = "UNPOOL_INDEXED"
    MNEMONIC = "CGRATensor_UnpoolOp_T_T_unpool_indexed"
    OPCODE = 82
    COMPUTE = np.add
    FIELDS = (IMAGE_WRITE, POOLED_READ, _index(Role.SPM_READ), *GEOMETRY)
