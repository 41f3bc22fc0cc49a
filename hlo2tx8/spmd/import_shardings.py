"""Shardings as HLO writes them become Shardy's: a mesh of axes, and for each dimension the axes along which it is split.

sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}    ⟶    sdy.mesh @hlo = <["a0"=2, "a1"=2]>, [{"a1"}, {}]

The axes of the mesh have prime sizes, devices are counted through them in order.
chip_parallel of tx8be's ops comes as a sharding too.
"""
# pyright: basic

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim
from hlo2tx8.spmd.chip_parallel import ChipParallel
from hlo2tx8.spmd.mlir_values import SHARDING, is_tensor

HLO_SHARDING = "mhlo.sharding"
MESH = "hlo"
_BETWEEN_DEVICES = re.compile(r"\b(?:stable|m)hlo\.(?:all_|reduce_scatter|collective_|partition_id|replica_id)")
_TILES = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))( last_tile_dim_replicate)?\}")


def has_hlo_shardings(module: Any) -> bool:
    """Does the MLIR module have HLO's shardings, for ops between devices to be made from? Not if it has such ops already."""
    text = module.operation.get_asm(enable_debug_info=False)
    return HLO_SHARDING in text and not re.search(
        r"\b(?:stable|m)hlo\.(all_|reduce_scatter|collective_|partition_id|replica_id)", text
    )


def import_shardings(module: Any, chips: tuple[int, int]) -> None:
    """Replaces HLO's shardings and chip_parallel of tx8be by Shardy's, in place, for chips in columns and rows; CompileError E1001
    for one that no mesh has.
    """
    ir = shim.ir()
    parallel = ChipParallel.found_in(module.operation.get_asm(enable_debug_info=False), chips)
    sizes = [n for radix in (parallel.radices if parallel else [prod(chips)]) for n in _primes(radix) if n > 1] or [1]
    with module.context, ir.Location.unknown():
        axes = ", ".join(f'"a{n}"={size}' for n, size in enumerate(sizes))
        with ir.InsertionPoint.at_block_begin(module.body):
            mesh = {"sym_name": ir.StringAttr.get(MESH), "mesh": ir.Attribute.parse(f"#sdy.mesh<[{axes}]>")}
            ir.Operation.create("sdy.mesh", [], [], mesh)
        for op in _all(module):
            if op.name == "func.func":
                type_ = op.attributes["function_type"].value
                _import_ports(op, "arg_attrs", type_.inputs, sizes, chips)
                _import_ports(op, "res_attrs", type_.results, sizes, chips)
            elif HLO_SHARDING in op.attributes:
                text = op.attributes[HLO_SHARDING].value
                del op.attributes[HLO_SHARDING]
                found = [_on_mesh(text, list(r.type.shape), sizes, chips) for r in op.results if is_tensor(r.type)]
                if len(found) == 1 == len(op.results):
                    op.attributes[SHARDING] = ir.Attribute.parse(f"#sdy.sharding_per_value<[<@{MESH}, {found[0]}>]>")
        for call in [op for op in _all(module) if _target(op) == "Sharding"]:
            value = call.operands[0]
            if SHARDING in call.attributes:
                one = str(call.attributes[SHARDING]).partition("<[")[2].removesuffix("]>")
                attributes = {"sharding": ir.Attribute.parse(f"#sdy.sharding{one}")}
                with ir.InsertionPoint(call):
                    value = ir.Operation.create("sdy.sharding_constraint", [call.results[0].type], [value], attributes).results[0]
            call.results[0].replace_all_uses_with(value)
            call.erase()


def _import_ports(function: Any, name: str, types: Sequence[Any], sizes: Sequence[int], chips: tuple[int, int]) -> None:
    if name not in function.attributes:
        return
    ir = shim.ir()
    entries = []
    for entry, type_ in zip(function.attributes[name], types, strict=True):
        given = {each.name: each.attr for each in entry}
        text = given.pop(HLO_SHARDING, None)
        if text is not None and is_tensor(type_):
            dims = _on_mesh(text.value, list(type_.shape), sizes, chips)
            given[SHARDING] = ir.Attribute.parse(f"#sdy.sharding<@{MESH}, {dims}>")
        entries.append(ir.DictAttr.get(given))
    function.attributes[name] = ir.ArrayAttr.get(entries)


def _on_mesh(text: str, shape: Sequence[int], sizes: Sequence[int], chips: tuple[int, int]) -> str:
    """The dimensions of a sharding on the mesh, as Shardy's text."""
    if text == "{replicated}":
        return f"[{', '.join('{}' for _ in shape)}]"
    if (parallel := ChipParallel.found_in(text, chips)) is not None:
        return _as_text(_axes_of(parallel.tiles(len(shape))[1], sizes), text, shape, sizes)
    found = _TILES.fullmatch(text)
    if found is None:
        raise CompileError("E1001", f"the sharding {text} is not supported")
    tiles, iota, order, listed, replicates = found.groups()
    counts = _numbers(tiles)
    if listed is not None:
        devices = np.array(_numbers(listed))
    else:
        grid = np.arange(prod(_numbers(iota))).reshape(_numbers(iota))
        devices = grid.transpose(_numbers(order)) if order else grid
    if devices.size != prod(counts) or devices.size != prod(sizes) or len(counts) != len(shape) + bool(replicates):
        raise CompileError("E1001", f"the sharding {text} does not fit {prod(sizes)} devices")
    return _as_text(_axes_of(devices.reshape(counts), sizes), text, shape, sizes)


def _as_text(axes: list[list[int]] | None, text: str, shape: Sequence[int], sizes: Sequence[int]) -> str:
    if axes is None:
        raise CompileError("E1001", f"the sharding {text} is on no mesh of {' x '.join(map(str, sizes))} devices")
    lists = ("{" + ", ".join(f'"a{n}"' for n in own) + "}" for own in axes[: len(shape)])
    return f"[{', '.join(lists)}]"


def _axes_of(devices: Any, sizes: Sequence[int]) -> list[list[int]] | None:
    """The axes, major to minor, along which each dimension of a grid of devices goes; None if it goes along none."""
    axis_at = {prod(sizes[n + 1 :]): n for n in range(len(sizes))}
    found: list[list[int]] = []
    for dim, count in enumerate(devices.shape):
        line = np.moveaxis(devices, dim, 0).reshape(count, -1)[:, 0]
        own: list[int] = []
        step = 1
        while step < count:
            axis = axis_at.get(int(line[step] - line[0]))
            if axis is None:
                return None
            own.insert(0, axis)
            step *= sizes[axis]
        found.append(own)
    order = [axis for own in found for axis in own]
    if sorted(order) != list(range(len(sizes))):
        return None
    grid = np.arange(devices.size).reshape(sizes).transpose(order).reshape(devices.shape)
    return found if np.array_equal(grid, devices) else None


def _primes(number: int) -> list[int]:
    """The prime factors, with repeats; [1] of 1."""
    found: list[int] = []
    rest, factor = number, 2
    while rest > 1:
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
        factor += 1
    return found or [1]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _target(op: Any) -> str:
    return op.attributes["call_target_name"].value if op.name == "stablehlo.custom_call" else ""


def _all(module: Any) -> list[Any]:
    found: list[Any] = []

    def visit(op: Any) -> Any:
        found.append(op)
        return shim.ir().WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
