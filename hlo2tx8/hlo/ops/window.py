"""reduce_window and select_and_scatter: operations over windows that slide over an operand."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo2tx8.hlo.ops.reduce import sum_rows
from hlo2tx8.hlo.ops.shaping import pad
from hlo2tx8.hlo.spec import Array, Attributes, Body, Kind, OpSpec, TensorLike

Dims = tuple[int, ...]
Results = tuple[TensorLike, ...]


@dataclass(frozen=True)
class Window:
    """The shape of windows: their size, their strides, dilations of operand (base) and window, and padding.

    One entry per dimension of the operand; `low` and `high` padding may be negative.
    """

    size: Dims
    strides: Dims
    base_dilations: Dims
    window_dilations: Dims
    low: Dims
    high: Dims

    @staticmethod
    def of(attributes: Attributes) -> "Window":
        """The window of reduce_window or select_and_scatter; what is not given is 1, or 0 for padding."""
        size: Dims = tuple(attributes["window_dimensions"])
        padding: Array = np.asarray(attributes.get("padding", np.zeros((len(size), 2), np.int64))).reshape(len(size), 2)

        def given(name: str) -> Dims:
            return tuple(attributes.get(name, (1,) * len(size)))

        low, high = (tuple(int(n) for n in padding[:, side]) for side in (0, 1))
        return Window(size, given("window_strides"), given("base_dilations"), given("window_dilations"), low, high)

    @property
    def interior(self) -> Dims:
        """The number of padding elements between neighbouring elements of the operand."""
        return tuple(d - 1 for d in self.base_dilations)

    def between_dimensions(self) -> "Window":
        """The same window with one more dimension of size 1 at the front and at the back."""
        sides = (self.size, self.strides, self.base_dilations, self.window_dilations)
        size, strides, base, dilations = ((1, *values, 1) for values in sides)
        return Window(size, strides, base, dilations, (0, *self.low, 0), (0, *self.high, 0))

    def slice(self, offset: Sequence[int], counts: Sequence[int]) -> tuple[slice, ...]:
        """The slices of the padded operand that hold element `offset` of each of `counts` windows."""
        each = zip(offset, self.window_dilations, self.strides, counts, strict=True)
        return tuple(slice(o * d, o * d + max(0, n - 1) * s + 1 if n else o * d, s) for o, d, s, n in each)


def padded(window: Window, x: Array, value: Array) -> Array:
    """The operand with `value` as its padding."""
    sizes = zip(x.shape, window.low, window.high, window.interior, strict=True)
    shape = tuple(max(0, low + high + n + max(0, n - 1) * inner) for n, low, high, inner in sizes)
    attributes = {"edge_padding_low": window.low, "interior_padding": window.interior}
    return pad(attributes, (TensorLike(shape, x.dtype),), x, value)


def reduce_window(attributes: Attributes, results: Results, bodies: Sequence[Body], *arrays: Array) -> list[Array]:
    """The reduction of the elements in every window; padding takes no part, as in XLA. Float sums are accumulated in float64."""
    (body,), window, shape = bodies, Window.of(attributes), results[0].shape
    half = len(arrays) // 2
    initial = arrays[half:]
    if 0 in shape:
        return [np.empty(shape, r.dtype) for r in results]
    inputs = [padded(window, x, np.array(-0.0).astype(x.dtype)) for x in arrays[:half]]
    is_inside = padded(window, np.ones(arrays[0].shape, bool), np.zeros((), bool))
    offsets = [window.slice(offset, shape) for offset in np.ndindex(*window.size)]
    if half == 1 and body.only_adds:
        return [sum_rows(np.stack([inputs[0][where] for where in offsets]), initial[0])]
    found = [np.broadcast_to(start, shape) for start in initial]
    for where in offsets:
        joined = body(*found, *(x[where] for x in inputs))
        found = [np.where(is_inside[where], new, old) for new, old in zip(joined, found, strict=True)]
    return [np.array(array) for array in found]


def select_and_scatter(
    attributes: Attributes, results: Results, bodies: Sequence[Body], x: Array, source: Array, initial: Array
) -> list[Array]:
    """Each window selects one of its elements, and its element of `source` is added (by the combining body) to the result at that
    index.
    """
    (select, scatter), window = bodies, Window.of(attributes)
    out = np.full(results[0].shape, initial, results[0].dtype)
    for place in np.ndindex(*source.shape):
        chosen: Dims | None = None
        for offset in np.ndindex(*window.size):
            at = tuple(p * s + o - low for p, s, o, low in zip(place, window.strides, offset, window.low, strict=True))
            if any(not 0 <= a < n for a, n in zip(at, x.shape, strict=True)):
                continue
            if chosen is None or not bool(select(np.asarray(x[chosen]), np.asarray(x[at]))[0]):
                chosen = at
        if chosen is not None:
            out[chosen] = scatter(np.asarray(out[chosen]), np.asarray(source[place]))[0]
    return [out]


def window_free_dimensions(attributes: Attributes, rank: int) -> tuple[int, ...]:
    """Dimensions along which every window is one element and each element has a window: no stride, dilation or padding."""
    w = Window.of(attributes)
    steps = zip(w.size, w.strides, w.base_dilations, strict=True)
    return tuple(d for d, step in zip(range(rank), steps, strict=True) if step == (1, 1, 1) and w.low[d] == w.high[d] == 0)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("stablehlo.reduce_window", Kind.HERO, ulp=1, body_reference=reduce_window, batch_dimensions=window_free_dimensions),
    OpSpec(
        "stablehlo.select_and_scatter",
        Kind.HERO,
        ulp=1,
        body_reference=select_and_scatter,
        batch_dimensions=window_free_dimensions,
    ),
)
