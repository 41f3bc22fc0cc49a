"""A program for several devices as what each of them does: Shardy, in jaxlib, says how arrays are cut, `localizing` does it.

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
from hlo2tx8.spmd.combine_all_reduces import merge_all_reduces
from hlo2tx8.spmd.device_mesh import Mesh, Sharding, mesh_name, meshes_of, sharding_of, whole
from hlo2tx8.spmd.mlir_values import SHARDING, as_stablehlo, is_tensor
from hlo2tx8.spmd.partitioner import ONLY_HINTS, Context, Localizer
from hlo2tx8.spmd.tile_assignment import Place

INLINE = "builtin.module(inline,symbol-dce)"
PROPAGATION = "builtin.module(sdy-propagation-pipeline)"
CLEAN = "builtin.module(canonicalize,cse,symbol-dce)"
FUNC, CALL = "func.func", "func.call"


@dataclass(frozen=True)
class Partitioned:
    """A portable artifact that every device runs; how arguments and results are sharded, as serialised OpSharding."""

    code: bytes
    arguments: tuple[bytes, ...]
    results: tuple[bytes, ...]


@dataclass(frozen=True)
class _Given:
    """How an argument or result is cut, on which mesh (None: on none); the device that alone has it (-1: several)."""

    sharding: Sharding
    mesh: Mesh | None
    device: int = -1


def partition(code: bytes) -> Partitioned:
    """The program of one device; CompileError where there is none."""
    module = shim.parse_module(code, shim.make_context())
    try:
        inline_calls(module)
        shim.run_pipeline(module, PROPAGATION)
        return _partitioned(module)
    except shim.mlir_error() as error:
        raise CompileError("E1001", f"the program cannot be partitioned: {error}") from None


def inline_calls(module: Any) -> None:
    """Leaves @main: what the inliner does, and the calls in manual computations, of which it knows nothing."""
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


def _partitioned(module: Any) -> Partitioned:
    """The module after propagation, made local."""
    ir = shim.ir()
    meshes = meshes_of(module)
    function = next(op for op in _top(module, FUNC) if ir.StringAttr(op.attributes["sym_name"]).value == "main")
    block = function.regions[0].blocks[0]
    *_, last = block.operations
    arguments = _given(function, "arg_attrs", [a.type for a in block.arguments], meshes)
    results = _given(function, "res_attrs", [v.type for v in last.operation.operands], meshes)
    context = Context(_main_mesh(meshes, [*arguments, *results]))
    localizer = Localizer(meshes)
    with module.context, ir.Location.unknown():
        first = block.operations[0]
        for argument, given in zip(block.arguments, arguments, strict=True):
            if given.mesh == context.mesh or not is_tensor(argument.type):
                localizer.set(argument, given.sharding, context)
                continue
            place, everywhere = _place(given, context.mesh), context.mesh.places(whole(len(argument.type.shape)))
            argument.set_type(ir.RankedTensorType.get(place.local(argument.type.shape), argument.type.element_type))
            with ir.InsertionPoint(first):
                moved = localizer.mover.elsewhere(argument, (place,), everywhere)
            if moved is not argument:
                argument.replace_all_uses_except(moved, moved.owner.operation)
            localizer.views[moved] = {context: whole(len(argument.type.shape))}
        localizer.block(block, context)
        for number, given in enumerate(results):
            value = last.operation.operands[number]
            if given.mesh == context.mesh or not is_tensor(value.type):
                last.operation.operands[number] = localizer.moved(value, given.sharding, context)
                continue
            value = localizer.moved(value, whole(len(value.type.shape)), context)
            with ir.InsertionPoint(last):
                everywhere = context.mesh.places(whole(len(value.type.shape)))
                value = localizer.mover.elsewhere(value, everywhere, (_place(given, context.mesh),))
            last.operation.operands[number] = value
        inputs, outputs = [a.type for a in block.arguments], [v.type for v in last.operation.operands]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    _remove_shardings(module)
    shim.run_pipeline(module, CLEAN)
    with module.context:
        merge_all_reduces(function.operation)
    return Partitioned(
        shim.portable_artifact(module),
        tuple(_serialized(given, context.mesh) for given in arguments),
        tuple(_serialized(given, context.mesh) for given in results),
    )


def _main_mesh(meshes: dict[str, Mesh], given: list[_Given]) -> Mesh:
    """The mesh that most arguments and results are on, of those with most devices."""
    counts = Counter(g.mesh for g in given)
    return max([Mesh({}, (0,)), *meshes.values()], key=lambda mesh: (len(mesh.devices), counts[mesh]))


def _given(function: Any, name: str, types: list[Any], meshes: dict[str, Mesh]) -> list[_Given]:
    """Of @main's arguments or results; without an attribute every device has all of them."""
    entries = list(function.attributes[name]) if name in function.attributes else [{} for _ in types]
    found: list[_Given] = []
    for entry, type_ in zip(entries, types, strict=True):
        shape = list(type_.shape) if is_tensor(type_) else []
        if SHARDING not in entry:
            found.append(_Given(whole(len(shape)), None))
            continue
        mesh = meshes[mesh_name(entry[SHARDING])]
        if not mesh.axes:
            found.append(_Given(whole(len(shape)), None, mesh.devices[0] if mesh.devices else -1))
        else:
            found.append(_Given(mesh.fitted(sharding_of(entry[SHARDING], mesh), shape), mesh))
    return found


def _place(given: _Given, everywhere: Mesh) -> Place:
    """Which device has what; without a mesh every device has all, but where only one is to have it."""
    if given.mesh is not None:
        return given.mesh.places(given.sharding)[0]
    return Place((1,) * len(given.sharding.dims), 1, everywhere.devices if given.device < 0 else (given.device,))


def _serialized(given: _Given, everywhere: Mesh) -> bytes:
    """As OpSharding."""
    from jaxlib import xla_client

    found = xla_client.OpSharding()
    kind = xla_client.OpSharding.Type
    place = _place(given, everywhere)
    cut = prod(place.tiles)
    if given.device >= 0:
        found.type = kind.MAXIMAL
        found.tile_assignment_dimensions, found.tile_assignment_devices = [1], [given.device]
    elif cut * place.summands == 1:
        found.type = kind.REPLICATED
    else:
        rest = [(n, t) for n, t in ((place.copies, kind.REPLICATED), (place.summands, kind.UNREDUCED)) if n > 1]
        grid = np.array(place.devices).reshape(cut, place.summands, place.copies).transpose(0, 2, 1)
        found.type = kind.OTHER
        found.tile_assignment_dimensions = [*place.tiles, *(count for count, _ in rest)]
        found.tile_assignment_devices = [int(device) for device in grid.ravel()]
        found.last_tile_dims = [type_ for _, type_ in rest]
    return found.SerializeToString()


def _top(module: Any, name: str) -> list[Any]:
    return [op for op in module.body.operations if op.operation.name == name]


def _named(module: Any, name: str) -> list[Any]:
    """All operations of a name in a module."""
    ir = shim.ir()
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _remove_shardings(module: Any) -> None:
    """What says how arrays are cut; CompileError if an operation of Shardy is left."""
    ir = shim.ir()
    with module.context:
        for name in ("sdy.constant", *ONLY_HINTS):
            for op in _named(module, name):
                if name in ONLY_HINTS:
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
