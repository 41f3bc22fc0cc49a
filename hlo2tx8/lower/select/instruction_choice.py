"""Which instruction computes an element operation in a format: the CGRA where it can, the kernel core elsewhere.

The tables are keyed by HLO op name. CT computes floats of up to 32 bits; everything it has no instruction for, and every other
format, is a kernel-core vector operation.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import ct_arith, ct_move, ct_relation, kc_function, kc_move, kc_vector
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.dialects import xla
from hlo2tx8.dialects.vector_instructions import ct_unary
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.element_format import Splat, Vector

if TYPE_CHECKING:
    from hlo2tx8.lower.select.select_box import BoxSelector

CT_FORMATS = (Format.BF16, Format.FP16, Format.FP32)

# (vector op vector, vector op immediate, whether the operands may change places)
CT_BINARY: dict[str, tuple[type[Instruction], type[Instruction], bool]] = {
    "add": (ct_arith.CtAddVV, ct_arith.CtAddVS, True),
    "subtract": (ct_arith.CtSubVV, ct_arith.CtSubVS, False),
    "multiply": (ct_arith.CtMulVV, ct_arith.CtMulVS, True),
    "divide": (ct_arith.CtDivVV, ct_arith.CtDivVS, False),
    "maximum": (ct_arith.CtMaxVV, ct_arith.CtMaxVS, True),
    "minimum": (ct_arith.CtMinVV, ct_arith.CtMinVS, True),
}
CT_COMPARE: dict[str, tuple[type[Instruction], type[Instruction]]] = {
    "EQ": (ct_relation.CtEqVV, ct_relation.CtEqVS),
    "NE": (ct_relation.CtNeVV, ct_relation.CtNeVS),
    "GE": (ct_relation.CtGeVV, ct_relation.CtGeVS),
    "GT": (ct_relation.CtGtVV, ct_relation.CtGtVS),
    "LE": (ct_relation.CtLeVV, ct_relation.CtLeVS),
    "LT": (ct_relation.CtLtVV, ct_relation.CtLtVS),
}
SWAPPED = {"EQ": "EQ", "NE": "NE", "GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}
KC_UNARY: dict[str, type[Instruction]] = {
    "abs": kc_vector.KcVAbs,
    "negate": kc_vector.KcVNeg,
    "not": kc_vector.KcVNot,
    "sign": kc_vector.KcVSign,
    "popcnt": kc_vector.KcVPopCount,
    "count_leading_zeros": kc_vector.KcVCountLeadingZeros,
    "floor": kc_function.KcVFloor,
    "ceil": kc_function.KcVCeil,
    "round_nearest_even": kc_function.KcVRoundNearestEven,
    "round_nearest_afz": kc_function.KcVRoundNearestAfz,
    "sqrt": kc_function.KcVSqrt,
    "rsqrt": kc_function.KcVRsqrt,
    "cbrt": kc_function.KcVCbrt,
    "exponential": kc_function.KcVExp,
    "exponential_minus_one": kc_function.KcVExpm1,
    "log": kc_function.KcVLog,
    "log_plus_one": kc_function.KcVLog1p,
    "sine": kc_function.KcVSin,
    "cosine": kc_function.KcVCos,
    "tan": kc_function.KcVTan,
    "tanh": kc_function.KcVTanh,
    "logistic": kc_function.KcVLogistic,
}
KC_BINARY: dict[str, type[Instruction]] = {
    "add": kc_vector.KcVAdd,
    "subtract": kc_vector.KcVSub,
    "multiply": kc_vector.KcVMul,
    "divide": kc_vector.KcVDiv,
    "remainder": kc_vector.KcVRem,
    "maximum": kc_vector.KcVMax,
    "minimum": kc_vector.KcVMin,
    "and": kc_vector.KcVAnd,
    "or": kc_vector.KcVOr,
    "xor": kc_vector.KcVXor,
    "shift_left": kc_vector.KcVShiftLeft,
    "shift_right_arithmetic": kc_vector.KcVShiftRightArithmetic,
    "shift_right_logical": kc_vector.KcVShiftRightLogical,
    "power": kc_vector.KcVPow,
    "atan2": kc_vector.KcVAtan2,
    "next_after": kc_vector.KcVNextAfter,
}
KC_COMPARE: dict[str, type[Instruction]] = {
    "EQ": kc_vector.KcVEq,
    "NE": kc_vector.KcVNe,
    "GE": kc_vector.KcVGe,
    "GT": kc_vector.KcVGt,
    "LE": kc_vector.KcVLe,
    "LT": kc_vector.KcVLt,
}
CT_CONVERT_INTEGERS = (Format.INT8, Format.INT16, Format.INT32)

# Element ops that arith and math name, as HLO names.
_HLO_NAMES: dict[type[Operation], str] = {
    arith.AddfOp: "add",
    arith.AddiOp: "add",
    arith.SubfOp: "subtract",
    arith.SubiOp: "subtract",
    arith.MulfOp: "multiply",
    arith.MuliOp: "multiply",
    arith.DivfOp: "divide",
    arith.MaximumfOp: "maximum",
    arith.MinimumfOp: "minimum",
    arith.MaxSIOp: "maximum",
    arith.MinSIOp: "minimum",
    arith.MaxUIOp: "maximum",
    arith.MinUIOp: "minimum",
    arith.NegfOp: "negate",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
    arith.SelectOp: "select",
    arith.ExtFOp: "convert",
    arith.TruncFOp: "convert",
    arith.SIToFPOp: "convert",
    arith.ExtSIOp: "convert",
    arith.TruncIOp: "convert",
    math.AbsFOp: "abs",
    math.AbsIOp: "abs",
    math.SqrtOp: "sqrt",
    math.RsqrtOp: "rsqrt",
    math.CbrtOp: "cbrt",
    math.ExpOp: "exponential",
    math.ExpM1Op: "exponential_minus_one",
    math.LogOp: "log",
    math.Log1pOp: "log_plus_one",
    math.SinOp: "sine",
    math.CosOp: "cosine",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
    math.FloorOp: "floor",
    math.CeilOp: "ceil",
    math.RoundOp: "round_nearest_afz",
    math.RoundEvenOp: "round_nearest_even",
    math.PowFOp: "power",
    math.Atan2Op: "atan2",
    math.CtPopOp: "popcnt",
    math.CountLeadingZerosOp: "count_leading_zeros",
}


def hlo_name(op: Operation) -> str:
    """The HLO op an element operation means, without its dialect."""
    if isinstance(op, xla.ElementwiseOp):
        return op.op.data.split(".")[-1]
    name = _HLO_NAMES.get(type(op))
    if name is None:
        raise CompileError("E3201", f"no instruction computes {op.name}")
    return name


def is_move(op: Operation) -> bool:
    """Does the operation only pass on elements, whatever they are?"""
    return hlo_name(op) in ("select", "to_bits", "from_bits")


def choose(s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format) -> Vector:
    """Emits the instructions of an element operation; returns its result."""
    name = hlo_name(op)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(s, op, operands, formats, fmt)
    if len(operands) == 1:
        return _unary(s, name, s.buffer(operands[0]), fmt)
    if len(operands) == 2:
        return _binary(s, name, operands[0], operands[1], fmt)
    raise CompileError("E3201", f"no instruction computes {name} on {len(operands)} operands")


def _emit(s: "BoxSelector", kind: type[Instruction], fmt: Format, result: Format, **fields: object) -> SSAValue:
    dst = s.step.alloc(result)
    n = s.step.count()
    if fmt not in kind.FORMATS:
        raise CompileError("E3201", f"{kind.MNEMONIC} does not compute in {fmt.name}")
    s.step.insert(kind.make(fmt=fmt, dst=dst, n=n, origin=s.step.origin, **fields))  # pyright: ignore
    return dst


def _unary(s: "BoxSelector", name: str, src: SSAValue, fmt: Format) -> SSAValue:
    kind = ct_unary(name, fmt.bytes) if fmt in CT_FORMATS else None
    kind = kind or KC_UNARY.get(name)
    if kind is None:
        raise CompileError("E3201", f"no instruction computes {name} in {fmt.name}")
    return _emit(s, kind, fmt, fmt, src=src)


def _binary(s: "BoxSelector", name: str, a: Vector, b: Vector, fmt: Format) -> SSAValue:
    if fmt in CT_FORMATS and name in CT_BINARY:
        vector_form, immediate_form, commutes = CT_BINARY[name]
        if commutes and isinstance(a, Splat):
            a, b = b, a
        if isinstance(b, Splat) and not isinstance(a, Splat):
            return _emit(s, immediate_form, fmt, fmt, a=a, imm=immediate(b))
        return _emit(s, vector_form, fmt, fmt, a=s.buffer(a), b=s.buffer(b))
    if name not in KC_BINARY:
        raise CompileError("E3201", f"no instruction computes {name} in {fmt.name}")
    return _emit(s, KC_BINARY[name], fmt, fmt, a=s.buffer(a), b=s.buffer(b))


def immediate(splat: Splat) -> int:
    """The FP32 bits of a float splat."""
    raw = splat.bits.to_bytes(splat.fmt.bytes, "little")
    value = np.frombuffer(raw, splat.fmt.numpy_dtype)[0]
    return int(np.asarray(value, np.float32).view(np.uint32))


# ------------------------------------------------------------------------------------------------- special ops


def _compare(s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format) -> Vector:
    direction, kind_of = _text(op, "comparison_direction"), _text(op, "compare_type")
    (a, b), source = operands, formats[0]
    total = int(kind_of == "TOTALORDER")
    if source not in CT_FORMATS or total:
        return _emit(s, KC_COMPARE[direction], source, Format.PRED, a=s.buffer(a), b=s.buffer(b), total=total)
    if isinstance(a, Splat):
        a, b, direction = b, a, SWAPPED[direction]
    vector_form, immediate_form = CT_COMPARE[direction]
    if isinstance(b, Splat) and not isinstance(a, Splat):
        truth = _emit(s, immediate_form, source, source, a=a, imm=immediate(b))
    else:
        truth = _emit(s, vector_form, source, source, a=s.buffer(a), b=s.buffer(b))
    return _convert_on_ct(s, truth, source, Format.INT8, Rounding.NEAREST_EVEN)


def _text(op: Operation, name: str) -> str:
    attribute = op.attributes.get(name)
    return attribute.data if isinstance(attribute, StringAttr) else ""


def _select(s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format) -> Vector:
    pred, then, other = (s.buffer(v) for v in operands)
    if fmt not in CT_FORMATS:
        return _emit(s, kc_move.KcVSelect, fmt, fmt, pred=pred, a=then, b=other)
    dst = s.copy(other, fmt)
    mask_move = ct_move.CtMaskMove
    s.step.insert(mask_move.make(fmt=fmt, dst=dst, src=then, mask=pred, n=s.step.count(), origin=s.step.origin))
    return dst


def _clamp(s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format) -> Vector:
    low, value, high = operands
    return _binary(s, "minimum", _binary(s, "maximum", value, low, fmt), high, fmt)


def _convert_on_ct(s: "BoxSelector", src: SSAValue, source: Format, fmt: Format, rounding: Rounding) -> SSAValue:
    dst = s.step.alloc(fmt)
    make = ct_move.CtConvert.make
    s.step.insert(make(fmt=fmt, fmt2=source, rnd=rounding, dst=dst, src=src, n=s.step.count(), origin=s.step.origin))
    return dst


def _convert(s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format) -> Vector:
    source, src = formats[0], s.buffer(operands[0])
    if source is fmt:
        return src
    if source in CT_FORMATS and fmt in CT_FORMATS:
        return _convert_on_ct(s, src, source, fmt, Rounding.NEAREST_EVEN)
    if source in CT_CONVERT_INTEGERS and fmt in CT_FORMATS:
        return _convert_on_ct(s, src, source, fmt, Rounding.NEAREST_EVEN)
    if source in CT_FORMATS and fmt in CT_CONVERT_INTEGERS:
        if not ct_move.CtConvert.takes(fmt, source, Rounding.TOWARD_ZERO):
            src, source = _convert_on_ct(s, src, source, Format.FP32, Rounding.NEAREST_EVEN), Format.FP32
        return _convert_on_ct(s, src, source, fmt, Rounding.TOWARD_ZERO)
    return s.as_format(src, source, fmt)


def _bitcast(s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format) -> Vector:
    if formats[0].bytes != fmt.bytes:
        raise CompileError("E3201", "a bitcast between elements of different width is not elementwise")
    return s.buffer(operands[0])


def _is_finite(s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format) -> Vector:
    return _emit(s, kc_vector.KcVIsFinite, formats[0], Format.PRED, src=s.buffer(operands[0]))


def _reduce_precision(
    s: "BoxSelector", op: Operation, operands: Sequence[Vector], formats: Sequence[Format], fmt: Format
) -> Vector:
    bits = {name: _integer(op, f"{name}_bits") for name in ("exponent", "mantissa")}
    return _emit(s, kc_function.KcVReducePrecision, fmt, fmt, src=s.buffer(operands[0]), **bits)


def _integer(op: Operation, name: str) -> int:
    attribute = op.attributes[name]
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


Special = Callable[["BoxSelector", Operation, Sequence[Vector], Sequence[Format], Format], Vector]
_SPECIAL: dict[str, Special] = {
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "convert": _convert,
    "bitcast_convert": _bitcast,
    "to_bits": _bitcast,
    "from_bits": _bitcast,
    "is_finite": _is_finite,
    "reduce_precision": _reduce_precision,
}
