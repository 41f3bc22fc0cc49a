"""What collective operations do to the arrays of all devices.

Devices are numbered in the order of the assignment: replica r, partition p of P is number r * P + p. Inside of loops and branches
some of them may take no part; those that work together must agree.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from hlo2tx8.dialects.hlo import decode_attributes, origin
from hlo2tx8.errors import CompileError, HostError
from hlo2tx8.hlo.evaluator import Evaluator
from hlo2tx8.spmd.tile_assignment import Place, moves_of_text

Array = npt.NDArray[Any]
Rows = dict[int, list[Array]]
"""Arrays by device, then by operand or result; devices that take no part are not there."""
Parts = list[list[Array]]
"""Arrays by position in a group, then by operand or result."""
Attributes = Mapping[str, Any]
Groups = tuple[tuple[int, ...], ...]

DISAGREE = "chips that work together in a collective operation disagree on the loop or branch that it is in"
_REDUCING_OR_GATHERING = ("all_gather", "all_reduce", "reduce_scatter")


def exchange_of(op: Operation, replicas: int, partitions: int) -> Callable[[Rows], Rows]:
    """What a collective operation computes; CompileError E1001 for one nobody here knows."""
    attributes = decode_attributes(op)
    name = op.name.partition(".")[2]
    count = replicas * partitions
    match name:
        case "partition_id" | "replica_id":
            ids = [i % partitions if name == "partition_id" else i // partitions for i in range(count)]
            return lambda rows: {i: [np.array(ids[i], np.uint32)] for i in rows}
        case "collective_permute":
            moves = {p: s for s, p in pairs_of(op, replicas, partitions)}
            return lambda rows: {i: _moved(rows, row, moves.get(i)) for i, row in rows.items()}
        case "all_reduce" | "reduce_scatter":
            combine = _combiner(op)
            split = attributes.get("scatter_dimension")
            return _in_groups(groups_of(op, replicas, partitions), lambda rows: _reduce(rows, combine, split))
        case "all_gather" | "all_to_all" | "collective_broadcast":
            return _in_groups(groups_of(op, replicas, partitions), lambda rows: _MOVES[name](rows, attributes))
        case "custom_call":
            moves = moves_of_text(str(attributes["backend_config"]))
            return lambda rows: _change_places(rows, moves)
        case _:
            raise CompileError("E1001", f"{op.name} is not supported", origin=origin(op))


def _positions(pairs: Sequence[tuple[int, ...]], attributes: Attributes, replicas: int, partitions: int) -> list[tuple[int, ...]]:
    """Tuples of partitions (if the operation has a channel) or of replicas as tuples of devices, for each of the others."""
    if _channel(attributes):
        return [tuple(r * partitions + i for i in pair) for r in range(replicas) for pair in pairs]
    return [tuple(i * partitions + p for i in pair) for pair in pairs for p in range(partitions)]


def _channel(attributes: Attributes) -> int:
    channel = attributes.get("channel_handle")
    return 0 if channel is None else int(channel.handle)


def pairs_of(op: Operation, replicas: int, partitions: int) -> list[tuple[int, ...]]:
    """The devices between which a collective_permute moves: (source, target)."""
    attributes = decode_attributes(op)
    pairs = [tuple(int(i) for i in pair) for pair in np.asarray(attributes["source_target_pairs"]).reshape(-1, 2)]
    return _positions(pairs, attributes, replicas, partitions)


def groups_of(op: Operation, replicas: int, partitions: int) -> Groups:
    """The devices that work together in a collective operation."""
    name, attributes = op.name.partition(".")[2], decode_attributes(op)
    table = np.asarray(attributes["replica_groups"])
    if table.ndim != 2:
        table = table.reshape(0, 0)
    listed = [tuple(int(i) for i in row if i >= 0) for row in table]
    use_global = bool(attributes.get("use_global_device_ids")) or attributes.get("use_global_device_ids") == ()
    if use_global:
        return tuple(listed) or (tuple(range(replicas * partitions)),)
    if _channel(attributes) and name in _REDUCING_OR_GATHERING:
        listed = listed or [tuple(range(replicas))]
        return tuple(tuple(r * partitions + p for p in range(partitions) for r in row) for row in listed)
    listed = listed or [tuple(range(partitions if _channel(attributes) else replicas))]
    return tuple(_positions(listed, attributes, replicas, partitions))


def _in_groups(groups: Groups, work: Callable[[Parts], Parts]) -> Callable[[Rows], Rows]:
    """The work done in each group; devices of no group get zeros. HostError where only some of a group take part."""

    def run(rows: Rows) -> Rows:
        results: Rows = {}
        for group in groups:
            present = [i in rows for i in group]
            if all(present):
                results.update(zip(group, work([rows[i] for i in group]), strict=True))
            elif any(present):
                raise HostError("E1010", DISAGREE)
        return _with_zeros(results, rows)

    return run


def _moved(rows: Rows, row: list[Array], source: int | None) -> list[Array]:
    if source is None:
        return [np.zeros_like(array) for array in row]
    if source not in rows:
        raise HostError("E1010", DISAGREE)
    return rows[source]


def _change_places(rows: Rows, moves: Sequence[tuple[Place, Place]]) -> Rows:
    """The parts of each group's array elsewhere; devices that are to have nothing get zeros."""
    results: Rows = {}
    for source, target in moves:
        present = [i in rows for i in source.devices]
        if all(present):
            whole = source.whole({i: rows[i][0] for i in source.devices})
            results.update((i, [part]) for i, part in target.parts(whole, source).items())
        elif any(present):
            raise HostError("E1010", DISAGREE)
    return _with_zeros(results, rows)


