"""What one placed kernel leaves to another stays in the scratchpads of the tiles that made it, and is fetched from there.

on tile 5                                       on tile 5
    CT_exp 0x11000                                  CT_exp 0x11000
    WDMA slot 7 offset=0 src=0x11000                TDMA_gatherScatter 0x80000 src=0x11000
on tile 6                                       on tile 6
    RDMA 0x10000 slot=7 offset=0                    KC_wait; DTE_gather 0x10000 tile 5 src=0x80000; KC_wait DTE

Each such slot has an image behind all buffers, at the same place on all tiles; of it a tile has what it wrote. A slot stays if
only placed kernels use it, what a tile reads was written by one other tile, whose number is a linear function of its own, and there
is room. Barriers are those of the slot: who reads or writes an image would have read or written the same bytes of DDR.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.dte import DteGather
from hlo2tx8.device.isa.encoding import Operand, Record, Register
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.isa.kc_control import KcAffine, KcWait
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.device.program import Buffer, BufferUse
from hlo2tx8.link.barriers import LaunchWork, LinkedCode, Piece
from hlo2tx8.link.place import COLUMN, LOCAL, ROW
from hlo2tx8.link.records import QUEUES
from hlo2tx8.link.runs import Runs, runs_of

IMAGE = "image of slot "
"""The name of an image's buffer begins so."""
NOBODY = -1
_COUNTS, _STRIDES = ("n1", "n2", "n3"), ("s1", "s2", "s3")


@dataclass(frozen=True)
class Fetch:
    """How a launch reads a slot: from the tile `factor` times its number among its kernel's tiles and `offset`."""

    factor: int
    offset: int


@dataclass(frozen=True)
class StayingSlot:
    """The launches that write a slot, and how each one that reads it does."""

    writers: Sequence[LaunchWork]
    fetches: Mapping[LaunchWork, Fetch]


