"""A module for several devices becomes the module that each of them runs: Shardy, in jaxlib, propagates the shardings of
arguments and results, SpmdPartitioner shards the ops.

%0 = dot %a {x, ?}, %b            ⟶    %1 = all_gather %b
%a: 8x8, 4 devices on x                %0 = dot %a, %1       %a: 2x8
"""
# pyright: basic

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim
from hlo2tx8.spmd.combine_all_reduces import combine_all_reduces
from hlo2tx8.spmd.device_mesh import DeviceMesh, Sharding, mesh_name, meshes_of, replicated, sharding_of
from hlo2tx8.spmd.mlir_values import SHARDING, as_stablehlo, is_tensor
from hlo2tx8.spmd.pad_uneven import pad_uneven
from hlo2tx8.spmd.partitioner import HINTS, ManualScope, SpmdPartitioner
from hlo2tx8.spmd.tile_assignment import TileAssignment

INLINE = "builtin.module(inline,symbol-dce)"
PROPAGATION = "builtin.module(sdy-propagation-pipeline)"
CLEAN = "builtin.module(canonicalize,cse,symbol-dce)"
TILES = "tx8.tiles"
FUNC, CALL = "func.func", "func.call"


@dataclass(frozen=True)
class PartitionedModule:
    """The portable artifact that every device runs, text if ops are marked, and the shardings of its arguments and results as
    serialised OpSharding; the tiles are the same, which device has which part of an argument or result."""

    code: bytes
    arguments: tuple[bytes, ...]
    results: tuple[bytes, ...]
    argument_tiles: tuple[TileAssignment, ...] = ()
    result_tiles: tuple[TileAssignment, ...] = ()


@dataclass(frozen=True)
class _PortSharding:
    """The sharding of an argument or result of @main, and its mesh if it is on one; `device` if only that device has it."""

    sharding: Sharding
    mesh: DeviceMesh | None
    device: int | None = None


def is_sharded(module: Any) -> bool:
    """Does the MLIR module say how its arrays are sharded, on a mesh of Shardy's?"""
    return any(op.operation.name == "sdy.mesh" for op in module.body.operations)


def partition(code: str | bytes, *, is_marked: bool = False) -> PartitionedModule:
    """The module that each device runs, for text or a portable artifact on whole arrays; CompileError E1001 if there is none.

    `is_marked`: it is text, which may have ops of chlo; ops have an attribute TILES, into how many parts each dimension of their
    result is cut; and arguments and results whose shardings do not divide them are padded (see `pad_uneven`) instead of
    replicated.
    """
    module = shim.parse_module(code, shim.make_context())
    try:
        inline_calls(module)
        if is_marked:
            with module.context, shim.ir().Location.unknown():
                pad_uneven(module, shim.main_of(module).operation)
        shim.run_pipeline(module, PROPAGATION)
        return _partition(module, is_marked)
    except shim.mlir_error() as error:
        raise CompileError("E1001", f"the program cannot be partitioned: {error}") from None


def inline_calls(module: Any) -> None:
    """Inlines all calls, in place: MLIR's inliner leaves those in manual computations, which are inlined here."""
    shim.run_pipeline(module, INLINE)
    ir = shim.ir()
    with module.context:
        functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in _top(module, FUNC)}
        main = functions.pop("main")
        while calls := _named(main, CALL):
            _inline_call(calls[0], functions[ir.FlatSymbolRefAttr(calls[0].attributes["callee"]).value])


def _inline_call(call: Any, function: Any) -> None:
    """Puts a copy of a function's body in the place of a call."""
    copy = function.operation.clone(ip=False)
    block = copy.regions[0].blocks[0]
    for argument, operand in zip(block.arguments, call.operation.operands, strict=True):
        argument.replace_all_uses_with(operand)
    *body, last = list(block.operations)
    for op in body:
        op.move_before(call)
    for result, value in zip(call.operation.results, last.operation.operands, strict=True):
        result.replace_all_uses_with(value)
    call.operation.erase()


