"""Scalar values of a kernel as linear forms over registers, and the registers they get."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hlo2tx8.device.isa.encoding import NUM_REGISTERS, Record, Register
from hlo2tx8.device.isa.kc_control import KcEnd, KcLoop

ZERO_REGISTER = 0
TILE_REGISTER = 1
FIRST_FREE_REGISTER = 2
PLACING_REGISTERS = 5
"""The last ones, which kernels for some tiles leave to what places them."""
VIEW_REGISTERS = 3
FIRST_VIEW_REGISTER = NUM_REGISTERS - PLACING_REGISTERS - VIEW_REGISTERS
"""Those before, which say where views begin; a kernel that reads no view may use them."""


class LinearForm(NamedTuple):
    """constant + sum(coefficient * register)."""

    constant: int
    terms: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of_register(register: int) -> "LinearForm":
        return LinearForm(0, ((register, 1),))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def register(self) -> int | None:
        """The register this form is a copy of, if it is one."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def __add__(self, other: "LinearForm") -> "LinearForm":  # pyright: ignore[reportIncompatibleMethodOverride] - no tuple's
        if not other.terms and len(self.terms) <= 1:
            return LinearForm(self.constant + other.constant, self.terms if self.terms and self.terms[0][1] else ())
        merged = dict(self.terms)
        for register, coefficient in other.terms:
            merged[register] = merged.get(register, 0) + coefficient
        terms = tuple((r, c) for r, c in sorted(merged.items()) if c)
        return LinearForm(self.constant + other.constant, terms)

    def __mul__(self, factor: int) -> "LinearForm":  # pyright: ignore[reportIncompatibleMethodOverride] - no tuple's
        if factor == 0:
            return LinearForm(0)
        return LinearForm(self.constant * factor, tuple((r, c * factor) for r, c in self.terms))


@dataclass
class ValueNumbering:
    """Numbers of a kernel's scalar values, without end, and which value holds what within a region.

    Affine forms and results of scalar instructions are computed once per region; of the forms at most `most_copies` are remembered,
    because a value that is used again far away holds a register all the way.
    """

    most_copies: int
    next_number: int = FIRST_FREE_REGISTER
    copies: list[dict[LinearForm, int]] = field(default_factory=lambda: [{}])
    results: list[dict[Hashable, int]] = field(default_factory=lambda: [{}])

    def enter(self) -> None:
        """A loop or branch begins."""
        self.copies.append({})
        self.results.append({})

    def leave(self) -> None:
        """Values of the region are not used behind it."""
        self.copies.pop()
        self.results.pop()

    def forget(self) -> None:
        """What is needed again is computed again."""
        self.copies[-1].clear()
        self.results[-1].clear()

    def copy_of(self, form: LinearForm) -> int | None:
        """The value that holds the form already."""
        for copies in reversed(self.copies):
            if form in copies:
                number = copies[form] = copies.pop(form)  # the last to be forgotten now
                return number
        return None

    def result_of(self, key: Hashable) -> tuple[int, bool]:
        """The value of an instruction's result, and whether it must be computed now."""
        for results in reversed(self.results):
            if key in results:
                return results[key], False
        number = self.results[-1][key] = self.take()
        return number, True

    def take(self, form: LinearForm | None = None) -> int:
        """A new value; `form` if it is a copy of one."""
        if form is not None:
            copies = self.copies[-1]
            copies[form] = self.next_number
            if len(copies) > self.most_copies:
                del copies[next(iter(copies))]
        self.next_number += 1
        return self.next_number - 1


def allocate_registers(records: Sequence[Record], end_of_registers: int = NUM_REGISTERS) -> list[Record] | None:
    """The records with registers for their values, which share one where they are not alive together; None if there are too few
    before the end.

    A value is alive from its first record to the last that names it; one from outside of a loop to the end of that loop. Number -n
    stands for register n, which somebody else writes.
    """
    begin, end = _live_ranges(records)
    dying: dict[int, list[int]] = {}
    for number, last in end.items():
        dying.setdefault(last, []).append(number)
    free = list(range(end_of_registers - 1, FIRST_FREE_REGISTER - 1, -1))
    places = {register: register for register in range(FIRST_FREE_REGISTER)}
    places |= {-register: register for register in range(FIRST_VIEW_REGISTER, FIRST_VIEW_REGISTER + VIEW_REGISTERS)}
    starting = {at: number for number, at in begin.items()}
    renamed: list[Record] = []
    for at, record in enumerate(records):
        if at in starting:
            if not free:
                return None
            places[starting[at]] = free.pop()
        fields = {k: Register(places[v.number]) if type(v) is Register else v for k, v in record.fields.items()}
        renamed.append(record if fields == record.fields else record.with_fields(fields))
        free += [places[number] for number in dying.get(at, ())]
    return renamed


def _live_ranges(records: Sequence[Record]) -> tuple[dict[int, int], dict[int, int]]:
    """First and last record of each value."""
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    outer: list[int] = []  # begins of the loops around
    used_inside: list[set[int]] = []
    for at, record in enumerate(records):
        if record.kind is KcLoop:
            outer.append(at)
            used_inside.append(set())
        for value in record.fields.values():
            if type(value) is Register and (number := value.number) >= FIRST_FREE_REGISTER:
                begin.setdefault(number, at)
                end[number] = at
                if used_inside:
                    used_inside[-1].add(number)
        if record.kind is KcEnd:
            loop, used = outer.pop(), used_inside.pop()
            kept = {number for number in used if begin[number] <= loop}  # the loop's counter too
            end |= dict.fromkeys(kept, at)
            if used_inside:
                used_inside[-1] |= kept
    return begin, end
