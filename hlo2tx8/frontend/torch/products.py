"""Products of matrices, convolutions, normalisation, attention."""

# pyright: basic

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.attention import attention
from hlo2tx8.frontend.onnx.table import NodeCall
from hlo2tx8.frontend.torch.table import AtenCall, Rows, each, gradient, plain, widened
from hlo2tx8.frontend.traced import Refused


def _plus(beta: Any, x: Any, alpha: Any, product: Any, dtype: Any) -> Any:
    """beta x + alpha product; x is not looked at where beta is 0."""
    product = product if alpha == 1 else product * jnp.asarray(alpha, product.dtype)
    if beta == 0:
        return product
    x = x.astype(product.dtype)
    return product + (x if beta == 1 else x * jnp.asarray(beta, x.dtype))


def _added(product: Any) -> Any:
    def apply(call: AtenCall, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        return _plus(beta, x, alpha, product(a, b), call.dtype)

    return apply


def _matmul(a: Any, b: Any) -> Any:
    if a.dtype == bool:
        return jnp.matmul(a.astype(jnp.int32), b.astype(jnp.int32)) != 0
    wide = jnp.float32 if a.dtype.itemsize < 4 and jnp.issubdtype(a.dtype, jnp.floating) else a.dtype
    return jnp.matmul(a, b, preferred_element_type=wide)


def _linear(call: AtenCall, x: Any, w: Any, b: Any = None) -> Any:
    y = _matmul(x, w.T)
    return y if b is None else y + b.astype(y.dtype)


def _einsum(call: AtenCall, equation: str, arrays: Any, *_: Any) -> Any:
    return jnp.einsum(equation.replace(" ", ""), *arrays)


def _bilinear(call: AtenCall, x: Any, y: Any, w: Any, b: Any = None) -> Any:
    found = jnp.einsum("...i,oij,...j->...o", x, w, y)
    return found if b is None else found + b


def _trilinear(call: AtenCall, a: Any, b: Any, c: Any, e1: Any, e2: Any, e3: Any, summed: Any, *_: Any) -> Any:
    a, b, c = (jnp.expand_dims(x, tuple(e)) for x, e in ((a, e1), (b, e2), (c, e3)))
    return jnp.sum(a * b * c, tuple(summed))


def _convolved(x: Any, w: Any, b: Any, stride: Any, pads: Any, dilation: Any, is_transposed: bool, more: Any, groups: int) -> Any:
    """A convolution of [batch, channels, ...], with or without the batch; transposed, the gradient of one."""
    rank = w.ndim - 2
    if x.ndim == rank + 1:
        return _convolved(x[None], w, b, stride, pads, dilation, is_transposed, more, groups)[0]
    stride, pads, dilation, more = (each(v, rank) for v in (stride, pads, dilation, more))
    spatial = "".join("DHW"[3 - rank :]) if rank <= 3 else "".join(chr(97 + k) for k in range(rank))
    numbers = (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")
    if is_transposed:
        spans = [(n - 1) * d + 1 for n, d in zip(w.shape[2:], dilation, strict=True)]
        paddings = [(s - 1 - p, s - 1 - p + m) for s, p, m in zip(spans, pads, more, strict=True)]
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        w = jnp.swapaxes(w, 1, 2).reshape(-1, w.shape[1], *w.shape[3:])
        w = lax.rev(w, tuple(range(2, rank + 2)))
        y = lax.conv_general_dilated(x, w, (1,) * rank, paddings, stride, dilation, numbers, groups)
    else:
        y = lax.conv_general_dilated(x, w, stride, [(p, p) for p in pads], None, dilation, numbers, groups)
    return y if b is None else y + b.reshape(-1, *(1,) * rank).astype(y.dtype)


def _convolution(call: AtenCall, x: Any, w: Any, b: Any, *rest: Any) -> Any:
    if jnp.iscomplexobj(x):
        parts = [[_convolved(p, q, None, *rest) for q in (w.real, w.imag)] for p in (x.real, x.imag)]
        y = lax.complex(parts[0][0] - parts[1][1], parts[0][1] + parts[1][0])
        return y if b is None else y + b.reshape(-1, *(1,) * (w.ndim - 2))
    return _convolved(x, w, b, *rest)


def _convolution_backward(call: AtenCall, g: Any, x: Any, w: Any, sizes: Any, *arguments: Any) -> Any:
    *rest, mask = arguments
    gx, gw = gradient(lambda x, w: _convolved(x, w, None, *rest), (x, w), g)
    gb = jnp.sum(g.astype(widened(g.dtype)), [d for d in range(g.ndim) if d != g.ndim - w.ndim + 1])
    return tuple(r if wanted else None for r, wanted in zip((gx, gw, gb), mask, strict=True))


def _layer_norm(call: AtenCall, x: Any, shape: Any, w: Any, b: Any, eps: float) -> Any:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    wide = x.astype(widened(x.dtype))
    mean = jnp.mean(wide, dims, keepdims=True)
    rest = lax.rsqrt(jnp.mean(jnp.square(wide - mean), dims, keepdims=True) + eps)
    y = (wide - mean) * rest
    y = y if w is None else y * w.astype(y.dtype)
    return (y if b is None else y + b.astype(y.dtype)).astype(x.dtype), mean, rest


def _layer_norm_backward(call: AtenCall, g: Any, x: Any, shape: Any, mean: Any, rest: Any, w: Any, b: Any, mask: Any) -> Any:
    dims, outer = tuple(range(x.ndim - len(shape), x.ndim)), tuple(range(x.ndim - len(shape)))
    g, wide = g.astype(widened(g.dtype)), x.astype(widened(x.dtype))
    normal = (wide - mean) * rest
    weighted = g if w is None else g * w.astype(g.dtype)
    gx = rest * (weighted - jnp.mean(weighted, dims, keepdims=True) - normal * jnp.mean(weighted * normal, dims, keepdims=True))
    found = (gx, jnp.sum(g * normal, outer), jnp.sum(g, outer))
    return tuple(r if wanted else None for r, wanted in zip(found, mask, strict=True))


def _rms_norm(call: AtenCall, x: Any, shape: Any, w: Any = None, eps: Any = None) -> Any:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    wide = x.astype(widened(x.dtype))
    eps = float(jnp.finfo(wide.dtype).eps) if eps is None else eps
    rest = lax.rsqrt(jnp.mean(jnp.square(wide), dims, keepdims=True) + eps)
    y = wide * rest
    return (y if w is None else y * w.astype(y.dtype)).astype(x.dtype), rest


def _grouped(x: Any, w: Any, b: Any, groups: int, eps: float) -> Any:
    shape = x.shape
    rows = x.astype(widened(x.dtype)).reshape(shape[0], groups, -1)
    mean = jnp.mean(rows, -1)
    rest = lax.rsqrt(jnp.mean(jnp.square(rows - mean[..., None]), -1) + eps)
    y = ((rows - mean[..., None]) * rest[..., None]).reshape(shape)
    over = (-1, *(1,) * (len(shape) - 2))
    y = y if w is None else y * w.astype(y.dtype).reshape(over)
    return (y if b is None else y + b.astype(y.dtype).reshape(over)), mean, rest


def _batch_norm_of_running(call: AtenCall, x: Any, w: Any, b: Any, mean: Any, variance: Any, momentum: float, eps: float) -> Any:
    """In inference; statistics of the batch are empty, as on torch's cpu."""
    over = tuple(range(1, x.ndim - 1))
    mean, variance, w, b = (v if v is None else jnp.expand_dims(v.astype(widened(x.dtype)), over) for v in (mean, variance, w, b))
    rest = lax.rsqrt(variance + eps)
    y = (x.astype(mean.dtype) - mean) * rest
    y = y if w is None else y * w
    y = y if b is None else y + b
    return y.astype(x.dtype), jnp.zeros((0,), x.dtype), jnp.zeros((0,), x.dtype)


def _group_norm(call: AtenCall, x: Any, w: Any, b: Any, n: Any, c: Any, hw: Any, groups: int, eps: float) -> Any:
    y, mean, rest = _grouped(x, w, b, groups, eps)
    return y.astype(x.dtype), mean, rest


def _attended(q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: Any) -> Any:
    """softmax(scale Q Kᵀ + mask) V of [..., rows, size]; heads of queries may share keys and values."""
    rank = q.ndim
    lead = jnp.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    q, k, v = (jnp.broadcast_to(a, (*lead, *a.shape[-3:])) if rank > 3 else a for a in (q, k, v))
    flat = [a.reshape(math.prod(a.shape[:-3]), *(a.shape[-3:] if rank >= 3 else (1, *a.shape))) for a in (q, k, v)]
    if mask is not None and rank > 4:
        mask = jnp.broadcast_to(mask, (*q.shape[:-1], k.shape[-2])).reshape(flat[0].shape[0], *q.shape[-3:-1], k.shape[-2])
    if mask is not None and mask.dtype != bool:
        mask = mask.astype(q.dtype)
    call = NodeCall("Attention", "", 24, {"scale": scale, "is_causal": is_causal}, ("y",))
    found = attention(call, flat[0], flat[1], flat[2], mask)[0]
    return found.reshape(*q.shape[:-1], v.shape[-1])


def _sdpa(call: AtenCall, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, is_causal: bool = False,
          scale: Any = None, gqa: bool = False) -> Any:  # fmt: skip
    if dropout:
        raise Refused("attention with dropout in one op")
    if scale is not None and scale < 0:
        q, scale = -q, -scale
    return _attended(q, k, v, mask, is_causal, scale)


def _flash(call: AtenCall, q: Any, k: Any, v: Any, dropout: float = 0.0, is_causal: bool = False, mask: Any = None,
           scale: Any = None) -> Any:  # fmt: skip
    """Attention, and the logarithm of the sums of exponentials, [batch, heads, rows]."""
    y = _sdpa(call, q, k, v, mask, dropout, is_causal, scale)
    scores = _scores(q, k, mask, is_causal, scale)
    return y, jax.scipy.special.logsumexp(scores, -1)


def _scores(q: Any, k: Any, mask: Any, is_causal: bool, scale: Any) -> Any:
    kind = widened(q.dtype)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    k = jnp.repeat(k, q.shape[1] // k.shape[1], 1) if q.shape[1] != k.shape[1] else k
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=kind) * jnp.asarray(factor, kind)
    if is_causal:
        scores = jnp.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    if mask is None:
        return scores
    return jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask.astype(kind)


def _flash_backward(call: AtenCall, g: Any, q: Any, k: Any, v: Any, y: Any, sums: Any, dropout: float, is_causal: bool,
                    mask: Any = None, scale: Any = None) -> Any:  # fmt: skip
    return gradient(lambda q, k, v: _attended(q, k, v, mask, is_causal, scale), (q, k, v), g)


def _int_mm(call: AtenCall, a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, preferred_element_type=jnp.int32)


ROWS: Rows = {
    **plain(mm=_matmul, bmm=_matmul, matmul=_matmul, dot=_matmul, mv=_matmul, vdot=lambda a, b: _matmul(jnp.conj(a), b)),
    "addmm": _added(_matmul),
    "addmv": _added(_matmul),
    "baddbmm": _added(_matmul),
    "addbmm": _added(lambda a, b: jnp.sum(_matmul(a, b), 0)),
    "_int_mm": _int_mm,
    "linear": _linear,
    "einsum": _einsum,
    "bilinear": _bilinear,
    "_trilinear": _trilinear,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "_fused_rms_norm": _rms_norm,
    "rms_norm": lambda *arguments: _rms_norm(*arguments)[0],
    "_native_batch_norm_legit_no_training": _batch_norm_of_running,
    "native_group_norm": _group_norm,
    "scaled_dot_product_attention": _sdpa,
    "_scaled_dot_product_flash_attention_for_cpu": _flash,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _flash_backward,
}
