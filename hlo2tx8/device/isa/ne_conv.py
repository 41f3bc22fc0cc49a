"""Convolutions of the matrix engine: forward, depthwise, and backward with respect to the image and to the weights.

Everything lies in Cx, or NCx for a batch: images as NHWC, weights as HWOI, those of a depthwise convolution as HWC. Weights are one
batch whose points are (ky * kernel_w + kx) * filters + o.
"""

from collections.abc import Callable
from typing import ClassVar

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.base import Instruction, instruction
from hlo2tx8.device.isa.fields import Engine, Field, Operands, Role
from hlo2tx8.device.isa.ne import MOST_CHANNELS, NE_INPUTS, NE_RESULTS, psum_format, quantisation
from hlo2tx8.device.isa.window import DILATIONS, IMAGE, KERNEL, PADS, STRIDES, dilation, num_windows, window_fits
from hlo2tx8.device.layouts import Blocked

CHANNELS = Field("c", Role.COUNT, least=1, most=MOST_CHANNELS)
FILTERS = Field("filters", Role.COUNT, least=1, most=MOST_CHANNELS)
GEOMETRY = (*KERNEL, *STRIDES, *DILATIONS, *PADS, Field("accumulate", Role.IMMEDIATE, least=0, most=1))
QUANTISATION = quantisation("zp_image")

Layout = Callable[[Operands, Format], Blocked]


def windows(o: Operands) -> tuple[int, int]:
    """Rows and columns of windows: those of the forward result."""
    return num_windows(o, "h", dilation), num_windows(o, "w", dilation)


def taps(o: Operands) -> int:
    """Elements of a window."""
    return o["kernel_h"] * o["kernel_w"]


def image_layout(o: Operands, fmt: Format) -> Blocked:
    """[batch, h, w, c]."""
    return Blocked(fmt, o["batch"], o["h"] * o["w"], o["c"])


def forward_layout(o: Operands, fmt: Format) -> Blocked:
    """[batch, windows, filters]: of a forward result, and of its gradient."""
    rows, columns = windows(o)
    return Blocked(fmt, o["batch"], rows * columns, o["filters"])


def weight_layout(o: Operands, fmt: Format) -> Blocked:
    """[kernel_h, kernel_w, filters, c]."""
    return Blocked(fmt, 1, taps(o) * o["filters"], o["c"])


def depthwise_layout(o: Operands, fmt: Format) -> Blocked:
    """[batch, windows, c]."""
    rows, columns = windows(o)
    return Blocked(fmt, o["batch"], rows * columns, o["c"])


def depthwise_weight_layout(o: Operands, fmt: Format) -> Blocked:
    """[kernel_h, kernel_w, c]."""
    return Blocked(fmt, 1, taps(o), o["c"])


def _operand(name: str, layout: Layout) -> Field:
    return Field(name, Role.SPM_READ, lambda o: layout(o, o.fmt2).size_bytes)


def _addresses(result: Layout, first: Field, second: Field) -> tuple[Field, ...]:
    return (
        Field("dst", Role.SPM_WRITE, lambda o: result(o, o.fmt).size_bytes),
        first,
        second,
        Field("psum", Role.SPM_READ, lambda o: result(o, psum_format(o.fmt2)).size_bytes if o["accumulate"] else 0),
    )


class NeConvForm(Instruction):
    """A convolution, from psum on where `accumulate`; `fmt` is the format of dst, `fmt2` that of both operands.

    LAYOUTS are those of dst and psum, and of the first and the second operand. A window (oy, ox) has at (ky, kx) the point (p, q)
    of the image, p = oy * stride_h + ky * dilation_h - pad_top and q likewise; zero where there is none. Sums go in blocks of 16
    toward zero and are rounded once; INT8 sums are exact in 32 bits and saturate. Padding of channels is not read, that of dst is
    written as zeros.
    """

    FORM = "CONV"
    ENGINE = Engine.NE
    FORMATS = (Format.INT8, Format.FP16, Format.BF16, Format.TF32, Format.FP32, Format.INT32)
    FORMATS2 = NE_INPUTS
    CONSTRAINTS = window_fits(dilation)
    LAYOUTS: ClassVar[tuple[Layout, Layout, Layout]]

    @classmethod
    def takes(cls, fmt: Format, fmt2: Format, rounding: Rounding) -> bool:
        """Results in the operands' format or in that of partial sums; INT8 also gives FP16. Quantised ones are INT8."""
        return super().takes(fmt, fmt2, rounding) and fmt in NE_RESULTS[fmt2]


