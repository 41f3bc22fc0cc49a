"""TDMA on whole tensors in SPM, dense NHWC unless the name says otherwise: permuted, joined, padded, blocked, unfolded."""

from collections.abc import Callable
from math import prod
from typing import ClassVar

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction, instruction
from hlo2tx8.device.isa.ct_reduce import ReduceDim
from hlo2tx8.device.isa.fields import Engine, Field, Operands, Role
from hlo2tx8.device.isa.window import DILATIONS, IMAGE, KERNEL, PADS, STRIDES, dilation, num_windows, window_fits
from hlo2tx8.device.layouts import Blocked

MOST_CHANNELS = 16384
Shape = tuple[int, ...]
NHWC = ("batch", "h", "w", "c")
SHAPE = (*IMAGE, Field("c", Role.COUNT, least=1, most=MOST_CHANNELS))


def _tensor(name: str, role: Role, shape: Callable[[Operands], Shape]) -> Field:
    return Field(name, role, lambda o: prod(shape(o)) * o.fmt.bytes)


def source_shape(o: Operands) -> Shape:
    """[batch, h, w, c]."""
    return tuple(o[name] for name in NHWC)


SOURCE = _tensor("src", Role.SPM_READ, source_shape)


def _pixel(o: Operands) -> int:
    return o["c"]


def _element(_o: Operands) -> int:
    return 1


class TdmaTensor(Instruction):
    """Moves tensors; RUN gives the elements that stay next to each other, of which short runs cost more."""

    FORM = "TENSOR_MOVE"
    ENGINE = Engine.TDMA
    FORMATS = tuple(Format)
    RUN: ClassVar[Callable[[Operands], int]] = _pixel

    @classmethod
    def moved_bytes(cls, o: Operands, min_run: int) -> int:
        """Bytes of the larger side, where each run counts as at least `min_run`."""
        total = max(f.num_bytes(o) for f in cls.FIELDS if f.num_bytes)
        run = cls.RUN(o) * o.fmt.bytes
        return total if run >= min_run else total // run * min_run


class TdmaPermute(TdmaTensor):
    """dst = src with its axes, named by NAMES, in the order AXES, those of the result that are FLIPPED backwards."""

    NAMES: ClassVar[tuple[str, ...]] = NHWC
    AXES: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    FLIPPED: ClassVar[tuple[int, ...]] = ()
    FIELDS = (_tensor("dst", Role.SPM_WRITE, source_shape), SOURCE, *SHAPE)


@instruction
class TdmaTranspose(TdmaPermute):
    """dst[n, x, y, c] = src[n, y, x, c]."""

    MNEMONIC = "TDMA_transpose"
    OPCODE = 340
    AXES = (0, 2, 1, 3)


@instruction
class TdmaMirror(TdmaPermute):
    """dst[n, y, x, c] = src[n, y, w - 1 - x, c]."""

    MNEMONIC = "TDMA_mirror"
    OPCODE = 341
    FLIPPED = (2,)


@instruction
class TdmaRotate90(TdmaPermute):
    """dst[n, x, h - 1 - y, c] = src[n, y, x, c]: clockwise, the result is w high."""

    MNEMONIC = "TDMA_rotate90"
    OPCODE = 342
    AXES = (0, 2, 1, 3)
    FLIPPED = (2,)


@instruction
class TdmaRotate180(TdmaPermute):
    """dst[n, h - 1 - y, w - 1 - x, c] = src[n, y, x, c]."""

    MNEMONIC = "TDMA_rotate180"
    OPCODE = 343
    FLIPPED = (1, 2)


@instruction
class TdmaRotate270(TdmaPermute):
    """dst[n, w - 1 - x, y, c] = src[n, y, x, c]: counterclockwise, the result is w high."""

    MNEMONIC = "TDMA_rotate270"
    OPCODE = 344
    AXES = (0, 2, 1, 3)
    FLIPPED = (1,)


@instruction
class TdmaNchwToNhwc(TdmaPermute):
    """dst[n, y, x, c] = src[n, c, y, x]."""

    MNEMONIC = "TDMA_nchw2nhwc"
    OPCODE = 345
    NAMES = ("batch", "c", "h", "w")
    AXES = (0, 2, 3, 1)
    RUN = _element


