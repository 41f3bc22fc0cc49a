"""compare, select, complex, real, imag, reduce_precision."""

from itertools import product

import numpy as np

from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.ops.forms import ANY, COMPLEX, FLOAT, SHAPES, dtypes_of, elementwise, identity_maps, pred, raw
from hlo2tx8.hlo.ops.forms import real_part as part_of
from hlo2tx8.hlo.rounding import narrow, widen
from hlo2tx8.hlo.spec import Array, Attributes, Kind, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import bit_width, is_float, mantissa_bits

DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def total_order(x: Array) -> Array:
    """Integers in the order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    width = x.dtype.itemsize
    bits = np.ascontiguousarray(x).view(f"int{8 * width}").reshape(x.shape)
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def compare(attributes: Attributes, _: TensorLike, a: Array, b: Array) -> Array:
    """a <direction> b; NaN is unordered unless compare_type is TOTALORDER."""
    direction = str(attributes["comparison_direction"])
    if direction not in DIRECTIONS:
        raise CompileError("E1002", f"unknown comparison_direction {direction!r}")
    if attributes.get("compare_type") == "TOTALORDER" and is_float(a.dtype):
        return DIRECTIONS[direction](total_order(a), total_order(b))
    return DIRECTIONS[direction](widen(a), widen(b))


def select(_: Attributes, result: TensorLike, on: Array, yes: Array, no: Array) -> Array:
    """on ? yes : no, bits unchanged; `on` may be a scalar."""
    return np.where(on, yes, no).astype(result.dtype, copy=False)


def make_complex(_: Attributes, result: TensorLike, real: Array, imaginary: Array) -> Array:
    """real + i * imaginary, bits unchanged."""
    out = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), result.dtype)
    out.real, out.imag = real, imaginary
    return out


def real(_: Attributes, __: TensorLike, x: Array) -> Array:
    return np.real(x) if x.dtype.kind == "c" else x


def imag(_: Attributes, __: TensorLike, x: Array) -> Array:
    return np.imag(x) if x.dtype.kind == "c" else np.zeros_like(x)


def reduce_precision(attributes: Attributes, result: TensorLike, x: Array) -> Array:
    """x rounded to a float with exponent_bits and mantissa_bits, in x's dtype.

    Where exponent bits are dropped, numbers too large become inf and numbers below the normal range become 0. 8-bit
    floats are reduced as f16.
    """
    if result.dtype.itemsize == 1:
        half = TensorLike(result.shape, np.dtype(np.float16))
        return narrow(reduce_precision(attributes, half, x.astype(np.float16)), result.dtype)
    kind = result.dtype
    stored, width = mantissa_bits(kind), bit_width(kind)
    exponent, mantissa = int(attributes["exponent_bits"]), int(attributes["mantissa_bits"])
    unsigned = np.dtype(f"uint{width}").type
    bits = np.ascontiguousarray(x).view(unsigned).reshape(x.shape)
    rounded = bits
    if mantissa < stored:
        cut = stored - mantissa
        even = (bits >> unsigned(cut)) & unsigned(1)
        rounded = (bits + even + unsigned((1 << (cut - 1)) - 1)) & unsigned(((1 << width) - 1) ^ ((1 << cut) - 1))
    if exponent < width - 1 - stored:
        sign = rounded & unsigned(1 << (width - 1))
        field_mask = ((1 << (width - 1 - stored)) - 1) << stored
        own_bias, bias = (1 << (width - 2 - stored)) - 1, (1 << (exponent - 1)) - 1
        field = rounded & unsigned(field_mask)
        rounded = np.where(field > unsigned((own_bias + bias) << stored), sign | unsigned(field_mask), rounded)
        rounded = np.where(field <= unsigned((own_bias - bias) << stored), sign, rounded)
    return np.where(np.isnan(widen(x)), x, rounded.view(kind)).astype(kind, copy=False)


def _select_shape(_: Attributes, operands: tuple[TensorLike, ...]) -> tuple[TensorLike, ...]:
    return (operands[1],)


def _select_samples() -> tuple[Sample, ...]:
    found: list[Sample] = []
    for i, kind in enumerate(dtypes_of(ANY)):
        tensor = TensorLike(SHAPES[i % len(SHAPES)], kind)
        for shape in dict.fromkeys((tensor.shape, ())):
            found.append(Sample((TensorLike(shape, np.dtype(bool)), tensor, tensor), (tensor,)))
    return tuple(found)


def _complex_shape(_: Attributes, operands: tuple[TensorLike, ...]) -> tuple[TensorLike, ...]:
    return (TensorLike(operands[0].shape, np.dtype(f"complex{16 * operands[0].dtype.itemsize}")),)


def _complex_samples() -> tuple[Sample, ...]:
    parts = [TensorLike(shape, np.dtype(kind)) for shape, kind in zip(SHAPES, ("f4", "f8") * 5, strict=True)]
    return tuple(Sample((p, p), _complex_shape({}, (p, p))) for p in parts)


_COMPARISONS = tuple({"comparison_direction": d} for d in DIRECTIONS)
_TOTAL = tuple({"comparison_direction": d, "compare_type": "TOTALORDER"} for d in DIRECTIONS)
_PRECISIONS = tuple({"exponent_bits": e, "mantissa_bits": m} for e, m in product((4, 5, 8), (2, 7, 10)))


def _compare_samples() -> tuple[Sample, ...]:
    found: list[Sample] = []
    for kind in dtypes_of(ANY):
        floats = _TOTAL if is_float(kind) else ()
        for attrs in (*(_COMPARISONS[:2] if kind.kind == "c" else _COMPARISONS), *floats):
            tensor = TensorLike(SHAPES[len(found) % len(SHAPES)], kind)
            found.append(Sample((tensor, tensor), (TensorLike(tensor.shape, np.dtype(bool)),), attrs))
    return tuple(found)


def _compare_shape(_: Attributes, operands: tuple[TensorLike, ...]) -> tuple[TensorLike, ...]:
    return (TensorLike(operands[0].shape, pred(())),)


SPECS = (
    OpSpec(
        "stablehlo.compare",
        Kind.ELEMENTWISE,
        raw(compare),
        identity_maps,
        _compare_shape,
        accepts=ANY,
        samples=_compare_samples,
    ),
    OpSpec(
        "stablehlo.select",
        Kind.ELEMENTWISE,
        raw(select),
        identity_maps,
        _select_shape,
        accepts=ANY,
        samples=_select_samples,
        linear=(1, 2),
    ),
    OpSpec(
        "stablehlo.complex",
        Kind.ELEMENTWISE,
        raw(make_complex),
        identity_maps,
        _complex_shape,
        accepts=FLOAT,
        samples=_complex_samples,
        linear=(0, 1),
    ),
    elementwise("stablehlo.real", raw(real), accepts=(*FLOAT, *COMPLEX), result=part_of, linear=(0,)),
    elementwise("stablehlo.imag", raw(imag), accepts=(*FLOAT, *COMPLEX), result=part_of, linear=(0,)),
    elementwise("stablehlo.reduce_precision", raw(reduce_precision), accepts=FLOAT, attributes=_PRECISIONS),
)