def _with_zeros(results: Rows, rows: Rows) -> Rows:
    """The results of those that take part; of those without any, zeros."""
    like = next(iter(results.values())) if results else []
    return {i: results[i] if i in results else [np.zeros_like(array) for array in like] for i in rows}


def _combiner(op: Operation) -> Callable[[Array, Array], Array]:
    """The reduction of the op's region on whole arrays."""
    block = op.regions[0].block
    return lambda a, b: Evaluator({}).lifted().run(block, [a, b], {})[0]


def _reduce(rows: Parts, combine: Callable[[Array, Array], Array], split: int | None) -> Parts:
    totals: list[Array] = []
    for arrays in zip(*rows, strict=True):
        total = arrays[0]
        for array in arrays[1:]:
            total = np.asarray(combine(total, array), array.dtype)
        totals.append(total)
    if split is None:
        return [list(totals) for _ in rows]
    return _parts(totals, len(rows), split)


def _parts(arrays: Sequence[Array], count: int, dim: int) -> Parts:
    """Equal parts of each array along a dimension."""
    parts = [np.split(array, count, dim) for array in arrays]
    return [[column[i] for column in parts] for i in range(count)]


def _all_gather(rows: Parts, attributes: Attributes) -> Parts:
    whole = [np.concatenate(arrays, attributes["all_gather_dim"]) for arrays in zip(*rows, strict=True)]
    return [list(whole) for _ in rows]


def _all_to_all(rows: Parts, attributes: Attributes) -> Parts:
    count = len(rows)
    split = [_parts(row, count, attributes["split_dimension"]) for row in rows]
    operands = range(len(rows[0]))
    return [
        [np.concatenate([split[s][i][k] for s in range(count)], attributes["concat_dimension"]) for k in operands]
        for i in range(count)
    ]


def _collective_broadcast(rows: Parts, attributes: Attributes) -> Parts:
    return [list(rows[0]) for _ in rows]


_MOVES: dict[str, Callable[[Parts, Attributes], Parts]] = {
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "collective_broadcast": _collective_broadcast,
}
COLLECTIVES = (
    *("stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.collective_broadcast"),
    *("stablehlo.collective_permute", "stablehlo.reduce_scatter"),
)
IDENTITIES = ("stablehlo.partition_id", "stablehlo.replica_id")
