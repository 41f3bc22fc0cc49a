"""Ops that only move elements: transpose, broadcast, reshape, slice, reverse, pad, concatenate, copy, bitcast."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo2tx8.hlo.ops.convert import bitcast_convert
from hlo2tx8.hlo.ops.forms import DTYPES, dense
from hlo2tx8.hlo.ops.reshape_maps import bitcast_map, reshape_map
from hlo2tx8.hlo.spec import Array, Attributes, Indexing, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import bit_width, dtype
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval

Results = tuple[TensorLike, ...]


def unary_map(function: Callable[[Attributes, TensorLike, TensorLike], IndexingMap]) -> Indexing:
    """Indexing of an op with one operand, read at one index."""

    def indexing(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
        return ((function(attributes, result, operands[0]),),)

    return indexing


def transpose(attributes: Attributes, _: Results, x: Array) -> Array:
    """result[i] = x[j] with i[k] = j[permutation[k]]."""
    return np.transpose(x, attributes["permutation"])


def transpose_map(attributes: Attributes, result: TensorLike, operand: TensorLike) -> IndexingMap:
    """permutation (1, 0): (d0, d1) -> (d1, d0)."""
    exprs: list[Expr] = [Const(0)] * len(operand.shape)
    for position, source in enumerate(attributes["permutation"]):
        exprs[source] = Dim(position)
    return IndexingMap.from_shape(exprs, result.shape)


def broadcast_in_dim(attributes: Attributes, results: Results, x: Array) -> Array:
    """Operand dimension i becomes result dimension broadcast_dimensions[i]; the rest, and sizes 1, repeat."""
    shape = [1] * len(results[0].shape)
    order = np.argsort(attributes["broadcast_dimensions"], kind="stable")
    for i in order:
        shape[attributes["broadcast_dimensions"][i]] = x.shape[i]
    return dense(np.broadcast_to(np.transpose(x, order).reshape(shape), results[0].shape))


def broadcast_map(attributes: Attributes, result: TensorLike, operand: TensorLike) -> IndexingMap:
    """broadcast_dimensions (1,): (d0, d1) -> (d1); 0 where an operand dimension of size 1 repeats."""
    dims = attributes["broadcast_dimensions"]
    exprs = [Const(0) if size == 1 and result.shape[d] != 1 else Dim(d) for d, size in zip(dims, operand.shape, strict=True)]
    return IndexingMap.from_shape(exprs, result.shape)


def broadcast(attributes: Attributes, _: Results, x: Array) -> Array:
    """New major dimensions of broadcast_sizes."""
    return dense(np.broadcast_to(x, (*attributes["broadcast_sizes"], *x.shape)))


def _broadcast_map(_: Attributes, result: TensorLike, operand: TensorLike) -> IndexingMap:
    new = len(result.shape) - len(operand.shape)
    return IndexingMap.from_shape([Dim(new + i) for i in range(len(operand.shape))], result.shape)


def reshape(_: Attributes, results: Results, x: Array) -> Array:
    """The same elements in row-major order."""
    return x.reshape(results[0].shape)


def slice_(attributes: Attributes, _: Results, x: Array) -> Array:
    """x[start:limit:stride] per dimension."""
    bounds = zip(attributes["start_indices"], attributes["limit_indices"], attributes["strides"], strict=True)
    return dense(x[tuple(slice(*b) for b in bounds)])


def slice_map(attributes: Attributes, result: TensorLike, _: TensorLike) -> IndexingMap:
    """(d0) -> (d0 * stride + start)."""
    pairs = zip(attributes["start_indices"], attributes["strides"], strict=True)
    return IndexingMap.from_shape([Dim(i) * stride + start for i, (start, stride) in enumerate(pairs)], result.shape)


def reverse(attributes: Attributes, _: Results, x: Array) -> Array:
    """The order of elements turned around along `dimensions`."""
    return dense(np.flip(x, tuple(attributes["dimensions"])))


def reverse_map(attributes: Attributes, result: TensorLike, _: TensorLike) -> IndexingMap:
    """(d0) -> (size - 1 - d0)."""
    turned = set(attributes["dimensions"])
    exprs = [size - 1 - Dim(i) if i in turned else Dim(i) for i, size in enumerate(result.shape)]
    return IndexingMap.from_shape(exprs, result.shape)


def pad(attributes: Attributes, results: Results, x: Array, value: Array) -> Array:
    """Element i of x goes to low + i * (interior + 1) if that is inside the result; `value` elsewhere."""
    out = np.empty(results[0].shape, x.dtype)
    out[...] = value
    targets: list[slice] = []
    sources: list[slice] = []
    lows, interiors = attributes["edge_padding_low"], attributes["interior_padding"]
    for size, low, interior, room in zip(x.shape, lows, interiors, out.shape, strict=True):
        step = interior + 1
        first = max(0, -(low // step))
        last = min(size, (room - low + step - 1) // step)
        sources.append(slice(first, max(first, last)))
        start = low + first * step
        targets.append(slice(start, start + max(0, last - first) * step, step))
    if all(s.stop > s.start for s in sources):
        out[tuple(targets)] = x[tuple(sources)]
    return out


def pad_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """(d0) -> ((d0 - low) floordiv (interior + 1)) where the remainder is 0 and the quotient inside x; value: ()."""
    exprs: list[Expr] = []
    constraints: list[tuple[Expr, Interval]] = []
    lows, interiors = attributes["edge_padding_low"], attributes["interior_padding"]
    for i, (size, low, interior) in enumerate(zip(operands[0].shape, lows, interiors, strict=True)):
        shifted, step = Dim(i) - low, interior + 1
        exprs.append(shifted // step if step > 1 else shifted)
        if step > 1:
            constraints.append((shifted % step, Interval(0, 0)))
        constraints.append((Dim(i), Interval(low, low + (size - 1) * step)))
    found = IndexingMap.from_shape(exprs, result.shape)
    for expr, interval in constraints:
        found = found.with_constraint(expr, interval)
    return ((found.simplify(),), (IndexingMap.from_shape([], result.shape),))


def pad_shape(attributes: Attributes, operands: tuple[TensorLike, ...]) -> Results:
    sizes = zip(
        operands[0].shape,
        attributes["edge_padding_low"],
        attributes["edge_padding_high"],
        attributes["interior_padding"],
        strict=True,
    )
    shape = tuple(max(0, low + high + n + max(0, n - 1) * inner) for n, low, high, inner in sizes)
    return (TensorLike(shape, operands[0].dtype),)


def concatenate(attributes: Attributes, _: Results, *arrays: Array) -> Array:
    """The operands one after another along `dimension`."""
    return np.concatenate(arrays, axis=attributes["dimension"])


def concatenate_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """Operand k: (d) -> (d - offset_k), d in [offset_k, offset_k + size_k - 1]."""
    along, offset = int(attributes["dimension"]), 0
    maps: list[tuple[IndexingMap, ...]] = []
    for operand in operands:
        exprs = [Dim(i) - offset if i == along else Dim(i) for i in range(len(result.shape))]
        found = IndexingMap.from_shape(exprs, result.shape)
        size = operand.shape[along]
        maps.append((found.with_constraint(Dim(along), Interval(offset, offset + size - 1)).simplify(),))
        offset += size
    return tuple(maps)


def copy(_: Attributes, __: Results, x: Array) -> Array:
    """The same tensor, possibly in another layout."""
    return x


def _identity_map(_: Attributes, result: TensorLike, __: TensorLike) -> IndexingMap:
    return IndexingMap.identity(result.shape)


def bitcast(attributes: Attributes, results: Results, x: Array) -> Array:
    """The operand's buffer read with the result's shape, layout and dtype; attribute operand_layouts says the operand's."""
    (result,) = results
    own = (attributes.get("operand_layouts") or (None,))[0]
    source = tuple(reversed(own)) if own is not None else tuple(range(x.ndim))
    target = tuple(reversed(result.layout)) if result.layout is not None else tuple(range(len(result.shape)))
    buffer = dense(np.transpose(x, source)).reshape(-1)
    if x.dtype != result.dtype:
        together = max(1, bit_width(result.dtype) // bit_width(x.dtype))
        buffer = bitcast_convert({}, result, buffer if together == 1 else buffer.reshape(-1, together)).reshape(-1)
    physical = buffer.reshape([result.shape[d] for d in target])
    return dense(np.transpose(physical, np.argsort(target)))


def _samples(*cases: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> Callable[[], tuple[Sample, ...]]:
    """Samples with one operand: operand shape, result shape, attributes; over the dtypes in turn."""

    def samples() -> tuple[Sample, ...]:
        kinds = [dtype(name) for name in DTYPES]
        return tuple(
            Sample((TensorLike(a, kinds[i % len(kinds)]),), (TensorLike(b, kinds[i % len(kinds)]),), attrs)
            for i, (a, b, attrs) in enumerate(cases * (1 + len(kinds) // len(cases)))
        )

    return samples


def _pad_samples() -> tuple[Sample, ...]:
    found: list[Sample] = []
    for i, name in enumerate(DTYPES):
        low, high, inner = ((1, -1), (2, 0), (0, 2)) if i % 2 else ((-2, 3), (-1, 1), (3, 0))
        operand = TensorLike((5, 7), dtype(name))
        attrs = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": inner}
        found.append(Sample((operand, TensorLike((), operand.dtype)), pad_shape(attrs, (operand,)), attrs))
    return tuple(found)


def _concatenate_samples() -> tuple[Sample, ...]:
    kinds = [dtype(name) for name in DTYPES]
    return tuple(
        Sample(tuple(TensorLike((2, n, 3), kind) for n in (3, 0, 1)), (TensorLike((2, 4, 3), kind),), {"dimension": 1})
        for kind in kinds
    )


def _copy_samples() -> tuple[Sample, ...]:
    """Row major to column major."""
    kinds = [dtype(name) for name in DTYPES]
    return tuple(Sample((TensorLike((2, 3), k),), (TensorLike((2, 3), k, (0, 1)),)) for k in kinds)


def _bitcast_samples() -> tuple[Sample, ...]:
    """Row major [2, 3] as column major [3, 2]: a transpose that moves nothing."""
    kinds = [dtype(name) for name in DTYPES]
    attributes = {"operand_layouts": (None,)}
    return tuple(Sample((TensorLike((2, 3), k),), (TensorLike((3, 2), k, (0, 1)),), attributes) for k in kinds)


SPECS = (
    OpSpec(
        "stablehlo.transpose",
        Kind.SHAPING,
        transpose,
        unary_map(transpose_map),
        samples=_samples(((2, 3), (3, 2), {"permutation": (1, 0)}), ((2, 3, 5, 1), (5, 2, 1, 3), {"permutation": (2, 0, 3, 1)})),
    ),
    OpSpec(
        "stablehlo.broadcast_in_dim",
        Kind.SHAPING,
        broadcast_in_dim,
        unary_map(broadcast_map),
        samples=_samples(((3,), (2, 3), {"broadcast_dimensions": (1,)}), ((1, 5), (5, 4, 3), {"broadcast_dimensions": (2, 0)})),
        is_free=True,
    ),
    OpSpec(
        "stablehlo.broadcast",
        Kind.SHAPING,
        broadcast,
        unary_map(_broadcast_map),
        samples=_samples(((3,), (2, 1, 3), {"broadcast_sizes": (2, 1)})),
        batch_dimensions=lambda _, rank: (),
        is_free=True,
    ),
    OpSpec(
        "stablehlo.reshape",
        Kind.SHAPING,
        reshape,
        unary_map(lambda _, result, operand: reshape_map(operand.shape, result.shape)),
        samples=_samples(((4, 6), (8, 3), {}), ((2, 3, 1), (6,), {}), ((1,), (), {})),
    ),
    OpSpec(
        "stablehlo.slice",
        Kind.SHAPING,
        slice_,
        unary_map(slice_map),
        samples=_samples(((7, 9), (3, 4), {"start_indices": (1, 2), "limit_indices": (6, 9), "strides": (2, 2)})),
        size_attributes=("limit_indices",),
    ),
    OpSpec(
        "stablehlo.reverse",
        Kind.SHAPING,
        reverse,
        unary_map(reverse_map),
        samples=_samples(((5, 3), (5, 3), {"dimensions": (0,)}), ((2, 3, 5), (2, 3, 5), {"dimensions": (0, 2)})),
    ),
    OpSpec("stablehlo.pad", Kind.SHAPING, pad, pad_maps, pad_shape, samples=_pad_samples, reads_parts=True),
    OpSpec(
        "stablehlo.concatenate",
        Kind.SHAPING,
        concatenate,
        concatenate_maps,
        samples=_concatenate_samples,
        reads_parts=True,
        is_variadic=True,
    ),
    OpSpec("hlo.copy", Kind.SHAPING, copy, unary_map(_identity_map), samples=_copy_samples),
    OpSpec(
        "hlo.bitcast",
        Kind.SHAPING,
        bitcast,
        unary_map(lambda _, result, operand: bitcast_map(operand, result)),
        samples=_bitcast_samples,
    ),
)
