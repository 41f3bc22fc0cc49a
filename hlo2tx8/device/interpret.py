"""The definition tier: records of all tiles, each tile in program order until it waits at a barrier."""

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.code import DecodedCode
from hlo2tx8.device.decisions import Log
from hlo2tx8.device.definition.checked_machine import CheckedMachine
from hlo2tx8.device.definition.execute import execute
from hlo2tx8.device.definition.memory import DeviceMemory, Scratchpad
from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.isa.base import violation
from hlo2tx8.device.isa.encoding import EncodingError, Operand, Record, Register, decode_records
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.kc_control import (
    KcBarrier,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFunction,
    KcHalt,
    KcIf,
    KcLoadScalar,
    KcLoop,
    KcReturn,
    KcWait,
)
from hlo2tx8.device.program import Program
from hlo2tx8.device.status import Status

WORD = 1 << 64
PROGRESS_SECONDS = 0.1
Progress = Callable[[FaultPlace], None]


class TileEngines(Protocol):
    """What executes the instructions of a tile."""

    def execute(self, record: Record, operands: Operands, place: FaultPlace) -> None:
        """Executes or issues an instruction."""
        ...

    def load_scalar(self, record: Record, operands: Operands, place: FaultPlace) -> int:
        """The integer at an SPM address."""
        ...

    def wait(self, engines: int, place: FaultPlace) -> None:
        """Until those engines have finished what they were given."""
        ...

    def end(self, place: FaultPlace) -> None:
        """The tile's program is over."""
        ...


class System(Protocol):
    """The engines of all tiles."""

    @property
    def tiles(self) -> Sequence[TileEngines]:
        """The engines of each tile, by tile number."""
        ...

    def meet(self) -> None:
        """All tiles are at a barrier."""
        ...

    def end(self) -> None:
        """All tiles have ended."""
        ...


class InOrder:
    """One tile; every instruction is executed when it is issued."""

    def __init__(self, machine: TileMachine) -> None:
        self.machine = machine

    def execute(self, record: Record, operands: Operands, place: FaultPlace) -> None:
        """Executes an instruction at once."""
        self.machine.place = place
        execute(self.machine, record, operands)

    def load_scalar(self, record: Record, operands: Operands, place: FaultPlace) -> int:
        """The integer at an SPM address."""
        self.machine.place = place
        return int(self.machine.read(operands["address"], 1, record.fmt)[0])

    def wait(self, engines: int, place: FaultPlace) -> None:
        """Nothing: what was given is done already."""
        pass

    def end(self, place: FaultPlace) -> None:
        """Nothing: what was given is done already."""
        pass


class InOrderSystem:
    """Tiles that do one instruction after the other."""

    def __init__(
        self, slots: Sequence[np.ndarray], chip: Chip, keeps_status: bool, machine: type[TileMachine] = TileMachine
    ) -> None:
        memory, laws = DeviceMemory(slots), vars(chip.laws)
        pads = [Scratchpad(chip.spm_limit) for _ in range(chip.tiles)]
        self.tiles = [InOrder(machine(pad, memory, laws, pads, keeps_status)) for pad in pads]

    def meet(self) -> None:
        """Nothing: tiles ran in order up to the barrier."""
        pass

    def end(self) -> None:
        """Nothing: all that was given is done."""
        pass


def run(
    program: Program,
    slots: Sequence[np.ndarray],
    chip: Chip,
    keeps_status: bool = False,
    progress: Progress | None = None,
    log: Log | None = None,
    max_steps: int = 0,
) -> tuple[Status, ...]:
    """Runs a program on the bytes of its slots; the exception bits of every tile, if they are kept; raises Fault. `max_steps` as of
    Emulator.
    """
    system = InOrderSystem(slots, chip, keeps_status)
    run_on(system, decoded(program), progress, log, max_steps)
    return tuple(tile.machine.status for tile in system.tiles) if keeps_status else ()


def run_checked(program: Program, slots: Sequence[np.ndarray], chip: Chip, max_steps: int = 0) -> None:
    """As `run`; Fault of kind VALUE at the first instruction that makes a NaN or an infinity of operands that had none."""
    run_on(InOrderSystem(slots, chip, False, CheckedMachine), decoded(program), max_steps=max_steps)


def run_strict(
    program: Program,
    slots: Sequence[np.ndarray],
    chip: Chip,
    checks: bool = True,
    progress: Progress | None = None,
    log: Log | None = None,
    max_steps: int = 0,
) -> None:
    """As `run`, as late as the machine may; `checks` faults on everything strict mode finds, without them it only is late."""
    from hlo2tx8.device.strict.system import StrictSystem

    records = decoded(program)
    run_on(StrictSystem(program, records, slots, chip, checks), records, progress, log, max_steps)


def decoded(program: Program) -> list[Record]:
    """The records of a program; Fault if it is none."""
    try:
        return decode_records(program.code, program.origins)
    except EncodingError as error:
        raise Fault(FaultKind.ILLEGAL_OPCODE, str(error), FaultPlace(0, 0)) from None


