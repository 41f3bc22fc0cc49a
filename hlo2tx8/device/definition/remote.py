"""The definition of DTE: one tile's scratchpad to others'."""

import numpy as np

from hlo2tx8.device.definition.memory import Scratchpad
from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.isa.dte import box_bytes, destinations
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.forms import DMA_BYTES
from hlo2tx8.device.touches import strided_offsets


def send(m: TileMachine, record: Record, o: Operands) -> None:
    """Unicast and multicast."""
    num_bytes = o["n"] * o.fmt.bytes
    targets = _scratchpads(m, o)
    for pad in targets:
        pad.check(o["dst"], num_bytes, m.place)
    data = m.spm.read(o["src"], num_bytes, m.place)
    for pad in targets:
        pad.write(o["dst"], data, m.place)


def gather(m: TileMachine, record: Record, o: Operands) -> None:
    """A strided box of another tile, dense here."""
    (source,) = _scratchpads(m, o)
    m.spm.check(o["dst"], DMA_BYTES(o), m.place)
    source.check(o["src"], box_bytes(o), m.place)
    run = o["count"] * o.fmt.bytes
    starts = o["src"] + strided_offsets([(o[f"s{i}"] * o.fmt.bytes, o[f"n{i}"]) for i in (1, 2, 3)])
    m.spm.write(o["dst"], np.concatenate([source.read(start, run, m.place) for start in starts.tolist()]), m.place)


def _scratchpads(m: TileMachine, o: Operands) -> list[Scratchpad]:
    check_tiles(o, len(m.scratchpads), m.place)
    return [m.scratchpads[tile] for tile in destinations(o)]


def check_tiles(o: Operands, num_tiles: int, place: FaultPlace) -> None:
    """Faults if a tile that is named does not exist or is the one that names it."""
    for tile in destinations(o):
        if tile >= num_tiles:
            raise Fault(FaultKind.OUT_OF_BOUNDS, f"no tile {tile}", place)
        if tile == place.tile:
            raise Fault(FaultKind.BAD_DESCRIPTOR, f"tile {tile} names itself", place)
