"""Ops that count or add up elements by what they belong to: embeddings, bags, histograms, segments."""

# pyright: basic

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hlo2tx8.frontend.torch.indexing import reduced_at
from hlo2tx8.frontend.torch.table import AtenCall, Rows, gradient, plain, widened
from hlo2tx8.frontend.traced import Refused


def _embedding(weight: Any, index: Any, *_: Any) -> Any:
    return jnp.take(weight, index, 0, mode="clip")


def _embedding_backward(call: AtenCall, g: Any, index: Any, count: int, padding: int, is_scaled: bool) -> Any:
    """Rows of gradients added up by the row of the weights that they are of; the padding's row gets none."""
    kind = widened(g.dtype)
    flat, rows = index.reshape(-1), g.reshape(-1, g.shape[-1]).astype(kind)
    rows = jnp.where((flat == padding)[:, None], 0, rows)
    if is_scaled:
        rows = rows / jnp.zeros(count, kind).at[flat].add(1)[flat][:, None]
    return jnp.zeros((count, g.shape[-1]), kind).at[flat].add(rows)


def _bagged(weight: Any, index: Any, offsets: Any, bags: int, mode: int, weights: Any, padding: int) -> tuple[Any, Any, Any]:
    """Sums (mode 0), means or greatest of rows of each bag; of what bag each row is; how many rows each has."""
    number = jnp.sum(jnp.arange(index.shape[0])[:, None] >= offsets[None, :bags], 1) - 1
    kept = index != padding
    rows = jnp.take(weight, index, 0, mode="clip").astype(widened(weight.dtype))
    rows = rows if weights is None else rows * weights[:, None]
    sizes = jnp.zeros(bags, jnp.int64).at[number].add(kept.astype(jnp.int64))
    if mode == 2:
        start = jnp.full((bags, weight.shape[1]), -jnp.inf, rows.dtype)
        found = start.at[number].max(jnp.where(kept[:, None], rows, -jnp.inf))
        return jnp.where((sizes > 0)[:, None], found, 0), number, sizes
    found = jnp.zeros((bags, weight.shape[1]), rows.dtype).at[number].add(jnp.where(kept[:, None], rows, 0))
    return (found / jnp.maximum(sizes, 1)[:, None].astype(rows.dtype) if mode == 1 else found), number, sizes


def _bags(call: AtenCall, weight: Any, index: Any, offsets: Any, scaled: Any = False, mode: int = 0, sparse: Any = False,
          weights: Any = None, has_last: bool = False, padding: int = -1) -> Any:  # fmt: skip
    found, number, sizes = _bagged(weight, index, offsets, offsets.shape[0] - bool(has_last), mode, weights, padding)
    rest = (number, sizes, jnp.zeros_like(sizes))
    return found, *(r if r.shape == shape else jnp.zeros(shape, r.dtype) for r, shape in zip(rest, call.shapes[1:], strict=True))


def _bags_backward(call: AtenCall, g: Any, index: Any, offsets: Any, number: Any, sizes: Any, places: Any, count: int, scaled: bool,
                   mode: int, sparse: bool, weights: Any, padding: int = -1) -> Any:  # fmt: skip
    if mode == 2 or scaled or sparse:
        raise Refused("gradients of the greatest of bags, scaled by frequency, or sparse")
    zeros = jnp.zeros((count, g.shape[-1]), g.dtype)
    return gradient(lambda w: _bagged(w, index, offsets, g.shape[0], mode, weights, padding)[0], (zeros,), g)[0]


def _searchsorted(
    call: AtenCall, ordered: Any, values: Any, _: Any = False, right: bool = False, side: Any = None, order: Any = None
) -> Any:
    """How many elements of each row are before each value."""
    kind = call.common if isinstance(values, jax.Array) else ordered.dtype
    values = jnp.asarray(values)
    ordered = ordered if order is None else jnp.take_along_axis(ordered, order, -1)
    kind = jnp.promote_types(ordered.dtype, values.dtype) if isinstance(kind, np.dtype) else kind
    a, b = ordered.astype(kind), values.astype(kind)
    a = a if ordered.ndim == 1 else a[..., None, :]
    is_right = right or side == "right"
    before = a <= b[..., None] if is_right else a < b[..., None]
    before = before | ((~jnp.isnan(a)) & jnp.isnan(b)[..., None]) if jnp.issubdtype(kind, jnp.floating) else before
    return jnp.sum(before, -1)


