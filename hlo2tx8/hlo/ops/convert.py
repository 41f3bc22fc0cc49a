"""convert and bitcast_convert."""

from itertools import product

import numpy as np

from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.ops.forms import ANY, SHAPES, dtypes_of, identity_maps, raw
from hlo2tx8.hlo.rounding import integers_to_double, narrow, widen, wrap
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import DType, bit_width, integer_limits, is_integer, is_unsigned
from hlo2tx8.indexing import Dim, IndexingMap, Sym


def convert(_: Attributes, result: TensorLike, x: Array) -> Array:
    """x in the result's dtype.

    Floats round once to nearest even; float → integer truncates, saturates, NaN → 0; integers wrap; → pred is x != 0;
    complex → real, also → pred, drops the imaginary part.
    """
    to = result.dtype
    if x.dtype == to:
        return x
    if x.dtype.kind == "c" and to.kind != "c":
        x = np.asarray(np.real(x))
    if to.kind == "b":
        return widen(x) != 0
    source = widen(x)
    if is_integer(to):
        return float_to_integer(source, to) if source.dtype.kind == "f" else wrap(source, to)
    if source.dtype.kind in "iu" and to.name not in ("float64", "complex128"):
        return narrow(integers_to_double(source), to)
    return narrow(source.astype(np.float64) if source.dtype.kind == "b" else source, to)


def float_to_integer(x: Array, to: DType) -> Array:
    """Truncated toward zero, clamped to the limits of `to`, NaN → 0."""
    low, high = integer_limits(to)
    value = x.astype(np.float64)
    inside = np.where(np.isnan(value) | (value <= low) | (value >= high), 0, np.trunc(value))
    whole = inside.astype(np.uint64 if is_unsigned(to) else np.int64)
    whole = np.where(value >= high, whole.dtype.type(high), np.where(value <= low, whole.dtype.type(low), whole))
    return wrap(whole, to)


def bitcast_convert(_: Attributes, result: TensorLike, x: Array) -> Array:
    """The same bits as another dtype; a trailing dimension appears or goes where the widths differ.

    The element at index 0 of that dimension has the lowest bits. Elementwise callers may pass arrays of any shape.
    """
    to, own = result.dtype, x.dtype
    if x.dtype == to:
        return x
    if bit_width(to) == bit_width(own) == 8 * own.itemsize:
        return np.ascontiguousarray(x).view(to).reshape(x.shape)
    bits = _bits(x)
    if bit_width(to) < bit_width(own):
        return _from_bits(bits.reshape(*x.shape, bit_width(own) // bit_width(to), bit_width(to)), to)
    if bit_width(to) > bit_width(own):
        return _from_bits(bits.reshape(*x.shape[:-1], bit_width(to)), to)
    return _from_bits(bits, to)


def _bits(x: Array) -> Array:
    """uint8 0/1 array [*shape, bits], lowest bit first."""
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., : bit_width(x.dtype)]


def _from_bits(bits: Array, to: DType) -> Array:
    """The inverse of `_bits`; sub-byte integers are sign extended in their byte, as ml_dtypes keeps them."""
    octets = np.packbits(bits, axis=-1, bitorder="little")
    if is_integer(to) and bit_width(to) < 8:
        return wrap(octets[..., 0], to)
    return np.ascontiguousarray(octets).view(to).reshape(bits.shape[:-1])


def bitcast_maps(_: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Equal widths: identity. Narrower result: its last index picks bits. Wider: all of the last dimension is read."""
    (operand,) = operands
    rank = len(result.shape)
    if len(operand.shape) == rank:
        return ((IndexingMap.identity(result.shape),),)
    leading = [Dim(i) for i in range(min(rank, len(operand.shape)))]
    if len(operand.shape) < rank:
        return ((IndexingMap.from_shape(leading, result.shape),),)
    return ((IndexingMap.from_shape([*leading, Sym(0)], result.shape, operand.shape[-1:]),),)


def bitcast_result(operand: TensorLike, to: DType) -> TensorLike:
    """The result type of a bitcast to `to`; CompileError where the widths do not fit."""
    own, new = bit_width(operand.dtype), bit_width(to)
    if new < own and own % new == 0:
        return TensorLike((*operand.shape, own // new), to)
    if new > own:
        if not operand.shape or operand.shape[-1] * own != new:
            raise CompileError("E1002", f"{operand} has no trailing dimension of {new // own} to bitcast to {to.name}")
        return TensorLike(operand.shape[:-1], to)
    return TensorLike(operand.shape, to)


def _convert_samples() -> tuple[Sample, ...]:
    pairs = product(dtypes_of(ANY), repeat=2)
    shapes = (SHAPES[i % len(SHAPES)] for i in range(len(dtypes_of(ANY)) ** 2))
    return tuple(Sample((TensorLike(s, a),), (TensorLike(s, b),)) for s, (a, b) in zip(shapes, pairs, strict=True))


def _bitcast_samples() -> tuple[Sample, ...]:
    found: list[Sample] = []
    for a, b in product(dtypes_of(ANY), repeat=2):
        own, new = bit_width(a), bit_width(b)
        if 1 in (own, new) or (a != b and "c" in (a.kind, b.kind)) or max(own, new) % min(own, new):
            continue
        shape = SHAPES[len(found) % len(SHAPES)]
        operand = TensorLike((*shape, new // own) if new > own else shape, a)
        found.append(Sample((operand,), (bitcast_result(operand, b),)))
    return tuple(found)


SPECS = (
    OpSpec(
        "stablehlo.convert",
        Kind.ELEMENTWISE,
        raw(convert),
        identity_maps,
        ulp=1,
        accepts=ANY,
        samples=_convert_samples,
        linear=(0,),
    ),
    OpSpec(
        "stablehlo.bitcast_convert",
        Kind.ELEMENTWISE,
        raw(bitcast_convert),
        bitcast_maps,
        accepts=ANY,
        samples=_bitcast_samples,
    ),
)
