"""Device meshes, and how arrays are sharded over their axes.

mesh <["x"=4, "y"=2]>, [{"y"}, {"x":(2)2}]     ⟶     axes (x, 1)=2, (x, 2)=2, (y, 1)=2; dims ((y, 1),), ((x, 2),)
"""
# pyright: basic

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim
from hlo2tx8.spmd.tile_assignment import TileAssignment

SubAxis = tuple[str, int]
"""Part of a mesh axis: the axis's name and how many parts of it are more major. Sub-axes of one mesh never overlap."""
Axes = tuple[SubAxis, ...]
_SUB_AXIS = re.compile(r'"((?:[^"\\]|\\.)*)":\((\d+)\)(\d+)')


@dataclass(frozen=True)
class Sharding:
    """The axes over which each dimension is split, major first; over the `unreduced` ones each device has a summand."""

    dims: tuple[Axes, ...]
    unreduced: Axes = ()

    @property
    def used_axes(self) -> Axes:
        return (*(axis for axes in self.dims for axis in axes), *self.unreduced)

    def without(self, axes: Iterable[SubAxis]) -> "Sharding":
        """The sharding over the other axes only."""
        left = frozenset(axes)
        dims = tuple(tuple(a for a in dim if a not in left) for dim in self.dims)
        return Sharding(dims, tuple(a for a in self.unreduced if a not in left))


def replicated(rank: int) -> Sharding:
    """The sharding of an array of that rank that every device has as a whole."""
    return Sharding(((),) * rank)


@dataclass(frozen=True)
class DeviceMesh:
    """The sizes of axes, major first, and the devices at the mesh's points in row-major order; none if it names no devices."""

    axes: dict[SubAxis, int]
    devices: tuple[int, ...]

    def __hash__(self) -> int:
        return hash(self.devices)

    def size(self, axes: Iterable[SubAxis]) -> int:
        """The product of the axes' sizes: into how many parts they split a dimension."""
        return prod(self.axes[axis] for axis in axes)

    def axes_named(self, names: Iterable[str]) -> Axes:
        """All sub-axes of the axes with these names."""
        found = frozenset(names)
        return tuple(axis for axis in self.axes if axis[0] in found)

    def shard_shape(self, shape: Sequence[int], sharding: Sharding) -> tuple[int, ...]:
        """The shape of one device's shard of an array of that shape."""
        return tuple(size // self.size(axes) for size, axes in zip(shape, sharding.dims, strict=True))

    def global_shape(self, shard: Sequence[int], sharding: Sharding) -> tuple[int, ...]:
        """The shape of the array whose shards have that shape."""
        return tuple(size * self.size(axes) for size, axes in zip(shard, sharding.dims, strict=True))

    def dividing_prefix(self, axes: Axes, size: int) -> Axes:
        """The first of the axes, as many as split a dimension of that size evenly."""
        kept: Axes = ()
        for axis in axes:
            if size % self.size((*kept, axis)):
                break
            kept = (*kept, axis)
        return kept

    def evenly(self, sharding: Sharding, shape: Sequence[int]) -> Sharding:
        """The sharding without the axes that would split a dimension of the shape unevenly."""
        dims = tuple(self.dividing_prefix(axes, size) for axes, size in zip(sharding.dims, shape, strict=True))
        return Sharding(dims, sharding.unreduced)

    def device_rows(self, row_axes: Sequence[SubAxis], column_axes: Iterable[Axes]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Devices [points of `row_axes`, the rest]; within a row by `column_axes`, then by the mesh's remaining axes."""
        order = [*row_axes, *(axis for axes in column_axes for axis in axes)]
        numbers = {axis: number for number, axis in enumerate(self.axes)}
        order += [axis for axis in self.axes if axis not in order]
        devices = np.array(self.devices, np.int64).reshape([*self.axes.values()])
        return devices.transpose([numbers[axis] for axis in order]).reshape(self.size(row_axes), -1)

    def replica_groups(self, axes: Axes) -> list[list[int]]:
        """The groups of devices that differ in their place along these axes only, in the order of the axes."""
        rest = [axis for axis in self.axes if axis not in axes]
        return self.device_rows(rest, [axes]).tolist()

    def tile_assignments(self, sharding: Sharding, manual: Axes = ()) -> tuple[TileAssignment, ...]:
        """The tile assignment of a sharding, one for each point of the `manual` axes, on which devices have unrelated arrays."""
        counts = tuple(self.size(axes) for axes in sharding.dims)
        rows = self.device_rows(manual, [*sharding.dims, sharding.unreduced]).tolist()
        return tuple(TileAssignment(counts, self.size(sharding.unreduced), tuple(row)) for row in rows)


def meshes_of(module: Any) -> dict[str, DeviceMesh]:
    """The meshes of a module by name, their axes split into sub-axes wherever some sharding splits them.

    CompileError E1001 if two shardings split an axis in ways that overlap.
    """
    from jaxlib.mlir.dialects import sdy

    splits: dict[str, set[int]] = {}
    for name, before, size in _SUB_AXIS.findall(module.operation.get_asm(large_elements_limit=8)):
        splits.setdefault(name, set()).update((int(before), int(before) * int(size)))
    found: dict[str, DeviceMesh] = {}
    for op in module.body.operations:
        if op.operation.name != "sdy.mesh":
            continue
        mesh = sdy.MeshAttr(op.attributes["mesh"])
        axes: dict[SubAxis, int] = {}
        for axis in map(sdy.MeshAxisAttr, mesh.axes):
            bounds = sorted({1, axis.size, *splits.get(axis.name, ())})
            axes |= {(axis.name, low): high // low for low, high in pairwise(bounds)}
            if prod(high // low for low, high in pairwise(bounds)) != axis.size:
                raise CompileError("E1001", f"axis {axis.name} of a mesh is split at {bounds}, which do not divide each other")
        name = shim.ir().StringAttr(op.attributes["sym_name"]).value
        found[name] = DeviceMesh(axes, tuple(mesh.device_ids) or tuple(range(prod(axes.values()) if mesh.axes else 0)))
    return found


def sharding_of(attribute: Any, mesh: DeviceMesh) -> Sharding:
    """The sharding that an sdy.sharding attribute describes; axes of size 1 are left out."""
    from jaxlib.mlir.dialects import sdy

    sharding = sdy.TensorShardingAttr(attribute)
    dims = tuple(_axes(dim.axes, mesh) for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings))
    return Sharding(dims, tuple(sorted(_axes(sharding.unreduced_axes, mesh))))


def mesh_name(attribute: Any) -> str:
    """The name of the mesh that an sdy.sharding attribute refers to."""
    from jaxlib.mlir.dialects import sdy

    return shim.ir().FlatSymbolRefAttr(sdy.TensorShardingAttr(attribute).mesh_or_ref).value


def _axes(references: Any, mesh: DeviceMesh) -> Axes:
    from jaxlib.mlir.dialects import sdy

    found: list[SubAxis] = []
    for axis in map(sdy.AxisRefAttr, references):
        low, high = 1, None
        if axis.sub_axis_info is not None:
            part = sdy.SubAxisInfoAttr(axis.sub_axis_info)
            low, high = part.pre_size, part.pre_size * part.size
        found += [own for own in mesh.axes_named([axis.name]) if low <= own[1] and (high is None or own[1] < high)]
    return tuple(found)
