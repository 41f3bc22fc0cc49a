"""The order in which CT reduces: 64 lanes and a tree of neighbours over channels, one after the other over points."""

from collections.abc import Callable

import numpy as np

from hlo2tx8.device.isa.ct_reduce import ReduceDim

LANES = 64
Join = Callable[[np.ndarray, np.ndarray], np.ndarray]


def reduce(x: np.ndarray, dim: int, join: Join) -> np.ndarray:
    """float32 [batch, h, w, c] joined over `dim`; the reduced dimensions are 1."""
    batch, h, w, c = x.shape
    if dim == ReduceDim.C:
        return _lanes(x, join)[..., None]
    if dim == ReduceDim.HW:
        return _in_order(x.reshape(batch, h * w, c), 1, join).reshape(batch, 1, 1, c)
    axis = 1 if dim == ReduceDim.H else 2
    return np.expand_dims(_in_order(x, axis, join), axis)


def _in_order(x: np.ndarray, axis: int, join: Join) -> np.ndarray:
    rest = np.moveaxis(x, axis, 0)
    acc = rest[0]
    for row in rest[1:]:
        acc = join(acc, row)
    return acc


def _lanes(x: np.ndarray, join: Join) -> np.ndarray:
    lanes = x[..., :LANES].copy()
    for start in range(LANES, x.shape[-1], LANES):
        row = x[..., start : start + LANES]
        lanes[..., : row.shape[-1]] = join(lanes[..., : row.shape[-1]], row)
    while lanes.shape[-1] > 1:
        even = lanes.shape[-1] // 2 * 2
        lanes = np.concatenate([join(lanes[..., 0:even:2], lanes[..., 1:even:2]), lanes[..., even:]], axis=-1)
    return lanes[..., 0]
