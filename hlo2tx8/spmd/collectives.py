"""The meaning of collective ops, on the arrays of all devices.

Devices are numbered in the order of the device assignment: replica r, partition p of P is number r * P + p. Within a loop or branch
that the host drives some devices may take no part; those of one replica group must all do, or none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from hlo2tx8.dialects.hlo import decode_attributes, origin
from hlo2tx8.errors import CompileError, HostError
from hlo2tx8.hlo.evaluator import Evaluator
from hlo2tx8.spmd.tile_assignment import Reshard, decode_reshards

Array = npt.NDArray[Any]
DeviceArrays = dict[int, list[Array]]
"""For each device that takes part, the arrays of its operands or results."""
GroupArrays = list[list[Array]]
"""For each member of a replica group, in order, the arrays of its operands or results."""
Attributes = Mapping[str, Any]
Groups = tuple[tuple[int, ...], ...]

DISAGREE = "chips of one replica group disagree on the loop or branch that their collective operation is in"
_REDUCING_OR_GATHERING = ("all_gather", "all_reduce", "reduce_scatter")


def collective_of(op: Operation, replicas: int, partitions: int) -> Callable[[DeviceArrays], DeviceArrays]:
    """The function from operands to results that a collective op is; CompileError E1001 if it is not supported."""
    attributes = decode_attributes(op)
    name = op.name.partition(".")[2]
    count = replicas * partitions
    match name:
        case "partition_id" | "replica_id":
            ids = [i % partitions if name == "partition_id" else i // partitions for i in range(count)]
            return lambda arrays: {i: [np.array(ids[i], np.uint32)] for i in arrays}
        case "collective_permute":
            source_of = {target: source for source, target in pairs_of(op, replicas, partitions)}
            return lambda arrays: {i: _received(arrays, own, source_of.get(i)) for i, own in arrays.items()}
        case "all_reduce" | "reduce_scatter":
            reduction = _reduction(op)
            scatter_dimension = attributes.get("scatter_dimension")
            return _in_groups(groups_of(op, replicas, partitions), lambda group: _reduce(group, reduction, scatter_dimension))
        case "all_gather" | "all_to_all" | "collective_broadcast":
            return _in_groups(groups_of(op, replicas, partitions), lambda group: _WITHOUT_ARITHMETIC[name](group, attributes))
        case "custom_call":
            reshards = decode_reshards(str(attributes["backend_config"]))
            return lambda arrays: _reshard(arrays, reshards)
        case _:
            raise CompileError("E1001", f"{op.name} is not supported", origin=origin(op))


def _as_devices(groups: Sequence[tuple[int, ...]], attributes: Attributes, replicas: int, partitions: int) -> list[tuple[int, ...]]:
    """Groups of partitions (if the op has a channel) or of replicas as groups of devices, for each replica or partition."""
    if _channel(attributes):
        return [tuple(r * partitions + i for i in group) for r in range(replicas) for group in groups]
    return [tuple(i * partitions + p for i in group) for group in groups for p in range(partitions)]


def _channel(attributes: Attributes) -> int:
    channel = attributes.get("channel_handle")
    return 0 if channel is None else int(channel.handle)


def pairs_of(op: Operation, replicas: int, partitions: int) -> list[tuple[int, ...]]:
    """The (source, target) devices of a collective_permute."""
    attributes = decode_attributes(op)
    pairs = [tuple(int(i) for i in pair) for pair in np.asarray(attributes["source_target_pairs"]).reshape(-1, 2)]
    return _as_devices(pairs, attributes, replicas, partitions)


def groups_of(op: Operation, replicas: int, partitions: int) -> Groups:
    """The replica groups of a collective op, as devices; one group of all if it names none."""
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
    return tuple(_as_devices(listed, attributes, replicas, partitions))


def named_devices(op: Operation) -> tuple[bool, int]:
    """Does a collective op name partitions, or devices of one replica, instead of replicas; the highest number that it names."""
    attributes = decode_attributes(op)
    table = np.asarray(attributes.get("source_target_pairs", attributes.get("replica_groups", ())))
    return _channel(attributes) > 0, int(table.max(initial=0)) if table.size else 0


def _in_groups(groups: Groups, of_group: Callable[[GroupArrays], GroupArrays]) -> Callable[[DeviceArrays], DeviceArrays]:
    """A function of one group's arrays applied to every group; devices of no group get zeros.

    The function raises HostError E1010 if only some devices of a group take part.
    """

    def run(arrays: DeviceArrays) -> DeviceArrays:
        results: DeviceArrays = {}
        for group in groups:
            if _takes_part(arrays, group):
                results.update(zip(group, of_group([arrays[i] for i in group]), strict=True))
        return _with_zeros(results, arrays)

    return run


def _takes_part(arrays: DeviceArrays, group: Sequence[int]) -> bool:
    """Do the devices of a group take part? HostError E1010 if some do and others don't."""
    present = [i in arrays for i in group]
    if any(present) and not all(present):
        raise HostError("E1010", DISAGREE)
    return all(present)


