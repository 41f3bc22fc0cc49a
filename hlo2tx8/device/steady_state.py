"""When the turns of a loop cost what the turns before them cost, so that a model need not follow each of them.

A `Mark` is taken after every turn. A loop is in a steady state when, for some small period, the last three marks that far apart see
the same work under way and the same progress between them. `equal_turns` then says how far the control flow stays what it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose

from hlo2tx8.device.isa.base import Role
from hlo2tx8.device.isa.encoding import Operand, Record, Register
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import KcAffine, KcLoop

PERIODS = (1, 2, 3, 4, 6)
LONG_PERIOD = 12  # a multiple of all of them
MOST_TURNS = 64  # of a loop that does not settle: a slow drift, which ends when a queue is full
CLOSE_CYCLES = 1e-3
NUM_PROBES = 8


@dataclass(frozen=True)
class Block:
    """A loop or a branch with its body."""

    record: Record
    body: "tuple[Record | Block, ...]"


@dataclass(frozen=True)
class Mark:
    """The end of a turn: all clocks, `now` first; how far ahead of now work is under way; counters of what was done."""

    clocks: tuple[float, ...]
    ahead: tuple[float, ...]
    counters: tuple[float, ...]

    @property
    def now(self) -> float:
        return self.clocks[0]


def period(marks: Sequence[Mark]) -> int:
    """The number of turns after which everything repeats; LONG_PERIOD for a loop that does not settle, 0 if it may yet."""
    for turns in PERIODS:
        if len(marks) > 2 * turns and _repeats(marks[-1], marks[-1 - turns], marks[-1 - 2 * turns]):
            return turns
    return LONG_PERIOD if len(marks) >= MOST_TURNS else 0


def _repeats(last: Mark, middle: Mark, first: Mark) -> bool:
    if len(last.ahead) != len(middle.ahead) or not _close(last.now - middle.now, middle.now - first.now):
        return False
    progress = zip(last.counters, middle.counters, first.counters, strict=True)
    return all(map(_close, last.ahead, middle.ahead)) and all(_close(a - b, b - c) for a, b, c in progress)


def _close(a: float, b: float) -> bool:
    return isclose(a, b, rel_tol=1e-9, abs_tol=CLOSE_CYCLES)


def scalar_result(record: Record, value: Callable[[Operand], int]) -> int | None:
    """What a scalar instruction puts into its register; None for all other instructions."""
    fields = record.fields
    if issubclass(record.kind, KcScalar):
        return record.kind.FOLD(value(fields["a"]), value(fields["b"]))
    if record.kind is KcAffine:
        return value(fields["c"]) + sum(value(fields[f"r{i}"]) * value(fields[f"k{i}"]) for i in range(1, 5))
    return None


def number_of(register: Operand) -> int:
    """The register an operand names."""
    return register.number if isinstance(register, Register) else register


def equal_turns(block: Block, registers: Sequence[int], first: int, turns: int, most: int) -> int:
    """How many times, at most `most`, the `turns` turns before turn `first` repeat: branches, trip counts, counts and strides.

    Conditions are taken to change once: after the last turn that was found equal by bisection, with some probes between.
    """
    if not _depends_on_registers(block.body):
        return most
    counter = number_of(block.record.fields["rd"])

    def signature(turn: int) -> tuple[int, ...]:
        values = list(registers)
        lo, step = (_value(block.record.fields[name], registers) for name in ("lo", "step"))
        values[counter] = lo + turn * step
        found: list[int] = []
        _walk(block.body, values, found)
        return tuple(found)

    before = [signature(first - turns + i) for i in range(turns)]

    def is_equal(times: int) -> bool:
        return all(signature(first + (times - 1) * turns + i) == before[i] for i in range(turns))

    low, high = 0, most
    probes = [most, *range(1, most, max(most // NUM_PROBES, 1))]
    if all(map(is_equal, probes)):
        return most
    high = min(p for p in probes if not is_equal(p))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_equal(middle) else (low, middle)
    return low


def _value(operand: Operand, registers: Sequence[int]) -> int:
    return registers[operand.number] if isinstance(operand, Register) else operand


def _shapes(record: Record) -> tuple[Operand, ...]:
    """The operands that decide what an instruction or a block costs."""
    if record.kind.ENGINE.name == "KC" and not any(f.role is Role.COUNT for f in record.kind.FIELDS):
        return tuple(record.fields[name] for name in ("value", "lo", "hi", "step") if name in record.fields)
    return tuple(record.fields[f.name] for f in record.kind.FIELDS if f.role in (Role.COUNT, Role.STRIDE))


def _depends_on_registers(body: Sequence[Record | Block]) -> bool:
    for item in body:
        record = item if isinstance(item, Record) else item.record
        if any(isinstance(operand, Register) for operand in _shapes(record)):
            return True
        if isinstance(item, Block) and _depends_on_registers(item.body):
            return True
    return False


def _walk(body: Sequence[Record | Block], registers: list[int], found: list[int]) -> None:
    """Follows scalars and branches only; of inner loops the first and the last turn."""
    for item in body:
        record = item if isinstance(item, Record) else item.record
        result = scalar_result(record, lambda operand: _value(operand, registers))
        if result is not None:
            registers[number_of(record.fields["rd"])] = result
            registers[0] = 0
            continue
        values = [_value(operand, registers) for operand in _shapes(record)]
        if isinstance(item, Record):
            found += values
        elif record.kind is KcLoop:
            lo, hi, step = values
            found += values
            for turn in (lo, lo + max(hi - 1 - lo, 0) // max(step, 1) * step) if lo < hi else ():
                registers[number_of(record.fields["rd"])] = turn
                _walk(item.body, registers, found)
        else:
            found.append(int(bool(values[0])))
            if values[0]:
                _walk(item.body, registers, found)
