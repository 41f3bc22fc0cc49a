"""`module_for_chips`: what each of several chips runs, of a module that may be for them.

Chips are numbered as devices are: replica r, partition p of P is chip r * P + p. A module that says how its arrays are sharded
takes and gives whole arrays; of any other each chip has arrays of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.compiler.driver import chip_of, load_source, resolved
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.dialects.hlo import UnknownOp, decode_attributes
from hlo2tx8.errors import InputError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.chip_folder import ChipFolder, is_chip_folder
from hlo2tx8.frontend.sources import parse
from hlo2tx8.frontend.tokens import is_token, replace_tokens
from hlo2tx8.hlo.host_ops import COLLECTIVES, DEVICE_IDS, HOST_OPS
from hlo2tx8.hlo.signature import Port, Signature, signature_of
from hlo2tx8.options import Options
from hlo2tx8.spmd.collectives import Array, named_devices
from hlo2tx8.spmd.import_shardings import HLO_SHARDING, has_hlo_shardings, import_shardings
from hlo2tx8.spmd.partition_module import TILES, PartitionedModule, is_sharded, partition
from hlo2tx8.spmd.partitioner import HINTS
from hlo2tx8.spmd.segments import is_host_op
from hlo2tx8.spmd.tile_assignment import TileAssignment

Counts = tuple[int, int]
"""How many replicas and partitions there are."""


@dataclass(frozen=True)
class ChipsModule:
    """What every chip runs: `load` gives a new module on each call. `tiles` of arguments and results, if the whole was sharded, say
    which chip of a replica has which part; `load_whole` gives the module before it was partitioned. `mesh`: columns and rows of
    chips, () where the chip's description says them. `load_marked` gives it with TILES of `partition`, if it was sharded."""

    counts: Counts
    load: Callable[[], ModuleOp]
    tiles: PartitionedModule | None = None
    load_whole: Callable[[], ModuleOp] | None = None
    mesh: tuple[int, ...] = ()
    load_marked: Callable[[], ModuleOp] | None = None

    @property
    def num_chips(self) -> int:
        """All replicas' partitions."""
        return self.counts[0] * self.counts[1]

    @cached_property
    def local(self) -> Signature:
        """The arrays of one chip."""
        return signature_of(self.load())

    @cached_property
    def signature(self) -> Signature:
        """The arrays of one chip; whole arrays if the module was sharded."""
        return self.local if self.load_whole is None else signature_of(self.load_whole())

    @property
    def num_groups(self) -> int:
        """How many sets of arrays there are: one for each chip, or each replica if the module was sharded."""
        return self.num_chips if self.tiles is None else self.counts[0]

    def parts_of(self, wholes: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The arrays of each chip, from the whole arrays of each replica; the same if the module was not sharded."""
        return self._parts(wholes, () if self.tiles is None else self.tiles.argument_tiles, self.local.inputs)

    def result_parts_of(self, wholes: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The same of results."""
        return self._parts(wholes, () if self.tiles is None else self.tiles.result_tiles, self.local.outputs)

    def _parts(
        self, wholes: Sequence[Sequence[Array]], tiles_of: Sequence[TileAssignment], ports: Sequence[Port]
    ) -> list[list[Array]]:
        if self.tiles is None:
            return [list(own) for own in wholes]
        found: list[list[Array]] = [[] for _ in range(self.num_chips)]
        for replica, arrays in enumerate(wholes):
            for array, tiles, port in zip(arrays, tiles_of, ports, strict=True):
                padded = (n * count for n, count in zip(port.shape, tiles.tile_counts, strict=True))
                more = [(0, n - m) for n, m in zip(padded, np.shape(array), strict=True)]
                parts = tiles.disassemble(np.pad(np.asarray(array), more) if any(n for _, n in more) else np.asarray(array), tiles)
                like = next(iter(parts.values()))
                for device in range(self.counts[1]):
                    part = parts[device] if device in parts else np.zeros_like(like)
                    found[replica * self.counts[1] + device].append(np.ascontiguousarray(part))
        return found

    def wholes_of(self, parts: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The inverse, for results."""
        if self.tiles is None:
            return [list(own) for own in parts]
        width, tiles = self.counts[1], self.tiles.result_tiles
        groups = [parts[start : start + width] for start in range(0, len(parts), width)]
        found = [[t.assemble({i: own[n] for i, own in enumerate(group)}) for n, t in enumerate(tiles)] for group in groups]
        shapes = [tuple(slice(n) for n in port.shape) for port in self.signature.outputs]  # without padding
        return [[array[(*own, ...)] for array, own in zip(each, shapes, strict=True)] for each in found]


def module_for_chips(
    source: Any,
    options: Options,
    replicas: int = 0,
    partitions: int = 0,
    *,
    chips: int = 0,
    args: Sequence[Any] | None = None,
    format: str = "",
) -> ChipsModule | None:
    """The module of a source for so many replicas and partitions; None if it is for one chip and nothing is fed to it.

    0: as many as the module says, or its collective ops name; a module with neither collective ops nor shardings is for one chip.
    `chips`, without the others: partitions of a module that is sharded or whose collective ops are between partitions, else
    replicas. `args` and `format` as of `load_source`. A chip folder has data of each chip,
    and is for as many as it says; InputError for others.
    """
    found = _module_for_chips(source, options, replicas, partitions, chips, args, format)
    path = resolved(source)
    if not isinstance(path, Path) or not is_chip_folder(path):
        return found
    folder = ChipFolder.of(path)
    count = 1 if found is None else found.num_chips
    if count != len(folder.chips):
        raise InputError("E1004", f"{path} is for {len(folder.chips)} chips, not {count}")
    return None if found is None else replace(found, tiles=None, load_whole=None, mesh=folder.mesh)


def _module_for_chips(
    source: Any, options: Options, replicas: int, partitions: int, chips: int, args: Sequence[Any] | None, format: str
) -> ChipsModule | None:
    """The same, of no folder."""
    parsed = parse(resolved(source), args=args, format=format or None)

    def load_as_given() -> ModuleOp:
        return load_source(source, args=args, format=format, filling=options.fill_elided_constants)

    said = _number(parsed.module, "mhlo.num_replicas"), _number(parsed.module, "mhlo.num_partitions")
    if chips and not replicas and not partitions:
        if max(said[0], 1) * max(said[1], 1) == chips:
            replicas, partitions = max(said[0], 1), max(said[1], 1)
        elif _is_sharded(parsed.module) or _is_between_partitions(load_as_given()):
            replicas, partitions = 1, chips
        else:
            replicas, partitions = chips, 1
    given = replicas or said[0], partitions or said[1]
    if given[1] > 1 and _is_sharded(parsed.module):
        if not is_sharded(parsed.module):
            import_shardings(parsed.module, _mesh_of(source, options, given[1]))
        local = partition(parsed.module.operation.get_asm(enable_debug_info=True), is_marked=True)
        counts = max(given[0], 1), given[1]
        partitioned = partial(load_source, local.code, is_sound=True)
        wholes, marked = (lambda: _unsharded(load_as_given())), (lambda: _prepared(partitioned(), is_marked=True))
        return ChipsModule(counts, lambda: _prepared(partitioned()), local, wholes, load_marked=marked)

    def load() -> ModuleOp:
        return _prepared(load_as_given())

    path = resolved(source)
    is_folder = isinstance(path, Path) and is_chip_folder(path)
    if max(given if is_folder else (replicas, partitions)) <= 1 and not _talks(parsed.module):
        return None
    named = (0, 0) if all(given) else _named_counts(load(), given)
    return ChipsModule((given[0] or named[0] or 1, given[1] or named[1] or 1), load)


def _mesh_of(source: Any, options: Options, count: int) -> tuple[int, int]:
    """Columns and rows of the chips that a module is shared out over: those of its folder, else of the chip's description."""
    path = resolved(source)
    if isinstance(path, Path) and is_chip_folder(path):
        return ChipFolder.of(path).mesh
    mesh = ChipMesh.of(replace(chip_of(options), chip_mesh=(), chip_block=()), count)
    return mesh.columns, mesh.rows


def _prepared(module: ModuleOp, *, is_marked: bool = False) -> ModuleOp:
    """The module without tokens, and with host ops outside of fusions; `is_marked`: ops keep TILES of `partition`."""
    for op in module.walk():
        if not is_marked:
            op.attributes.pop(TILES, None)
        op.attributes.pop(HLO_SHARDING, None)
        if isinstance(op, FuncOp):
            op.properties.pop("arg_attrs", None)
            op.properties.pop("res_attrs", None)
    if any(is_token(value.type) for op in module.walk() for value in op.results):
        replace_tokens(module)
    for op in [op for op in module.walk() if op.name == "hlo.fusion"]:
        if any(is_host_op(inner) for inner in op.regions[0].block.ops):
            _dissolve(op)
    return module


def _dissolve(fusion: Operation) -> None:
    """Puts the ops of a fusion in its place."""
    body = fusion.regions[0].block
    mapping: dict[SSAValue, SSAValue] = dict(zip(body.args, fusion.operands, strict=True)) if body.args else {}
    last, block = body.last_op, fusion.parent
    assert last is not None and block is not None
    for op in body.ops:
        if op is not last:
            block.insert_op_before(op.clone(mapping), fusion)
    Rewriter.replace_op(fusion, [], [mapping[value] for value in last.operands])


def _named_counts(module: ModuleOp, given: Counts) -> Counts:
    """The replicas and partitions up to the highest ones that collective ops name, where none are given."""
    replicas = partitions = 1
    for op in module.walk():
        if op.name in COLLECTIVES:
            of_partitions, highest = named_devices(op)
            if of_partitions:
                partitions = max(partitions, highest + 1)
            else:
                replicas = max(replicas, highest + 1)
    return given[0] or (1 if given[1] else replicas), given[1] or (1 if given[0] else partitions)


def _talks(module: Any) -> bool:
    """Has an MLIR module ops between devices, or that ask for their numbers, or between device and host?"""
    found = False

    def visit(op: Any) -> Any:
        nonlocal found
        found = found or op.name.replace("mhlo.", "stablehlo.") in HOST_OPS
        return shim.ir().WalkResult.INTERRUPT if found else shim.ir().WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _is_sharded(module: Any) -> bool:
    return is_sharded(module) or has_hlo_shardings(module)


def _unsharded(module: ModuleOp) -> ModuleOp:
    """The module without what says how its arrays are sharded, as one chip would run it."""
    for op in tuple(module.walk()):
        for name in [name for name in op.attributes if name.startswith("sdy.") or name == HLO_SHARDING]:
            del op.attributes[name]
        if isinstance(op, FuncOp):
            op.properties.pop("arg_attrs", None)
            op.properties.pop("res_attrs", None)
        is_hint = isinstance(op, UnknownOp) and op.op_name.data in HINTS
        if is_hint or (op.name == "stablehlo.custom_call" and decode_attributes(op)["call_target_name"] == "Sharding"):
            Rewriter.replace_op(op, [], [op.operands[0]])
        elif isinstance(op, UnknownOp) and op.op_name.data == "sdy.mesh":
            Rewriter.erase_op(op)
    for name in ("mhlo.num_partitions", "mhlo.num_replicas"):
        module.attributes.pop(name, None)
    return module


def _is_between_partitions(module: ModuleOp) -> bool:
    return any(op.name == DEVICE_IDS[0] or (op.name in COLLECTIVES and named_devices(op)[0]) for op in module.walk())


def _number(module: Any, name: str) -> int:
    """The number that an attribute of an MLIR module is, 0 without."""
    attributes = module.operation.attributes
    return int(attributes[name].value) if name in attributes else 0
