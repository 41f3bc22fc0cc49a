"""Ops that bring an array from one sharding to another, in a module of jaxlib's MLIR.

[{x}, {y}] to [{}, {y}]: all_gather      [{x}, {}] to [{}, {x}]: all_to_all      unreduced over x to replicated: all_reduce
any other reshard: a custom call, for which the host redistributes the shards of all devices
"""
# pyright: basic

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo2tx8.frontend import shim
from hlo2tx8.spmd.device_mesh import Axes, DeviceMesh, Sharding
from hlo2tx8.spmd.sharding_rule import ADD
from hlo2tx8.spmd.tile_assignment import RESHARD_TARGET, TileAssignment, encode_reshards

CUSTOM_CALL = "stablehlo.custom_call"


class ReshardBuilder:
    """Creates collective ops at the current insertion point, each on a channel of its own. Values are shards on every device."""

    def __init__(self) -> None:
        self.num_channels = 0

    def all_reduce(self, value: Any, mesh: DeviceMesh, axes: Axes, reduction: str = ADD) -> Any:
        """The shards of the devices along some axes combined by an op of StableHLO, the same on each of them."""
        ir = shim.ir()
        attributes = {"replica_groups": _groups(mesh, axes), "use_global_device_ids": ir.UnitAttr.get()}
        op = self._collective("all_reduce", value, value.type.shape, attributes, 1)
        scalar = ir.RankedTensorType.get([], value.type.element_type)
        block = op.regions[0].blocks.append(scalar, scalar)
        with ir.InsertionPoint(block):
            result = ir.Operation.create(reduction, [scalar], [*block.arguments]).results[0]
            ir.Operation.create("stablehlo.return", [], [result])
        return op.results[0]

    def all_gather(self, value: Any, mesh: DeviceMesh, dim: int, axes: Axes) -> Any:
        """The shards of the devices along some axes concatenated along a dimension."""
        ir = shim.ir()
        shape = [size * mesh.size(axes) if d == dim else size for d, size in enumerate(value.type.shape)]
        attributes = {"replica_groups": _groups(mesh, axes), "use_global_device_ids": ir.UnitAttr.get()}
        return self._collective("all_gather", value, shape, attributes | {"all_gather_dim": _i64(dim)}).results[0]

    def all_to_all(self, value: Any, mesh: DeviceMesh, concat_dim: int, split_dim: int, axes: Axes) -> Any:
        """The shard that is split along `split_dim`, over axes that split `concat_dim` before."""
        count = mesh.size(axes)
        shape = list(value.type.shape)
        shape[concat_dim], shape[split_dim] = shape[concat_dim] * count, shape[split_dim] // count
        attributes = {"split_dimension": _i64(split_dim), "concat_dimension": _i64(concat_dim), "split_count": _i64(count)}
        return self._collective("all_to_all", value, shape, attributes | {"replica_groups": _groups(mesh, axes)}).results[0]

    def reshard(self, value: Any, mesh: DeviceMesh, source: Sharding, target: Sharding, manual: Axes) -> Any:
        """The value in another sharding, by as many collective ops as that takes; unrelated arrays on `manual` axes stay apart."""
        reduced = tuple(axis for axis in source.unreduced if axis not in target.unreduced)
        if reduced and {*source.unreduced} >= {*target.unreduced}:
            value = self.all_reduce(value, mesh, reduced)
            source = Sharding(source.dims, tuple(axis for axis in source.unreduced if axis in target.unreduced))
        if source.unreduced == target.unreduced:
            for dim, (have, want) in enumerate(zip(source.dims, target.dims, strict=True)):
                gathered = have[len(want) :]
                if gathered and have[: len(want)] == want and not {*gathered} & {*target.used_axes}:
                    value = self.all_gather(value, mesh, dim, gathered)
                    source = source.without(gathered)
            exchanged = _exchanged_axes(source, target)
            if exchanged is not None:
                return self.all_to_all(value, mesh, *exchanged)
        if source == target:
            return value
        return self.redistribute(value, mesh.tile_assignments(source, manual), mesh.tile_assignments(target, manual))

    def redistribute(self, value: Any, source: tuple[TileAssignment, ...], target: tuple[TileAssignment, ...]) -> Any:
        """The value by other tile assignments, one for each group of devices, through a custom call."""
        ir = shim.ir()
        if source == target or not isinstance(value.type, ir.RankedTensorType):
            return value
        whole = [size * count for size, count in zip(value.type.shape, source[0].tile_counts, strict=True)]
        attributes = {
            "call_target_name": ir.StringAttr.get(RESHARD_TARGET),
            "backend_config": ir.StringAttr.get(encode_reshards(zip(source, target, strict=True))),
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2),
            "has_side_effect": ir.BoolAttr.get(False),
        }
        kind = ir.RankedTensorType.get(target[0].shard_shape(whole), value.type.element_type)
        return ir.Operation.create(CUSTOM_CALL, [kind], [value], attributes).results[0]

    def _collective(self, name: str, value: Any, shape: Sequence[int], attributes: dict[str, Any], num_regions: int = 0) -> Any:
        ir = shim.ir()
        self.num_channels += 1
        attributes["channel_handle"] = ir.Attribute.parse(f"#stablehlo.channel_handle<handle = {self.num_channels}, type = 1>")
        kind = ir.RankedTensorType.get(shape, value.type.element_type)
        return ir.Operation.create(f"stablehlo.{name}", [kind], [value], attributes, regions=num_regions)


def _exchanged_axes(source: Sharding, target: Sharding) -> tuple[int, int, Axes] | None:
    """The dimension that loses its last axes, the one that gets them, and the axes; None if the shardings differ otherwise."""
    different = [d for d, (have, want) in enumerate(zip(source.dims, target.dims, strict=True)) if have != want]
    if len(different) != 2:
        return None
    for a, b in (different, different[::-1]):
        axes = source.dims[a][len(target.dims[a]) :]
        if source.dims[a] == (*target.dims[a], *axes) and target.dims[b] == (*source.dims[b], *axes):
            return a, b, axes
    return None


def _groups(mesh: DeviceMesh, axes: Axes) -> Any:
    return shim.ir().DenseElementsAttr.get(np.array(mesh.replica_groups(axes), np.int64))


def _i64(value: int) -> Any:
    ir = shim.ir()
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
