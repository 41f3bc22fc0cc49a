"""Expansions of ops that read at run-time indices into `hlo.read_at`.

dynamic_slice %x, %i, %j    ⟶    hlo.read_at %x, %i, %j    {map = (d0, d1) -> (d0, d1), an index for each dimension}
gather %x, %s               ⟶    hlo.read_at %x, %s, %s    {an index for each entry of start_index_map}

dynamic_update_slice stays what it is, see ready_update.
"""

from collections.abc import Callable
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects.hlo_indexed import ReadAtOp, place_properties
from hlo2tx8.hlo.expansion import Expansion
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.ops.gather import gather_place
from hlo2tx8.hlo.ops.indexed import Place
from hlo2tx8.hlo.ready_update import ready_update
from hlo2tx8.indexing import IndexingMap


def _dynamic_slice(op: Operation) -> None:
    source, *indices = op.operands
    result, operand = tensor_like(op.results[0].type).shape, tensor_like(source.type).shape
    identity = IndexingMap.identity(result)
    rooms = tuple(room - size for room, size in zip(operand, result, strict=True))
    place = Place(identity, (identity.with_results(()),) * len(indices), tuple(range(len(operand))), rooms)
    _read(op, place, indices)


def _gather(op: Operation) -> None:
    source, indices = op.operands[:2]
    shapes = tuple(tensor_like(value.type).shape for value in (op.results[0], source, indices))
    place = gather_place(attributes_of(op), *shapes)
    _read(op, place, [indices] * len(place.dims))


def _read(op: Operation, place: Place, indices: list[SSAValue]) -> None:
    """Indices without room are always 0."""
    kept = [k for k, room in enumerate(place.rooms) if room]
    e = Expansion(op)
    place = replace(
        place,
        index_maps=tuple(place.index_maps[k] for k in kept),
        dims=tuple(place.dims[k] for k in kept),
        rooms=tuple(place.rooms[k] for k in kept),
    )
    properties = place_properties(place.map, place.index_maps, place.dims, place.rooms)
    operands = [op.operands[0], *(indices[k] for k in kept)]
    e.replace(e.insert(ReadAtOp(operands, [op.results[0].type], properties)).results[0])


EXPANSIONS: dict[str, Callable[[Operation], None]] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": ready_update,
    "stablehlo.gather": _gather,
}
