"""The byte that an element of f8, f6, f4, i4 or i2 is kept in."""

import numpy as np

from hlo2tx8.hlo.ops.forms import identity_maps, raw
from hlo2tx8.hlo.spec import Array, Attributes, Kind, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import dtype

NARROW = ("int4", "uint4", "int2", "uint2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")


def _reinterpret(_: Attributes, result: TensorLike, x: Array) -> Array:
    return np.ascontiguousarray(x).view(result.dtype).reshape(x.shape)


def _samples(*, is_to: bool) -> tuple[Sample, ...]:
    pairs = tuple((TensorLike((3, 5), dtype(name)), TensorLike((3, 5), np.dtype(np.uint8))) for name in NARROW)
    return tuple(Sample((a,), (b,)) if is_to else Sample((b,), (a,)) for a, b in pairs)


SPECS = (
    OpSpec("hlo.to_bits", Kind.ELEMENTWISE, raw(_reinterpret), identity_maps, samples=lambda: _samples(is_to=True)),
    OpSpec("hlo.from_bits", Kind.ELEMENTWISE, raw(_reinterpret), identity_maps, samples=lambda: _samples(is_to=False)),
)
