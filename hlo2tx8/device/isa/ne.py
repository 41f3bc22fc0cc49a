"""The matrix engine: gemm, with and without INT8 quantisation."""

from collections.abc import Callable

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.base import Instruction, instruction
from hlo2tx8.device.isa.fields import Engine, Field, Operands, Role
from hlo2tx8.device.layouts import Blocked

NE_INPUTS = (Format.INT8, Format.FP16, Format.BF16, Format.TF32)
# Operand format -> the formats a result may have; the last one is that of partial sums.
NE_RESULTS: dict[Format, tuple[Format, ...]] = {
    Format.INT8: (Format.INT8, Format.FP16, Format.INT32),
    Format.FP16: (Format.FP16, Format.FP32),
    Format.BF16: (Format.BF16, Format.FP32),
    Format.TF32: (Format.TF32, Format.FP32),
}
MOST_ROWS = 65535
MOST_CHANNELS = 16384
MOST_BATCH = 4096


def psum_format(fmt2: Format) -> Format:
    """Format of the partial sums of operands in `fmt2`."""
    return NE_RESULTS[fmt2][-1]


def left_layout(o: Operands) -> Blocked:
    """[M, K], K is the channel; with `transpose_left` [K, M], M is the channel."""
    points, channels = (o["depth"], o["rows"]) if o["transpose_left"] else (o["rows"], o["depth"])
    return Blocked(o.fmt2, o["batch"], points, channels)


def right_layout(o: Operands) -> Blocked:
    """[N, K], K is the channel; with `transpose_right` [K, N], N is the channel."""
    points, channels = (o["depth"], o["columns"]) if o["transpose_right"] else (o["columns"], o["depth"])
    return Blocked(o.fmt2, o["batch"], points, channels)


def result_layout(o: Operands, fmt: Format) -> Blocked:
    """[M, N], N is the channel: of the result, and of partial sums."""
    return Blocked(fmt, o["batch"], o["rows"], o["columns"])


def _psum_bytes(o: Operands) -> int:
    return result_layout(o, psum_format(o.fmt2)).size_bytes if o["accumulate"] else 0


def _matrix(name: str, role: Role, layout: Callable[[Operands], Blocked]) -> Field:
    return Field(name, role, lambda o: layout(o).size_bytes)


def quantisation(zero_point: str) -> tuple[Field, ...]:
    """Settings of an INT8 result; `zero_point` names the one of the first operand."""
    return (
        Field("q1", Role.IMMEDIATE, least=0, most=31),
        Field("q2", Role.IMMEDIATE, least=0, most=31),
        Field("scale", Role.IMMEDIATE, least=-(1 << 15), most=(1 << 15) - 1),
        Field(zero_point, Role.IMMEDIATE, least=-128, most=127),
        Field("zp_out", Role.IMMEDIATE, least=-128, most=127),
    )


class NeGemmForm(Instruction):
    """dst[b] = left[b] . right[b], from psum[b] on where `accumulate`; `fmt` is the format of dst, `fmt2` that of left and right.

    All matrices lie in Cx, or NCx if there are several batches. Padding of operands is not read, that of dst is written as zeros.
    """

    FORM = "GEMM"
    ENGINE = Engine.NE
    FORMATS2 = NE_INPUTS
    FIELDS = (
        _matrix("dst", Role.SPM_WRITE, lambda o: result_layout(o, o.fmt)),
        _matrix("left", Role.SPM_READ, left_layout),
        _matrix("right", Role.SPM_READ, right_layout),
        Field("psum", Role.SPM_READ, _psum_bytes),
        Field("rows", Role.COUNT, least=1, most=MOST_ROWS),
        Field("columns", Role.COUNT, least=1, most=MOST_ROWS),
        Field("depth", Role.COUNT, least=1, most=MOST_CHANNELS),
        Field("batch", Role.COUNT, least=1, most=MOST_BATCH),
        Field("transpose_left", Role.IMMEDIATE, least=0, most=1),
        Field("transpose_right", Role.IMMEDIATE, least=0, most=1),
        Field("accumulate", Role.IMMEDIATE, least=0, most=1),
    )


@instruction
class NeGemm(NeGemmForm):
    """dst[m, n] = psum[m, n] + sum over k of left[m, k] * right[n, k], blocks of 16 along k summed toward zero, rounded once.

    INT8 sums are exact in 32 bits; as INT8 they saturate.
    """

    MNEMONIC = "NE_gemm"
    OPCODE = 180
    FORMATS = (Format.INT8, Format.FP16, Format.BF16, Format.TF32, Format.FP32, Format.INT32)

    @classmethod
    def takes(cls, fmt: Format, fmt2: Format, rounding: Rounding) -> bool:
        """Results in the operands' format or in that of partial sums; INT8 also gives FP16."""
        return super().takes(fmt, fmt2, rounding) and fmt in NE_RESULTS[fmt2]


@instruction
class NeGemmQuantised(NeGemmForm):
    """dst[m, n] = zp_out + clip9(clip16(sum over k of (left[m, k] - zp_left) * right[n, k] >> q1) * scale >> q2), saturated.

    The sum starts from psum and has 32 bits; shifts are arithmetic.
    """

    MNEMONIC = "NE_gemm_quantised"
    OPCODE = 181
    FORMATS = (Format.INT8,)
    FORMATS2 = (Format.INT8,)
    FIELDS = (*NeGemmForm.FIELDS, *quantisation("zp_left"))
