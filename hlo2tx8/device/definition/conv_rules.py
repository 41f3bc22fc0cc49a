"""Convolutions as the products of matrices that they imply.

forward            rows n, oy, ox    columns o    summed over ky, kx, c    left: the image under the windows
backward, image    rows n, y, x      columns c    summed over ky, kx, o    left: the gradient of the windows over a point
backward, weights  rows o            columns c    summed over n, oy, ox    one product per element of the window
depthwise          rows n, oy, ox                 summed over ky, kx       one product per channel
"""

import numpy as np

from hlo2tx8.device.definition import ne_rules
from hlo2tx8.device.definition.window_rules import points_of_windows, windows_of_points
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import ne_conv
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.window import dilation


def forward(image: np.ndarray, weight: np.ndarray, psum: np.ndarray | None, o: Operands) -> np.ndarray:
    """[batch, windows, filters] of image [batch, h * w, c] and weight [1, taps * filters, c]."""
    width = ne_conv.image_layout(o, o.fmt2).aligned_channels
    right = weight[0].reshape(ne_conv.taps(o), o["filters"], o["c"]).swapaxes(0, 1)
    right = _filled(right, width).reshape(o["filters"], -1)
    return _rows(_filled(image, width), points_of_windows(o, dilation), right, psum, o.fmt2)


def backward_image(gradient: np.ndarray, weight: np.ndarray, psum: np.ndarray | None, o: Operands) -> np.ndarray:
    """[batch, h * w, c] of gradient [batch, windows, filters] and weight [1, taps * filters, c]."""
    width = ne_conv.forward_layout(o, o.fmt2).aligned_channels
    right = weight[0].reshape(ne_conv.taps(o), o["filters"], o["c"]).transpose(2, 0, 1)
    right = _filled(right, width).reshape(o["c"], -1)
    return _rows(_filled(gradient, width), windows_of_points(o, dilation), right, psum, o.fmt2)


def backward_weight(gradient: np.ndarray, image: np.ndarray, psum: np.ndarray | None, o: Operands) -> np.ndarray:
    """[1, taps * filters, c] of gradient [batch, windows, filters] and image [batch, h * w, c]."""
    left = gradient.reshape(-1, o["filters"]).T
    under = _gathered(image, points_of_windows(o, dilation)).transpose(2, 3, 0, 1).reshape(ne_conv.taps(o), o["c"], -1)
    start = None if psum is None else psum[0].reshape(ne_conv.taps(o), o["filters"], o["c"])
    acc = [ne_rules.accumulate(left, x, None if start is None else start[tap], o.fmt2) for tap, x in enumerate(under)]
    return np.concatenate(acc)[None]


def depthwise(image: np.ndarray, weight: np.ndarray, psum: np.ndarray | None, o: Operands) -> np.ndarray:
    """[batch, windows, c] of image [batch, h * w, c] and weight [1, taps, c]."""
    under = _gathered(image, points_of_windows(o, dilation))
    batch, windows, taps, channels = under.shape
    under = under.reshape(batch * windows, taps, channels)
    start = None if psum is None else psum.reshape(batch * windows, channels)
    acc = [
        ne_rules.accumulate(under[:, :, c], weight[:, :, c], None if start is None else start[:, c : c + 1], o.fmt2)
        for c in range(channels)
    ]
    return np.concatenate(acc, axis=1).reshape(batch, windows, channels)


def _gathered(x: np.ndarray, points: np.ndarray) -> np.ndarray:
    """[batch, rows, taps, channels] of x [batch, points, channels]; zero where a point is behind the last."""
    return np.pad(x, ((0, 0), (0, 1), (0, 0)))[:, points]


def _filled(x: np.ndarray, channels: int) -> np.ndarray:
    """With zeros up to so many channels."""
    return np.pad(x, ((0, 0), (0, 0), (0, channels - x.shape[-1])))


def _rows(x: np.ndarray, points: np.ndarray, right: np.ndarray, psum: np.ndarray | None, fmt: Format) -> np.ndarray:
    """A product per batch, its left rows gathered from the points of x."""
    acc = [
        ne_rules.accumulate(_gathered(x[b : b + 1], points).reshape(len(points), -1), right, None if psum is None else psum[b], fmt)
        for b in range(len(x))
    ]
    return np.stack(acc)
