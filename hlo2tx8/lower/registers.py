"""Scalar values of a kernel as linear forms over registers, and the registers themselves."""

from dataclasses import dataclass, field

from hlo2tx8.errors import CompileError

NUM_REGISTERS = 64
ZERO_REGISTER = 0
TILE_REGISTER = 1
FIRST_FREE_REGISTER = 2


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
    """Registers of a region: values live until their region ends; affine copies may be evicted within it."""

    free: list[int] = field(default_factory=lambda: list(range(NUM_REGISTERS - 1, FIRST_FREE_REGISTER - 1, -1)))
    regions: list[list[int]] = field(default_factory=lambda: [[]])
    copies: list[dict[LinearForm, int]] = field(default_factory=lambda: [{}])

    def enter(self) -> None:
        self.regions.append([])
        self.copies.append({})

    def leave(self) -> None:
        self.free += reversed(self.regions.pop())
        self.copies.pop()

    def copy_of(self, form: LinearForm) -> int | None:
        """A register that holds the form already."""
        return next((copies[form] for copies in reversed(self.copies) if form in copies), None)

    def take(self, form: LinearForm | None = None) -> int:
        """A register for a value of the current region; `form` if the value can be computed again."""
        if not self.free:
            self._evict()
        register = self.free.pop()
        self.regions[-1].append(register)
        if form is not None:
            self.copies[-1][form] = register
        return register

    def _evict(self) -> None:
        if not self.copies[-1]:
            raise CompileError("E3102", "a kernel needs more than 64 registers; split its fusion")
        form, register = next(iter(self.copies[-1].items()))
        del self.copies[-1][form]
        self.regions[-1].remove(register)
        self.free.append(register)
