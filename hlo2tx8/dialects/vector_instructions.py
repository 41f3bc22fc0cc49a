"""Which instruction of the vector engine computes an element operation of one operand, by HLO op name without its dialect.

What selects instructions and what estimates their cost look here: how long an operation takes is a fact of its instruction.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import BFloat16Type, ContainerType, Float16Type, Float32Type, IntegerAttr, IntegerType, i8, i32
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.isa import ct_activation, ct_arith, ct_function, ct_logic
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.dialects.xla import ElementwiseOp

CT_UNARY: Mapping[str, type[Instruction]] = {
    "abs": ct_arith.CtAbs,
    "negate": ct_arith.CtNeg,
    "sqrt": ct_arith.CtSqrt,
    "rsqrt": ct_arith.CtRsqrt,
    "exponential": ct_function.CtExp,
    "log": ct_function.CtLn,
    "sine": ct_function.CtSin,
    "cosine": ct_function.CtCos,
    "tanh": ct_function.CtTanh,
    "logistic": ct_function.CtSigmoid,
}

CT_UNARY_OF_16_BITS: Mapping[str, type[Instruction]] = {"exponential": ct_activation.CtExpLowPrecision}
"""Quicker ones that give the same in formats of 16 bits."""

CT_BITS: Mapping[str, type[Instruction]] = {
    "and": ct_logic.CtBitsAndBinary,
    "or": ct_logic.CtBitsOrBinary,
    "xor": ct_logic.CtBitsXorBinary,
}
"""On packed bools, and so on any bits: for truths that the vector engine wrote itself."""

CT_BITS_OF_UNITS: Mapping[str, type[Instruction]] = {
    "and": ct_logic.CtBitsAndUnit,
    "or": ct_logic.CtBitsOrUnit,
    "xor": ct_logic.CtBitsXorUnit,
}
"""The same with bits that are repeated."""

WITHOUT_CT = (
    "atan2",
    "cbrt",
    "ceil",
    "exponential_minus_one",
    "floor",
    "is_finite",
    "log_plus_one",
    "power",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "sign",
    "tan",
)
"""Operations on floats that the vector engine has no instruction for."""

FLOATS = BFloat16Type | Float16Type | Float32Type
CONVERTED = (i8, IntegerType(16), i32)
"""Integers that the vector engine converts to floats and makes of them."""
ROUND_NEAREST_EVEN = ("stablehlo.round_nearest_even", "math.roundeven")
EXPONENTIALS = ("stablehlo.exponential", "math.exp")
TF32_BITS = {"exponent_bits": 8, "mantissa_bits": 10}


def ct_unary(name: str, element_bytes: int) -> type[Instruction] | None:
    """The instruction of the vector engine that computes an operation on floats of a size, None if it has none."""
    quick = CT_UNARY_OF_16_BITS.get(name) if element_bytes == 2 else None
    return quick or CT_UNARY.get(name)


def rounds_to_tf32(op: Operation) -> bool:
    """Is it a reduce_precision of f32 to the bits of TF32, in HLO or on vectors? The vector engine converts so."""
    if _name(op) != "stablehlo.reduce_precision" or not isinstance(type_ := op.results[0].type, ContainerType):
        return False
    properties = op.properties | op.attributes
    bits = {name: value.value.data for name in TF32_BITS if isinstance(value := properties.get(name), IntegerAttr)}
    return isinstance(type_.get_element_type(), Float32Type) and bits == TF32_BITS


def is_rounded_exponential(op: Operation) -> bool:
    """Is an exponential only wanted in the bits of TF32? One instruction gives them, in half the time."""
    uses = op.results[0].uses if _name(op) in EXPONENTIALS else ()
    users = [use.operation for use in uses]
    return len(users) == 1 and rounds_to_tf32(users[0])


def converts_integers(op: Operation) -> bool:
    """Is it a conversion between floats and integers, in HLO or on vectors, which the vector engine makes?"""
    if _name(op) != "stablehlo.convert":
        return False
    values = (*op.operands, *op.results)
    return any(map(_is_float, values)) and any(map(_is_converted, values))


def _is_float(value: SSAValue) -> bool:
    return isinstance(type_ := value.type, ContainerType) and isinstance(type_.get_element_type(), FLOATS)


def _is_converted(value: SSAValue) -> bool:
    """Is it of integers that the vector engine converts?"""
    return isinstance(type_ := value.type, ContainerType) and type_.get_element_type() in CONVERTED


def rounds_as_it_converts(op: Operation) -> bool:
    """Is it a round_nearest_even that only conversions to integers read? Those round so by themselves."""
    users = [use.operation for use in op.results[0].uses] if _name(op) in ROUND_NEAREST_EVEN else ()
    return bool(users) and all(map(converts_integers, users))


def is_exponential_as_factor(value: SSAValue) -> bool:
    """Is it an exponential of 16 bits, or with the bits of TF32, which the matrix engine multiplies without rounding it?"""
    made, type_ = value.owner, value.type
    if not isinstance(made, Operation) or not isinstance(type_, ContainerType):
        return False
    if rounds_to_tf32(made):
        made = made.operands[0].owner
    elif not isinstance(type_.get_element_type(), BFloat16Type | Float16Type):
        return False
    return isinstance(made, Operation) and _name(made) in EXPONENTIALS


def is_difference_of_exponents(op: Operation) -> bool:
    """Is it a difference of f32 of which only exponentials with the bits of TF32 are wanted? They don't tell how it was rounded."""
    users = [use.operation for result in op.results for use in result.uses]
    return _name(op) in ("stablehlo.subtract", "arith.subf") and bool(users) and all(map(is_rounded_exponential, users))


def unconverted(value: SSAValue) -> SSAValue:
    """What a value is a conversion of, in HLO; the value itself if it is none."""
    made = value.owner
    return made.operands[0] if isinstance(made, Operation) and made.name == "stablehlo.convert" else value


def _name(op: Operation) -> str:
    return op.op.data if isinstance(op, ElementwiseOp) else op.name
