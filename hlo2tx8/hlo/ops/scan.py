"""hlo.scan: each element of a line joined with all before it."""

from collections.abc import Callable, Sequence

import numpy as np

from hlo2tx8.hlo.rounding import narrow
from hlo2tx8.hlo.spec import Array, Attributes, Body, Kind, OpSpec, TensorLike
from hlo2tx8.hlo.types import is_float

Combine = Callable[[Sequence[Array]], Sequence[Array]]
"""A combiner: of all first operands and all second ones."""


def scanned(values: Sequence[Array], starts: Sequence[Array], axis: int, combine: Combine) -> list[Array]:
    """The values, each joined with the one before it along an axis, then with that 2, 4, 8 ... before; and the starts in front."""
    found, distance = list(values), 1
    while distance < found[0].shape[axis]:
        size = found[0].shape[axis]
        parts = (range(size - distance), range(distance, size), range(distance))
        first, rest, kept = ([np.take(value, part, axis) for value in found] for part in parts)
        joined = combine([*first, *rest])
        found = [np.concatenate([a, b], axis) for a, b in zip(kept, joined, strict=True)]
        distance *= 2
    return list(combine([*starts, *found]))


def scan(attributes: Attributes, _: tuple[TensorLike, ...], bodies: Sequence[Body], *arrays: Array) -> list[Array]:
    """The first operands, scanned along `dimension` from the second ones; sums of narrow floats are kept in f32."""
    dim, half = int(attributes["dimension"]), len(arrays) // 2
    dtypes = [value.dtype for value in arrays[:half]]
    combine: Combine = lambda operands: bodies[0](*operands)
    if bodies[0].only_adds and is_float(dtypes[0]) and dtypes[0].itemsize < 4:
        arrays = tuple(array.astype(np.float32) for array in arrays)
        combine = lambda operands: [operands[0] + operands[1]]  # the region's own addition rounds to its type
    shape = arrays[0].shape
    starts = [np.broadcast_to(start, shape) for start in arrays[half:]]
    found = scanned(arrays[:half], starts, dim, combine)
    return [narrow(value, dtype) for value, dtype in zip(found, dtypes, strict=True)]


SPECS = (OpSpec("hlo.scan", Kind.HERO, body_reference=scan),)
