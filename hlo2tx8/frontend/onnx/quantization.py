"""Quantization: integers for numbers by scales and zero points, and products of such integers."""

# pyright: basic

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.conversion import convert, dtype_of, is_float
from hlo2tx8.frontend.onnx.products import convolve
from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, axis_of
from hlo2tx8.frontend.onnx.windows import Windows


def _spread(call: NodeCall, v: Any, x: Any) -> Any:
    """Scales or zero points for each element: one for all, one of each index along `axis`, or one of each block along it."""
    if v is None or v.size == 1:
        return v if v is None else v.reshape(())
    axis = axis_of(call["axis"], x.ndim)
    if v.ndim == 1:
        return v.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    block = call["block_size"] or -(-x.shape[axis] // v.shape[axis])
    return jnp.repeat(v, block, axis)[tuple(slice(n) for n in x.shape)]


def _saturated(x: Any, dtype: Any) -> Any:
    """Whole numbers, those beyond the dtype's range as its ends."""
    ends = ml_dtypes.iinfo(dtype)
    return jnp.clip(x, int(ends.min), int(ends.max)).astype(dtype)


def _quantize(call: NodeCall, x: Any, scale: Any, zero: Any = None) -> Any:
    """round(x / scale) + zero, saturated."""
    dtype = zero.dtype if zero is not None else dtype_of(call["output_dtype"]) if call["output_dtype"] else np.dtype(np.uint8)
    number = dtype_of(call["precision"]) if call["precision"] else scale.dtype
    number = jnp.promote_types(number, jnp.float32)
    ratio = x.astype(number) / _spread(call, scale, x).astype(number)
    offset = _spread(call, zero, x)
    if is_float(dtype):
        ratio = ratio if offset is None else ratio + offset.astype(number)
        return convert(ratio, dtype, bool(call.attributes.get("saturate", 1)))
    ends = ml_dtypes.iinfo(dtype)
    wide = jnp.int64 if dtype.itemsize > 2 else jnp.int32
    least, most = (float(end) - 2.0**17 for end in (int(ends.min), int(ends.max) + 2**18))
    whole = jnp.clip(jnp.round(ratio), least, most).astype(wide)
    return _saturated(whole if offset is None else whole + offset.astype(wide), dtype)


def _dequantize(call: NodeCall, x: Any, scale: Any, zero: Any = None) -> Any:
    """(x - zero) * scale."""
    dtype = dtype_of(call["output_dtype"]) if call["output_dtype"] else scale.dtype
    number = jnp.promote_types(scale.dtype, jnp.float32)
    offset = _spread(call, zero, x)
    if is_float(x.dtype) or offset is None:
        difference = x.astype(number) if offset is None else x.astype(number) - offset.astype(number)
    else:
        difference = (x.astype(jnp.int32) - offset.astype(jnp.int32)).astype(number)
    return (difference * _spread(call, scale, x).astype(number)).astype(dtype)


def _quantize_by_range(_: NodeCall, x: Any) -> Any:
    """u8 by the range of the elements, which 0 is made to be in; scale and zero point too."""
    low, high = jnp.minimum(jnp.min(x), 0), jnp.maximum(jnp.max(x), 0)
    scale = (high - low) / 255
    scale = jnp.where(scale == 0, jnp.ones_like(scale), scale)
    zero = jnp.clip(jnp.round(-low / scale), 0, 255)
    return jnp.clip(jnp.round(x / scale) + zero, 0, 255).astype(jnp.uint8), scale, zero.astype(jnp.uint8)


def _signed(x: Any, zero: Any) -> tuple[Any, Any]:
    """Integers of 8 bits as i8, which the matrix engine multiplies, and their zero point as i32; None for a zero point of 0.
    Unsigned ones and their zero point are 128 less. Other integers are widened.
    """
    zero = None if zero is None else zero.astype(jnp.int32)
    if x.dtype == jnp.uint8:
        return lax.bitcast_convert_type(x ^ 0x80, jnp.int8), (0 if zero is None else zero) - jnp.int32(128)
    return x if x.dtype == jnp.int8 else x.astype(jnp.int32), zero


def _integer_product(_: NodeCall, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    """sum((a - za) (b - zb)) = sum(a b) - za sum(b) - zb sum(a) + n za zb; zero points of rows, of columns, or one."""
    (a, za), (b, zb) = _signed(a, _column(a_zero, -2, a.ndim)), _signed(b, _column(b_zero, -1, b.ndim))
    if a.dtype != b.dtype:
        a, b = a.astype(jnp.int32), b.astype(jnp.int32)
    rows, columns = a if a.ndim > 1 else a[None], b if b.ndim > 1 else b[:, None]
    total = jnp.matmul(rows, columns, preferred_element_type=jnp.int32)
    if za is not None:
        total = total - za * jnp.sum(columns, -2, dtype=jnp.int32, keepdims=True)
    if zb is not None:
        total = total - zb * jnp.sum(rows, -1, dtype=jnp.int32, keepdims=True)
    if za is not None and zb is not None:
        total = total + a.shape[-1] * za * zb
    squeezed = tuple(axis for axis, m in ((-2, a), (-1, b)) if m.ndim == 1)
    return jnp.squeeze(total, squeezed)


def _integer_convolution(call: NodeCall, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    """As the product, of windows; the padding holds the zero point. `w` may have a zero point of each result's channel."""
    windows = Windows.of(call, x.shape[2:], call["kernel_shape"] or w.shape[2:])
    (x, zx), (w, zw) = _signed(x, x_zero), _signed(w, w_zero)
    if x.dtype != w.dtype:
        x, w = x.astype(jnp.int32), w.astype(jnp.int32)
    fill = jnp.zeros((), x.dtype) if zx is None else zx.reshape(()).astype(x.dtype)
    x = lax.pad(x, fill, [(0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in windows.pads)])
    inner = NodeCall(call.op, call.name, call.since, {**call.attributes, "pads": None, "auto_pad": "VALID"}, call.outputs)
    total = convolve(inner, x, w, jnp.int32)
    ends = (1,) * (x.ndim - 2)
    zw = None if zw is None else zw.reshape(-1, *ends)
    if zx is not None:
        total = total - zx.reshape(()) * jnp.sum(w, tuple(range(1, w.ndim)), dtype=jnp.int32).reshape(-1, *ends)
    if zw is not None:
        groups = call["group"] or 1
        sums = convolve(inner, x, jnp.ones((groups, *w.shape[1:]), w.dtype), jnp.int32)
        total = total - zw * jnp.repeat(sums, w.shape[0] // groups, 1)
    if zx is not None and zw is not None:
        total = total + w[0].size * zx.reshape(()) * zw
    return total


def _requantized(total: Any, factor: Any, zero: Any) -> Any:
    """i32 sums as integers of another scale."""
    y = jnp.round(total.astype(factor.dtype) * factor)
    return _saturated(y.astype(jnp.int32) + zero.astype(jnp.int32), zero.dtype)


def _column(v: Any, axis: int, rank: int) -> Any:
    if v is None or rank < 2:
        return v if v is None else v.reshape(())
    return v.reshape([-1 if d == axis % rank else 1 for d in range(rank)]) if v.ndim == 1 and v.size > 1 else v


def _quantized_product(
    call: NodeCall, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    """Of matrices; results of a dtype of 8 bits of floats are not."""
    total = _integer_product(call, a, b, a_zero, b_zero)
    number = jnp.promote_types(y_scale.dtype, jnp.float32)
    scales = (_column(v, axis, total.ndim).astype(number) for v, axis in ((a_scale, -2), (b_scale, -1), (y_scale, -2)))
    a_scale, b_scale, y_scale = scales
    return _requantized(total, a_scale * b_scale / y_scale, _column(y_zero, -2, total.ndim))


def _quantized_convolution(
    call: NodeCall, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any, b: Any = None
) -> Any:
    """With an i32 bias whose scale is that of the products; `w` may have a scale of each result's channel."""
    total = _integer_convolution(call, x, w, x_zero, w_zero)
    total = total if b is None else total + b.reshape(-1, *(1,) * (x.ndim - 2))
    return _requantized(total, x_scale * _column(w_scale, 1, x.ndim) / y_scale, y_zero)


ROWS: dict[str, OpRow] = {
    "ConvInteger": OpRow(_integer_convolution),
    "DequantizeLinear": OpRow(_dequantize),
    "DynamicQuantizeLinear": OpRow(_quantize_by_range),
    "MatMulInteger": OpRow(_integer_product),
    "QLinearConv": OpRow(_quantized_convolution),
    "QLinearMatMul": OpRow(_quantized_product),
    "QuantizeLinear": OpRow(_quantize),
}
