"""How CT joins the points of windows, and gives windows back to points: in FP32, row by row of a window."""

from collections.abc import Callable

import numpy as np

from hlo2tx8.device.definition.window_rules import points_of_windows, windows_of_points
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.window import no_dilation

Join = Callable[[np.ndarray, np.ndarray], np.ndarray]


def pool(x: np.ndarray, join: Join, o: Operands) -> np.ndarray:
    """float32 [batch, windows, c] of x [batch, h * w, c]; points outside of the image take no part."""
    points = points_of_windows(o, no_dilation)
    behind = np.pad(x, ((0, 0), (0, 1), (0, 0)))
    acc = np.zeros((len(x), len(points), x.shape[2]), np.float32)
    is_begun = np.zeros((len(points), 1), bool)
    for point in points.T:
        exists = (point < x.shape[1])[:, None]
        value = behind[:, point]
        acc = np.where(exists, np.where(is_begun, join(acc, value), value), acc)
        is_begun |= exists
    return acc


def pool_indexed(x: np.ndarray, is_before: Join, o: Operands) -> tuple[np.ndarray, np.ndarray]:
    """The extreme of each window, float32 [batch, windows, c], and the first point it is at, int32 of the same shape."""
    points = points_of_windows(o, no_dilation)
    behind = np.pad(x, ((0, 0), (0, 1), (0, 0)))
    best = np.zeros((len(x), len(points), x.shape[2]), np.float32)
    index = np.full(best.shape, -1, np.int32)
    for point in points.T:
        value = behind[:, point]
        is_better = (index < 0) | (~np.isnan(best) & (np.isnan(value) | is_before(_ordered(value), _ordered(best))))
        is_better &= (point < x.shape[1])[:, None]
        best = np.where(is_better, value, best)
        index = np.where(is_better, point[:, None], index).astype(np.int32)
    return best, index


def unpool(x: np.ndarray, o: Operands) -> np.ndarray:
    """float32 [batch, h * w, c]: for each point the sum of x [batch, windows, c] over the windows that hold it."""
    over = windows_of_points(o, no_dilation)
    behind = np.pad(x, ((0, 0), (0, 1), (0, 0)))
    acc = np.zeros((len(x), len(over), x.shape[2]), np.float32)
    for window in over.T[::-1]:  # the last element of a window comes first: windows in their order
        acc = np.where((window < x.shape[1])[:, None], acc + behind[:, window], acc)
    return acc


def unpool_indexed(x: np.ndarray, index: np.ndarray, o: Operands) -> np.ndarray:
    """float32 [batch, h * w, c]: for each point the sum of x [batch, windows, c] over the windows whose index it is."""
    acc = np.zeros((len(x), o["h"] * o["w"], x.shape[2]), np.float32)
    channels = list(range(x.shape[2]))
    for n, window in np.ndindex(x.shape[:2]):
        acc[n, index[n, window], channels] += x[n, window]
    return acc


def _ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of floats, -0 < +0."""
    bits = x.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
