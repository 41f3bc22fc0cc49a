"""Error bounds of elementwise ops: what an op adds, and what it makes of its operands' bounds.

An op adds its declared ULP. What its operands' bounds do to the result is the largest change of its reference over the corners of
the box value ± bound, and at 0 where it lies inside. That is sound for ops that are monotone in each operand; the others are
listed, and so are those for which a formula says the same at once. Infinity means that nothing is known: an integer op on an
uncertain integer, a comparison that either way may go.
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from hlo2tx8.hlo.spec import Array, Attributes, OpSpec, TensorLike
from hlo2tx8.hlo.types import float_info, is_complex, is_float, is_pred

SLOPE_ONE = ("stablehlo.sine", "stablehlo.cosine")
UNBOUNDED = ("stablehlo.tan", "chlo.tan", "stablehlo.bitcast_convert")
"""Not monotone: their result is unknown where an operand is uncertain."""
POLES: dict[str, tuple[int, ...]] = {
    "stablehlo.divide": (1,),
    "chlo.broadcast_divide": (1,),
    "stablehlo.power": (0,),
    "stablehlo.rsqrt": (0,),
    "stablehlo.log": (0,),
    "stablehlo.atan2": (0, 1),
}
"""Operands about whose 0 nothing is known of the result."""
QUOTIENTS = ("stablehlo.remainder", "chlo.broadcast_remainder")
"""Known where the whole part of the quotient is."""
LIPSCHITZ = ("stablehlo.negate", "stablehlo.abs", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.clamp")
"""Change by no more than the operand that changes most."""
SIGN_OF_ZERO = 1e-300
"""The bound of a 0 whose sign is not known."""
FLUSHED = ("float32", "bfloat16")
"""Dtypes whose subnormal numbers XLA:CPU may take for 0."""
CHUNK = 1 << 16
"""Elements that are worked on together, so that what is in between stays in a cache."""
Formula = Callable[[Sequence[Array], Sequence[Array]], Array]


def _of_product(operands: Sequence[Array], bounds: Sequence[Array]) -> Array:
    (a, b), (of_a, of_b) = (np.abs(o) for o in operands), bounds
    return a * of_b + b * of_a + of_a * of_b


FORMULAS: dict[str, Formula] = {
    "stablehlo.add": lambda _, bounds: bounds[0] + bounds[1],
    "stablehlo.subtract": lambda _, bounds: bounds[0] + bounds[1],
    "stablehlo.multiply": _of_product,
}
"""What bounds of finite floats do to the result before it is rounded."""


def elementwise_bound(
    spec: OpSpec,
    attributes: Attributes,
    result: TensorLike,
    operands: Sequence[Array],
    bounds: Sequence[Array],
    value: Array,
    *,
    is_xla: bool = False,
) -> Array:
    """The bound per element (float64) of an op's `value` from its operands' values and bounds; see `own_error` for `is_xla`."""
    flat = [(o.reshape(-1), np.broadcast_to(b, o.shape).reshape(-1)) for o, b in zip(operands, bounds, strict=True)]
    if value.size <= CHUNK or any(o.size not in (1, value.size) for o, _ in flat):
        moved = carried(spec, attributes, result, operands, bounds, value)
        return moved + own_error(spec, value, moved, is_xla)
    found, values = np.empty(value.size), value.reshape(-1)
    for start in range(0, value.size, CHUNK):
        part = slice(start, start + CHUNK)
        read = [(o[part], b[part]) if o.size > 1 else (o.reshape(()), b.reshape(())) for o, b in flat]
        moved = carried(spec, attributes, result, [o for o, _ in read], [b for _, b in read], values[part])
        found[part] = moved + own_error(spec, values[part], moved, is_xla)
    return found.reshape(value.shape)


def flushed(value: Array, bound: Array) -> Array:
    """The bound where subnormal numbers may be taken for 0, as XLA:CPU does with some dtypes."""
    if value.dtype.name not in FLUSHED:
        return bound
    tiny, size = float(float_info(value.dtype).smallest_normal), np.abs(value.astype(np.float64))
    return np.where((size < tiny) & (size != 0), np.maximum(bound, tiny), bound)


def own_error(spec: OpSpec, value: Array, moved: Array, is_xla: bool = False) -> Array:
    """The op's declared ULP at the farthest result, which the operands may have `moved`; XLA:CPU gets twice that and two more where
    the op rounds.
    """
    if not spec.ulp or not (is_float(value.dtype) or is_complex(value.dtype)):
        return np.zeros(value.shape)
    declared = spec.complex_ulp if is_complex(value.dtype) else spec.ulp
    ulp = 2 * declared + 2 if is_xla else declared
    size, info = magnitude(value), float_info(value.dtype)
    farthest = size + moved
    unit = 2.0 ** -int(info.nmant)
    bound = _power_below(np.maximum(farthest, max(spec.ulp_floor, float(info.smallest_normal)))) * (ulp * unit)
    is_odd = ~(farthest < float(info.max) * (1 - unit * ulp))
    if not is_odd.any():
        return bound
    finite = np.isfinite(size)
    return np.where(is_odd, np.where(finite, np.where(np.isinf(moved), bound, np.inf), 0.0), bound)


def last_place(value: Array) -> Array:
    """The unit of the last place of each number in float64; of infinities and NaNs it is infinite."""
    info = float_info(value.dtype)
    unit = _power_below(np.maximum(magnitude(value), float(info.smallest_normal))) * 2.0 ** -int(info.nmant)
    return np.where(np.isfinite(magnitude(value)), unit, np.inf)


def _power_below(size: Array) -> Array:
    """The largest powers of 2 that are not above positive normal numbers."""
    return (np.atleast_1d(size).view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64).reshape(np.shape(size))


def magnitude(value: Array) -> Array:
    """The absolute value in float64; of complex numbers with one infinite or undefined part that of the other."""
    if not is_complex(value.dtype):
        return np.abs(value.astype(np.float64))
    parts = [np.asarray(part(value), np.float64) for part in (np.real, np.imag)]
    known = [np.where(np.isfinite(part), part, 0.0) for part in parts]
    return np.where(np.isfinite(parts[0]) | np.isfinite(parts[1]), np.hypot(*known), np.hypot(*parts))


def carried(
    spec: OpSpec, attributes: Attributes, result: TensorLike, operands: Sequence[Array], bounds: Sequence[Array], value: Array
) -> Array:
    """What the operands' bounds do to the result."""
    if attributes.get("compare_type") == "TOTALORDER":
        # Nothing says which sign a computed NaN has.
        unclear = np.any([np.isnan(o.astype(np.float64)) for o in operands], axis=0)
        return np.where(unclear, np.inf, _carried_over_box(spec, attributes, result, operands, bounds, value))
    if not any(b.any() for b in bounds):
        return np.zeros(value.shape)
    with np.errstate(all="ignore"):
        if any(is_complex(array.dtype) for array in (*operands, value)):
            return _carried_complex(spec, attributes, result, operands, bounds, value)
        if spec.name == "stablehlo.select":
            return _carried_select(operands, bounds, value)
        if not is_float(value.dtype) or (spec.name not in FORMULAS and spec.name not in LIPSCHITZ):
            return _carried_over_box(spec, attributes, result, operands, bounds, value)
        if spec.name in LIPSCHITZ:
            formula = np.max([np.broadcast_to(b, value.shape) for b in bounds], axis=0)
        else:
            formula = FORMULAS[spec.name]([o.astype(np.float64) for o in operands], bounds)
        found = np.broadcast_to(formula, value.shape)
        odd = ~np.isfinite(value.astype(np.float64)) | ~np.isfinite(found)
        if not odd.any():
            return np.where(found > 0, np.maximum(found, SIGN_OF_ZERO), 0.0)
        read = [np.broadcast_to(o, value.shape)[odd] for o in operands]
        limits = [np.broadcast_to(b, value.shape)[odd] for b in bounds]
        part = TensorLike((int(odd.sum()),), result.dtype)
        found = np.array(found)
        found[odd] = _carried_over_box(spec, attributes, part, read, limits, value[odd])
        return np.where(found > 0, np.maximum(found, SIGN_OF_ZERO), 0.0)


