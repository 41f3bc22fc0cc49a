"""How long exchanges between chips take: chips are a ring, a link carries each way `link_bytes_per_second` at once.

A step sends to a neighbour: `link_startup` + bytes / rate. With n chips that have B bytes each:

    all_reduce            2 (n - 1) steps of B / n
    reduce_scatter        n - 1 steps of B / n
    all_gather            n - 1 steps of B
    all_to_all            n - 1 steps, in the k-th of which (n - k) / n B are still on their way
    collective_broadcast  n - 1 steps, B bytes pass each link once, in a stream
    collective_permute    the longest way in steps, the bytes of the busiest link
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation

from hlo2tx8.device.chip import Chip
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.spmd.collectives import groups_of, pairs_of
from hlo2tx8.spmd.tile_assignment import moves_of_text


def link_cycles(op: Operation, replicas: int, partitions: int, chip: Chip) -> float:
    """Cycles of an exchange; 0 for one that moves nothing."""
    num_bytes = sum(size_bytes(value) for value in op.operands)
    attributes = decode_attributes(op)
    name = op.name.partition(".")[2]
    match name:
        case "partition_id" | "replica_id":
            return 0.0
        case "collective_permute":
            return _permute(pairs_of(op, replicas, partitions), replicas * partitions, num_bytes, chip)
        case "custom_call":
            source, _ = moves_of_text(str(attributes["backend_config"]))[0]
            n = prod(source.tiles) * source.summands
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
            return (n - 1) * _step(0, chip) + _step(num_bytes, chip) - _step(0, chip)


def _step(num_bytes: float, chip: Chip) -> float:
    return chip.cycles.link_startup + num_bytes / chip.link_bytes_per_second * chip.clock_hz


def _permute(pairs: Sequence[tuple[int, ...]], count: int, num_bytes: int, chip: Chip) -> float:
    """Each message goes the shorter way around."""
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
    if not longest:
        return 0.0
    return longest * _step(0, chip) + _step(max(loads.values()), chip) - _step(0, chip)
