"""Which instruction of the vector engine computes an element operation of one operand, by HLO op name without its dialect.

What selects instructions and what estimates their cost look here: how long an operation takes is a fact of its instruction.
"""

from collections.abc import Mapping

from hlo2tx8.device.isa import ct_activation, ct_arith, ct_function
from hlo2tx8.device.isa.base import Instruction

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


def ct_unary(name: str, element_bytes: int) -> type[Instruction] | None:
    """The instruction of the vector engine that computes an operation on floats of a size, None if it has none."""
    quick = CT_UNARY_OF_16_BITS.get(name) if element_bytes == 2 else None
    return quick or CT_UNARY.get(name)
