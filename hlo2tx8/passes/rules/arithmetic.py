"""Simplifications of elementwise ops with constant operands, and of ops that undo each other.

Exact in floats: x + 0 is not x where x is -0, unless x is known to be none; x * 0 may be NaN; x / 3 is not x * (1 / 3).
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.types import holds_all, is_complex, is_float, numpy_dtype
from hlo2tx8.passes.rules.counts import narrower_count, never_negative, place_in_order, shifted_out
from hlo2tx8.passes.rules.fold_constants import splat

Rule = Callable[[Operation], SSAValue | None]


def _dtype(value: SSAValue) -> np.dtype[Any]:
    return numpy_dtype(as_tensor(value.type).element_type)


def _is(value: SSAValue, number: float) -> bool:
    """Are all elements that number, and where it is 0, of its sign?"""
    scalar = scalar_of(value)
    if scalar is None or is_complex(scalar.dtype):
        return False
    if not is_float(scalar.dtype):
        return bool(scalar == int(number)) if np.isfinite(number) else False
    found = float(scalar)
    return found == number and np.signbit(found) == np.signbit(number)


def _is_never_minus_zero(value: SSAValue) -> bool:
    """Can no element be -0? Known of absolute values, exponentials and sums that begin with +0."""
    owner = value.owner
    if not is_float(_dtype(value)):
        return True
    if not isinstance(owner, Operation):
        return False
    match owner.name:
        case "stablehlo.broadcast_in_dim" | "stablehlo.reshape" | "stablehlo.transpose":
            return _is_never_minus_zero(owner.operands[0])
        case "stablehlo.abs" | "stablehlo.exponential" | "stablehlo.logistic":
            return True
        case "stablehlo.reduce":
            names = [inner.name for inner in owner.regions[0].block.ops]
            return names == ["stablehlo.add", "stablehlo.return"] and len(owner.operands) == 2 and _is(owner.operands[1], 0.0)
        case "stablehlo.multiply":
            return owner.operands[0] is owner.operands[1]
        case _:
            return False


def _add(op: Operation) -> SSAValue | None:
    for value, other in (op.operands, op.operands[::-1]):
        if _is(other, -0.0 if is_float(_dtype(other)) else 0) or (_is(other, 0.0) and _is_never_minus_zero(value)):
            return value
    return None


def _subtract(op: Operation) -> SSAValue | None:
    return op.operands[0] if _is(op.operands[1], 0.0) else None


def _multiply(op: Operation) -> SSAValue | None:
    """x * 1; (-x) * c as x * (-c)."""
    for value, other in (op.operands, op.operands[::-1]):
        if _is(other, 1):
            return value
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "stablehlo.negate" and (minus := _minus(op, other)) is not None:
            return Expansion(op).emit("multiply", [owner.operands[0], minus], op.results[0].type)
    return None


def _negate(op: Operation) -> SSAValue | None:
    """-(-x); -(x * c) as x * (-c)."""
    owner = op.operands[0].owner
    if not isinstance(owner, Operation) or owner.name != "stablehlo.multiply":
        return _twice(op)
    for value, other in (owner.operands, owner.operands[::-1]):
        if owner.results[0].has_one_use() and (minus := _minus(op, other)) is not None:
            return Expansion(op).emit("multiply", [value, minus], op.results[0].type)
    return None


def _minus(op: Operation, value: SSAValue) -> SSAValue | None:
    """Minus a float constant whose elements are all equal, for use by an op; None if the value is none."""
    scalar, dtype = scalar_of(value), _dtype(value)
    return splat(op, np.array(-scalar).astype(dtype)) if scalar is not None and is_float(dtype) and not is_complex(dtype) else None


def _divide(op: Operation) -> SSAValue | None:
    """By a power of two whose reciprocal is a normal number: a product."""
    value, divisor = op.operands
    if _is(divisor, 1):
        return value
    scalar, dtype = scalar_of(divisor), _dtype(divisor)
    if scalar is None or not is_float(dtype) or is_complex(dtype) or not np.isfinite(number := float(scalar)) or number == 0:
        return None
    mantissa, exponent = np.frexp(number)
    limits: Any = cast(Any, ml_dtypes).finfo(dtype)
    if abs(mantissa) != 0.5 or not limits.minexp < 1 - int(exponent) < limits.maxexp:
        return None
    return Expansion(op).emit("multiply", [value, splat(op, np.array(1 / number).astype(dtype))], op.results[0].type)


def _extreme(op: Operation) -> SSAValue | None:
    """max(x, lowest), max(x, x)."""
    a, b = op.operands
    if a is b:
        return a
    dtype, is_max = _dtype(a), op.name == "stablehlo.maximum"
    if is_complex(dtype):
        return None
    if is_float(dtype):
        neutral = -np.inf if is_max else np.inf
    elif dtype.kind in "iu":
        neutral = np.iinfo(dtype).min if is_max else np.iinfo(dtype).max
    else:
        return None
    return next((value for value, other in ((a, b), (b, a)) if _is(other, neutral)), None)


def _bits(op: Operation) -> SSAValue | None:
    """x & x, x | 0, x ^ 0, x & ones."""
    a, b = op.operands
    if a is b and op.name != "stablehlo.xor":
        return a
    for value, other in ((a, b), (b, a)):
        scalar = scalar_of(other)
        if scalar is None or scalar.dtype.kind not in "biu":
            continue
        if op.name == "stablehlo.and" and bool(scalar == (scalar | ~scalar)):
            return value
        if op.name != "stablehlo.and" and not scalar.any():
            return value
    return None


def _select(op: Operation) -> SSAValue | None:
    pred, then, other = op.operands
    if then is other:
        return then
    scalar = scalar_of(pred)
    return None if scalar is None else then if bool(scalar) else other


def _twice(op: Operation) -> SSAValue | None:
    """An op that the one before undoes."""
    owner = op.operands[0].owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.name == op.name else None


def _again(op: Operation) -> SSAValue | None:
    """An op that changes nothing the second time."""
    owner = op.operands[0].owner
    return op.operands[0] if isinstance(owner, Operation) and owner.name == op.name else None


def _convert(op: Operation) -> SSAValue | None:
    """To the same type, or back from one that has all of its values."""
    (value,) = op.operands
    if value.type == op.results[0].type:
        return value
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "stablehlo.convert":
        return None
    source = owner.operands[0]
    return source if source.type == op.results[0].type and _survives(_dtype(source), _dtype(value)) else None


def _survives(dtype: np.dtype[Any], wide: np.dtype[Any]) -> bool:
    """Are the elements of a type the same after a conversion to a wide one and back? NaNs of floats of eight bits may not be."""
    return not dtype.name.startswith(("float8", "float6", "float4")) and holds_all(wide, dtype)


def _power(op: Operation) -> SSAValue | None:
    value, exponent = op.operands
    if _is(exponent, 1):
        return value
    return Expansion(op).emit("multiply", [value, value], value.type) if _is(exponent, 2) else None


RULES: Mapping[str, tuple[Rule, ...]] = {
    "stablehlo.add": (_add, place_in_order),
    "stablehlo.subtract": (_subtract,),
    "stablehlo.multiply": (_multiply,),
    "stablehlo.divide": (_divide,),
    "stablehlo.maximum": (_extreme,),
    "stablehlo.minimum": (_extreme,),
    "stablehlo.and": (_bits,),
    "stablehlo.or": (_bits,),
    "stablehlo.xor": (_bits,),
    "stablehlo.compare": (never_negative,),
    "stablehlo.select": (_select,),
    "stablehlo.negate": (_negate,),
    "stablehlo.not": (_twice,),
    "stablehlo.shift_right_logical": (shifted_out,),
    "stablehlo.abs": (_again,),
    "stablehlo.floor": (_again,),
    "stablehlo.ceil": (_again,),
    "stablehlo.convert": (_convert, narrower_count),
    "stablehlo.power": (_power,),
}
"""By op; the first rule that gives a value decides."""
