"""What it costs that one tile of each mesh row, or of each mesh column, sends what it has loaded to the others.

A multicast from the middle of a line puts all of its bytes on the links of both directions. Two tiles at the ends that send a half
each put a half on each. Rows and columns have links of their own, but a tile at a corner of the mesh sends halves of both, one
after the other: so it pays where one of the sides is much larger.

Where a tile makes parts of what it has loaded, and sends those, the vector engine is what counts. Then two tiles of each line, with
one in between, have a half each, so that no tile has a half of both sides.
"""

from collections.abc import Sequence

from hlo2tx8.device.rates import Rates

RING_PANELS, RING_BUFFERS = 4, 2
"""Where sums go around a mesh row at once: panels at most of a tile's own depth, each of which is a product by itself; buffers of
sums, as those of one piece are sent while those of the next one arrive."""
RING_GROUP = 2
"""Where sums go around a mesh row a piece after the other: so many of a tile's columns go around before others do, if what is
stored is the sums: while one is computed the one before it is sent."""
LEAST_GAIN = 0.8
"""Sends in halves that take a larger part of what others take are not worth the loads that they add."""
GAIN_OF_FEW_SLOTS = 0.85
"""The same where sums that are stored in place leave few slots: then no turn makes up for one that is late."""


def ring_group(pieces: int) -> int:
    """How many of so many pieces of a tile's columns go around a mesh row before others do."""
    return RING_GROUP if pieces % RING_GROUP == 0 else pieces


def send_cycles(sides: Sequence[float], transfers: int, rates: Rates, *, in_halves: bool) -> float:
    """Cycles until all tiles have what is sent in a turn: so many bytes along rows, along columns or both, in so many transfers."""
    if in_halves:
        return len(sides) * transfers * rates.link_start + sum(sides) / 2 / rates.link
    return transfers * rates.link_start + max(sides) / rates.link


def is_split_in_halves(rates: Rates) -> bool:
    """Has each line of tiles two of its own, which make parts of a half each of what they load?"""
    return rates.mesh_rows % 2 == rates.mesh_columns % 2 == 0


def is_sent_in_halves(sides: Sequence[float], rates: Rates, *, few_slots: bool = False) -> bool:
    """Is it sooner if the tiles at both ends of a line send a half each?"""
    gain = GAIN_OF_FEW_SLOTS if few_slots else LEAST_GAIN
    return send_cycles(sides, 1, rates, in_halves=True) < gain * send_cycles(sides, 1, rates, in_halves=False)
