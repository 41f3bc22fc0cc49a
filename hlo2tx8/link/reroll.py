"""Equal runs of launches are in the program once, as a loop: an unrolled model is not much longer than one of its layers.

    RDMA_load slot 3; ...; WDMA_store slot 40            KC_loop r8 = 0 to 3
    RDMA_load slot 5; ...; WDMA_store slot 41     ⟶        KC_affine r9 = 3 + 2*r8; KC_affine r10 = 40 + r8
    RDMA_load slot 7; ...; WDMA_store slot 42              RDMA_load slot r9; ...; WDMA_store slot r10
                                                         KC_end

The program does the same in the same order, so barriers and what is loaded ahead stay as they are. Numbers that grow are in
registers that nothing else in the program names. What is in the loop has the origins of its first turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hlo2tx8.device.isa.encoding import NUM_REGISTERS, Operand, Record, Register
from hlo2tx8.device.isa.kc_control import KcAffine, KcCall, KcEnd, KcLoop
from hlo2tx8.device.isa.lsu import Wdma
from hlo2tx8.device.program import Buffer, Slot
from hlo2tx8.link.assemble import Assembled
from hlo2tx8.link.equal_runs import LEAST_RUNS, EqualRuns, equal_runs, growing_fields
from hlo2tx8.link.records import TILE, renumber, written_by
from hlo2tx8.link.seams import unnamed


class Growing(NamedTuple):
    """A number that is `start` in the first run, and `step` more in each one behind it."""

    start: int
    step: int


def reroll(made: Assembled, slots: Sequence[Slot]) -> tuple[Assembled, Sequence[Slot]]:
    """The same with loops for equal runs of launches, and the slots in another order if there are more of them then."""
    if len(made.launches) < LEAST_RUNS:
        return made, slots
    free = unnamed(made.records, range(TILE.number + 1, NUM_REGISTERS))
    found, order = equal_runs(made, len(slots)) if len(free) > 1 else ([], ())
    if not found:
        return made, slots
    if order != [*range(len(slots))]:
        numbers = {slot: number for number, slot in enumerate(order)}
        made = replace(made, records=[renumber(record, numbers) for record in made.records])
        slots = [slots[slot] for slot in order]
    return _with_loops(made, _loops(made.records, found, free)), slots


def _loops(records: Sequence[Record], found: Sequence[EqualRuns], free: Sequence[int]) -> list["_Loop"]:
    """Functions come before what calls them: a loop around calls has no register of those in front of it."""
    loops, taken = list[_Loop](), set[int]()
    for runs in found:
        has_calls = any(record.kind is KcCall for record in records[runs.first : runs.first + runs.size])
        loop = _loop(records, runs, [number for number in free if not has_calls or number not in taken])
        if loop is not None:
            loops.append(loop)
            taken |= written_by([loop.begin, *(record for new, count in loop.launches.values() for record in new[:count])])
    return loops


@dataclass(frozen=True)
class _Loop:
    """Runs as a loop; by each launch's beginning, its records in the loop and how many of them are new."""

    runs: EqualRuns
    begin: Record
    launches: Mapping[int, tuple[Sequence[Record], int]]


def _loop(records: Sequence[Record], runs: EqualRuns, free: Sequence[int]) -> _Loop | None:
    """None if there are too few registers."""
    if not free:
        return None
    first, second = (records[runs.first + k * runs.size : runs.first + (k + 1) * runs.size] for k in (0, 1))
    grows = [_growing(a, b) for a, b in zip(first, second, strict=True)]
    counter, *others = free
    stored = dict.fromkeys(g["slot"] for record, g in zip(first, grows, strict=True) if record.kind is Wdma and "slot" in g)
    if len(stored) > len(others):
        return None
    held = _GrowingRegisters(dict(zip(stored, others, strict=False)), others[len(stored) :])
    launches: dict[int, tuple[Sequence[Record], int]] = {}
    for start, end in zip(runs.launches, (*runs.launches[1:], runs.size), strict=True):
        new = held.bring([number for g in grows[start:end] for number in g.values()])
        if new is None:
            return None
        sums = [_sum(register, number, counter) for register, number in new.items()]
        of = {number: Register(register) for register, number in held.now.items()}
        inner = [
            replace(record, fields={**record.fields, **{name: of[number] for name, number in g.items()}}) if g else record
            for record, g in zip(first[start:end], grows[start:end], strict=True)
        ]
        launches[start] = [*sums, *inner], len(sums)
    begin = Record(KcLoop, {"rd": Register(counter), "lo": 0, "hi": runs.turns, "step": 1}, origin=first[0].origin)
    return _Loop(runs, begin, launches)


