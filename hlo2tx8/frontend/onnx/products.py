"""Matrix products and convolutions, of integers too. Windows and paddings are as pooling has them."""

# pyright: basic

from typing import Any

import jax.numpy as jnp
from jax import lax

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow
from hlo2tx8.frontend.onnx.windows import Windows


def _gemm(call: NodeCall, a: Any, b: Any, c: Any = None) -> Any:
    a, b = (m.T if call[key] else m for key, m in (("transA", a), ("transB", b)))
    y = a @ b
    y = y if call["alpha"] in (None, 1) else call["alpha"] * y
    if c is None:
        return y
    return y + (c if call["beta"] in (None, 1) else call["beta"] * c)


def _einsum(call: NodeCall, *inputs: Any) -> Any:
    return jnp.einsum(call["equation"].replace(" ", ""), *inputs)


def _layout(rank: int) -> lax.ConvDimensionNumbers:
    order = tuple(range(rank))
    return lax.ConvDimensionNumbers(order, order, order)


def convolve(call: NodeCall, x: Any, w: Any, dtype: Any = None) -> Any:
    """x * w without a bias; `dtype` is that of the sums."""
    windows = Windows.of(call, x.shape[2:], call["kernel_shape"] or w.shape[2:])
    return lax.conv_general_dilated(
        x,
        w,
        windows.strides,
        windows.pads,
        rhs_dilation=windows.dilations,
        dimension_numbers=_layout(x.ndim),
        feature_group_count=call["group"] or 1,
        preferred_element_type=dtype,
    )


def _conv(call: NodeCall, x: Any, w: Any, b: Any = None) -> Any:
    y = convolve(call, x, w)
    return y if b is None else y + b.reshape(-1, *(1,) * (x.ndim - 2))


def _conv_transpose(call: NodeCall, x: Any, w: Any, b: Any = None) -> Any:
    """The gradient of a convolution: `x` spread by strides, convolved with the kernel turned around."""
    rank, groups = x.ndim - 2, call["group"] or 1
    kernel = tuple(w.shape[2:])
    strides, dilations = (tuple(call[key] or (1,) * rank) for key in ("strides", "dilations"))
    more = tuple(call["output_padding"] or (0,) * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    full = [s * (n - 1) + m + k for n, s, m, k in zip(x.shape[2:], strides, more, spans, strict=True)]
    auto = call["auto_pad"] or "NOTSET"
    if call["output_shape"] is not None or auto.startswith("SAME"):
        wanted = call["output_shape"] or [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
        total = [n - m for n, m in zip(full, wanted[-rank:], strict=True)]
        halves = [(t // 2, t - t // 2) if auto == "SAME_UPPER" else (t - t // 2, t // 2) for t in total]
    else:
        pads = call["pads"] or (0,) * 2 * rank
        halves = list(zip(pads[:rank], pads[rank:], strict=True))
    ends = [(k - 1 - low, k - 1 - high + m) for k, m, (low, high) in zip(spans, more, halves, strict=True)]
    c, out = w.shape[:2]
    turned = jnp.flip(w, tuple(range(2, w.ndim))).reshape(groups, c // groups, out, *kernel)
    turned = jnp.swapaxes(turned, 1, 2).reshape(groups * out, c // groups, *kernel)
    y = lax.conv_general_dilated(
        x,
        turned,
        (1,) * rank,
        ends,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=_layout(x.ndim),
        feature_group_count=groups,
    )
    return y if b is None else y + b.reshape(-1, *(1,) * rank)


def _det(_: NodeCall, x: Any) -> Any:
    """By elimination with the greatest pivot of each column, of all matrices at once."""
    size, found = x.shape[-1], jnp.ones(x.shape[:-2], x.dtype)
    for k in range(size):
        pivot = k + jnp.argmax(jnp.abs(x[..., k:, k]), -1).astype(jnp.int32)
        chosen = jnp.take_along_axis(x, pivot[..., None, None], -2)
        first = x[..., k : k + 1, :]
        rows = jnp.arange(size, dtype=jnp.int32)[:, None]
        x = jnp.where(rows == pivot[..., None, None], first, x)
        x = jnp.where(rows == k, chosen, x)
        head = x[..., k, k]
        found = found * head * jnp.where(pivot == k, 1, -1).astype(x.dtype)
        factor = x[..., :, k] / jnp.where(head == 0, jnp.ones_like(head), head)[..., None]
        factor = jnp.where(rows[:, 0] > k, factor, jnp.zeros_like(factor))
        x = x - factor[..., None] * x[..., k : k + 1, :]
    return found


ROWS: dict[str, OpRow] = {
    "Conv": OpRow(_conv),
    "ConvTranspose": OpRow(_conv_transpose),
    "Det": OpRow(_det),
    "Einsum": OpRow(_einsum),
    "Gemm": OpRow(_gemm),
    "MatMul": OpRow(lambda _, a, b: jnp.matmul(a, b)),
}
