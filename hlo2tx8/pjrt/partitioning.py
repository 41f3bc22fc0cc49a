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
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.pjrt.flattening import MANUAL, flatten, manual_axes, rank_of
from hlo2tx8.pjrt.places import Place

PROPAGATION = "builtin.module(sdy-propagation-pipeline)"
RESHARDS = "builtin.module(func.func(sdy-insert-explicit-reshards{enable-full-version=true}))"
LOCAL = "builtin.module(func.func(sdy-reshard-to-collectives),sdy-convert-global-to-local)"
SHARDING = "sdy.sharding"
MESH = "sdy.mesh"
REDUCE, DOT, ALL_REDUCE = "stablehlo.reduce", "stablehlo.dot_general", "sdy.all_reduce"
UNREDUCED = "unreduced={"
TRUSTED = (
    *("constant", "iota", "broadcast_in_dim", "transpose", "reshape", "slice", "pad", "concatenate", "dynamic_slice"),
    *("dynamic_update_slice", "dot_general", "sort", "return", "while", "case", "if", "reduce"),
)
"""Operations of StableHLO, beside elementwise ones, that the partitioner makes local rightly.

It takes parts of gathers and windows for the whole, or ends the process. It adds up the parts of every reduction, be it a maximum:
see _has_wrong_sum.
"""


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


@dataclass(frozen=True)
class _Sharding:
    """As jax wants it, and as we do."""

    serialized: bytes
    place: Place


Shardings = tuple[_Sharding, ...]


def partition(code: bytes) -> Partitioned:
    """The program of one device; CompileError where there is none."""
    module = shim.parse_module(code, shim.make_context())
    meshes = {_name(op): _mesh(op) for op in _top(module, MESH)}
    given = _shardings(module, meshes)
    try:
        if UNREDUCED in str(module):
            # The partitioner counts parts of sums several times or not at all, or ends the process.
            return _flattened(code, *given, meshes)
        is_trusted = _is_trusted(module, meshes)
        shim.run_pipeline(module, PROPAGATION)
        given = _shardings(module, meshes)
        if not is_trusted:
            return _flattened(code, *given, meshes)
        try:
            return _partitioned(module, meshes) or _flattened(code, *given, meshes)
        except shim.mlir_error():
            return _flattened(code, *given, meshes)
    except shim.mlir_error() as error:
        raise CompileError("E1001", f"the program cannot be partitioned: {error}") from None


def _is_trusted(module: Any, meshes: dict[str, Mesh]) -> bool:
    """Does the partitioner make all operations local rightly? Those of manual computations are local already, if on all axes.

    Where there are other axes the partitioner ends the process if it cuts a dimension along both kinds.
    """
    ir = shim.ir()
    found: list[str] = []
    axes = {name for mesh in meshes.values() for name, size in mesh.axes.items() if size > 1}

    def visit(op: Any) -> Any:
        if op.name == MANUAL:
            found.extend([] if axes <= {*manual_axes(op)} else [op.name])
            return ir.WalkResult.SKIP
        dialect, _, name = op.name.partition(".")
        if dialect in ("stablehlo", "chlo") and not (name in TRUSTED or _is_elementwise(op.name)):
            found.append(op.name)
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return not found


def _is_elementwise(name: str) -> bool:
    return has_spec(name) and spec_of(name).kind is Kind.ELEMENTWISE


def _has_wrong_sum(module: Any) -> bool:
    """Is a sum over devices behind a reduction that is none, or behind a product and over several axes?

    The former would be wrong; of the latter the partitioner ends the process where it finds the axes in another order.
    """
    ir = shim.ir()
    found: list[str] = []

    def visit(op: Any) -> Any:
        if op.name != ALL_REDUCE or isinstance(op.operands[0].owner, ir.Block):
            return ir.WalkResult.ADVANCE
        behind = op.operands[0].owner
        num_axes = str(op.attributes["reduction_axes"]).count('"') // 2
        if (behind.name == REDUCE and not _is_sum(behind)) or (behind.name == DOT and num_axes > 1):
            found.append(behind.name)
        return ir.WalkResult.ADVANCE

    with module.context:
        module.operation.walk(visit)
    return bool(found)


def _is_sum(op: Any) -> bool:
    return [o.operation.name for o in op.regions[0].blocks[0].operations] == [
        "stablehlo.add",
        "stablehlo.return",
    ]


def _partitioned(module: Any, meshes: dict[str, Mesh]) -> Partitioned | None:
    """None where the partitioner would go on wrongly."""
    shim.run_pipeline(module, RESHARDS)
    if _has_wrong_sum(module):
        return None
    shim.run_pipeline(module, LOCAL)
    arguments, results = _shardings(module, meshes)
    _remove_shardings(module)
    return Partitioned(shim.portable_artifact(module), _serialized(arguments), _serialized(results))


