"""Data movement between tiles: DTE from one scratchpad to others, with no range check against the tile's other engines."""

from hlo2tx8.device.chip import MOST_DESTINATIONS, MOST_TILES
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction, instruction
from hlo2tx8.device.isa.fields import Constraint, Engine, Field, Operands, Role, vector
from hlo2tx8.device.isa.forms import COUNT, DMA_BYTES, DmaForm


class DteForm(Instruction):
    """SPM to SPM of another tile; a tile cannot name itself. DTE is waited for explicitly, before what it needs and after it."""

    FORM = "REMOTE_SEND"
    ENGINE = Engine.DTE
    FORMATS = tuple(Format)


@instruction
class DteUnicast(DteForm):
    """SPM of tile `tile`[dst + i] = SPM[src + i]."""

    MNEMONIC = "DTE_unicast"
    OPCODE = 232
    FIELDS = (
        vector("dst", Role.REMOTE_WRITE),
        vector("src", Role.SPM_READ),
        COUNT,
        Field("tile", Role.IMMEDIATE, least=0),
    )


@instruction
class DteMulticast(DteForm):
    """SPM of tile t[dst + i] = SPM[src + i] for each bit t that is set in `tiles`."""

    MNEMONIC = "DTE_multicast"
    OPCODE = 233
    FIELDS = (
        vector("dst", Role.REMOTE_WRITE),
        vector("src", Role.SPM_READ),
        COUNT,
        Field("tiles", Role.IMMEDIATE),
    )
    CONSTRAINTS = (
        Constraint(f"1 to {MOST_DESTINATIONS} bits are set in tiles", lambda o: 1 <= len(destinations(o)) <= MOST_DESTINATIONS),
    )


def box_bytes(o: Operands) -> int:
    """Bytes from the first to behind the last byte of a strided box."""
    return (o["count"] + sum((o[f"n{i}"] - 1) * o[f"s{i}"] for i in (1, 2, 3))) * o.fmt.bytes


@instruction
class DteGather(DteForm):
    """SPM[dst ...] = the elements SPM of tile `tile`[src + (i1*s1 + i2*s2 + i3*s3 + i)], i innermost, dense."""

    FORM = "REMOTE_GATHER"
    MNEMONIC = "DTE_gather"
    OPCODE = 234
    FIELDS = (
        Field("dst", Role.SPM_WRITE, DMA_BYTES),
        Field("tile", Role.IMMEDIATE, least=0),
        Field("src", Role.REMOTE_READ, box_bytes),
        *DmaForm.LEVELS,
    )


def destinations(o: Operands) -> tuple[int, ...]:
    """The other tiles an instruction names."""
    if "tile" in o.values:
        return (o["tile"],)
    return tuple(t for t in range(MOST_TILES) if o["tiles"] >> t & 1)
