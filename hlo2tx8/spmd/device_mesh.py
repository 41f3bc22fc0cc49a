"""Meshes of devices and how arrays are cut over their axes.

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
from hlo2tx8.spmd.tile_assignment import Place

Axis = tuple[str, int]
"""Part of an axis of a mesh: its name and how many of it come before. No two parts overlap."""
Axes = tuple[Axis, ...]
_PART = re.compile(r'"((?:[^"\\]|\\.)*)":\((\d+)\)(\d+)')


@dataclass(frozen=True)
class Sharding:
    """Which axes cut each dimension, major first; over the `partial` ones an array is the sum of what devices have."""

    dims: tuple[Axes, ...]
    partial: Axes = ()

    @property
    def used(self) -> Axes:
        return (*(axis for axes in self.dims for axis in axes), *self.partial)

    def without(self, axes: Iterable[Axis]) -> "Sharding":
        """The same on the other axes."""
        left = frozenset(axes)
        return Sharding(
            tuple(tuple(a for a in dim if a not in left) for dim in self.dims), tuple(a for a in self.partial if a not in left)
        )


def whole(rank: int) -> Sharding:
    """Every device has all of the array."""
    return Sharding(((),) * rank)


@dataclass(frozen=True)
class Mesh:
    """Sizes of axes, major first, and the devices at their points; no devices where it says nothing of any."""

    axes: dict[Axis, int]
    devices: tuple[int, ...]

    def __hash__(self) -> int:
        return hash(self.devices)

    def size(self, axes: Iterable[Axis]) -> int:
        """Into how many parts they cut."""
        return prod(self.axes[axis] for axis in axes)

    def named(self, names: Iterable[str]) -> Axes:
        """All parts of the axes with these names."""
        found = frozenset(names)
        return tuple(axis for axis in self.axes if axis[0] in found)

    def local(self, shape: Sequence[int], sharding: Sharding) -> tuple[int, ...]:
        """The shape of what one device has of an array."""
        return tuple(size // self.size(axes) for size, axes in zip(shape, sharding.dims, strict=True))

    def whole_shape(self, shape: Sequence[int], sharding: Sharding) -> tuple[int, ...]:
        """The array's, of a part's."""
        return tuple(size * self.size(axes) for size, axes in zip(shape, sharding.dims, strict=True))

    def fitting(self, axes: Axes, size: int) -> Axes:
        """The first of the axes, as many as cut a dimension evenly."""
        kept: Axes = ()
        for axis in axes:
            if size % self.size((*kept, axis)):
                break
            kept = (*kept, axis)
        return kept

    def fitted(self, sharding: Sharding, shape: Sequence[int]) -> Sharding:
        """The sharding without what would cut unevenly."""
        dims = tuple(self.fitting(axes, size) for axes, size in zip(sharding.dims, shape, strict=True))
        return Sharding(dims, sharding.partial)

    def grid(self, first: Sequence[Axis], then: Iterable[Axes]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Devices: a row for each point of the axes `first`, in it by the axes `then`, those on all other axes at the end."""
        order = [*first, *(axis for axes in then for axis in axes)]
        numbers = {axis: number for number, axis in enumerate(self.axes)}
        order += [axis for axis in self.axes if axis not in order]
        devices = np.array(self.devices, np.int64).reshape([*self.axes.values()])
        return devices.transpose([numbers[axis] for axis in order]).reshape(self.size(first), -1)

    def groups(self, axes: Axes) -> list[list[int]]:
        """Devices that differ on these axes alone, in their order."""
        rest = [axis for axis in self.axes if axis not in axes]
        return self.grid(rest, [axes]).tolist()

    def places(self, sharding: Sharding, manual: Axes = ()) -> tuple[Place, ...]:
        """Which device has what, for each point of the axes on which all arrays are each device's own."""
        tiles = tuple(self.size(axes) for axes in sharding.dims)
        rows = self.grid(manual, [*sharding.dims, sharding.partial]).tolist()
        return tuple(Place(tiles, self.size(sharding.partial), tuple(row)) for row in rows)


def meshes_of(module: Any) -> dict[str, Mesh]:
    """The meshes of a module by name, their axes cut wherever some sharding cuts them."""
    from jaxlib.mlir.dialects import sdy

    cuts: dict[str, set[int]] = {}
    for name, before, size in _PART.findall(module.operation.get_asm(large_elements_limit=8)):
        cuts.setdefault(name, set()).update((int(before), int(before) * int(size)))
    found: dict[str, Mesh] = {}
    for op in module.body.operations:
        if op.operation.name != "sdy.mesh":
            continue
        mesh = sdy.MeshAttr(op.attributes["mesh"])
        axes: dict[Axis, int] = {}
        for axis in map(sdy.MeshAxisAttr, mesh.axes):
            bounds = sorted({1, axis.size, *cuts.get(axis.name, ())})
            axes |= {(axis.name, low): high // low for low, high in pairwise(bounds)}
            if prod(high // low for low, high in pairwise(bounds)) != axis.size:
                raise CompileError("E1001", f"axis {axis.name} of a mesh is cut at {bounds}, which do not divide each other")
        name = shim.ir().StringAttr(op.attributes["sym_name"]).value
        found[name] = Mesh(axes, tuple(mesh.device_ids) or tuple(range(prod(axes.values()) if mesh.axes else 0)))
    return found


def sharding_of(attribute: Any, mesh: Mesh) -> Sharding:
    """What an attribute says of an array; axes of size 1 are left out."""
    from jaxlib.mlir.dialects import sdy

    sharding = sdy.TensorShardingAttr(attribute)
    dims = tuple(_axes(dim.axes, mesh) for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings))
    return Sharding(dims, tuple(sorted(_axes(sharding.unreduced_axes, mesh))))


def mesh_name(attribute: Any) -> str:
    """The mesh that a sharding is on."""
    from jaxlib.mlir.dialects import sdy

    return shim.ir().FlatSymbolRefAttr(sdy.TensorShardingAttr(attribute).mesh_or_ref).value


def _axes(references: Any, mesh: Mesh) -> Axes:
    from jaxlib.mlir.dialects import sdy

    found: list[Axis] = []
    for axis in map(sdy.AxisRefAttr, references):
        low, high = 1, None
        if axis.sub_axis_info is not None:
            part = sdy.SubAxisInfoAttr(axis.sub_axis_info)
            low, high = part.pre_size, part.pre_size * part.size
        found += [own for own in mesh.named([axis.name]) if low <= own[1] and (high is None or own[1] < high)]
    return tuple(found)
