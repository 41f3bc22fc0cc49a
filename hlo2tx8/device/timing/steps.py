"""A stretch of a program as the timing model follows it: only what decides time, with everything known beforehand worked out.

A register matters if an SPM address, a count, a stride, a loop bound or a branch is made of it; scalars whose results do not
matter only cost cycles, which the step behind them carries. Constants lie behind the registers of a tile, so that every input
of a step is an index.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from functools import cache
from typing import TypeAlias

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import Operand, Record, Register, number_of, partners
from hlo2tx8.device.isa.fields import Engine, Operands, Role
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFunction,
    KcHalt,
    KcIf,
    KcLoop,
    KcReturn,
    KcWait,
)
from hlo2tx8.device.timing.costs import Range, Work, cost, least
from hlo2tx8.device.timing.needed import Needed, is_scalar, needed_scalars
from hlo2tx8.device.timing.rotation import rotation_of

NUM_REGISTERS = 64
Value: TypeAlias = "int | tuple[int, ...] | None"
"""Of a register: equal on all tiles of a bundle, one per tile, or not known before the program runs."""


class Op(IntEnum):
    """What a step is."""

    ISSUE = auto()
    WORK = auto()
    SCALAR = auto()
    LOOP = auto()
    END = auto()
    IF = auto()
    EXIT = auto()
    JOIN = auto()
    WAIT = auto()
    BARRIER = auto()
    HALT = auto()
    FUNCTION = auto()
    RETURN = auto()
    CALL = auto()


CONTROL: Mapping[type[Instruction], tuple[str, ...]] = {KcLoop: ("lo", "hi", "step"), KcIf: ("value",), KcExit: ("value",)}
"""The fields that decide where a program goes on."""
PLAIN: Mapping[type[Instruction], Op] = {KcEnd: Op.END, KcEndIf: Op.JOIN, KcBarrier: Op.BARRIER, KcHalt: Op.HALT}
FUNCTIONS: Mapping[type[Instruction], Op] = {KcFunction: Op.FUNCTION, KcReturn: Op.RETURN, KcCall: Op.CALL}


@dataclass(slots=True)
class Shape:
    """An instruction with operands: its cost, and the number of its set of ranges with the numbers that conflict with it."""

    work: Work
    ranges: tuple[Range, ...]
    number: int
    conflicts: set[int]


@dataclass(slots=True)
class Step:
    """`inputs` index registers and constants; `rd` is 0 if nothing is set; `target` is the step that a block ends with, or began
    with, or the function that is called. `before` are cycles of the scalars ahead of it. A loop's `carried` registers go from turn
    to turn."""

    op: Op
    record: int
    before: int = 0
    inputs: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    rd: int = 0
    cycles: int = 0
    fold: Callable[..., int] | None = None
    target: int = 0
    engine: Engine = Engine.KC
    counts: tuple[int, ...] = ()
    decides_counts: bool = False
    varies: bool = False
    carried: tuple[int, ...] = ()
    rotation: int = 1
    has_calls: bool = False
    shapes: dict[tuple[int | None, ...], Shape] = field(default_factory=dict[tuple[int | None, ...], Shape])

    @property
    def is_loaded(self) -> bool:
        """A scalar that only a run can tell."""
        return self.op is Op.SCALAR and self.fold is None


@dataclass
class Steps:
    """The steps of consecutive records whose blocks are whole. `live_in` are the registers that matter and are not set first; do
    such go into functions, or out of them?"""

    records: Sequence[Record]
    chip: Chip
    steps: list[Step] = field(default_factory=list[Step])
    constants: dict[int, int] = field(default_factory=dict[int, int])
    live_in: frozenset[int] = frozenset()
    enter_functions: bool = False
    _sets: dict[tuple[Range, ...], tuple[int, set[int]]] = field(default_factory=dict[tuple[Range, ...], tuple[int, set[int]]])

    def __post_init__(self) -> None:
        targets = partners(self.records)
        needed = needed_scalars(self.records, targets, lambda kind: shape_names(kind)[1])
        self.live_in, self.enter_functions = needed.live_in, needed.enter_functions
        at: dict[int, int] = {}
        before = 0
        for i, record in enumerate(self.records):
            step = self._step(i, record, needed)
            if step is None:
                before += _scalar_cycles(record)
                continue
            step.before, before = before, 0
            at[i] = len(self.steps)
            self.steps.append(step)
        self.steps.append(Step(Op.HALT, max(len(self.records) - 1, 0), before))
        for i, number in at.items():
            if self.records[i].kind in (KcLoop, KcIf, KcEnd, KcEndIf, KcExit, *FUNCTIONS):
                self.steps[number].target = at[targets[i]]
        self._mark_varying()
        if any(step.varies for step in self.steps):
            decide = needed_scalars(self.records, targets, lambda kind: shape_names(kind)[0]).scalars
            for step in self.steps:
                step.decides_counts = step.op is Op.SCALAR and step.record in decide

    @property
    def loaded(self) -> frozenset[int]:
        """The records that load numbers which matter."""
        return frozenset(step.record for step in self.steps if step.is_loaded)

    @property
    def is_decided_by_data(self) -> bool:
        """Do trip counts or branches depend on what is loaded?"""
        if not self.loaded:
            return False
        scalars = needed_scalars(self.records, partners(self.records), lambda kind: CONTROL.get(kind, ())).scalars
        return not self.loaded.isdisjoint(scalars)

    def shape(self, step: Step, key: tuple[int | None, ...]) -> Shape:
        """The instruction of a step with these inputs."""
        work, ranges = self.cost(step, key)
        checked = () if step.engine is Engine.DTE else ranges
        found = self._sets.get(checked)
        if found is None:
            found = self._sets[checked] = self._new_set(checked)
        shape = step.shapes[key] = Shape(work, ranges, *found)
        return shape

    def cost(self, step: Step, key: Sequence[int | None]) -> tuple[Work, tuple[Range, ...]]:
        """What a step with these inputs asks of its engine, and its ranges; what is not known counts as little as it may."""
        record = self.records[step.record]
        kind = record.kind
        given: dict[str, Operand | None] = {**record.fields, **dict(zip(step.names, key, strict=True))}
        values = {name: value for name, value in given.items() if type(value) is int}
        if len(values) < len(given):
            values |= {f.name: least(f) for f in kind.FIELDS if f.name not in values}
        return cost(kind, Operands(values, record.fmt, record.fmt2), self.chip)

    def _new_set(self, ranges: tuple[Range, ...]) -> tuple[int, set[int]]:
        """The number of a set of ranges, and those it conflicts with."""
        number, conflicts = len(self._sets), set[int]()
        for start, end, is_write in ranges:
            for others, (other, back) in self._sets.items():
                for other_start, other_end, other_is_write in others:
                    if start < other_end and other_start < end and (is_write or other_is_write):
                        conflicts.add(other)
                        back.add(number)
            if is_write and start < end:
                conflicts.add(number)
        return number, conflicts

    def _step(self, i: int, record: Record, needed: Needed) -> Step | None:
        kind, fields = record.kind, record.fields
        if is_scalar(kind):
            if i not in needed.scalars:
                return None
            rd = number_of(fields["rd"])
            terms, fold = _fold(record)
            inputs = tuple(map(self._index, terms))
            cycles = _scalar_cycles(record)
            return Step(Op.SCALAR, i, 0, inputs, (), rd, cycles, fold)
        if kind is KcLoop:
            inputs = tuple(self._index(fields[name]) for name in ("lo", "hi", "step"))
            return Step(Op.LOOP, i, 0, inputs, rd=number_of(fields["rd"]), counts=inputs, carried=needed.carried[i])
        if kind in (KcIf, KcWait):
            inputs = (self._index(fields["value" if kind is KcIf else "engines"]),)
            return Step(Op.IF if kind is KcIf else Op.WAIT, i, 0, inputs, counts=inputs if kind is KcIf else ())
        if kind is KcExit:
            inputs = (self._index(fields["value"]),)
            return Step(Op.EXIT, i, 0, inputs, counts=inputs)
        if kind in PLAIN or kind in FUNCTIONS:
            return Step(PLAIN.get(kind) or FUNCTIONS[kind], i)
        counted, deciding = (_registers(record, names) for names in shape_names(kind))
        inputs, counts = (tuple(self._index(fields[name]) for name in names) for names in (deciding, counted))
        op = Op.WORK if kind.ENGINE is Engine.KC else Op.ISSUE
        return Step(op, i, 0, inputs, tuple(deciding), engine=kind.ENGINE, counts=counts)

    def _index(self, operand: Operand) -> int:
        if isinstance(operand, Register):
            return operand.number
        return self.constants.setdefault(operand, NUM_REGISTERS + len(self.constants))

    def _mark_varying(self) -> None:
        """Of loops: does a count, bound or branch in the body depend on registers, and when are buffers back at the first?"""
        for number, step in enumerate(self.steps):
            if step.op is Op.LOOP:
                body = self.steps[number + 1 : step.target]
                step.has_calls = any(s.op is Op.CALL for s in body)
                made = [self.records[s.record] for s in body if s.op in (Op.SCALAR, Op.LOOP)]
                step.rotation = rotation_of(step.rd, made)
                step.varies = any(i < NUM_REGISTERS for s in body for i in s.counts)


def num_turns(lo: int, hi: int, step: int) -> int:
    """The turns of a loop from `lo` to `hi` by `by`; a step below 1 counts as 1."""
    return max(-(-(hi - lo) // max(step, 1)), 0)


def counter(lo: int, turn: int, step: int) -> int:
    """The counter of a loop in one of its turns."""
    return lo + turn * step


def is_not_zero(value: int) -> int:
    """1 if a branch is taken."""
    return int(value != 0)


def _scalar_cycles(record: Record) -> int:
    """One per operation; of a linear form, one per term."""
    if record.kind is KcAffine:
        return max(sum(1 for i in range(1, 5) if record.fields[f"k{i}"] != 0), 1)
    return 1


def _fold(record: Record) -> tuple[Sequence[Operand], Callable[..., int] | None]:
    """The operands of a scalar and what makes its result of them; None if only a run can tell."""
    fields = record.fields
    if record.kind is KcAffine:
        pairs = [(fields[f"r{i}"], fields[f"k{i}"]) for i in range(1, 5)]
        return [fields["c"], *(o for r, k in pairs if k != 0 for o in (r, k))], affine
    if issubclass(record.kind, KcScalar):
        return [fields["a"], fields["b"]], record.kind.FOLD
    return [], None


def affine(c: int, *terms: int) -> int:
    """c + r1 * k1 + r2 * k2 ..."""
    for i in range(0, len(terms), 2):
        c += terms[i] * terms[i + 1]
    return c


@cache
def shape_names(kind: type[Instruction]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that decide what a record costs and what it waits for: those that are no addresses, and all."""
    if kind in FUNCTIONS:
        return (), ()
    if kind in CONTROL or kind is KcWait:
        names = CONTROL.get(kind, ("engines",))
        return names, names
    if is_scalar(kind):
        return (), ()
    counts = tuple(f.name for f in kind.FIELDS if f.role in (Role.COUNT, Role.STRIDE))
    others = (Role.SPM_READ, Role.SPM_WRITE, *((Role.IMMEDIATE,) if kind.ENGINE is Engine.DTE else ()))
    return counts, (*counts, *(f.name for f in kind.FIELDS if f.role in others))


def _registers(record: Record, names: Sequence[str]) -> list[str]:
    """Those of the named fields whose values are in registers."""
    return [name for name in names if isinstance(record.fields[name], Register)]
