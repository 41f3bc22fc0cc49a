"""What it costs that all tiles read the same.

Either each loads it, so DDR gives it as often as there are tiles; or some load a part each and send it to all others. A column of
the mesh then has each part on its links. Where tiles of the first and of the last row have the parts, a link has a half of them.
"""

from hlo2tx8.device.chip import MOST_DESTINATIONS
from hlo2tx8.device.rates import Rates

LEAST_BYTES = 4096
"""Of a tensor that is worth it to be cut in parts."""


def spread_cycles(size_bytes: float, rates: Rates) -> float:
    """Cycles until all tiles have so many bytes, of which those of two mesh rows have loaded a part each."""
    sent = size_bytes / min(2, rates.mesh_rows) / rates.link
    return size_bytes / rates.ddr + sent + rates.transfer_start + rates.link_start + rates.barrier


def line_cycles(size_bytes: float, rates: Rates) -> float:
    """Cycles until the tiles of a mesh row have sent each other so many bytes, of which each has a part."""
    half = rates.mesh_columns // 2 / rates.mesh_columns
    return size_bytes * half / rates.link + rates.transfer_start + rates.link_start + rates.barrier


def is_spread(size_bytes: float, readers: float, rates: Rates) -> bool:
    """Is that sooner than if each of so many tiles that read it loads all? A tile sends its part to all others in one packet."""
    is_mesh = rates.mesh_rows * rates.mesh_columns == rates.tiles and 1 < rates.tiles <= MOST_DESTINATIONS + 1
    return is_mesh and spread_cycles(size_bytes, rates) < apart_cycles(size_bytes, readers, rates)


def apart_cycles(size_bytes: float, readers: float, rates: Rates) -> float:
    """Cycles until each of so many tiles, which may be none, has loaded so many bytes."""
    return size_bytes * readers / min(rates.ddr, readers * rates.transfer) + rates.transfer_start if size_bytes and readers else 0.0
