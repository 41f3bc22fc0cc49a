"""batch_norm_inference, _training and _grad: along one dimension, the features, at full precision."""

from collections.abc import Sequence

import numpy as np

from hlo2tx8.hlo.rounding import narrow, widen_to_double
from hlo2tx8.hlo.spec import Array, Attributes, Kind, Maps, OpSpec, TensorLike
from hlo2tx8.indexing import Dim, IndexingMap

Results = tuple[TensorLike, ...]


def _prepared(attributes: Attributes, x: Array, *of_features: Array) -> tuple[list[Array], tuple[int, ...]]:
    """x and the values per feature in float64, which broadcast; the dimensions that are not the features'."""
    feature = int(attributes["feature_index"])
    shape = [n if d == feature else 1 for d, n in enumerate(x.shape)]
    others = tuple(d for d in range(x.ndim) if d != feature)
    return [widen_to_double(x), *(widen_to_double(a).reshape(shape) for a in of_features)], others


def _narrowed(found: Sequence[Array], results: Results) -> tuple[Array, ...]:
    return tuple(narrow(np.reshape(f, r.shape), r.dtype) for f, r in zip(found, results, strict=True))


def inference(attributes: Attributes, results: Results, *arrays: Array) -> tuple[Array, ...]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    (x, scale, offset, mean, variance), _ = _prepared(attributes, *arrays)
    with np.errstate(all="ignore"):
        return _narrowed([(x - mean) / np.sqrt(variance + attributes["epsilon"]) * scale + offset], results)


def training(attributes: Attributes, results: Results, *arrays: Array) -> tuple[Array, ...]:
    """The same with the mean and the variance of x, which are results too."""
    (x, scale, offset), others = _prepared(attributes, *arrays)
    with np.errstate(all="ignore"):
        mean, variance = x.mean(others, keepdims=True), x.var(others, keepdims=True)
        y = (x - mean) / np.sqrt(variance + attributes["epsilon"]) * scale + offset
        return _narrowed([y, mean, variance], results)


def grad(attributes: Attributes, results: Results, *arrays: Array) -> tuple[Array, ...]:
    """Gradients of training by its operands, from that of its first result."""
    x, scale, mean, variance, dy = arrays
    (x, scale, mean, variance), others = _prepared(attributes, x, scale, mean, variance)
    dy = widen_to_double(dy)
    with np.errstate(all="ignore"):
        deviation = np.sqrt(variance + attributes["epsilon"])
        normal = (x - mean) / deviation
        dscale, doffset = (dy * normal).sum(others, keepdims=True), dy.sum(others, keepdims=True)
        count = x.size / max(scale.size, 1)
        dx = scale / deviation * (dy - (doffset + normal * dscale) / count)
        return _narrowed([dx, dscale, doffset], results)


def inference_maps(attributes: Attributes, result: TensorLike, operands: tuple[TensorLike, ...]) -> Maps:
    """x at the same index, the others at its feature."""
    identity = IndexingMap.identity(result.shape)
    of_feature = identity.with_results((Dim(int(attributes["feature_index"])),))
    return ((identity,), *((of_feature,) for _ in operands[1:]))


SPECS = (
    OpSpec("stablehlo.batch_norm_inference", Kind.PER_CHANNEL, inference, indexing=inference_maps, ulp=8),
    OpSpec("stablehlo.batch_norm_training", Kind.HERO, training, ulp=8),
    OpSpec("stablehlo.batch_norm_grad", Kind.HERO, grad, ulp=8),
)
