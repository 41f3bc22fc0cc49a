"""What collective operations do to the arrays of all devices.

Devices are numbered in the order of the assignment: replica r, partition p of P is number r * P + p.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from hlo2tx8.dialects.hlo import decode_attributes, origin
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.evaluator import Evaluator
from hlo2tx8.pjrt.places import Place

Array = npt.NDArray[Any]
Rows = list[list[Array]]
"""Arrays by device, then by operand or result."""
Attributes = Mapping[str, Any]
Groups = tuple[tuple[int, ...], ...]

_REDUCING_OR_GATHERING = ("all_gather", "all_reduce", "reduce_scatter")


def exchange_of(op: Operation, replicas: int, partitions: int) -> Callable[[Rows], Rows]:
    """What a collective operation computes; CompileError E1001 for one nobody here knows."""
    attributes = decode_attributes(op)
    name = op.name.partition(".")[2]
    count = replicas * partitions
    match name:
        case "partition_id" | "replica_id":
            ids = [i % partitions if name == "partition_id" else i // partitions for i in range(count)]
            return lambda rows: [[np.array(i, np.uint32)] for i in ids]
        case "collective_permute":
            moves = {p: s for s, p in pairs_of(op, replicas, partitions)}
            return lambda rows: [[_moved(rows, moves.get(i), k) for k in range(len(rows[i]))] for i in range(count)]
        case "all_reduce" | "reduce_scatter":
            combine = _combiner(op)
            split = attributes.get("scatter_dimension")
            return _in_groups(groups_of(op, replicas, partitions), lambda rows: _reduce(rows, combine, split))
        case "all_gather" | "all_to_all" | "collective_broadcast":
            return _in_groups(groups_of(op, replicas, partitions), lambda rows: _MOVES[name](rows, attributes))
        case "custom_call":
            source, target = map(Place.of_text, str(attributes["backend_config"]).split("|"))
            return lambda rows: [[part] for part in target.parts(source.whole([row[0] for row in rows]), count, source)]
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


def _in_groups(groups: Groups, work: Callable[[Rows], Rows]) -> Callable[[Rows], Rows]:
    """The work done in each group; devices of no group get zeros."""

    def run(rows: Rows) -> Rows:
        results: dict[int, list[Array]] = {}
        for group in groups:
            results.update(zip(group, work([rows[i] for i in group]), strict=True))
        like = next(iter(results.values()))
        return [results.get(i) or [np.zeros_like(a) for a in like] for i in range(len(rows))]

    return run


def _moved(rows: Rows, source: int | None, operand: int) -> Array:
    return np.zeros_like(rows[0][operand]) if source is None else rows[source][operand]


def _combiner(op: Operation) -> Callable[[Array, Array], Array]:
    """The reduction of the op's region on whole arrays."""
    block = op.regions[0].block
    return lambda a, b: Evaluator({}).lifted().run(block, [a, b], {})[0]


def _reduce(rows: Rows, combine: Callable[[Array, Array], Array], split: int | None) -> Rows:
    totals: list[Array] = []
    for arrays in zip(*rows, strict=True):
        total = arrays[0]
        for array in arrays[1:]:
            total = np.asarray(combine(total, array), array.dtype)
        totals.append(total)
    if split is None:
        return [list(totals) for _ in rows]
    return _parts(totals, len(rows), split)


def _parts(arrays: Sequence[Array], count: int, dim: int) -> Rows:
    """Equal parts of each array along a dimension."""
    parts = [np.split(array, count, dim) for array in arrays]
    return [[column[i] for column in parts] for i in range(count)]


def _all_gather(rows: Rows, attributes: Attributes) -> Rows:
    whole = [np.concatenate(arrays, attributes["all_gather_dim"]) for arrays in zip(*rows, strict=True)]
    return [list(whole) for _ in rows]


def _all_to_all(rows: Rows, attributes: Attributes) -> Rows:
    count = len(rows)
    split = [_parts(row, count, attributes["split_dimension"]) for row in rows]
    operands = range(len(rows[0]))
    return [
        [np.concatenate([split[s][i][k] for s in range(count)], attributes["concat_dimension"]) for k in operands]
        for i in range(count)
    ]


def _collective_broadcast(rows: Rows, attributes: Attributes) -> Rows:
    return [list(rows[0]) for _ in rows]


_MOVES: dict[str, Callable[[Rows, Attributes], Rows]] = {
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "collective_broadcast": _collective_broadcast,
}
COLLECTIVES = (
    *("stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all", "stablehlo.collective_broadcast"),
    *("stablehlo.collective_permute", "stablehlo.reduce_scatter"),
)
IDENTITIES = ("stablehlo.partition_id", "stablehlo.replica_id")
