"""Which instructions compute an element operation, by HLO op name without its dialect: on the CGRA, on the kernel core.

CT computes floats of up to 32 bits; everything it has no instruction for, and every other format, is the kernel core's.
"""

from xdsl.dialects import arith, math
from xdsl.ir import Operation

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import ct_arith, ct_relation, kc_function, kc_vector
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.dialects import xla
from hlo2tx8.errors import CompileError

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
# (VuV, VuV_loop)
CT_PER_CHANNEL: dict[str, tuple[type[Instruction], type[Instruction]]] = {
    "add": (ct_arith.CtAddVuV, ct_arith.CtAddVuVLoop),
    "subtract": (ct_arith.CtSubVuV, ct_arith.CtSubVuVLoop),
    "multiply": (ct_arith.CtMulVuV, ct_arith.CtMulVuVLoop),
    "divide": (ct_arith.CtDivVuV, ct_arith.CtDivVuVLoop),
    "maximum": (ct_arith.CtMaxVuV, ct_arith.CtMaxVuVLoop),
    "minimum": (ct_arith.CtMinVuV, ct_arith.CtMinVuVLoop),
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


def does(op: Operation, name: str) -> bool:
    """Is it an element operation that means this HLO op?"""
    return _known_name(op) == name


def _known_name(op: Operation) -> str | None:
    return op.op.data.split(".")[-1] if isinstance(op, xla.ElementwiseOp) else _HLO_NAMES.get(type(op))


def hlo_name(op: Operation) -> str:
    """The HLO op an element operation means, without its dialect."""
    name = _known_name(op)
    if name is None:
        raise CompileError("E3201", f"no instruction computes {op.name}")
    return name