def _bucketize(call: AtenCall, values: Any, bounds: Any, _: Any = False, right: bool = False) -> Any:
    return _searchsorted(call, bounds, values, False, right)


def _one_hot(call: AtenCall, x: Any, classes: int = -1) -> Any:
    if classes < 0:
        raise Refused("the number of classes depends on what is computed")
    return x[..., None] == jnp.arange(classes)


def _counted(x: Any, edges: Any, weights: Any) -> Any:
    """Sums of weights between edges, of which the last one is inside."""
    bins = edges.shape[0] - 1
    place = jnp.sum(edges <= x[:, None], 1) - 1
    place = jnp.where(x == edges[-1], bins - 1, jnp.where((x < edges[0]) | (x > edges[-1]), bins, place))
    return jnp.zeros(bins, weights.dtype).at[place].add(weights, mode="drop")


def _edges(x: Any, bins: int, low: Any, high: Any, room: float) -> Any:
    """Of bins of one width; of all elements where both ends are the same, with room around them where these are, too."""
    low, high = jnp.asarray(low, x.dtype), jnp.asarray(high, x.dtype)
    if x.size:
        low, high = jnp.where(low == high, jnp.min(x), low), jnp.where(low == high, jnp.max(x), high)
    low, high = jnp.where(low == high, low - room, low), jnp.where(low == high, high + room, high)
    steps = np.arange(bins + 1)
    step = (high - low) / bins
    return jnp.where(steps <= bins // 2, low + steps.astype(x.dtype) * step, high - (bins - steps).astype(x.dtype) * step)


def _histc(call: AtenCall, x: Any, bins: int = 100, low: Any = 0, high: Any = 0) -> Any:
    x = x.reshape(-1)
    return _counted(x, _edges(x, bins, low, high, 1), jnp.ones_like(x))


def _histogram(call: AtenCall, x: Any, bins: Any, *given: Any) -> Any:
    """Sums of weights, or of density, and the edges, which may be given."""
    *ends, weights, density = given
    x = x.reshape(-1)
    low, high = (ends[0] if ends else None) or (0, 0)
    edges = bins if isinstance(bins, jax.Array) else _edges(x, bins, low, high, 0.5)
    counts = _counted(x, edges, jnp.ones_like(x) if weights is None else weights.reshape(-1))
    return (counts / jnp.sum(counts) / jnp.diff(edges) if density else counts), edges


def _renormed(call: AtenCall, weight: Any, index: Any, most: float, order: float) -> Any:
    """Rows that are looked up scaled down to a norm."""
    norms = jnp.sum(jnp.abs(weight) ** order, 1, keepdims=True) ** (1 / order)
    used = jnp.zeros((weight.shape[0], 1), bool).at[index.reshape(-1)].set(True)
    return jnp.where(used & (norms > most), weight * (most / (norms + 1e-7)), weight)


def _segment_reduce(call: AtenCall, x: Any, reduce: str, lengths: Any = None, indices: Any = None, offsets: Any = None,
                    axis: int = 0, unsafe: bool = False, initial: Any = None) -> Any:  # fmt: skip
    """Of elements of each segment along the last dimension of `lengths`."""
    if lengths is None:
        lengths = jnp.diff(offsets, axis=-1)
    name = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    count, batch, rest = lengths.shape[-1], lengths.shape[:-1], x.shape[axis + 1 :]
    rows = x.reshape(math.prod(batch), x.shape[axis], *rest)
    ends = jnp.cumsum(lengths.reshape(-1, count), -1)
    number = jnp.sum(np.arange(x.shape[axis])[None, :, None] >= ends[:, None], -1)
    start = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -jnp.inf, "amin": jnp.inf}[name] if initial is None else initial
    base = jnp.full((rows.shape[0], count, *rest), start, x.dtype)
    found = reduced_at(base, (np.arange(rows.shape[0])[:, None], number), "sum" if name == "mean" else name, rows)
    if name == "mean":
        found = found / lengths.reshape(-1, count, *(1,) * len(rest)).astype(x.dtype)
    return found.reshape(*batch, count, *rest)


ROWS: Rows = {
    **plain(embedding=_embedding),
    "embedding_dense_backward": _embedding_backward,
    "_embedding_bag": _bags,
    "_embedding_bag_forward_only": _bags,
    "_embedding_bag_backward": _bags_backward,
    "searchsorted": _searchsorted,
    "bucketize": _bucketize,
    "one_hot": _one_hot,
    "histc": _histc,
    "histogram": _histogram,
    "embedding_renorm": _renormed,
    "segment_reduce": _segment_reduce,
}