def stay(pieces: Sequence[Piece], sizes: Mapping[int, int], chip: Chip) -> bool:
    """Changes the code of launches so that slots stay, of those whose `sizes` in bytes are given; were there any?"""
    works = [piece for piece in pieces if isinstance(piece, LaunchWork)]
    if len(works) < len(pieces):
        return False
    end = max((buffer.end for work in works for buffer in work.code.buffers), default=0)
    places: dict[int, int] = {}
    uses: dict[int, StayingSlot] = {}
    known: dict[object, Runs | None] = {}
    for slot, size in sizes.items():
        at = -(-end // chip.spm_alignment_bytes) * chip.spm_alignment_bytes
        use = _staying(slot, size, works, known) if at + size <= chip.spm_limit else None
        if use is not None:
            places[slot], uses[slot], end = at, use, at + size
    for work in works:
        own = {slot: use for slot, use in uses.items() if work in use.writers or work in use.fetches}
        if own:
            assert work.numbers is not None
            fetched = {slot: use.fetches[work] for slot, use in own.items() if work in use.fetches}
            work.code = _moved(work.code, work.numbers, {slot: (places[slot], sizes[slot]) for slot in own}, fetched)
    return bool(uses)


def _staying(slot: int, size: int, works: Sequence[LaunchWork], known: dict[object, Runs | None]) -> StayingSlot | None:
    """How a slot of that size in bytes is used, None if it cannot stay; `known` are runs of launches by code, slot and tile."""
    writers: list[LaunchWork] = []
    fetches: dict[LaunchWork, Fetch] = {}
    owners = np.full(size, NOBODY, np.int8)
    for work in works:
        accesses = [access for access in work.footprint.accesses if access.slot == slot]
        if not accesses:
            continue
        if not work.tiles or work.footprint.is_bound or len(accesses) > 1 or [*(work.numbers or ())].count(slot) != 1:
            return None
        found = _runs(work, slot, known)
        if found is None or not all(map(_is_movable, _transfers(work, slot))):
            return None
        if accesses[0].is_write:
            writers.append(work)
            for tile, runs in found.items():
                for first, end in runs.tolist():
                    owners[first:end] = tile
            continue
        fetch = _fetch(owners, found, work.tiles)
        if fetch is None:
            return None
        fetches[work] = fetch
    return StayingSlot(writers, fetches) if fetches else None


def _runs(work: LaunchWork, slot: int, known: dict[object, Runs | None]) -> dict[int, Runs] | None:
    """What each tile of a launch reaches in a slot, of those that reach anything; None if it is not known of one."""
    assert work.numbers is not None
    number, found = [*work.numbers].index(slot), dict[int, Runs]()
    for tile in work.tiles:
        key = id(work.code.records), number, tile
        if key not in known:
            known[key] = runs_of(work.code.records, number, tile)
        runs = known[key]
        if runs is None:
            return None
        found |= {tile: runs} if len(runs) else {}
    return found


def _transfers(work: LaunchWork, slot: int) -> list[Record]:
    assert work.numbers is not None
    number = [*work.numbers].index(slot)
    return [r for r in work.code.records if r.kind in (Rdma, Wdma) and r.fields["slot"] == number]


def _is_movable(record: Record) -> bool:
    """Are the numbers that a move within the scratchpad multiplies known?"""
    fields = record.fields
    is_run = all(fields.get(name, 1) == 1 for name in _COUNTS)
    names = (*_COUNTS, *_STRIDES) if is_run else ("count", *_COUNTS, *_STRIDES)
    return record.kind is Rdma or all(type(fields.get(name, 0)) is int for name in names)


def _fetch(owners: npt.NDArray[np.int8], read: Mapping[int, Runs], tiles: Sequence[int]) -> Fetch | None:
    """From which tile each tile of a launch reads; None if that is no linear function of its number, or from several."""
    sources: dict[int, int] = {}
    for tile, runs in read.items():
        who = {int(owner) for first, end in runs.tolist() for owner in np.unique(owners[first:end])}
        if len(who) != 1 or who & {NOBODY, tile}:
            return None
        sources[tiles.index(tile)] = who.pop()
    if not sources:
        return None
    (first, source), (last, end) = min(sources.items()), max(sources.items())
    factor = (end - source) // (last - first) if last > first else 0
    offset = source - factor * first
    return Fetch(factor, offset) if all(factor * local + offset == at for local, at in sources.items()) else None


def _moved(
    code: LinkedCode, numbers: Sequence[int], images: Mapping[int, tuple[int, int]], fetches: Mapping[int, Fetch]
) -> LinkedCode:
    """The code with moves to and from these images (address and size, by slot of the program) for its transfers."""
    records: list[Record] = []
    at: list[int] = []
    changed: dict[int, int] = {}
    used: list[tuple[int, int]] = []
    for number, record in enumerate(code.records):
        slot = numbers[_number(record.fields["slot"])] if record.kind in (Rdma, Wdma) else -1
        at.append(len(records))
        if record.kind is KcWait:
            records.append(_waiting(record))
        elif slot not in images:
            records.append(record)
        else:
            new, place = _left(record, images[slot][0]) if record.kind is Wdma else _fetched(record, images[slot][0], fetches[slot])
            changed[number] = len(records) + place
            if record.kind is Wdma:
                used.append((changed[number], slot))
            records += new
    at.append(len(records))
    left = [slot for slot in images if slot not in fetches]
    buffers = [b.between(at[b.first_record], at[b.last_record + 1] - 1) for b in code.buffers]
    for slot in left:
        here = [record for record, other in used if other == slot]
        buffers.append(Buffer(f"{IMAGE}{slot}", *images[slot], 1, images[slot][1], min(here), max(here)))
    uses = [
        use._replace(record=changed[use.record], operand=1 if code.records[use.record].kind is Wdma else 0)
        if use.record in changed
        else use._replace(record=at[use.record])
        for use in code.uses
    ]
    uses += [BufferUse(record, 0, len(code.buffers) + left.index(slot)) for record, slot in used]
    return replace(code, records=records, buffers=buffers, uses=sorted(uses))


def _waiting(record: Record) -> Record:
    """A wait for transfers that may be moves now."""
    engines = record.fields["engines"]
    if isinstance(engines, int) and engines & (1 << Engine.RDMA | 1 << Engine.WDMA):
        return replace(record, fields={"engines": engines | 1 << Engine.TDMA})
    return record


def _address(base: int, offset: Operand, register: Register) -> tuple[list[Record], Operand]:
    """Where an offset into an image is, and the records that compute it."""
    if isinstance(offset, int):
        return [], base + offset
    return [Record(KcAffine, {"rd": register, "c": base, "r1": offset, "k1": 1})], register


def _left(record: Record, base: int) -> tuple[list[Record], int]:
    """A store as a move into the tile's own image, and its place among the records."""
    fields = record.fields
    before, target = _address(base, fields["offset"], ROW)
    size, count = record.fmt.bytes, fields["count"]
    turns = [_number(fields.get(name, 1)) for name in _COUNTS]
    strides = [_number(fields.get(name, 0)) * size for name in _STRIDES]
    levels = {f"{side}n{i}": n for side in "rw" for i, n in enumerate(turns, 1)}
    levels |= {f"ws{i}": n for i, n in enumerate(strides, 1)}
    if isinstance(count, Register):
        before.append(Record(KcAffine, {"rd": COLUMN, "c": 0, "r1": count, "k1": size}))
        run: Operand = COLUMN
    else:
        run = count * size
        levels |= {f"rs{i}": count * size * prod(turns[: i - 1]) for i in (1, 2, 3)}
    move = {"dst": target, "src": fields["src"], "run_bytes": run, **levels}
    return [*before, Record(TdmaGatherScatter, move, record.fmt, origin=record.origin)], len(before)


def _number(operand: Operand) -> int:
    assert isinstance(operand, int)
    return operand


def _fetched(record: Record, base: int, fetch: Fetch) -> tuple[list[Record], int]:
    """A load as one from the scratchpad of the tile that has it, before and after which everything in this tile waits."""
    fields = record.fields
    before, source = _address(base, fields["offset"], ROW)
    tile: Operand = fetch.offset
    if fetch.factor:
        before.append(Record(KcAffine, {"rd": COLUMN, "c": fetch.offset, "r1": LOCAL, "k1": fetch.factor}))
        tile = COLUMN
    before.append(Record(KcWait, {"engines": QUEUES}))
    levels = {name: value for name, value in fields.items() if name in ("count", *_COUNTS, *_STRIDES)}
    new = Record(DteGather, {"dst": fields["dst"], "tile": tile, "src": source, **levels}, record.fmt, origin=record.origin)
    return [*before, new, Record(KcWait, {"engines": 1 << Engine.DTE})], len(before)