def _partition(module: Any, is_marked: bool) -> PartitionedModule:
    """Partitions a module in which shardings have been propagated, in place."""
    ir = shim.ir()
    meshes = meshes_of(module)
    function = shim.main_of(module)
    block = function.regions[0].blocks[0]
    *_, last = block.operations
    arguments = _ports(function, "arg_attrs", [a.type for a in block.arguments], meshes)
    results = _ports(function, "res_attrs", [v.type for v in last.operation.operands], meshes)
    scope = ManualScope(_main_mesh(meshes, [*arguments, *results]))
    partitioner = SpmdPartitioner(module, meshes)
    with module.context, ir.Location.unknown():
        first = block.operations[0]
        for argument, port in zip(block.arguments, arguments, strict=True):
            if port.mesh == scope.mesh or not is_tensor(argument.type):
                partitioner.set_sharding(argument, port.sharding, scope)
            else:
                _replicate_argument(partitioner, argument, port, scope, first)
        partitioner.partition_block(block, scope)
        for number, port in enumerate(results):
            value = last.operation.operands[number]
            if port.mesh == scope.mesh or not is_tensor(value.type):
                last.operation.operands[number] = partitioner.reshard(value, port.sharding, scope)
                continue
            everywhere = replicated(len(value.type.shape))
            value = partitioner.reshard(value, everywhere, scope)
            with ir.InsertionPoint(last):
                target = (_tile_assignment(port, scope.mesh),)
                value = partitioner.builder.redistribute(value, scope.mesh.tile_assignments(everywhere), target)
            last.operation.operands[number] = value
        inputs, outputs = [a.type for a in block.arguments], [v.type for v in last.operation.operands]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
        for value, shardings in partitioner.shardings.items() if is_marked else ():
            counts = [scope.mesh.size(axes) for axes in shardings[scope].dims] if scope in shardings else []
            if prod(counts) > 1 and not isinstance(value.owner, ir.Block) and len(value.owner.results) == 1:
                value.owner.attributes[TILES] = ir.StringAttr.get(",".join(map(str, counts)))
    _remove_shardings(module)
    shim.run_pipeline(module, CLEAN)
    with module.context:
        combine_all_reduces(function.operation)
    return PartitionedModule(
        module.operation.get_asm(enable_debug_info=True).encode() if is_marked else shim.portable_artifact(module),
        tuple(_op_sharding(port, scope.mesh) for port in arguments),
        tuple(_op_sharding(port, scope.mesh) for port in results),
        tuple(_tile_assignment(port, scope.mesh) for port in arguments),
        tuple(_tile_assignment(port, scope.mesh) for port in results),
    )


def _replicate_argument(partitioner: SpmdPartitioner, argument: Any, port: _PortSharding, scope: ManualScope, first: Any) -> None:
    """Brings an argument that is on another mesh, or on one device, to all devices, before the op `first`."""
    ir = shim.ir()
    everywhere, source = replicated(len(argument.type.shape)), _tile_assignment(port, scope.mesh)
    argument.set_type(ir.RankedTensorType.get(source.shard_shape(argument.type.shape), argument.type.element_type))
    with ir.InsertionPoint(first):
        value = partitioner.builder.redistribute(argument, (source,), scope.mesh.tile_assignments(everywhere))
    if value is not argument:
        argument.replace_all_uses_except(value, value.owner.operation)
    partitioner.shardings[value] = {scope: everywhere}


def _main_mesh(meshes: dict[str, DeviceMesh], ports: list[_PortSharding]) -> DeviceMesh:
    """The mesh with the most devices; of several, the one that most arguments and results are on."""
    counts = Counter(port.mesh for port in ports)
    return max([DeviceMesh({}, (0,)), *meshes.values()], key=lambda mesh: (len(mesh.devices), counts[mesh]))