def _received(arrays: DeviceArrays, own: list[Array], source: int | None) -> list[Array]:
    """The source's arrays; zeros, of the shapes of its own, for a device without a source."""
    if source is None:
        return [np.zeros_like(array) for array in own]
    if source not in arrays:
        raise HostError("E1010", DISAGREE)
    return arrays[source]


def _reshard(arrays: DeviceArrays, reshards: Sequence[Reshard]) -> DeviceArrays:
    """The shards of each group's array by its target assignment; devices without a tile get zeros."""
    results: DeviceArrays = {}
    for source, target in reshards:
        if _takes_part(arrays, source.devices):
            whole = source.assemble({i: arrays[i][0] for i in source.devices})
            results.update((i, [shard]) for i, shard in target.disassemble(whole, source).items())
    return _with_zeros(results, arrays)


def _with_zeros(results: DeviceArrays, arrays: DeviceArrays) -> DeviceArrays:
    """The results, and zeros of the same shapes for devices that take part and have none."""
    like = next(iter(results.values())) if results else []
    return {i: results[i] if i in results else [np.zeros_like(array) for array in like] for i in arrays}


def _reduction(op: Operation) -> Callable[[Array, Array], Array]:
    """The op's region, for scalars, as a function on arrays."""
    block = op.regions[0].block
    return lambda a, b: Evaluator({}).lifted().run(block, [a, b], {})[0]


def _reduce(group: GroupArrays, reduction: Callable[[Array, Array], Array], scatter_dimension: int | None) -> GroupArrays:
    """all_reduce, in the order of the group; reduce_scatter if a dimension is given along which members get a part each."""
    totals: list[Array] = []
    for arrays in zip(*group, strict=True):
        total = arrays[0]
        for array in arrays[1:]:
            total = np.asarray(reduction(total, array), array.dtype)
        totals.append(total)
    if scatter_dimension is None:
        return [list(totals) for _ in group]
    return _split(totals, len(group), scatter_dimension)


def _split(arrays: Sequence[Array], count: int, dim: int) -> GroupArrays:
    """Each array in `count` equal parts along a dimension: part i of each, for i = 0, 1, ..."""
    parts = [np.split(array, count, dim) for array in arrays]
    return [[column[i] for column in parts] for i in range(count)]


def _all_gather(group: GroupArrays, attributes: Attributes) -> GroupArrays:
    whole = [np.concatenate(arrays, attributes["all_gather_dim"]) for arrays in zip(*group, strict=True)]
    return [list(whole) for _ in group]


def _all_to_all(group: GroupArrays, attributes: Attributes) -> GroupArrays:
    count = len(group)
    parts = [_split(own, count, attributes["split_dimension"]) for own in group]
    operands = range(len(group[0]))
    return [
        [np.concatenate([parts[s][i][k] for s in range(count)], attributes["concat_dimension"]) for k in operands]
        for i in range(count)
    ]


def _collective_broadcast(group: GroupArrays, attributes: Attributes) -> GroupArrays:
    return [list(group[0]) for _ in group]


_WITHOUT_ARITHMETIC: dict[str, Callable[[GroupArrays, Attributes], GroupArrays]] = {
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "collective_broadcast": _collective_broadcast,
}
