"""What a kernel loads first is loaded while the kernel before it ends, where no kernel of the program writes it: weights, mostly.

    Two launches:                                  After:

    KC_loop r2 = 0 to 12                           KC_loop r2 = 0 to 12
                                                     KC_less r20 = 10 < r2
      KC_if r3; RDMA_load step r2 + 1; KC_endif      KC_if r3; RDMA_load step r2 + 1; KC_endif
                                                     KC_if r20; RDMA_load weights; KC_endif
      compute, store step r2                         compute, store step r2
    KC_end                                         KC_end
    KC_wait; KC_barrier                            KC_wait; KC_barrier
    RDMA_load weights                              DTE_multicast weights ...
    DTE_multicast weights ...

The loads go behind the last record of the kernel before that loads or waits for loads; if that is in a loop, in its last turn.
Where they load from is computed there again, in registers that nobody needs any more. Their buffers get places that are free from
there on: the kernel's buffers are placed anew around those that the one before still uses. Engines order accesses of one tile to
the same bytes; other tiles send nothing before all have met.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.encoding import Operand, Record, Register, number_of, partners
from hlo2tx8.device.isa.kc_control import KcEndIf, KcIf, KcLess, KcLoadScalar, KcMul
from hlo2tx8.device.program import BufferUse
from hlo2tx8.link.barriers import LaunchWork, LinkedCode, Nest, Piece
from hlo2tx8.link.records import renumber
from hlo2tx8.link.seams import Opening, Seam, opening_of, registers_of, seam_of, turns_of
from hlo2tx8.lower.dma.allocate_spm import LiveRange, SpmRange, SpmSpace, place_all

Moved = Callable[[str, LinkedCode, Sequence[int]], LinkedCode]
"""The code of a kernel by name, as it is, each of whose buffers lies so many bytes further."""
BEFORE = LiveRange(-1, -1)
"""When the kernel before has not ended."""


def load_ahead(pieces: Sequence[Piece], chip: Chip, moved: Moved) -> None:
    """Changes the code of launches that follow each other on all tiles; what is guarded is known."""
    written = {access.slot for work in _all_work(pieces) for access in work.footprint.accesses if access.is_write}
    _Ahead(written, SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes), moved, {}, {}).sequence(pieces)


def _all_work(pieces: Sequence[Piece]) -> list[LaunchWork]:
    return [
        work for piece in pieces for work in (piece.work if isinstance(piece, Nest) else [piece]) if isinstance(work, LaunchWork)
    ]


@dataclass(frozen=True)
class _Ahead:
    written: set[int]
    space: SpmSpace
    moved: Moved
    placed: dict[tuple[object, ...], tuple[frozenset[int], LinkedCode] | None]
    """By kernel, what it may load, and what is taken: the buffers that it loads ahead, and its code with places for that."""
    pairs: dict[tuple[object, ...], tuple[LinkedCode, Sequence[BufferUse], LinkedCode] | None]
    """By the code of two launches: see `moved_into`. Layers of a model have the same."""

    def sequence(self, pieces: Sequence[Piece]) -> None:
        """Parts that follow each other, and those inside of them."""
        before: LaunchWork | None = None
        for piece in pieces:
            if isinstance(piece, Nest) and not piece.is_guarded:  # what only tile 0 runs is of the code for it alone
                self.sequence(piece.body)
            is_kernel = isinstance(piece, LaunchWork) and not piece.is_guarded and piece.numbers is not None and bool(piece.name)
            work = piece if isinstance(piece, LaunchWork) and is_kernel and not piece.tiles else None
            if before is not None and work is not None:
                self.pair(before, work)
            before = work

    def pair(self, before: LaunchWork, work: LaunchWork) -> None:
        """Moves loads of `work` into the launch before it."""
        assert work.numbers is not None and before.numbers is not None
        is_fixed = tuple(slot not in self.written for slot in work.numbers)
        key = (before.code, len(before.numbers), work.code, work.kept_from, is_fixed)
        if key not in self.pairs:
            self.pairs[key] = self.moved_into(before.code, len(before.numbers), work, is_fixed)
        found = self.pairs[key]
        if found is not None:
            before.code, before.guests, work.code = found
            before.numbers = (*before.numbers, *work.numbers)

    def moved_into(
        self, before: LinkedCode, num_slots: int, work: LaunchWork, is_fixed: Sequence[bool]
    ) -> tuple[LinkedCode, Sequence[BufferUse], LinkedCode] | None:
        """The code that names `num_slots` slots with loads of `work`, whose slots have the numbers behind those; uses of the
        latter's buffers there; and its code without the loads. None if nothing is moved."""
        opening = opening_of(work.code, is_fixed)
        seam = seam_of(before) if opening.loads else None
        if seam is None:
            return None
        key = (work.name, work.code.bases, tuple(opening.loads), seam.taken, work.kept_from)
        if key not in self.placed:
            self.placed[key] = self.place(work, opening, seam)
        found = self.placed[key]
        if found is None:
            return None
        buffers, code = found
        opening = opening_of(code, is_fixed)
        gone = frozenset(record for buffer in buffers for record in opening.loads.get(buffer, ()))
        guests = needed(code.records[: opening.end], gone)
        held = {0, 1, *(number for _, base in code.bases for number, _ in base.terms)}
        names = dict.fromkeys(r.number for i in guests for r in registers_of(code.records[i]) if r.number not in held)
        if len(names) > len(seam.free) or len(seam.loops) > len(seam.unused):
            return None
        mapping = dict(zip(names, seam.free, strict=False))
        behind = range(num_slots, num_slots + len(is_fixed))
        joined, place = _with_guests(before, seam, [renumber(_renamed(code.records[i], mapping), behind) for i in guests])
        at = {source: place + number for number, source in enumerate(guests)}
        uses = [BufferUse(at[use.record], use.operand, use.buffer) for use in code.uses if use.record in gone]
        return joined, uses, without(code, gone)

    def place(self, work: LaunchWork, opening: Opening, seam: Seam) -> tuple[frozenset[int], LinkedCode] | None:
        """The buffers that have room, without the largest if not all do, and the code in which they are where the one before has
        nothing any more."""
        code, loads = work.code, list(opening.loads)
        if len(code.lives) != len(code.buffers):
            return None
        sizes = [(b.size_bytes, b.copies) for b in code.buffers]
        taken = [SpmRange(start, end - start, [BEFORE.start], [BEFORE.end]) for start, end in seam.taken]
        while loads:
            lives = [life._replace(start=BEFORE.start) if n in loads else life for n, life in enumerate(code.lives)]
            addresses = place_all(sizes, lives, self.space, taken)
            strides = (self.space.aligned(size) * copies for size, copies in sizes)
            if max(map(sum, zip(addresses, strides, strict=True))) <= (work.kept_from or self.space.limit):
                far = [new - b.address for new, b in zip(addresses, code.buffers, strict=True)]
                if not any(far):
                    return frozenset(loads), code
                if any(record.kind is KcLoadScalar for record in code.records):
                    return None
                return frozenset(loads), self.moved(work.name, code, far)
            loads.remove(max(loads, key=lambda n: code.buffers[n].size_bytes * code.buffers[n].copies))
        return None


