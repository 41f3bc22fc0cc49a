"""Operations that bring an array from one sharding to another, in a module of jaxlib's MLIR.

[{x}, {y}] to [{}, {y}]: all_gather      [{x}, {}] to [{}, {x}]: all_to_all      sums over x to whole: all_reduce
anything else: a custom call, of which the host moves what each device has
"""
# pyright: basic

from collections.abc import Sequence
from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.spmd.device_mesh import Axes, Mesh, Sharding
from hlo2tx8.spmd.sharding_rule import ADD
from hlo2tx8.spmd.tile_assignment import MOVE, Place, text_of_moves

CUSTOM_CALL = "stablehlo.custom_call"


class Mover:
    """Makes operations where the insertion point is; channels are numbered."""

    def __init__(self) -> None:
        self.channels = 0

    def collective(self, name: str, value: Any, shape: Sequence[int], attributes: dict[str, Any], num_regions: int = 0) -> Any:
        """The operation on all devices of a group."""
        ir = shim.ir()
        self.channels += 1
        attributes["channel_handle"] = ir.Attribute.parse(f"#stablehlo.channel_handle<handle = {self.channels}, type = 1>")
        kind = ir.RankedTensorType.get(shape, value.type.element_type)
        return ir.Operation.create(f"stablehlo.{name}", [kind], [value], attributes, regions=num_regions)

    def combined(self, value: Any, mesh: Mesh, axes: Axes, combiner: str = ADD) -> Any:
        """What an operation makes of what the devices along some axes have."""
        ir = shim.ir()
        attributes = {"replica_groups": _table(mesh.groups(axes)), "use_global_device_ids": ir.UnitAttr.get()}
        op = self.collective("all_reduce", value, value.type.shape, attributes, 1)
        scalar = ir.RankedTensorType.get([], value.type.element_type)
        block = op.regions[0].blocks.append(scalar, scalar)
        with ir.InsertionPoint(block):
            result = ir.Operation.create(combiner, [scalar], [*block.arguments]).results[0]
            ir.Operation.create("stablehlo.return", [], [result])
        return op.results[0]

    def gathered(self, value: Any, mesh: Mesh, dim: int, axes: Axes) -> Any:
        """The parts of a dimension along some axes together."""
        ir = shim.ir()
        shape = [size * mesh.size(axes) if d == dim else size for d, size in enumerate(value.type.shape)]
        attributes = {"replica_groups": _table(mesh.groups(axes)), "use_global_device_ids": ir.UnitAttr.get()}
        return self.collective("all_gather", value, shape, attributes | {"all_gather_dim": _i64(dim)}).results[0]

    def turned(self, value: Any, mesh: Mesh, source: int, target: int, axes: Axes) -> Any:
        """Cut along another dimension."""
        count = mesh.size(axes)
        shape = list(value.type.shape)
        shape[source], shape[target] = shape[source] * count, shape[target] // count
        attributes = {"split_dimension": _i64(target), "concat_dimension": _i64(source), "split_count": _i64(count)}
        return self.collective("all_to_all", value, shape, attributes | {"replica_groups": _table(mesh.groups(axes))}).results[0]

    def moved(self, value: Any, mesh: Mesh, source: Sharding, target: Sharding, manual: Axes) -> Any:
        """The value in another sharding; of axes `manual` every array is each device's own."""
        summed = tuple(axis for axis in source.partial if axis not in target.partial)
        if summed and {*source.partial} >= {*target.partial}:
            value = self.combined(value, mesh, summed)
            source = Sharding(source.dims, tuple(axis for axis in source.partial if axis in target.partial))
        if source.partial == target.partial:
            for dim, (have, want) in enumerate(zip(source.dims, target.dims, strict=True)):
                left = have[len(want) :]
                if left and have[: len(want)] == want and not {*left} & {*target.used}:
                    value = self.gathered(value, mesh, dim, left)
                    source = source.without(left)
            turn = _turn(source, target)
            if turn is not None:
                return self.turned(value, mesh, *turn)
        if source == target:
            return value
        return self.elsewhere(value, mesh.places(source, manual), mesh.places(target, manual))

    def elsewhere(self, value: Any, source: tuple[Place, ...], target: tuple[Place, ...]) -> Any:
        """The value in other places, one for each group of devices."""
        ir = shim.ir()
        if source == target or not isinstance(value.type, ir.RankedTensorType):
            return value
        whole = [size * count for size, count in zip(value.type.shape, source[0].tiles, strict=True)]
        attributes = {
            "call_target_name": ir.StringAttr.get(MOVE),
            "backend_config": ir.StringAttr.get(text_of_moves(zip(source, target, strict=True))),
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 2),
            "has_side_effect": ir.BoolAttr.get(False),
        }
        kind = ir.RankedTensorType.get(target[0].local(whole), value.type.element_type)
        return ir.Operation.create(CUSTOM_CALL, [kind], [value], attributes).results[0]


def _turn(source: Sharding, target: Sharding) -> tuple[int, int, Axes] | None:
    """The dimension that loses its last axes, the one that gets them, and which, if that is all the difference."""
    different = [d for d, (have, want) in enumerate(zip(source.dims, target.dims, strict=True)) if have != want]
    if len(different) != 2:
        return None
    for a, b in (different, different[::-1]):
        axes = source.dims[a][len(target.dims[a]) :]
        if source.dims[a] == (*target.dims[a], *axes) and target.dims[b] == (*source.dims[b], *axes):
            return a, b, axes
    return None


def _table(groups: list[list[int]]) -> Any:
    import numpy as np

    return shim.ir().DenseElementsAttr.get(np.array(groups, np.int64))


def _i64(value: int) -> Any:
    ir = shim.ir()
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
