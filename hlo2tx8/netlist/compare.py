"""Are results near enough? As the section comparison-config says, for every 32x32 tile of every entry by itself."""

from dataclasses import dataclass

import numpy as np

from hlo2tx8.netlist.config import Comparison
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.shapes import TILE

LARGEST = float(np.finfo(np.float32).max)
NEARLY_INFINITE = 2.0**126
LEAST_DEVIATION = 1e-5


@dataclass(frozen=True)
class Nearness:
    """How many tiles there are and how many agree; the least share of close elements and the least correlation of a tile."""

    tiles: int
    agreeing: int
    least_pct: float
    least_pcc: float
    largest_difference: float

    @property
    def agrees(self) -> bool:
        return self.agreeing == self.tiles


def compare(found: Array, expected: Array, config: Comparison) -> Nearness:
    """Of results [entries, t, rows, columns]; where tiles are smaller than 32x32 the last ones are."""
    a, b = (_tiles(np.asarray(data, np.float64), config) for data in (found, expected))
    if a.shape != b.shape:
        return Nearness(max(len(a), len(b), 1), 0, 0.0, 0.0, float("inf"))
    if not a.size:
        return Nearness(0, 0, 1.0, 1.0, 0.0)
    with np.errstate(all="ignore"):
        close = _close(a, b, config) if config.type != "Exact" else (a == b) | (np.isnan(a) & np.isnan(b))
        share = close.mean(axis=1)
        agrees = close.all(axis=1) if config.type == "Exact" else share >= config.check_pct
        pcc = _correlations(a, b)
        if config.type == "AllCloseHw" and config.check_pcc:
            means = a.mean(axis=1), b.mean(axis=1)
            is_constant = (np.ptp(a, axis=1) == 0) & (np.ptp(b, axis=1) == 0)
            is_waived = is_constant & (np.abs(means[0] - means[1]) <= config.atol + config.rtol * np.abs(means[1]))
            is_waived |= close.all(axis=1) & is_constant
            agrees &= is_waived | ((np.abs(pcc) >= abs(config.check_pcc)) & (pcc * config.check_pcc >= 0))
            pcc = np.where(is_waived, 1.0, pcc)
        difference = float(np.nanmax(np.where(a == b, 0, np.abs(a - b)), initial=0))
    return Nearness(len(a), int(agrees.sum()), float(share.min()), float(pcc.min()), difference)


def _tiles(data: Array, config: Comparison) -> Array:
    """[tiles, elements] of the part of tiles that is compared."""
    rows, columns = data.shape[-2:] if data.ndim > 1 else (0, 0)
    high, wide = min(TILE, rows), min(TILE, columns)
    if not data.size:
        return np.zeros((0, 0))
    whole = data.reshape(-1, rows // high, high, columns // wide, wide)
    (r0, r1), (c0, c1) = config.check_tile_rows_range or (1, high), config.check_tile_cols_range or (1, wide)
    part = whole[:, :, max(r0, 1) - 1 : r1, :, max(c0, 1) - 1 : c1].swapaxes(2, 3)
    return np.ascontiguousarray(part).reshape(part.shape[0] * part.shape[1] * part.shape[2], -1)


def _close(a: Array, b: Array, config: Comparison) -> Array:
    near = np.abs(a - b) <= config.atol + config.rtol * np.maximum(np.abs(a), np.abs(b))
    is_inf_a, is_inf_b = np.isinf(a), np.isinf(b)
    large = (is_inf_a | is_inf_b) & (np.sign(a) == np.sign(b)) & (np.abs(a) >= NEARLY_INFINITE) & (np.abs(b) >= NEARLY_INFINITE)
    return (near & ~is_inf_a & ~is_inf_b) | large | (np.isnan(a) & np.isnan(b))


def _correlations(a: Array, b: Array) -> Array:
    """Pearson's of each tile; a standard deviation of 0 counts as 1e-5."""
    a, b = np.clip(a, -LARGEST, LARGEST), np.clip(b, -LARGEST, LARGEST)
    x, y = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    deviations = [np.sqrt((part * part).mean(axis=1)) for part in (x, y)]
    below = [np.where(part == 0, LEAST_DEVIATION, part) for part in deviations]
    return np.nan_to_num((x * y).mean(axis=1) / (below[0] * below[1]), nan=0.0)