def needed(records: Sequence[Record], gone: frozenset[int]) -> list[int]:
    """The records to repeat so that those that are `gone` are done elsewhere: these, the branches around them, and what both
    are made of."""
    ends, kept, wanted = partners(records), list[int](), set[int]()
    inside: set[int] = {i for i, end in enumerate(ends) if end > i and any(i < load < end for load in gone)}
    inside |= {ends[i] for i in inside}
    depth = 0
    for i in reversed(range(len(records))):
        record = records[i]
        if record.kind in (KcIf, KcEndIf):
            depth += (record.kind is KcEndIf) - (record.kind is KcIf)
            is_kept = i in inside
        else:
            is_kept = i in gone or ("rd" in record.fields and number_of(record.fields["rd"]) in wanted)
        if not is_kept:
            continue
        kept.append(i)
        if "rd" in record.fields and depth == 0:
            wanted.discard(number_of(record.fields["rd"]))
        wanted |= {r.number for name, r in record.fields.items() if name != "rd" and isinstance(r, Register)}
    return kept[::-1]


def _with_guests(before: LinkedCode, seam: Seam, guests: Sequence[Record]) -> tuple[LinkedCode, int]:
    """The code with records in it, and the place of the first one."""
    new: dict[int, list[Record]] = {}
    flags = [Register(number) for number in seam.unused]
    for number, (begin, flag) in enumerate(zip(seam.loops, flags, strict=False)):
        loop = before.records[begin]
        is_last = [Record(KcLess, {"rd": flag, "a": turns_of(loop)[-1] - 1, "b": loop.fields["rd"]})]
        if number:
            is_last.append(Record(KcMul, {"rd": flag, "a": flag, "b": flags[number - 1]}))
        new[begin + 1] = is_last
    around = (Record(KcIf, {"value": flags[len(seam.loops) - 1]}), Record(KcEndIf)) if seam.loops else ()
    new[seam.at] = [*new.get(seam.at, ()), *around[:1], *guests, *around[1:]]
    records, places = list[Record](), list[int]()
    for i in range(len(before.records) + 1):
        records += new.get(i, ())
        places.append(len(records))
        records += before.records[i : i + 1]
    return _at_places(before, records, places), places[seam.at] - len(guests) - len(around[1:])


def without(code: LinkedCode, gone: frozenset[int]) -> LinkedCode:
    """The code without some records, and without branches in which nothing is left."""
    ends, dropped = partners(code.records), set(gone)
    for i in reversed(range(len(code.records))):
        if ends[i] > i and code.records[i].kind is KcIf:
            inner = range(i + 1, ends[i])
            if any(k in gone for k in inner) and all(k in dropped for k in inner if "rd" not in code.records[k].fields):
                dropped |= {i, *inner, ends[i]}
    records, places = list[Record](), list[int]()
    for i, record in enumerate(code.records):
        places.append(len(records))
        if i not in dropped:
            records.append(record)
    uses = [use for use in code.uses if use.record not in dropped]
    return _at_places(replace(code, uses=uses), records, places)


def _at_places(code: LinkedCode, records: Sequence[Record], places: Sequence[int]) -> LinkedCode:
    """The code with other records, in which old record i is at places[i], or would be."""
    uses = [use._replace(record=places[use.record]) for use in code.uses]
    alive = [
        b if b.last_record < b.first_record else b.between(places[b.first_record], places[b.last_record]) for b in code.buffers
    ]
    return replace(code, records=records, uses=uses, buffers=alive)


def _renamed(record: Record, names: Mapping[int, int]) -> Record:
    changed: dict[str, Operand] = {
        name: Register(names.get(value.number, value.number))
        for name, value in record.fields.items()
        if isinstance(value, Register)
    }
    rd = record.fields.get("rd")
    if isinstance(rd, int):
        changed["rd"] = names.get(rd, rd)
    return record.with_fields({**record.fields, **changed}) if changed else record
