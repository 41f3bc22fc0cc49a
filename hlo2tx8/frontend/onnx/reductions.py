"""Reductions, softmax and normalizations."""

# pyright: basic

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax, nn

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, axes_of, axis_of


def _reduction(function: Callable[..., Any]) -> OpRow:
    """A row of a function of an array, axes and whether they stay as dimensions of size 1."""

    def apply(call: NodeCall, x: Any, axes: Any = None) -> Any:
        x = jnp.asarray(x)
        chosen = axes_of(call, axes, x.ndim)
        if not chosen:
            if call["noop_with_empty_axes"]:
                return function(x[None], (0,), False)
            chosen = tuple(range(x.ndim))
        return function(x, chosen, bool(call["keepdims"])).astype(x.dtype)

    return OpRow(apply, (1,))


def _log_sum_exp(x: Any, axes: tuple[int, ...], keeps: bool) -> Any:
    """max(x) + log(sum(exp(x - max(x)))): -inf of nothing."""
    if 0 in x.shape:
        return jnp.log(jnp.sum(jnp.exp(x), axes, keepdims=keeps))
    most = jnp.max(x, axes, keepdims=True)
    most = jnp.where(jnp.isfinite(most), most, jnp.zeros_like(most))
    total = jnp.log(jnp.sum(jnp.exp(x - most), axes, keepdims=True)) + most
    return total if keeps else jnp.squeeze(total, axes)


def _extreme(function: Callable[..., Any], is_most: bool) -> Callable[..., Any]:
    """The greatest or least; of no elements the dtype's other end."""

    def reduced(x: Any, axes: tuple[int, ...], keeps: bool) -> Any:
        if x.dtype == bool:
            return (jnp.any if is_most else jnp.all)(x, axes, keepdims=keeps)
        if jnp.issubdtype(x.dtype, jnp.floating):
            return function(x, axes, keepdims=keeps, initial=-jnp.inf if is_most else jnp.inf)
        ends = jnp.iinfo(x.dtype)
        return function(x, axes, keepdims=keeps, initial=ends.min if is_most else ends.max)

    return reduced


def _sum_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes, keeps: jnp.sum(function(x), axes, keepdims=keeps)


def _softmax(function: Callable[..., Any]) -> OpRow:
    """A row of a function along one axis; before opset 13 all dimensions from `axis` on are one."""

    def apply(call: NodeCall, x: Any) -> Any:
        axis = axis_of(call["axis"], jnp.ndim(x))
        if call.since >= 13:
            return function(x, axis)
        flat = jnp.reshape(x, (*jnp.shape(x)[:axis], -1))
        return jnp.reshape(function(flat, axis), jnp.shape(x))

    return OpRow(apply)


def _hardmax(x: Any, axis: int) -> Any:
    return nn.one_hot(jnp.argmax(x, axis), x.shape[axis], axis=axis, dtype=x.dtype)


def _layer_norm(call: NodeCall, x: Any, scale: Any, bias: Any = None) -> Any:
    """Mean 0 and variance 1 over all dimensions from `axis` on, computed in f32; also what was subtracted and multiplied by."""
    axes = tuple(range(axis_of(call["axis"], x.ndim), x.ndim))
    wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    mean = jnp.mean(wide, axes, keepdims=True)
    centred = wide - mean
    factor = lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + call["epsilon"])
    y = (centred * factor).astype(x.dtype) * scale
    return (y if bias is None else y + bias), mean, factor


def _rms_norm(call: NodeCall, x: Any, scale: Any) -> Any:
    axes = tuple(range(axis_of(call["axis"], x.ndim), x.ndim))
    wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    factor = lax.rsqrt(jnp.mean(wide * wide, axes, keepdims=True) + call["epsilon"])
    return (wide * factor).astype(scale.dtype) * scale


def _per_channel(v: Any, rank: int) -> Any:
    return jnp.reshape(v, (-1,) + (1,) * (rank - 2))


