"""Reads and writes of tensors at index arrays, under a mask of live points."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects.xla import ExtractAtOp, InsertAtOp
from hlo2tx8.errors import LevelError
from hlo2tx8.interpreter.buffers import Array

Mask: TypeAlias = Array | None
"""Which points of the index space are live; None for all."""


def gather(source: Array, indices: Sequence[Array], mask: Mask, op: Operation) -> Array:
    """source[indices]; points that are not live read some element."""
    if not indices:
        _refuse_empty(source, op)
        return source.reshape(1)
    _check_bounds(source, indices, mask, op)
    if source.size == 0:
        return np.zeros(np.broadcast_shapes(*(index.shape for index in indices)), source.dtype)
    if mask is not None:
        indices = [np.clip(index, 0, size - 1) for index, size in zip(indices, source.shape, strict=True)]
    return source[tuple(indices)]


def _refuse_empty(source: Array, op: Operation) -> None:
    """LevelError for a read of a tensor without elements."""
    if source.size == 0:
        raise LevelError("E1006", f"{op.name} reads a tensor without elements")


def scatter(target: Array, indices: Sequence[Array], value: Array, mask: Mask, op: Operation) -> None:
    """target[indices] = value at the live points."""
    _check_bounds(target, indices, mask, op)
    shapes = [index.shape for index in indices]
    shape = np.broadcast_shapes(value.shape, *shapes, *(() if mask is None else (mask.shape,)))
    if not indices:
        live = np.broadcast_to(True if mask is None else mask, shape)
        if live.any():
            target[...] = np.broadcast_to(value, shape)[live][-1]
        return
    if mask is None:
        target[tuple(np.broadcast_to(index, shape) for index in indices)] = value
        return
    live = np.broadcast_to(mask, shape)
    where = tuple(np.broadcast_to(index, shape)[live] for index in indices)
    target[where] = np.broadcast_to(value, shape)[live]


def _check_bounds(array: Array, indices: Sequence[Array], mask: Mask, op: Operation) -> None:
    """LevelError if a live point lies outside the tensor."""
    for dim, (index, size) in enumerate(zip(indices, array.shape, strict=True)):
        if index.size and (index.min() < 0 or index.max() >= size):
            outside = (index < 0) | (index >= size)
            if bool(np.any(outside if mask is None else outside & mask)):
                raise LevelError("E1006", f"{op.name} leaves dimension {dim} of size {size}")


def shifted(op: ExtractAtOp | InsertAtOp, look: Callable[[SSAValue], Array]) -> list[Array]:
    """The index arrays of an access at run-time indices: its static indices, plus the shifts along the dimensions that have one."""
    indices = [look(value) for value in op.indices]
    for dim, shift in zip(op.dims.get_values(), op.shifts, strict=True):
        indices[int(dim)] = indices[int(dim)] + look(shift)
    return indices
