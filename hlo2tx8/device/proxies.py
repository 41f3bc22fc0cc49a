"""Area and power of a chip as proxies: sums over its parts, in relative units that its description states.

They order chips that differ in sizes and rates; they are no mm2 and no watts. None where a description has no `proxies`.
"""

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.rates import Rates

UNITS = 1000
"""Multiply-adds per unit of what is returned."""


def _tile_parts(chip: Chip) -> tuple[int, int, int]:
    """Of a tile: multiply-adds per cycle, bytes per cycle of its vector units, and of what moves data."""
    c = chip.cycles
    ports = c.dma_bytes_per_cycle + c.tdma_bytes_per_cycle + c.dte_bytes_per_cycle
    return Rates.of(chip).products, c.ct_bytes_per_cycle + c.kc_vector_bytes_per_cycle, ports


def area(chip: Chip) -> float | None:
    """tiles x (products + lanes + ports + KiB of SPM + the rest) + GB/s of DDR, each times its proxy, in 1000 multiply-adds."""
    p = chip.proxies
    if p is None:
        return None
    products, lanes, ports = _tile_parts(chip)
    tile = products * p.area_product + lanes * p.area_lane_byte + ports * p.area_port_byte
    tile += chip.spm_bytes / 1024 * p.area_spm_kib + p.area_tile
    return (chip.tiles * tile + chip.ddr_bytes_per_second / 1e9 * p.area_ddr_gigabyte) / UNITS


def power(chip: Chip) -> float | None:
    """tiles x GHz x (products + lanes + ports) + GB/s of DDR, each times its proxy, + a share of the area, in 1000 multiply-adds at
    1 GHz: all parts at work, always."""
    p, whole = chip.proxies, area(chip)
    if p is None or whole is None:
        return None
    products, lanes, ports = _tile_parts(chip)
    tile = products * p.power_product + lanes * p.power_lane_byte + ports * p.power_port_byte
    moving = chip.tiles * chip.clock_hz / 1e9 * tile + chip.ddr_bytes_per_second / 1e9 * p.power_ddr_gigabyte
    return moving / UNITS + whole * p.power_area_permille / 1000
