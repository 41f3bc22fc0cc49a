"""`group_exchange`: the time of what all members of groups of chips send each other, for meshes of thousands of chips.

It is that of `exchange` for the same packets, from how many of them take each link; no packet is followed. As each goes along the
row first, the links of a row are taken by what its own members send to columns, those of a column by what rows send to its members.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh, start_cycles


@dataclass(frozen=True)
class GroupExchange:
    """Cycles until all has arrived, links of the longest way, and bytes on the busiest link."""

    cycles: float
    hops: int
    busiest_bytes: int


def group_exchange(
    groups: Sequence[Sequence[int]], num_bytes: int, mesh: ChipMesh, chip: Chip, *, is_multicast: bool
) -> GroupExchange:
    """Every member of each group, all of one size, sends every member so many bytes: the same to all if `is_multicast`, else others
    to each. Groups have no chip in common."""
    size = len(groups[0])
    lengths, ways = zip(*(_ways(mesh, dim) for dim in (0, 1)), strict=True)
    loads = [np.zeros((mesh.rows, mesh.columns)) for _ in range(4)]
    hops = 0
    for group in groups:
        columns, rows = np.array([mesh.place(number) for number in group]).T
        here = np.zeros((mesh.rows, mesh.columns))
        here[rows, columns] = 1
        hops = max(hops, int((lengths[0][columns[:, None], columns] + lengths[1][rows[:, None], rows]).max()))
        for direction in (0, 1):
            taken = np.einsum("abl,b->al", ways[0][direction], here.sum(0))
            loads[direction] += here @ (np.minimum(taken, 1) if is_multicast else taken)
            taken = ways[1][direction].transpose(0, 2, 1).reshape(-1, mesh.rows) @ here
            taken = np.minimum(taken, 1) if is_multicast else taken
            loads[2 + direction] += np.tensordot(here.sum(1), taken.reshape(mesh.rows, mesh.rows, -1), 1)
    busiest = num_bytes * round(max(float(links.max()) for links in loads))
    read, written = (round(num_bytes * charge) for charge in (chip.ddr_read_charge, chip.ddr_write_charge))
    moved = read * (1 if is_multicast else size) + written * size
    on_links = busiest / chip.neighbour_bytes_per_second * chip.clock_hz
    return GroupExchange(start_cycles(hops, chip) + max(on_links, moved / chip.ddr_bytes_per_cycle), hops, busiest)


def _ways(mesh: ChipMesh, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Along a row (0) or a column (1): links from each place to each, and whether the link behind a place is taken, as [direction,
    from, to, place]."""
    size = (mesh.columns, mesh.rows)[dim]
    lengths, taken = np.zeros((size, size), int), np.zeros((2, size, size, size))
    for begin in range(size):
        for end in range(size):
            lengths[begin, end], step = mesh.steps(begin, end, dim)
            for way in range(lengths[begin, end]):
                taken[int(step < 0), begin, end, (begin + step * way) % size] = 1
    return lengths, taken
