"""constant and iota."""

import numpy as np

from hlo2tx8.hlo.ops.forms import DTYPES, SHAPES, dense
from hlo2tx8.hlo.rounding import integers_to_double, narrow, wrap
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import dtype, is_integer


def constant(attributes: Attributes, results: tuple[TensorLike, ...]) -> Array:
    """The literal; a splat is kept as a 0-d array and shown with all its elements (a read-only view)."""
    value = np.asarray(attributes["value"])
    return np.broadcast_to(value, results[0].shape)


def iota(attributes: Attributes, results: tuple[TensorLike, ...]) -> Array:
    """The index along iota_dimension, in the result's dtype."""
    (result,) = results
    along = int(attributes["iota_dimension"])
    line = np.arange(result.shape[along], dtype=np.int64)
    values = wrap(line, result.dtype) if is_integer(result.dtype) else narrow(integers_to_double(line), result.dtype)
    shape = [1] * len(result.shape)
    shape[along] = -1
    return dense(np.broadcast_to(values.reshape(shape), result.shape))


def no_operands(_: Attributes, __: TensorLike, ___: tuple[TensorLike, ...]) -> Maps:
    return ()


def _constant_samples() -> tuple[Sample, ...]:
    tensors = [TensorLike(SHAPES[i % len(SHAPES)], dtype(name)) for i, name in enumerate(DTYPES)]
    return tuple(Sample((), (t,), {"value": np.ones((), t.dtype)}) for t in tensors)


def _iota_samples() -> tuple[Sample, ...]:
    return tuple(
        Sample((), (TensorLike((2, 3), dtype(name)),), {"iota_dimension": i % 2}) for i, name in enumerate(DTYPES) if name != "bool"
    )


SPECS = (
    OpSpec("stablehlo.constant", Kind.CONSTANT, constant, no_operands, samples=_constant_samples),
    OpSpec("chlo.constant", Kind.CONSTANT, constant, no_operands),
    OpSpec(
        "stablehlo.iota",
        Kind.SHAPING,
        iota,
        no_operands,
        samples=_iota_samples,
        batch_dimensions=lambda attributes, rank: tuple(d for d in range(rank) if d != int(attributes["iota_dimension"])),
        is_free=True,
    ),
)