def _batch_norm(call: NodeCall, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    """By given statistics; where `training_mode` by those of the batch, and the running ones are results too."""
    if not (call["training_mode"] or (call.since < 7 and not call["is_test"])):
        factor = scale * lax.rsqrt(variance + call["epsilon"])
        y = (x - _per_channel(mean, x.ndim)) * _per_channel(factor, x.ndim) + _per_channel(bias, x.ndim)
        return (y, *[jnp.asarray(v) for v in (mean, variance, mean, variance)][: len(call.outputs) - 1])
    axes = (0, *range(2, x.ndim))
    own, spread = jnp.mean(x, axes), jnp.var(x, axes)
    y = (x - _per_channel(own, x.ndim)) * _per_channel(scale * lax.rsqrt(spread + call["epsilon"]), x.ndim)
    running = (old * call["momentum"] + new * (1 - call["momentum"]) for old, new in ((mean, own), (variance, spread)))
    return (y + _per_channel(bias, x.ndim), *running)


def _instance_norm(call: NodeCall, x: Any, scale: Any, bias: Any) -> Any:
    axes = tuple(range(2, x.ndim))
    centred = x - jnp.mean(x, axes, keepdims=True)
    factor = lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + call["epsilon"])
    return centred * factor * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)


def _group_norm(call: NodeCall, x: Any, scale: Any, bias: Any) -> Any:
    """Groups of channels; scale and bias are those of a group before opset 21, of a channel since."""
    groups = call["num_groups"]
    parts = x.reshape(x.shape[0], groups, -1).astype(jnp.float32)
    centred = parts - jnp.mean(parts, -1, keepdims=True)
    factor = lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + call["epsilon"])
    y = (centred * factor).astype(x.dtype).reshape(x.shape)
    scale, bias = (jnp.repeat(v, x.shape[1] // groups) if call.since < 21 else v for v in (scale, bias))
    return y * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)


def _lrn(call: NodeCall, x: Any) -> Any:
    """x / (bias + alpha / size * sum of the squares of the channels around)^beta."""
    size = call["size"]
    window = [size if d == 1 else 1 for d in range(x.ndim)]
    around = [((size - 1) // 2, size // 2) if d == 1 else (0, 0) for d in range(x.ndim)]
    total = lax.reduce_window(x * x, jnp.zeros((), x.dtype), lax.add, window, (1,) * x.ndim, around)
    return x / (call["bias"] + call["alpha"] / size * total) ** call["beta"]


def _lp_norm(call: NodeCall, x: Any) -> Any:
    axis = call["axis"]
    total = jnp.sum(jnp.abs(x), axis, keepdims=True) if call["p"] == 1 else jnp.sqrt(jnp.sum(x * x, axis, keepdims=True))
    return jnp.where(total == 0, jnp.zeros_like(x), x / total)


def _mean_variance(call: NodeCall, x: Any) -> Any:
    axes = tuple(call["axes"] or (0, 2, 3))
    return (x - jnp.mean(x, axes, keepdims=True)) / (jnp.std(x, axes, keepdims=True) + 1e-9)


ROWS: dict[str, OpRow] = {
    "BatchNormalization": OpRow(_batch_norm),
    "GroupNormalization": OpRow(_group_norm),
    "Hardmax": _softmax(_hardmax),
    "InstanceNormalization": OpRow(_instance_norm),
    "LRN": OpRow(_lrn),
    "LayerNormalization": OpRow(_layer_norm),
    "LogSoftmax": _softmax(lambda x, axis: nn.log_softmax(x, axis)),
    "LpNormalization": OpRow(_lp_norm),
    "MeanVarianceNormalization": OpRow(_mean_variance),
    "RMSNormalization": OpRow(_rms_norm),
    "ReduceL1": _reduction(_sum_of(jnp.abs)),
    "ReduceL2": _reduction(lambda x, axes, keeps: jnp.sqrt(jnp.sum(x * x, axes, keepdims=keeps))),
    "ReduceLogSum": _reduction(lambda x, axes, keeps: jnp.log(jnp.sum(x, axes, keepdims=keeps))),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(_extreme(jnp.max, is_most=True)),
    "ReduceMean": _reduction(lambda x, axes, keeps: jnp.mean(x, axes, keepdims=keeps)),
    "ReduceMin": _reduction(_extreme(jnp.min, is_most=False)),
    "ReduceProd": _reduction(lambda x, axes, keeps: jnp.prod(x, axes, keepdims=keeps)),
    "ReduceSum": _reduction(lambda x, axes, keeps: jnp.sum(x, axes, keepdims=keeps)),
    "ReduceSumSquare": _reduction(_sum_of(lambda x: x * x)),
    "Softmax": _softmax(lambda x, axis: nn.softmax(x, axis)),
}
