"""A program for several devices as what each of them does, by the partitioner in jaxlib (Shardy).

%0 = dot %a {x, ?}, %b            ⟶    %1 = all_gather %b
%a: 8x8, 4 devices on x                %0 = dot %a, %1       %a: 2x8
"""
# pyright: basic

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim

PIPELINE = (
    "builtin.module(sdy-propagation-pipeline,func.func(sdy-insert-explicit-reshards{enable-full-version=true}),"
    "func.func(sdy-reshard-to-collectives),sdy-convert-global-to-local)"
)
SHARDING = "sdy.sharding"
MESH = "sdy.mesh"


@dataclass(frozen=True)
class Partitioned:
    """A portable artifact that every device runs; how arguments and results are sharded, as serialised OpSharding."""

    code: bytes
    arguments: tuple[bytes, ...]
    results: tuple[bytes, ...]


@dataclass(frozen=True)
class Mesh:
    """Axes and the devices on them."""

    axes: dict[str, int]
    devices: tuple[int, ...]


def partition(code: bytes) -> Partitioned:
    """The program of one device; CompileError where the partitioner gives up."""
    module = shim.parse_module(code, shim.make_context())
    try:
        shim.run_pipeline(module, PIPELINE)
    except shim.mlir_error() as error:
        raise CompileError("E1001", f"the program cannot be partitioned: {error}") from None
    ir = shim.ir()
    meshes = {ir.StringAttr(op.attributes["sym_name"]).value: _mesh(op) for op in _top(module, MESH)}
    arguments: tuple[bytes, ...] = ()
    results: tuple[bytes, ...] = ()
    for function in _top(module, "func.func"):
        if ir.StringAttr(function.attributes["sym_name"]).value == "main":
            kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
            arguments = _shardings(function, "arg_attrs", kind.inputs, meshes)
            results = _shardings(function, "res_attrs", kind.results, meshes)
    _remove_shardings(module)
    return Partitioned(shim.portable_artifact(module), arguments, results)


def _top(module: Any, name: str) -> list[Any]:
    return [op for op in module.body.operations if op.operation.name == name]


def _mesh(op: Any) -> Mesh:
    from jaxlib.mlir.dialects import sdy

    mesh = sdy.MeshAttr(op.attributes["mesh"])
    axes = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}
    return Mesh(axes, tuple(mesh.device_ids) or tuple(range(prod(axes.values()))))


def _shardings(function: Any, name: str, types: Any, meshes: dict[str, Mesh]) -> tuple[bytes, ...]:
    attributes = list(function.attributes[name]) if name in function.attributes else [None] * len(types)
    return tuple(_op_sharding(entry[SHARDING] if entry is not None and SHARDING in entry else None, meshes) for entry in attributes)


def _op_sharding(attribute: Any, meshes: dict[str, Mesh]) -> bytes:
    """The OpSharding of a tensor; without an attribute every device has all of it."""
    from jaxlib import xla_client
    from jaxlib.mlir.dialects import sdy

    found = xla_client.OpSharding()
    found.type = xla_client.OpSharding.Type.REPLICATED
    if attribute is None:
        return found.SerializeToString()
    sharding = sdy.TensorShardingAttr(attribute)
    mesh = meshes[shim.ir().FlatSymbolRefAttr(sharding.mesh_or_ref).value]
    if not mesh.axes:
        found.type = xla_client.OpSharding.Type.MAXIMAL if len(mesh.devices) == 1 else found.type
        found.tile_assignment_dimensions, found.tile_assignment_devices = [1], list(mesh.devices[:1])
        return found.SerializeToString()
    dims = [list(_pieces(dim)) for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings)]
    sizes, devices = tiles(mesh, dims)
    if prod(sizes) > 1:
        rest = len(devices) // prod(sizes)
        found.type = xla_client.OpSharding.Type.OTHER
        found.tile_assignment_dimensions = [*sizes, rest] if rest > 1 else sizes
        found.tile_assignment_devices = devices
        found.replicate_on_last_tile_dim = rest > 1
    return found.SerializeToString()


def _pieces(dimension: Any) -> Iterator[tuple[str, int, int]]:
    """The axes a dimension is split over: name, what comes before a part of an axis (1), the part's size (0: all)."""
    from jaxlib.mlir.dialects import sdy

    for axis in map(sdy.AxisRefAttr, dimension.axes):
        part = axis.sub_axis_info
        if part is None:
            yield axis.name, 1, 0
        else:
            info = sdy.SubAxisInfoAttr(part)
            yield axis.name, info.pre_size, info.size


def tiles(mesh: Mesh, dims: list[list[tuple[str, int, int]]]) -> tuple[list[int], list[int]]:
    """Number of tiles per dimension, and the device of each tile; those that have the same tile follow each other."""
    cuts: dict[str, set[int]] = {name: {1, size} for name, size in mesh.axes.items()}
    for name, before, size in (piece for dim in dims for piece in dim):
        cuts[name] |= {before, before * (size or mesh.axes[name] // before)}
    shape: list[int] = []
    place: dict[tuple[str, int], int] = {}
    for name, size in mesh.axes.items():
        bounds = sorted(cuts[name])
        for low, high in pairwise(bounds):
            place[name, low] = len(shape)
            shape.append(high // low)
        assert bounds[-1] == size
    order: list[int] = []
    sizes: list[int] = []
    for dim in dims:
        first = len(order)
        for name, before, size in dim:
            end = before * (size or mesh.axes[name] // before)
            order += [place[name, low] for low in sorted(cuts[name]) if before <= low < end]
        sizes.append(prod(shape[i] for i in order[first:]))
    order += [i for i in range(len(shape)) if i not in order]
    grid = np.array(mesh.devices).reshape(shape).transpose(order)
    return sizes, [int(i) for i in grid.ravel()]


def _remove_shardings(module: Any) -> None:
    ir = shim.ir()

    def strip(op: Any) -> Any:
        for name in [name for name in op.attributes.keys() if name.startswith("sdy.")]:  # noqa: SIM118
            del op.attributes[name]
        for name in ("arg_attrs", "res_attrs"):
            if name in op.attributes:
                kept = [{e.name: e.attr for e in entry if not e.name.startswith("sdy.")} for entry in op.attributes[name]]
                op.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in kept])
        return ir.WalkResult.ADVANCE

    with module.context:
        for op in _top(module, MESH):
            op.operation.erase()
        module.operation.walk(strip)
