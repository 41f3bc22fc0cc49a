"""Records of the program around its kernels: copies between DDR slots, and reading a scalar back into the kernel cores.

A copy of b bytes: tile t moves the share of P bytes from t*P on, in pieces through SPM. Small values are tile 0's alone. Equal
sizes are shared alike, so a slot that one copy reads and the next one writes is reached by the same tile in that order.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction, Role
from hlo2tx8.device.isa.encoding import Operand, Record, Register, number_of
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcEnd,
    KcEndIf,
    KcFloorDiv,
    KcIf,
    KcLess,
    KcLoadScalar,
    KcLoop,
    KcMin,
    KcMod,
    KcWait,
)
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.link.named import LinkerBuffer
from hlo2tx8.lower.encode.encode import ViewBase

QUEUES = sum(1 << engine for engine in Engine if engine is not Engine.KC)
ZERO, TILE = map(Register, range(2))
"""Registers that nobody writes: 0, and the tile's number."""
BEGIN, COUNT, AT, OFFSET, PIECE, ADDRESS, FLAG, BASE = map(Register, range(2, 10))
"""Of a copy: the tile's first byte and number of bytes; of a piece: its place in them, in the slot, its bytes, its SPM address; is
there anything to do; where the piece is in the slot that is read."""

AT_BEGIN = ViewBase(0)
"""What begins where its slot does."""
SMALL_BYTES = 4096
PIECE_BYTES = 1 << 18
GRAIN_BYTES = 256
SMALL_PLACES = 16


def meet() -> tuple[Record, Record]:
    """Records of a barrier: all engines finish, all tiles arrive, and then every tile can read what was written to DDR."""
    return Record(KcWait, {"engines": QUEUES}), Record(KcBarrier)


def copy_slot(
    source: int, target: int, num_bytes: int, number: int, chip: Chip, origin: str = "", base: ViewBase = AT_BEGIN
) -> Iterator[Record]:
    """Records that copy a value of `num_bytes` from slot to slot, where it begins at `base`, shared out over the tiles; `number`
    counts the copies since the last barrier.
    """
    if num_bytes == 0:
        return
    share = _share(num_bytes, chip)
    num_tiles = -(-num_bytes // share)
    start = chip.spm_allocation_start

    def move(address: Operand, offset: Operand, count: Operand) -> Iterator[Record]:
        begin = offset
        if base.terms or (base.offset and isinstance(offset, Register)):
            terms = [*((Register(n), factor) for n, factor in base.terms), *([(offset, 1)] if isinstance(offset, Register) else [])]
            fields: dict[str, Operand] = {"rd": BASE, "c": base.offset}
            for k, (register, factor) in enumerate(terms, 1):
                fields |= {f"r{k}": register, f"k{k}": factor}
            yield Record(KcAffine, fields)
            begin = BASE
        elif isinstance(offset, int):
            begin = offset + base.offset
        yield Record(Rdma, {"dst": address, "slot": source, "offset": begin, "count": count}, Format.UINT8, origin=origin)
        yield Record(Wdma, {"src": address, "slot": target, "offset": offset, "count": count}, Format.UINT8, origin=origin)

    if num_tiles < chip.tiles:
        yield Record(KcLess, {"rd": FLAG, "a": TILE, "b": num_tiles})
        yield Record(KcIf, {"value": FLAG})
    if num_tiles == 1:
        yield from move(copy_place(num_bytes, number, chip).address, 0, num_bytes)
    else:
        yield Record(KcAffine, {"rd": BEGIN, "c": 0, "r1": TILE, "k1": share})
        yield Record(KcAffine, {"rd": COUNT, "c": num_bytes, "r1": BEGIN, "k1": -1})
        yield Record(KcMin, {"rd": COUNT, "a": COUNT, "b": share})
        yield Record(KcLoop, {"rd": AT, "lo": 0, "hi": COUNT, "step": PIECE_BYTES})
        yield Record(KcAffine, {"rd": OFFSET, "c": 0, "r1": BEGIN, "k1": 1, "r2": AT, "k2": 1})
        yield Record(KcAffine, {"rd": PIECE, "c": 0, "r1": COUNT, "k1": 1, "r2": AT, "k2": -1})
        yield Record(KcMin, {"rd": PIECE, "a": PIECE, "b": PIECE_BYTES})
        yield Record(KcFloorDiv, {"rd": ADDRESS, "a": AT, "b": PIECE_BYTES})
        yield Record(KcMod, {"rd": ADDRESS, "a": ADDRESS, "b": 2})
        yield Record(KcAffine, {"rd": ADDRESS, "c": start, "r1": ADDRESS, "k1": PIECE_BYTES})
        yield from move(ADDRESS, OFFSET, PIECE)
        yield Record(KcEnd)
    if num_tiles < chip.tiles:
        yield Record(KcEndIf)


def copy_place(num_bytes: int, number: int, chip: Chip) -> LinkerBuffer:
    """The SPM range that such a copy goes through."""
    share, start = _share(num_bytes, chip), chip.spm_allocation_start
    if share >= num_bytes:
        return LinkerBuffer("copy", start + number % SMALL_PLACES * SMALL_BYTES, num_bytes)
    return LinkerBuffer("copy", start, min(share, PIECE_BYTES), 1 if share <= PIECE_BYTES else 2, PIECE_BYTES)


def _share(num_bytes: int, chip: Chip) -> int:
    """Bytes that a tile copies."""
    return num_bytes if num_bytes <= SMALL_BYTES else -(-num_bytes // (chip.tiles * GRAIN_BYTES)) * GRAIN_BYTES


def scalar_place(fmt: Format, chip: Chip) -> LinkerBuffer:
    """The SPM range that a scalar of format `fmt` is loaded to."""
    return LinkerBuffer("scalar", chip.spm_allocation_start, fmt.bytes)


def read_back(slot: int, fmt: Format, register: Register, chip: Chip, origin: str = "") -> Iterator[Record]:
    """Records that load the scalar in a slot into a register of every kernel core; nothing may write the slot any more."""
    address = scalar_place(fmt, chip).address
    yield Record(Rdma, {"dst": address, "slot": slot, "offset": 0, "count": 1}, fmt, origin=origin)
    yield Record(KcWait, {"engines": 1 << Engine.RDMA})
    yield Record(KcLoadScalar, {"rd": register, "address": address}, fmt, origin=origin)


def renumber(record: Record, slots: Sequence[int] | Mapping[int, int]) -> Record:
    """The record with the kernel's slot numbers replaced by the program's."""
    names = slot_fields(record.kind)
    if not names:
        return record
    changed = {name: slots[number] for name in names if isinstance(number := record.fields[name], int)}
    return record.with_fields({**record.fields, **changed})


@cache
def slot_fields(kind: type[Instruction]) -> tuple[str, ...]:
    """The operands of an instruction that are slots."""
    return tuple(f.name for f in kind.FIELDS if f.role is Role.SLOT)


def written_by(records: Sequence[Record]) -> set[int]:
    """The numbers of the registers that records write."""
    return {number_of(record.fields["rd"]) for record in records if "rd" in record.fields}