@instruction
class TdmaNhwcToNchw(TdmaPermute):
    """dst[n, c, y, x] = src[n, y, x, c]."""

    MNEMONIC = "TDMA_nhwc2nchw"
    OPCODE = 346
    AXES = (0, 3, 1, 2)
    RUN = _element


JOINED = {ReduceDim.C: 3, ReduceDim.W: 2, ReduceDim.H: 1}
"""Axis of each dimension two tensors can be joined along."""


def second_shape(o: Operands) -> Shape:
    """[batch, h, w, c] with `extent` along `dim`."""
    axis = JOINED[ReduceDim(o["dim"])]
    return tuple(o["extent"] if i == axis else size for i, size in enumerate(source_shape(o)))


def _joined_shape(o: Operands) -> Shape:
    axis = JOINED[ReduceDim(o["dim"])]
    return tuple(size + (o["extent"] if i == axis else 0) for i, size in enumerate(source_shape(o)))


def _joined_run(o: Operands) -> int:
    axis = JOINED[ReduceDim(o["dim"])]
    return min(prod(source_shape(o)[axis:]), prod(second_shape(o)[axis:]))


@instruction
class TdmaConcat(TdmaTensor):
    """dst = a [batch, h, w, c], then b, which has `extent` in the place of dimension `dim`: 0 is C, 1 is W, 2 is H."""

    MNEMONIC = "TDMA_concat"
    OPCODE = 347
    FIELDS = (
        _tensor("dst", Role.SPM_WRITE, _joined_shape),
        _tensor("a", Role.SPM_READ, source_shape),
        _tensor("b", Role.SPM_READ, second_shape),
        *SHAPE,
        Field("extent", Role.COUNT, least=1, most=MOST_CHANNELS),
        Field("dim", Role.IMMEDIATE, least=ReduceDim.C.value, most=ReduceDim.H.value),
    )
    RUN = _joined_run


def padded_shape(o: Operands) -> Shape:
    """[batch, h, w, c] with pads."""
    return o["batch"], o["pad_top"] + o["h"] + o["pad_bottom"], o["pad_left"] + o["w"] + o["pad_right"], o["c"]


def _row(o: Operands) -> int:
    return o["w"] * o["c"]


@instruction
class TdmaPad(TdmaTensor):
    """dst = src [batch, h, w, c] with elements of the bits `value` around it in h and w."""

    MNEMONIC = "TDMA_pad"
    OPCODE = 348
    FIELDS = (
        _tensor("dst", Role.SPM_WRITE, padded_shape),
        SOURCE,
        *SHAPE,
        *PADS,
        Field("value", Role.IMMEDIATE, default=0),
    )
    RUN = _row


def blocked_layout(o: Operands) -> Blocked:
    """Cx, or NCx for a batch."""
    return Blocked(o.fmt, o["batch"], o["h"] * o["w"], o["c"])


def _least_block(o: Operands) -> int:
    return min(block.channels for block in blocked_layout(o).blocks())


@instruction
class TdmaChannelNorm(TdmaTensor):
    """dst = src [batch, h, w, c] in Cx or NCx; padding is written as zeros."""

    MNEMONIC = "TDMA_channelnorm"
    OPCODE = 349
    FIELDS = (Field("dst", Role.SPM_WRITE, lambda o: blocked_layout(o).size_bytes), SOURCE, *SHAPE)
    RUN = _least_block


def unfolded_shape(o: Operands) -> Shape:
    """[batch, windows, elements of a window * c]."""
    windows = num_windows(o, "h", dilation) * num_windows(o, "w", dilation)
    return o["batch"], windows, o["kernel_h"] * o["kernel_w"] * o["c"]


@instruction
class TdmaUnfold(TdmaTensor):
    """dst[n, window, (ky * kernel_w + kx) * c + i] = src[n, y, x, i] where the window has that element, zeros in pads."""

    MNEMONIC = "TDMA_img2col"
    OPCODE = 350
    FIELDS = (_tensor("dst", Role.SPM_WRITE, unfolded_shape), SOURCE, *SHAPE, *KERNEL, *STRIDES, *DILATIONS, *PADS)
    CONSTRAINTS = window_fits(dilation)