def _carried_over_box(
    spec: OpSpec, attributes: Attributes, result: TensorLike, operands: Sequence[Array], bounds: Sequence[Array], value: Array
) -> Array:
    spread = [np.broadcast_to(b, value.shape) for b in bounds]
    uncertain = np.any([b > 0 for b in spread], axis=0)
    lost = np.any([_is_lost(o, b) for o, b in zip(operands, spread, strict=True)], axis=0)
    for k in POLES.get(spec.name, ()):
        lost = lost | ((spread[k] > 0) & (np.abs(operands[k].astype(np.float64)) <= spread[k]))
    if spec.name == "stablehlo.power":
        # Of a negative number only integer powers exist.
        lost = lost | ((spread[1] > 0) & (operands[0].astype(np.float64) < 0))
    if spec.name in QUOTIENTS and is_float(value.dtype):
        ranges = (_ends(o, b) for o, b in zip(operands, bounds, strict=True))
        wholes = [np.broadcast_to(np.trunc(a.astype(np.float64) / b.astype(np.float64)), value.shape) for a, b in product(*ranges)]
        lost = lost | (uncertain & ~((np.max(wholes, axis=0) == np.min(wholes, axis=0)) & (np.abs(wholes[0]) < 2.0**20)))
    if spec.name.endswith("compare"):
        # Numbers that may be equal: neither end of the box need be.
        a, b = (o.astype(np.float64) for o in operands)
        lost = lost | (uncertain & (np.abs(a - b) <= spread[0] + spread[1]))
    if spec.name in UNBOUNDED:
        return np.where(uncertain, np.inf, 0.0)
    if spec.name in SLOPE_ONE:
        return np.where(lost, np.inf, sum(spread, np.zeros(value.shape)))
    reached = value.astype(np.float64)
    worst = np.zeros(value.shape)
    for corner in product(*(_ends(o, b) for o, b in zip(operands, bounds, strict=True))):
        other = spec.evaluate(attributes, (result,), *corner)[0].astype(np.float64)
        same = (other == reached) | (np.isnan(other) & np.isnan(reached))
        flipped = (other == 0) & (reached == 0) & (np.signbit(other) != np.signbit(reached))
        change = np.where(same, np.where(flipped, SIGN_OF_ZERO, 0.0), np.abs(other - reached))
        worst = np.maximum(worst, np.where(np.isnan(change), np.inf, change))
    if is_pred(value.dtype):
        worst = np.where(worst > 0, np.inf, 0.0)
    return np.where(lost, np.inf, np.where(uncertain, worst, 0.0))


