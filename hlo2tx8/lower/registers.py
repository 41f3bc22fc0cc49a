"""Scalar values of a kernel as linear forms over registers, and the registers themselves."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from hlo2tx8.errors import CompileError

NUM_REGISTERS = 64
ZERO_REGISTER = 0
TILE_REGISTER = 1
FIRST_FREE_REGISTER = 2
CONTROL_REGISTERS = tuple(range(NUM_REGISTERS - 1, NUM_REGISTERS - 17, -1))
"""Of the program around the kernels: counters of its loops, selectors of its branches."""


@dataclass(frozen=True)
class LinearForm:
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

    def __add__(self, other: "LinearForm") -> "LinearForm":
        merged = dict(self.terms)
        for register, coefficient in other.terms:
            merged[register] = merged.get(register, 0) + coefficient
        terms = tuple((r, c) for r, c in sorted(merged.items()) if c)
        return LinearForm(self.constant + other.constant, terms)

    def __mul__(self, factor: int) -> "LinearForm":
        if factor == 0:
            return LinearForm(0)
        return LinearForm(self.constant * factor, tuple((r, c * factor) for r, c in self.terms))


@dataclass
class RegisterFile:
    """Registers of a region: values live until their region ends; affine copies may be evicted within it.

    `results` says which register holds the result of a scalar instruction on given operands: each is computed once.
    `pinned` are those the record under construction names: they stay until the next one is begun.
    """

    free: list[int] = field(default_factory=lambda: list(range(CONTROL_REGISTERS[-1] - 1, FIRST_FREE_REGISTER - 1, -1)))
    regions: list[list[int]] = field(default_factory=lambda: [[]])
    copies: list[dict[LinearForm, int]] = field(default_factory=lambda: [{}])
    results: list[dict[Hashable, int]] = field(default_factory=lambda: [{}])
    pinned: set[int] = field(default_factory=set[int])

    def begin_record(self) -> None:
        """The operands asked for from now on belong to a new record."""
        self.pinned.clear()

    def enter(self) -> None:
        self.regions.append([])
        self.copies.append({})
        self.results.append({})

    def leave(self) -> None:
        self.free += reversed(self.regions.pop())
        self.copies.pop()
        self.results.pop()

    def copy_of(self, form: LinearForm) -> int | None:
        """A register that holds the form already."""
        for copies in reversed(self.copies):
            if form in copies:
                register = copies[form] = copies.pop(form)  # the last to be evicted now
                self.pinned.add(register)
                return register
        return None

    def result_of(self, key: Hashable) -> tuple[int, bool]:
        """The register of an instruction's result, and whether it must be computed now."""
        for results in reversed(self.results):
            if key in results:
                return results[key], False
        register = self.results[-1][key] = self.take()
        return register, True

    def take(self, form: LinearForm | None = None) -> int:
        """A register for a value of the current region; `form` if the value can be computed again."""
        if not self.free:
            self._evict()
        register = self.free.pop()
        self.regions[-1].append(register)
        if form is not None:
            self.copies[-1][form] = register
            self.pinned.add(register)
        return register

    def _evict(self) -> None:
        form, register = next(((f, r) for f, r in self.copies[-1].items() if r not in self.pinned), (None, 0))
        if form is None:
            raise CompileError("E3102", f"a kernel needs more than {CONTROL_REGISTERS[-1]} registers; split its fusion")
        del self.copies[-1][form]
        self.regions[-1].remove(register)
        self.free.append(register)
