"""Modelled time of collective ops on the links between chips: chips form a ring, each link carries data both ways at once.

A step sends to a neighbour and takes `link_startup` cycles + bytes / `neighbour_bytes_per_second`. For n chips with B bytes each:

    all_reduce            2 (n - 1) steps of B / n
    reduce_scatter        n - 1 steps of B / n
    all_gather            n - 1 steps of B
    all_to_all            n - 1 steps, in the k-th of which (n - k) / n B are still on their way
    collective_broadcast  n - 1 steps, B bytes pass each link once, in a stream
    collective_permute    the longest distance in steps, the bytes of the busiest link
    a reshard             n - 1 steps of B: every shard passes every chip
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation

from hlo2tx8.device.chip import Chip
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.hlo.host_ops import DEVICE_IDS
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.spmd.collectives import groups_of, pairs_of
from hlo2tx8.spmd.tile_assignment import decode_reshards


def link_cycles(op: Operation, replicas: int, partitions: int, chip: Chip) -> float:
    """Cycles that a collective op takes on the links; 0 for one that moves nothing."""
    if op.name in DEVICE_IDS:
        return 0.0
    tensors = [tensor_like(value.type) for value in op.operands]
    num_bytes = sum(prod(t.shape) * t.dtype.itemsize for t in tensors)
    name = op.name.partition(".")[2]
    match name:
        case "collective_permute":
            return _permute(pairs_of(op, replicas, partitions), replicas * partitions, num_bytes, chip)
        case "custom_call":
            source, _ = decode_reshards(str(decode_attributes(op)["backend_config"]))[0]
            n = prod(source.tile_counts) * source.num_summands
            return (n - 1) * _step(num_bytes, chip)
        case _:
            n = max(map(len, groups_of(op, replicas, partitions)))
    match name:
        case "all_reduce":
            return 2 * (n - 1) * _step(num_bytes / n, chip)
        case "reduce_scatter":
            return (n - 1) * _step(num_bytes / n, chip)
        case "all_gather":
            return (n - 1) * _step(num_bytes, chip)
        case "all_to_all":
            return sum(_step(num_bytes * (n - k) / n, chip) for k in range(1, n))
        case _:
            return _stream(n - 1, num_bytes, chip)


def _step(num_bytes: float, chip: Chip) -> float:
    """Cycles to send to a neighbour."""
    return chip.cycles.link_startup + num_bytes / chip.neighbour_bytes_per_second * chip.clock_hz


def _stream(num_steps: int, num_bytes: float, chip: Chip) -> float:
    """Cycles to send over several links, each of which hands on what it has while the rest is on its way."""
    return (num_steps - 1) * chip.cycles.link_startup + _step(num_bytes, chip) if num_steps else 0.0


def _permute(pairs: Sequence[tuple[int, ...]], count: int, num_bytes: int, chip: Chip) -> float:
    """Cycles for messages between (source, target) pairs on a ring of `count` chips, each by the shorter way."""
    loads: dict[tuple[int, int], int] = {}
    longest = 0
    for source, target in pairs:
        distance = (target - source) % count
        direction = 1 if 2 * distance <= count else -1
        steps = min(distance, count - distance)
        longest = max(longest, steps)
        for i in range(steps):
            link = ((source + direction * i) % count, direction)
            loads[link] = loads.get(link, 0) + num_bytes
    return _stream(longest, max(loads.values()), chip) if longest else 0.0