def _flattened(code: bytes, arguments: Shardings, results: Shardings, meshes: dict[str, Mesh]) -> Partitioned:
    """Every device has all of every array; CompileError where an operation of the partitioner is left."""
    module = shim.parse_module(code, shim.make_context())

    def place_of(sharding: Any, rank: int, axes: tuple[str, ...] | None) -> Place:
        return _sharding(sharding, rank, meshes, axes).place

    def groups_of(axes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        mesh = max(meshes.values(), key=lambda mesh: len(mesh.devices), default=Mesh({}, (0,)))
        (count,), order = tiles(mesh, [[(axis, 1, 0) for axis in axes]])
        return tuple(tuple(group) for group in np.array(order).reshape(count, -1).tolist())

    places = tuple(s.place for s in arguments), tuple(s.place for s in results)
    left = flatten(module, *places, groups_of, place_of)
    if left:
        raise CompileError("E1001", f"the program cannot be partitioned: {', '.join(left)}")
    _remove_shardings(module)
    return Partitioned(shim.portable_artifact(module), _serialized(arguments), _serialized(results))


def _top(module: Any, name: str) -> list[Any]:
    return [op for op in module.body.operations if op.operation.name == name]


def _mesh(op: Any) -> Mesh:
    from jaxlib.mlir.dialects import sdy

    mesh = sdy.MeshAttr(op.attributes["mesh"])
    axes = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, mesh.axes)}
    return Mesh(axes, tuple(mesh.device_ids) or tuple(range(prod(axes.values()))))


def _serialized(shardings: Shardings) -> tuple[bytes, ...]:
    return tuple(sharding.serialized for sharding in shardings)


def _name(op: Any) -> str:
    return shim.ir().StringAttr(op.attributes["sym_name"]).value


def _main(module: Any) -> Any:
    return next(function for function in _top(module, "func.func") if _name(function) == "main")


def _shardings(module: Any, meshes: dict[str, Mesh]) -> tuple[Shardings, Shardings]:
    """Of @main's arguments and results."""
    ir = shim.ir()
    function = _main(module)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)

    def shardings(name: str, types: Any) -> Shardings:
        entries = list(function.attributes[name]) if name in function.attributes else [{} for _ in types]
        attributes = [entry[SHARDING] if SHARDING in entry else None for entry in entries]  # noqa: SIM401
        return tuple(_sharding(a, rank_of(t), meshes) for a, t in zip(attributes, types, strict=True))

    return shardings("arg_attrs", kind.inputs), shardings("res_attrs", kind.results)


def _everywhere(meshes: dict[str, Mesh]) -> tuple[int, ...]:
    return max((mesh.devices for mesh in meshes.values()), key=len, default=(0,))


def _sharding(attribute: Any, rank: int, meshes: dict[str, Mesh], axes: tuple[str, ...] | None = None) -> _Sharding:
    """Of a tensor, along these axes only, if not all; without an attribute every device has all of it."""
    from jaxlib import xla_client
    from jaxlib.mlir.dialects import sdy

    found = xla_client.OpSharding()
    found.type = xla_client.OpSharding.Type.REPLICATED
    everywhere = _everywhere(meshes)
    if attribute is None:
        return _Sharding(found.SerializeToString(), Place((1,) * rank, 1, everywhere))
    sharding = sdy.TensorShardingAttr(attribute)
    mesh = meshes[shim.ir().FlatSymbolRefAttr(sharding.mesh_or_ref).value]
    if not mesh.axes:
        found.type = xla_client.OpSharding.Type.MAXIMAL if len(mesh.devices) == 1 else found.type
        found.tile_assignment_dimensions, found.tile_assignment_devices = [1], list(mesh.devices[:1])
        return _Sharding(found.SerializeToString(), Place((1,) * rank, 1, mesh.devices or everywhere))
    parts = [*(dim.axes for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings)), sharding.unreduced_axes]
    pieces = [[piece for piece in _pieces(part) if axes is None or piece[0] in axes] for part in parts]
    (*cut, summands), order = tiles(mesh, pieces)
    place = Place(tuple(cut), summands, tuple(order))
    if prod(cut) * summands > 1:
        kind = xla_client.OpSharding.Type
        grid = np.array(order).reshape(prod(cut), summands, place.copies).transpose(0, 2, 1)
        rest = [(n, t) for n, t in ((place.copies, kind.REPLICATED), (summands, kind.UNREDUCED)) if n > 1]
        found.type = kind.OTHER
        found.tile_assignment_dimensions = [*cut, *(count for count, _ in rest)]
        found.tile_assignment_devices = [int(device) for device in grid.ravel()]
        found.last_tile_dims = [type_ for _, type_ in rest]
    return _Sharding(found.SerializeToString(), place)


def _pieces(axes: Any) -> Iterator[tuple[str, int, int]]:
    """The axes a dimension is split over: name, what comes before a part of an axis (1), the part's size (0: all)."""
    from jaxlib.mlir.dialects import sdy

    for axis in map(sdy.AxisRefAttr, axes):
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