def _is_lost(operand: Array, bound: Array) -> Array:
    """Where an operand is unknown, or uncertain and neither a float nor a pred, of which both values can be tried."""
    if is_pred(operand.dtype):
        return np.zeros(bound.shape, bool)
    return bound >= np.inf if is_float(operand.dtype) else bound > 0


def _ends(operand: Array, bound: Array) -> list[Array]:
    if not bound.any() or not (is_float(operand.dtype) or is_pred(operand.dtype)):
        return [operand]
    if is_pred(operand.dtype):
        return [operand, operand ^ (bound > 0)]
    wide = operand.astype(np.float64)
    nearest_zero = np.where(np.abs(wide) <= bound, 0.0, wide)
    return [np.asarray(end).astype(operand.dtype) for end in (wide - bound, nearest_zero, wide + bound)]


def _carried_select(operands: Sequence[Array], bounds: Sequence[Array], value: Array) -> Array:
    """The bound of what is chosen; the farther of both where the choice is not known."""
    which, *others = (np.broadcast_to(o, value.shape) for o in operands)
    of_which, *of_others = (np.broadcast_to(b, value.shape) for b in bounds)
    if is_pred(value.dtype):
        apart = np.where(others[0] != others[1], np.inf, 0.0)
    else:
        a, b = (o.astype(np.float64) for o in others)
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    unclear = np.where(np.isnan(apart), np.inf, apart) + np.maximum(*of_others)
    return np.where(of_which > 0, unclear, np.where(which, *of_others))


def _carried_complex(
    spec: OpSpec, attributes: Attributes, result: TensorLike, operands: Sequence[Array], bounds: Sequence[Array], value: Array
) -> Array:
    """The change when each operand moves by its bound in each direction of the plane, half as much again for what is between."""
    total = np.zeros(value.shape)
    if spec.name.endswith("compare"):
        apart = np.abs(operands[0].astype(np.complex128) - operands[1].astype(np.complex128))
        limit = np.asarray(bounds[0] + bounds[1])
        return np.where((limit > 0) & ~(apart > limit), np.inf, 0.0)
    for k, (operand, bound) in enumerate(zip(operands, bounds, strict=True)):
        if not bound.any():
            continue
        if not (is_float(operand.dtype) or is_complex(operand.dtype)):
            return np.where(np.broadcast_to(bound, value.shape) > 0, np.inf, total)
        directions = (1, -1, 1j, -1j) if is_complex(operand.dtype) else (1, -1)
        worst = np.zeros(value.shape)
        for direction in directions:
            finite = np.where(np.isfinite(bound), bound, 0.0)
            moved = (operand.astype(np.complex128 if is_complex(operand.dtype) else np.float64) + direction * finite).astype(
                operand.dtype
            )
            others = (*operands[:k], moved, *operands[k + 1 :])
            change = np.abs(spec.evaluate(attributes, (result,), *others)[0].astype(np.complex128) - value)
            worst = np.maximum(worst, np.where(np.isnan(change), np.inf, change))
        total = total + np.where(np.isinf(bound), np.inf, np.where(bound > 0, 1.5 * worst, 0.0))
    return total