def _growing(record: Record, following: Record) -> dict[str, Growing]:
    """The fields that differ in the next run."""
    found: dict[str, Growing] = {}
    for name in growing_fields(record.kind):
        a, b = record.fields.get(name), following.fields.get(name)
        if isinstance(a, int) and isinstance(b, int) and a != b:
            found[name] = Growing(a, b - a)
    return found


def _sum(register: int, number: Growing, counter: int) -> Record:
    fields: dict[str, Operand] = {"rd": Register(register), "c": number.start, "r1": Register(counter), "k1": number.step}
    return Record(KcAffine, fields)


@dataclass
class _GrowingRegisters:
    """Registers with growing numbers in a loop: some numbers have a register of their `own`, the `others` take turns."""

    own: Mapping[Growing, int]
    others: Sequence[int]
    now: dict[int, Growing] = field(default_factory=dict[int, Growing])
    """What is in registers, the last needed last."""

    def bring(self, numbers: Sequence[Growing]) -> dict[int, Growing] | None:
        """What has to be put into registers so that all of the numbers are in some; None if there are not enough."""
        wanted = set(numbers)
        for register in [register for register, number in self.now.items() if number in wanted]:
            self.now[register] = self.now.pop(register)
        missing = [number for number in dict.fromkeys(numbers) if number not in self.now.values()]
        new = {self.own[number]: number for number in missing if number in self.own}
        rest = [number for number in missing if number not in self.own]
        free = [register for register in self.others if register not in self.now]
        free += [register for register, number in self.now.items() if register in self.others and number not in wanted]
        if len(free) < len(rest):
            return None
        new |= zip(free, rest, strict=False)
        for register, number in new.items():
            self.now.pop(register, None)
            self.now[register] = number
        return new


def _with_loops(made: Assembled, loops: Sequence[_Loop]) -> Assembled:
    """With loops in the place of their runs."""
    records, places, starts = list[Record](), list[int](), dict[int, int]()

    def keep(end: int) -> None:
        old = range(len(places), end)
        places.extend(len(records) + k for k in range(len(old)))
        records.extend(made.records[old.start : end])

    for loop in loops:
        keep(loop.runs.first)
        records.append(loop.begin)
        body: list[int] = []
        for start, (inner, num_new) in loop.launches.items():
            starts[loop.runs.first + start] = len(records)
            body += range(len(records) + num_new, len(records) + len(inner))
            records += inner
        records.append(Record(KcEnd))
        places += body * loop.runs.turns
    keep(len(made.records))
    inside = {n for loop in loops for n in range(loop.runs.first + loop.runs.size, loop.runs.end)}
    launches = [replace(la, first=starts.get(la.first, places[la.first])) for la in made.launches if la.first not in inside]
    of, buffers = _buffers(made, places)
    uses = dict.fromkeys(use._replace(record=places[use.record], buffer=of[use.buffer]) for use in made.uses)
    return Assembled(made.tiles, records, buffers, list(uses), launches)


def _buffers(made: Assembled, places: Sequence[int]) -> tuple[list[int], list[Buffer]]:
    """For each buffer its number, and those that there are: buffers of one operand are one, alive from the first to the last."""
    of = list(range(len(made.buffers)))

    def root(number: int) -> int:
        while of[number] != number:
            of[number] = of[of[number]]
            number = of[number]
        return number

    operands: dict[tuple[int, int], int] = {}
    for use in made.uses:
        other = root(operands.setdefault((places[use.record], use.operand), use.buffer))
        of[root(use.buffer)] = other
    roots = {number: k for k, number in enumerate(dict.fromkeys(map(root, of)))}
    buffers: dict[int, Buffer] = {}
    for number, buffer in enumerate(made.buffers):
        first, last = places[buffer.first_record], places[buffer.last_record]
        known = buffers.get(root(number), buffer)
        if known is not buffer:
            first, last = min(first, known.first_record), max(last, known.last_record)
        buffers[root(number)] = known.between(first, last)
    return [roots[root(number)] for number in of], [buffers[number] for number in roots]