def _ports(function: Any, name: str, types: list[Any], meshes: dict[str, DeviceMesh]) -> list[_PortSharding]:
    """The shardings of @main's arguments or results; replicated where it has no attribute."""
    entries = list(function.attributes[name]) if name in function.attributes else [{} for _ in types]
    found: list[_PortSharding] = []
    for entry, type_ in zip(entries, types, strict=True):
        shape = list(type_.shape) if is_tensor(type_) else []
        if SHARDING not in entry:
            found.append(_PortSharding(replicated(len(shape)), None))
            continue
        mesh = meshes[mesh_name(entry[SHARDING])]
        if not mesh.axes:
            found.append(_PortSharding(replicated(len(shape)), None, mesh.devices[0] if mesh.devices else None))
        else:
            found.append(_PortSharding(mesh.evenly(sharding_of(entry[SHARDING], mesh), shape), mesh))
    return found


def _tile_assignment(port: _PortSharding, main_mesh: DeviceMesh) -> TileAssignment:
    """The devices that hold each tile; all of the main mesh have everything if the port is on no mesh and no single device."""
    if port.mesh is not None:
        return port.mesh.tile_assignments(port.sharding)[0]
    devices = main_mesh.devices if port.device is None else (port.device,)
    return TileAssignment((1,) * len(port.sharding.dims), 1, devices)


def _op_sharding(port: _PortSharding, main_mesh: DeviceMesh) -> bytes:
    """The port's sharding as a serialised OpSharding."""
    from jaxlib import xla_client

    found = xla_client.OpSharding()
    kind = xla_client.OpSharding.Type
    tiles = _tile_assignment(port, main_mesh)
    num_tiles = prod(tiles.tile_counts)
    if port.device is not None:
        found.type = kind.MAXIMAL
        found.tile_assignment_dimensions, found.tile_assignment_devices = [1], [port.device]
    elif num_tiles * tiles.num_summands == 1:
        found.type = kind.REPLICATED
    else:
        rest = [(n, t) for n, t in ((tiles.num_replicas, kind.REPLICATED), (tiles.num_summands, kind.UNREDUCED)) if n > 1]
        grid = np.array(tiles.devices).reshape(num_tiles, tiles.num_summands, tiles.num_replicas).transpose(0, 2, 1)
        found.type = kind.OTHER
        found.tile_assignment_dimensions = [*tiles.tile_counts, *(count for count, _ in rest)]
        found.tile_assignment_devices = [int(device) for device in grid.ravel()]
        found.last_tile_dims = [type_ for _, type_ in rest]
    return found.SerializeToString()


def _top(module: Any, name: str) -> list[Any]:
    """The module's own ops of that name."""
    return [op for op in module.body.operations if op.operation.name == name]


def _named(module: Any, name: str) -> list[Any]:
    """All ops of that name in a module, nested ones too."""
    ir = shim.ir()
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _remove_shardings(module: Any) -> None:
    """Removes Shardy's meshes, attributes, constants and hints; CompileError E1001 if another op of Shardy is left."""
    ir = shim.ir()
    with module.context:
        for name in ("sdy.constant", *HINTS):
            for op in _named(module, name):
                if name in HINTS:
                    op.results[0].replace_all_uses_with(op.operands[0])
                    op.erase()
                else:
                    as_stablehlo(op)
    left: set[str] = set()

    def strip(op: Any) -> Any:
        left.update([op.name] if op.name.startswith("sdy.") else [])
        for name in [name for name in op.attributes.keys() if name.startswith("sdy.")]:  # noqa: SIM118
            del op.attributes[name]
        for name in ("arg_attrs", "res_attrs"):
            if name in op.attributes:
                kept = [{e.name: e.attr for e in entry if not e.name.startswith("sdy.")} for entry in op.attributes[name]]
                op.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in kept])
        return ir.WalkResult.ADVANCE

    with module.context:
        for op in _top(module, "sdy.mesh"):
            op.operation.erase()
        module.operation.walk(strip)
    if left:
        raise CompileError("E1001", f"the program cannot be partitioned: {', '.join(sorted(left))}")