def run_on(
    system: System, records: Sequence[Record], progress: Progress | None = None, log: Log | None = None, max_steps: int = 0
) -> None:
    """Each tile in turn until it waits at a barrier; then all go on, if they wait at the same one. `progress`: see Emulator.run."""
    code = DecodedCode(records)
    waiting = [_Tile(t, code, engines, progress, log, max_steps).run() for t, engines in enumerate(system.tiles)]
    while waiting:
        still: list[Generator[int, None, None]] = []
        places: set[int] = set()
        for tile in waiting:
            place = next(tile, None)
            if place is not None:
                still.append(tile)
                places.add(place)
        if still and (len(still) != len(waiting) or len(places) > 1):
            raise Fault(
                FaultKind.UNEQUAL_BARRIER,
                f"{len(still)} of {len(waiting)} tiles wait at the barriers of records {sorted(places)}",
                FaultPlace(0, min(places)),
            )
        if still:
            system.meet()
        waiting = still
    system.end()


class _Tile:
    """The kernel core of one tile."""

    def __init__(
        self, tile: int, code: DecodedCode, engines: TileEngines, progress: Progress | None, log: Log | None, max_steps: int
    ) -> None:
        self.records, self.operands, self.targets, self.scalars = code.records, code.operands, code.targets, code.scalars
        self.tile, self.engines, self.log = tile, engines, log
        self.progress, self.told = progress, time.monotonic()
        self.registers = [0] * 64
        self.registers[1] = tile
        self.loops: list[tuple[int, int, int, int]] = []
        self.turns, self.max_steps = 0, max_steps or math.inf
        self.returns: list[int] = []

    def run(self) -> Generator[int, None, None]:
        """Yields the record index of each barrier it reaches."""
        at = 0
        while at < len(self.records):
            record, scalar = self.records[at], self.scalars[at]
            kind = record.kind
            if scalar is not None:
                try:
                    self._set(record.fields["rd"], scalar(self.registers))
                except ZeroDivisionError:
                    raise Fault(FaultKind.BAD_DESCRIPTOR, "division by zero", self._place(at, record)) from None
                at += 1
                continue
            if kind is KcHalt:
                break
            if kind is KcBarrier:
                yield at
                at += 1
                continue
            if kind in (KcLoop, KcEnd, KcIf, KcExit):
                at = self._control(at, record)
                continue
            if kind in (KcFunction, KcCall, KcReturn):
                at = self._function(at, record)
                continue
            if kind is KcWait:
                self._wait(at, record)
            elif kind is not KcEndIf:
                self._execute(at, record)
            at += 1
        at = min(at, len(self.records) - 1)
        if self.records:
            self.engines.end(self._place(at, self.records[at]))

    def _value(self, operand: Operand) -> int:
        return self.registers[operand.number] if isinstance(operand, Register) else operand

    def _set(self, operand: Operand, value: int) -> None:
        number = operand.number if isinstance(operand, Register) else operand
        if number:
            self.registers[number] = (value + WORD // 2) % WORD - WORD // 2

    def _control(self, at: int, record: Record) -> int:
        if record.kind is KcIf:
            return at + 1 if self._value(record.fields["value"]) else self.targets[at] + 1
        if record.kind is KcExit:
            if self._value(record.fields["value"]):
                return at + 1
            self.loops.pop()
            return self.targets[at] + 1
        if record.kind is KcLoop:
            v = self.operands[at].now(self.registers)
            if v["step"] <= 0:
                raise Fault(FaultKind.RUNAWAY, f"loop step {v['step']}", self._place(at, record))
            if v["lo"] >= v["hi"]:
                return self.targets[at] + 1
            self.loops.append((at, v["lo"], v["hi"], v["step"]))
            self._set(record.fields["rd"], v["lo"])
            return at + 1
        self._turn(at, record)
        start, counter, hi, step = self.loops.pop()
        if counter + step >= hi:
            return at + 1
        self.loops.append((start, counter + step, hi, step))
        self._set(self.records[start].fields["rd"], counter + step)
        return start + 1

    def _turn(self, at: int, record: Record) -> None:
        """A loop's turn, or a call, has ended."""
        self.turns += 1
        if self.turns > self.max_steps:
            origin = next((before.origin for before in self.records[at::-1] if before.origin), "")
            place = replace(self._place(at, record), origin=origin)
            raise Fault(FaultKind.RUNAWAY, f"more than {self.max_steps} turns of loops", place)
        if self.progress is not None and time.monotonic() > self.told + PROGRESS_SECONDS:
            self.progress(self._place(at, record))
            self.told = time.monotonic()

    def _function(self, at: int, record: Record) -> int:
        if record.kind is KcReturn:
            self._turn(at, record)
            return self.returns.pop()
        if record.kind is KcCall:
            self.returns.append(at + 1)
        return self.targets[at] + 1

    def _wait(self, at: int, record: Record) -> None:
        place, operands = self._place(at, record), self.operands[at].now(self.registers)
        if violated := violation(KcWait, operands):
            raise Fault(FaultKind.BAD_DESCRIPTOR, violated, place)
        self.engines.wait(operands["engines"], place)

    def _execute(self, at: int, record: Record) -> None:
        place, operands = self._place(at, record), self.operands[at].now(self.registers)
        if record.kind is KcLoadScalar:
            number = self.engines.load_scalar(record, operands, place)
            self._set(record.fields["rd"], number)
            if self.log is not None:
                self.log.add(self.tile, at, number)
            return
        self.engines.execute(record, operands, place)

    def _place(self, at: int, record: Record) -> FaultPlace:
        kind, counters = record.kind, tuple([counter for _, counter, _, _ in self.loops])
        return FaultPlace(self.tile, at, kind.ENGINE.name, kind.MNEMONIC, record.origin, counters)
