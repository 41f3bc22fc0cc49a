"""Indexing maps of shaping ops, applied by fancy indexing, give what the references give: random shapes, rank 0 to 6."""

from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo2tx8.hlo import TensorLike, spec_of
from hlo2tx8.hlo.spec import Maps

FEW = settings(max_examples=60, deadline=None)
shapes = st.lists(st.integers(0, 4), max_size=6).map(tuple).filter(lambda s: prod(s) <= 600)
full_shapes = st.lists(st.integers(1, 4), max_size=6).map(tuple).filter(lambda s: prod(s) <= 600)
dtypes = st.sampled_from([np.float32, ml_dtypes.bfloat16, np.int8, np.bool_, ml_dtypes.int4, np.complex64])


def apply_maps(maps: Maps, arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The result: at each index the element of the first operand whose map's domain holds."""
    out = np.empty(shape, arrays[0].dtype)
    undecided = np.ones(shape, bool)
    dims = list(np.indices(shape))
    for (map_,), array in zip(maps, arrays, strict=True):
        indices, mask = map_.evaluate(dims)
        mask = np.broadcast_to(mask, shape) & undecided
        if array.size and mask.any():
            inside = [np.broadcast_to(i, shape)[mask] for i in indices]
            for i, size in zip(inside, array.shape, strict=True):
                assert ((i >= 0) & (i < size)).all()
            out[mask] = array[tuple(inside)]
            undecided &= ~mask
    assert not undecided.any()
    return out


def check(name: str, result_shape: tuple[int, ...], attributes: dict[str, Any], *arrays: np.ndarray) -> np.ndarray:
    spec = spec_of(name)
    result = TensorLike(result_shape, arrays[0].dtype)
    (found,) = spec.evaluate(attributes, (result,), *arrays)
    assert found.shape == result_shape
    assert spec.indexing is not None
    maps = spec.indexing(attributes, result, tuple(TensorLike(a.shape, a.dtype) for a in arrays))
    assert np.array_equal(apply_maps(maps, arrays, result_shape), found)
    return found


def numbered(shape: Sequence[int], kind: Any) -> np.ndarray:
    return np.arange(prod(shape)).astype(np.int8).astype(kind).reshape(shape)


@FEW
@given(shapes, dtypes, st.data())
def test_transpose(shape: tuple[int, ...], kind: Any, data: st.DataObject):
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    x = numbered(shape, kind)
    assert np.array_equal(
        check("stablehlo.transpose", tuple(shape[i] for i in order), {"permutation": order}, x), x.transpose(order)
    )


@FEW
@given(shapes, dtypes, st.data())
def test_reverse(shape: tuple[int, ...], kind: Any, data: st.DataObject):
    dims = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1))))) if shape else ()
    check("stablehlo.reverse", shape, {"dimensions": dims}, numbered(shape, kind))


@FEW
@given(full_shapes, dtypes, st.data())
def test_reshape(shape: tuple[int, ...], kind: Any, data: st.DataObject):
    factors = [n for size in shape for n in ((2, 2) if size == 4 else (size,))]
    factors = data.draw(st.permutations(factors))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(factors)), max_size=5)))
    pieces = [factors[a:b] for a, b in zip([0, *cuts], [*cuts, len(factors)], strict=True)]
    check("stablehlo.reshape", tuple(prod(p) for p in pieces), {}, numbered(shape, kind))


@FEW
@given(shapes, dtypes, st.data())
def test_slice(shape: tuple[int, ...], kind: Any, data: st.DataObject):
    starts = tuple(data.draw(st.integers(0, n)) for n in shape)
    limits = tuple(data.draw(st.integers(s, n)) for s, n in zip(starts, shape, strict=True))
    strides = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    sizes = tuple(-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True))
    attributes = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    check("stablehlo.slice", sizes, attributes, numbered(shape, kind))


@FEW
@given(st.lists(st.integers(0, 4), max_size=4).map(tuple), dtypes, st.data())
def test_pad(shape: tuple[int, ...], kind: Any, data: st.DataObject):
    inner = tuple(data.draw(st.integers(0, 2)) for _ in shape)
    spread = [n + max(0, n - 1) * k for n, k in zip(shape, inner, strict=True)]
    low = tuple(data.draw(st.integers(-n, 3)) for n in spread)
    high = tuple(data.draw(st.integers(-(n + a), 3)) for n, a in zip(spread, low, strict=True))
    result = tuple(n + a + b for n, a, b in zip(spread, low, high, strict=True))
    attributes = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": inner}
    x, value = numbered(shape, kind), np.asarray(numbered((2,), kind)[1])
    found = check("stablehlo.pad", result, attributes, x, value)
    spec = spec_of("stablehlo.pad")
    assert spec.shape is not None
    assert spec.shape(attributes, (TensorLike(shape, x.dtype),)) == (TensorLike(result, x.dtype),)
    expected = np.full(result, value)
    for index in np.ndindex(shape):
        target = tuple(a + i * (k + 1) for a, i, k in zip(low, index, inner, strict=True))
        if all(0 <= t < n for t, n in zip(target, result, strict=True)):
            expected[target] = x[index]
    assert np.array_equal(found, expected)


@FEW
@given(full_shapes.filter(bool), dtypes, st.data())
def test_concatenate(shape: tuple[int, ...], kind: Any, data: st.DataObject):
    along = data.draw(st.integers(0, len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = [numbered((*shape[:along], n, *shape[along + 1 :]), kind) for n in sizes]
    result = (*shape[:along], sum(sizes), *shape[along + 1 :])
    check("stablehlo.concatenate", result, {"dimension": along}, *parts)


@FEW
@given(shapes, dtypes, st.data())
def test_broadcast_in_dim(shape: tuple[int, ...], kind: Any, data: st.DataObject):
    dims = tuple(data.draw(st.permutations(range(len(shape))))) if data.draw(st.booleans()) else range(len(shape))
    extra = data.draw(st.lists(st.integers(1, 3), max_size=2))
    offset = data.draw(st.integers(0, len(extra)))
    places = tuple(d + offset for d in dims)
    result = [*extra[:offset], *([0] * len(shape)), *extra[offset:]]
    for place, size in zip(places, shape, strict=True):
        result[place] = data.draw(st.integers(1, 3)) if size == 1 else size
    check("stablehlo.broadcast_in_dim", tuple(result), {"broadcast_dimensions": places}, numbered(shape, kind))


@FEW
@given(full_shapes, st.data())
def test_bitcast(shape: tuple[int, ...], data: st.DataObject):
    """Through random layouts: the buffer of the result equals the buffer of the operand."""
    own = tuple(data.draw(st.permutations(range(len(shape)))))
    target_shape = tuple(data.draw(st.permutations(shape)))
    target = tuple(data.draw(st.permutations(range(len(shape)))))
    x = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    result = TensorLike(target_shape, x.dtype, target)
    spec = spec_of("hlo.bitcast")
    (found,) = spec.evaluate({"operand_layouts": (own,)}, (result,), x)
    assert np.array_equal(found.transpose(target[::-1]).ravel(), x.transpose(own[::-1]).ravel())
    assert spec.indexing is not None
    maps = spec.indexing({}, result, (TensorLike(shape, x.dtype, own),))
    assert np.array_equal(apply_maps(maps, [x], target_shape), found)
