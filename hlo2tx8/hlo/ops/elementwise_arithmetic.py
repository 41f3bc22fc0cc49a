"""add, subtract, multiply, divide, remainder, negate, abs, sign, maximum, minimum, power, clamp."""

from typing import Any

import numpy as np
from xdsl.dialects import arith, math

from hlo2tx8.hlo.ops.forms import ANY, FLOAT, NUMBER, SHAPES, dtypes_of, elementwise, identity_maps, real_part, wide
from hlo2tx8.hlo.rounding import narrow, widen, widen_to_double, wrap
from hlo2tx8.hlo.spec import Accepts, Array, Attributes, Kind, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import DType, integer_limits, is_complex, is_float, is_integer, is_unsigned


def divide(a: Array, b: Array) -> Array:
    """a / b; integers truncate toward zero, x / 0 = -1 (all ones), INT_MIN / -1 = INT_MIN."""
    if not is_integer(a.dtype):
        return np.divide(a, b)
    zero = b == 0
    safe = np.where(zero, np.ones_like(b), b)
    if is_unsigned(a.dtype):
        return np.where(zero, ~np.zeros_like(a), np.floor_divide(a, safe))
    overflow = safe == -1
    safe = np.where(overflow, np.ones_like(b), safe)
    quotient = np.floor_divide(a, safe)
    inexact = quotient * safe != a
    quotient = quotient + (inexact & ((a < 0) != (safe < 0)))
    quotient = np.where(overflow, np.negative(a), quotient)
    return np.where(zero, -np.ones_like(a), quotient).astype(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """a - b * trunc(a / b), sign of a; x % 0 = x for integers, NaN for floats."""
    if not is_integer(a.dtype):
        return np.fmod(a, b)
    trivial = (b == 0) if is_unsigned(a.dtype) else (b == 0) | (b == -1)
    rest = np.fmod(a, np.where(trivial, np.ones_like(b), b))
    return np.where(trivial, np.where(b == 0, a, np.zeros_like(a)), rest)


def sign(x: Array) -> Array:
    """-1, 0, 1; ±0 and NaN stay; x / |x| for complex."""
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(np.isnan(x), np.array(complex(np.nan, 0), x.dtype), np.where(size == 0, 0, x / size))
    if x.dtype.kind == "f":
        return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))
    return np.sign(x)


def maximum(a: Array, b: Array) -> Array:
    """NaN if either is NaN; -0 < +0; complex numbers in order of (real, imaginary)."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))


def minimum(a: Array, b: Array) -> Array:
    """NaN if either is NaN; -0 < +0; complex numbers in order of (real, imaginary)."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b))


def power_reference(_: Attributes, results: tuple[TensorLike, ...], a: Array, b: Array) -> Array:
    """a ** b; integers modulo 2**bits, negative exponents give 1, ±1 or 0."""
    kind = results[0].dtype
    with np.errstate(all="ignore"):
        if is_integer(kind):
            return narrow(_integer_power(widen(a), widen(b)), kind)
        return narrow(np.power(widen_to_double(a), widen_to_double(b)), kind)


def _integer_power(base: Array, exponent: Array) -> Array:
    base, exponent = np.broadcast_arrays(base, exponent)
    factor = base.astype(np.uint64)
    bits = np.where(exponent < 0, np.zeros_like(exponent), exponent).astype(np.uint64)
    result = np.ones(base.shape, np.uint64)
    while bits.any():
        result = np.where(bits & np.uint64(1), result * factor, result)
        factor = factor * factor
        bits = bits >> np.uint64(1)
    if is_unsigned(base.dtype):
        return wrap(result, base.dtype)
    odd = np.where(exponent & 1, -1, 1)
    of_negative = np.where(base == 1, 1, np.where(base == -1, odd, 0))
    return np.where(exponent < 0, of_negative.astype(base.dtype), wrap(result, base.dtype))


def clamp(low: Array, x: Array, high: Array) -> Array:
    """min(max(x, low), high)."""
    return minimum(maximum(x, low), high)


def _clamp_shape(_: Attributes, operands: tuple[TensorLike, ...]) -> tuple[TensorLike, ...]:
    return (operands[1],)


