"""Which points lie under which windows."""

import numpy as np

from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.window import SIDES, Dilation, num_windows


def points_of_windows(o: Operands, apart: Dilation) -> np.ndarray:
    """int64 [windows, taps]: the point of the image under each element of each window, h * w where there is none."""
    rows, columns = (
        np.arange(count)[:, None] * o[f"stride_{axis}"] + np.arange(o[f"kernel_{axis}"]) * apart(o, axis) - o[SIDES[axis][0]]
        for axis, count in (("h", num_windows(o, "h", apart)), ("w", num_windows(o, "w", apart)))
    )
    return _joined(rows, columns, (rows >= 0) & (rows < o["h"]), (columns >= 0) & (columns < o["w"]), o["w"], o["h"] * o["w"])


def windows_of_points(o: Operands, apart: Dilation) -> np.ndarray:
    """int64 [h * w, taps]: the window whose element lies over each point, the number of windows where there is none."""
    counts = (num_windows(o, "h", apart), num_windows(o, "w", apart))
    at: list[np.ndarray] = []
    exists: list[np.ndarray] = []
    for axis, count in zip("hw", counts, strict=True):
        shifted = np.arange(o[axis])[:, None] + o[SIDES[axis][0]] - np.arange(o[f"kernel_{axis}"]) * apart(o, axis)
        window, rest = np.divmod(shifted, o[f"stride_{axis}"])
        at.append(window)
        exists.append((rest == 0) & (window >= 0) & (window < count))
    return _joined(at[0], at[1], exists[0], exists[1], counts[1], counts[0] * counts[1])


def _joined(rows: np.ndarray, columns: np.ndarray, is_row: np.ndarray, is_column: np.ndarray, width: int, none: int) -> np.ndarray:
    """[h, kh] and [w, kw] -> [h * w, kh * kw]."""
    points = rows[:, None, :, None] * width + columns[None, :, None, :]
    exists = is_row[:, None, :, None] & is_column[None, :, None, :]
    h, w, kh, kw = points.shape
    return np.where(exists, points, none).reshape(h * w, kh * kw)
