"""Pass expand-indexed: ops that read or write at run-time indices become `hlo.read_at` and `hlo.write_at`.

dynamic_slice %x, %i, %j    ⟶    hlo.read_at %x, %i, %j    {map = (d0, d1) -> (d0, d1), an index for each dimension}
real_dynamic_slice %x, %s   ⟶    hlo.read_at %x, %s, %s    {map = (d0, d1) -> (d0 * 2, d1), where the strides are known}
gather %x, %s               ⟶    hlo.read_at %x, %s, %s    {an index for each entry of start_index_map}
scatter %x, %s, %u          ⟶    hlo.write_at %x, %u, %s, %s    {an index for each entry of scatter_dims_to_operand_dims}

dynamic_update_slice stays what it is, see ready-updates; a scatter may have become one, see expand-one-window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo_indexed import ReadAtOp, WriteAtOp, place_properties
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.gather import gather_place, torch_index_select_place
from hlo2tx8.hlo.ops.indexed import IndexedAccess
from hlo2tx8.hlo.ops.scatter import scatter_place
from hlo2tx8.indexing import Const, Dim, IndexingMap
from hlo2tx8.passes.expand_one_window import replaces


@dataclass(frozen=True)
class ExpandIndexedPass(ModulePass):
    """Rewrites gathers, scatters and dynamic slices; see the module docstring."""

    name = "expand-indexed"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrites = {
            "stablehlo.dynamic_slice": _dynamic_slice,
            "stablehlo.real_dynamic_slice": _real_dynamic_slice,
            "stablehlo.gather": _gather,
            "stablehlo.torch_index_select": _gather,
            "stablehlo.scatter": _scatter,
        }
        rewrite_named(op, rewrites)


def _dynamic_slice(op: Operation) -> None:
    source, *indices = op.operands
    result, operand = tensor_like(op.results[0].type).shape, tensor_like(source.type).shape
    identity = IndexingMap.identity(result)
    rooms = tuple(room - size for room, size in zip(operand, result, strict=True))
    place = IndexedAccess(identity, (identity.with_results(()),) * len(indices), tuple(range(len(operand))), rooms)
    _read(op, place, indices)


def _real_dynamic_slice(op: Operation) -> None:
    """From starts known at run time, in known strides; the limits say no more than the shape of the result does."""
    source, start, _, strides = op.operands
    owner = strides.owner
    if not isinstance(owner, Operation) or owner.name != "stablehlo.constant":
        return
    result, operand = tensor_like(op.results[0].type).shape, tensor_like(source.type).shape
    steps = [int(n) for n in np.broadcast_to(attributes_of(owner)["value"], len(operand))]
    identity = IndexingMap.identity(result)
    rooms = [room - 1 - (size - 1) * step for room, size, step in zip(operand, result, steps, strict=True)]
    if 0 in result or min(rooms, default=0) < 0:
        return
    index_maps = tuple(identity.with_results((Const(d),)) for d in range(len(operand)))
    map = identity.with_results(tuple(Dim(d) * step for d, step in enumerate(steps)))
    _read(op, IndexedAccess(map, index_maps, tuple(range(len(operand))), tuple(rooms)), [start] * len(operand))


def _gather(op: Operation) -> None:
    source, indices = op.operands[:2]
    shapes = tuple(tensor_like(value.type).shape for value in (op.results[0], source, indices))
    place_of = gather_place if op.name == "stablehlo.gather" else torch_index_select_place
    place = place_of(attributes_of(op), *shapes)
    _read(op, place, [indices] * len(place.dims))


def _read(op: Operation, place: IndexedAccess, indices: list[SSAValue]) -> None:
    e = Expansion(op)
    place, indices = _without_room(place, indices)
    properties = place_properties(place.map, place.index_maps, place.dims, place.rooms)
    operands = [op.operands[0], *indices]
    e.replace(e.insert(ReadAtOp(operands, [op.results[0].type], properties)).results[0])


def _without_room(place: IndexedAccess, indices: list[SSAValue]) -> tuple[IndexedAccess, list[SSAValue]]:
    """Indices without room are always 0."""
    kept = [k for k, room in enumerate(place.rooms) if room]
    rest = replace(
        place,
        index_maps=tuple(place.index_maps[k] for k in kept),
        dims=tuple(place.dims[k] for k in kept),
        rooms=tuple(place.rooms[k] for k in kept),
    )
    return rest, [indices[k] for k in kept]


def _scatter(op: Operation) -> None:
    """Updates go one after the other; those of one window at once, unless what one window writes another one may, too."""
    count = len(op.results)
    inputs, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    shapes = tuple(tensor_like(value.type).shape for value in (inputs[0], indices, updates[0]))
    place, windows = scatter_place(attributes_of(op), *shapes)
    if any(room < 0 for room in place.rooms):
        Rewriter.replace_op(op, [], list(inputs))
        return
    in_order = [d for d in range(len(shapes[2])) if d not in windows]
    if prod(shapes[2][d] for d in in_order) > 1:
        moved = [place.map.results[dim] for dim in place.dims]
        in_order += [d for d in windows if Dim(d) in moved]
    _write(op, place, inputs, updates, [indices] * len(place.dims), in_order)


def _write(
    op: Operation,
    place: IndexedAccess,
    inputs: Sequence[SSAValue],
    updates: Sequence[SSAValue],
    indices: Sequence[SSAValue],
    in_order: Sequence[int],
) -> None:
    e = Expansion(op)
    properties = {**place_properties(place.map, place.index_maps, place.dims, place.rooms)}
    properties["in_order"] = int_array(in_order)
    regions = [op.detach_region(0)] if op.regions and not replaces(op) else []
    new = WriteAtOp([*inputs, *updates, *indices], list(op.result_types), properties, regions)
    e.replace(*e.insert(new).results)