def _clamp_samples() -> tuple[Sample, ...]:
    found: list[Sample] = []
    for i, kind in enumerate(dtypes_of(ANY)):
        if kind.kind == "c":
            continue
        tensor, scalar = TensorLike(SHAPES[i % len(SHAPES)], kind), TensorLike((), kind)
        found.append(Sample((tensor, tensor, tensor), (tensor,)))
        found.append(Sample((scalar, tensor, scalar), (tensor,)))
    return tuple(found)


def _negate(x: Array) -> Any:
    return np.negative(x)


def _absolute(x: Array) -> Any:
    return np.abs(x.astype(np.complex128)) if x.dtype.kind == "c" else np.abs(x)


SIGNED_NUMBER = (*FLOAT, Accepts.SIGNED, Accepts.COMPLEX)


def zero_of_sums(dtype: DType) -> Any:
    """-0.0 of floats, whose +0.0 would change -0.0; none of a float that has no infinities, or of complex numbers."""
    return None if is_complex(dtype) or _is_byte_float(dtype) else -0.0 if is_float(dtype) else 0


def one(dtype: DType) -> Any:
    """1 of real numbers."""
    return None if is_complex(dtype) or _is_byte_float(dtype) else 1


def lowest(dtype: DType) -> Any:
    """The smallest element: -inf, the least integer, false."""
    if is_complex(dtype) or _is_byte_float(dtype):
        return None
    return -np.inf if is_float(dtype) else integer_limits(dtype)[0] if is_integer(dtype) else False


def highest(dtype: DType) -> Any:
    """The largest element: inf, the greatest integer, true."""
    if is_complex(dtype) or _is_byte_float(dtype):
        return None
    return np.inf if is_float(dtype) else integer_limits(dtype)[1] if is_integer(dtype) else True


def _is_byte_float(dtype: DType) -> bool:
    return is_float(dtype) and dtype.itemsize == 1


SPECS = (
    elementwise(
        "stablehlo.add",
        wide(np.add),
        neutral=zero_of_sums,
        accepts=ANY,
        arity=2,
        linear=(0, 1),
        ulp=1,
        scalar={"float": arith.AddfOp, "int": arith.AddiOp},
    ),
    elementwise(
        "stablehlo.subtract",
        wide(np.subtract),
        accepts=NUMBER,
        arity=2,
        linear=(0, 1),
        ulp=1,
        scalar={"float": arith.SubfOp, "int": arith.SubiOp},
    ),
    elementwise(
        "stablehlo.multiply",
        wide(np.multiply),
        neutral=one,
        accepts=ANY,
        arity=2,
        linear=(0, 1),
        is_multilinear=True,
        ulp=1,
        scalar={"float": arith.MulfOp, "int": arith.MuliOp},
    ),
    elementwise("stablehlo.divide", wide(divide), accepts=NUMBER, arity=2, ulp=1, scalar={"float": arith.DivfOp}),
    elementwise("stablehlo.remainder", wide(remainder), accepts=(*FLOAT, Accepts.SIGNED, Accepts.UNSIGNED), arity=2),
    elementwise("stablehlo.negate", wide(_negate), accepts=NUMBER, scalar={"float": arith.NegfOp}, linear=(0,)),
    elementwise(
        "stablehlo.abs",
        wide(_absolute),
        accepts=SIGNED_NUMBER,
        result=real_part,
        ulp=1,
        scalar={"float": math.AbsFOp, "int": math.AbsIOp},
    ),
    elementwise("stablehlo.sign", wide(sign), accepts=SIGNED_NUMBER, ulp=1),
    elementwise("stablehlo.maximum", wide(maximum), accepts=ANY, arity=2, scalar={"float": arith.MaximumfOp}, neutral=lowest),
    elementwise("stablehlo.minimum", wide(minimum), accepts=ANY, arity=2, scalar={"float": arith.MinimumfOp}, neutral=highest),
    elementwise("stablehlo.power", power_reference, accepts=NUMBER, arity=2, ulp=4, complex_ulp=32, scalar={"float": math.PowFOp}),
    OpSpec(
        "stablehlo.clamp",
        Kind.ELEMENTWISE,
        wide(clamp),
        identity_maps,
        _clamp_shape,
        accepts=ANY,
        samples=_clamp_samples,
    ),
)
