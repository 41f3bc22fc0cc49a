"""Fourier transforms, and the mel weights of their results. The last dimension of complex numbers is 2: real and imaginary part."""

# pyright: basic

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.conversion import dtype_of
from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, axis_of


def _transform(x: Any, axis: int, size: int, inverse: bool, onesided: bool) -> Any:
    """The discrete transform along a dimension of x, which is padded with 0, or cut, to `size`; `onesided`: of real numbers,
    whose second half of coefficients says nothing new, or from such coefficients to real numbers.
    """
    number = jnp.float64 if x.dtype == jnp.float64 else jnp.float32
    x = x.astype(number)
    if onesided and not inverse:
        found = jnp.fft.rfft(x[..., 0], size, axis)
    else:
        values = lax.complex(x[..., 0], x[..., 1] if x.shape[-1] == 2 else jnp.zeros_like(x[..., 0]))
        if inverse and onesided:
            return jnp.fft.irfft(values, size, axis)[..., None]
        found = (jnp.fft.ifft if inverse else jnp.fft.fft)(values, size, axis)
    return jnp.stack([jnp.real(found), jnp.imag(found)], -1)


def _dft(call: NodeCall, x: Any, length: Any = None, axis: Any = None) -> Any:
    given = call["axis"] if call.since < 20 else (-2 if axis is None else int(np.asarray(axis).reshape(())))
    axis = axis_of(given, x.ndim)
    inverse, onesided = bool(call["inverse"]), bool(call["onesided"])
    size = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    size = size if length is None else int(np.asarray(length).reshape(()))
    return _transform(x, axis, size, inverse, onesided)


def _stft(call: NodeCall, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    """[batch, frames, frequencies, 2]: transforms of frames that begin each `step` elements, times the window."""
    step = int(np.asarray(step).reshape(()))
    size = int(np.asarray(length).reshape(())) if length is not None else window.shape[0]
    x = x[..., None] if x.ndim == 2 else x
    starts = np.arange((x.shape[1] - size) // step + 1) * step
    frames = jnp.take(x, (starts[:, None] + np.arange(size)).astype(np.int32), 1)
    frames = frames if window is None else frames * window[:, None]
    return _transform(frames, 2, size, False, bool(call["onesided"]) and x.shape[-1] == 1)


def _mel_weights(call: NodeCall, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """Triangles of frequencies that are equally far from each other in mel."""
    bins, length, rate, low, high = (np.asarray(v).reshape(()).item() for v in (bins, length, rate, low, high))
    ends = 2595 * np.log10(1 + np.array([low, high]) / 700)
    mels = np.arange(bins + 2) * ((ends[1] - ends[0]) / (bins + 2)) + ends[0]
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    table = np.zeros((length // 2 + 1, bins))
    for k, (first, centre, last) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        if first == centre:
            table[centre, k] = 1
        for row in range(first, centre + 1):
            table[row, k] = (row - first) / (centre - first) if centre > first else 1
        for row in range(centre, last):
            table[row, k] = (last - row) / (last - centre)
    return table.astype(dtype_of(call["output_datatype"]))


ROWS: dict[str, OpRow] = {
    "DFT": OpRow(_dft, (1, 2)),
    "MelWeightMatrix": OpRow(_mel_weights, (0, 1, 2, 3, 4)),
    "STFT": OpRow(_stft, (1, 3)),
}
