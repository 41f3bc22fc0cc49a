"""What an instruction computes of one element, as the C core compiles it.

An expression names the operands x and y (of one operand only x). The headers of the core are generated from these texts, so an
instruction whose class states one needs no C written by hand.
"""

from dataclasses import dataclass
from enum import Enum


class Domain(Enum):
    """The type of the operands of an expression, and what becomes of its value."""

    NUMBER = "float, double for FP64; the value is rounded to the format, NaN becomes the canonical one"
    DOUBLE = "double; the value is rounded once to the format, NaN becomes the canonical one"
    BITS = "the bits of a float as an unsigned integer of type T, of which `sign` is the top bit"
    KERNELS = "the name of a C table of loops, one for each float format"
    PACKED = "bytes of packed bools"
    INTEGER = "type T of the format, U the unsigned type of its width, S: is T signed?; the value wraps"
    COMPARISON = "a C comparison operator, of integers or floats; the value is a PRED byte"


@dataclass(frozen=True)
class Expression:
    """A C expression of x and y in a domain."""

    domain: Domain
    text: str


def number(text: str) -> Expression:
    """An expression of floats (doubles for FP64), rounded to the format."""
    return Expression(Domain.NUMBER, text)


def double(text: str) -> Expression:
    """An expression of doubles in every format, rounded once."""
    return Expression(Domain.DOUBLE, text)


def bits(text: str) -> Expression:
    """An expression of a float's bits and of `sign`, the sign bit."""
    return Expression(Domain.BITS, text)


def kernels(name: str) -> Expression:
    """Loops written by hand: the C table of that name, indexed by float format."""
    return Expression(Domain.KERNELS, name)


def packed_bits(text: str) -> Expression:
    """An expression of bytes of packed bools."""
    return Expression(Domain.PACKED, text)


def integer(text: str) -> Expression:
    """An expression of integers of type T, with U its unsigned type and S true where T is signed."""
    return Expression(Domain.INTEGER, text)


def comparison(operator: str) -> Expression:
    """A comparison of integers or floats by this C operator."""
    return Expression(Domain.COMPARISON, operator)