@instruction
class NeConv(NeConvForm):
    """dst[oy, ox, o] = psum[oy, ox, o] + sum over ky, kx, c of image[p, q, c] * weight[ky, kx, o, c]; c with its padding."""

    MNEMONIC = "NE_conv"
    OPCODE = 182
    LAYOUTS = (forward_layout, image_layout, weight_layout)
    FIELDS = (
        *_addresses(forward_layout, _operand("image", image_layout), _operand("weight", weight_layout)),
        *(*IMAGE, CHANNELS, FILTERS, *GEOMETRY),
    )


@instruction
class NeConvQuantised(NeConvForm):
    """dst = zp_out + clip9(clip16(sum of NE_conv, zp_image taken from each point >> q1) * scale >> q2), saturated.

    A point outside of the image counts as zp_image. Shifts are arithmetic.
    """

    MNEMONIC = "NE_conv_quantised"
    OPCODE = 183
    FORMATS = (Format.INT8,)
    FORMATS2 = (Format.INT8,)
    LAYOUTS = NeConv.LAYOUTS
    FIELDS = (*NeConv.FIELDS, *QUANTISATION)


@instruction
class NeDepthwise(NeConvForm):
    """dst[oy, ox, c] = psum[oy, ox, c] + sum over ky, kx of image[p, q, c] * weight[ky, kx, c]."""

    MNEMONIC = "NE_depthwise"
    OPCODE = 184
    LAYOUTS = (depthwise_layout, image_layout, depthwise_weight_layout)
    FIELDS = (
        *_addresses(depthwise_layout, _operand("image", image_layout), _operand("weight", depthwise_weight_layout)),
        *(*IMAGE, CHANNELS, *GEOMETRY),
    )


@instruction
class NeDepthwiseQuantised(NeConvForm):
    """dst = zp_out + clip9(clip16(sum of NE_depthwise, zp_image taken from each point >> q1) * scale >> q2), saturated.

    A point outside of the image counts as zp_image. Shifts are arithmetic.
    """

    MNEMONIC = "NE_depthwise_quantised"
    OPCODE = 185
    FORMATS = (Format.INT8,)
    FORMATS2 = (Format.INT8,)
    LAYOUTS = NeDepthwise.LAYOUTS
    FIELDS = (*NeDepthwise.FIELDS, *QUANTISATION)


@instruction
class NeConvBackwardImage(NeConvForm):
    """dst[p, q, c] = psum[p, q, c] + sum over ky, kx, o of gradient[oy, ox, o] * weight[ky, kx, o, c]; o with its padding.

    That is the gradient of the image; a point in no window's (ky, kx) takes zeros for it.
    """

    MNEMONIC = "NE_conv_backward_image"
    OPCODE = 186
    LAYOUTS = (image_layout, forward_layout, weight_layout)
    FIELDS = (
        *_addresses(image_layout, _operand("gradient", forward_layout), _operand("weight", weight_layout)),
        *(*IMAGE, CHANNELS, FILTERS, *GEOMETRY),
    )


@instruction
class NeConvBackwardWeight(NeConvForm):
    """dst[ky, kx, o, c] = psum[ky, kx, o, c] + sum over n, oy, ox of gradient[n, oy, ox, o] * image[n, p, q, c].

    That is the gradient of the weights.
    """

    MNEMONIC = "NE_conv_backward_weight"
    OPCODE = 159
    LAYOUTS = (weight_layout, forward_layout, image_layout)
    FIELDS = (
        *_addresses(weight_layout, _operand("gradient", forward_layout), _operand("image", image_layout)),
        *(*IMAGE, CHANNELS, FILTERS, *GEOMETRY),
    )
