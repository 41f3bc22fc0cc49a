"""The definition tier: records of all tiles, each tile in program order until it waits at a barrier."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.definition import execute
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.isa.base import Operands
from hlo2tx8.device.isa.encoding import EncodingError, Operand, Record, Register, decode_records, partners
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcEnd,
    KcEndIf,
    KcHalt,
    KcIf,
    KcLoadScalar,
    KcLoop,
    KcWait,
)
from hlo2tx8.device.memory import DeviceMemory, Scratchpad
from hlo2tx8.device.program import Program
from hlo2tx8.device.tile_machine import TileMachine

WORD = 1 << 64


def run(program: Program, slots: Sequence[np.ndarray], chip: Chip, strict: bool) -> None:
    """Runs a program on the bytes of its slots; raises Fault."""
    try:
        records = decode_records(program.code, program.origins)
    except EncodingError as error:
        raise Fault(FaultKind.ILLEGAL_OPCODE, str(error), FaultPlace(0, 0)) from None
    targets = partners(records)
    memory = DeviceMemory(slots)
    waiting = [_Tile(t, records, targets, TileMachine(Scratchpad(chip.spm_limit, strict), memory)).run() for t in range(chip.tiles)]
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
        waiting = still


class _Tile:
    """The kernel core of one tile."""

    def __init__(self, tile: int, records: Sequence[Record], targets: Sequence[int], machine: TileMachine) -> None:
        self.records, self.targets, self.machine, self.tile = records, targets, machine, tile
        self.registers = [0] * 64
        self.registers[1] = tile
        self.loops: list[tuple[int, int, int, int]] = []

    def run(self) -> Generator[int, None, None]:
        """Yields the record index of each barrier it reaches."""
        at = 0
        while at < len(self.records):
            record = self.records[at]
            kind = record.kind
            if kind is KcHalt:
                return
            if kind is KcBarrier:
                yield at
                at += 1
                continue
            if kind in (KcLoop, KcEnd, KcIf):
                at = self._control(at, record)
                continue
            if kind not in (KcWait, KcEndIf):
                self._execute(at, record)
            at += 1

    def _value(self, operand: Operand) -> int:
        return self.registers[operand.number] if isinstance(operand, Register) else operand

    def _set(self, operand: Operand, value: int) -> None:
        number = operand.number if isinstance(operand, Register) else operand
        if number:
            self.registers[number] = (value + WORD // 2) % WORD - WORD // 2

    def _values(self, record: Record) -> Mapping[str, int]:
        return {name: self._value(operand) for name, operand in record.fields.items()}

    def _control(self, at: int, record: Record) -> int:
        if record.kind is KcIf:
            return at + 1 if self._value(record.fields["value"]) else self.targets[at] + 1
        if record.kind is KcLoop:
            v = self._values(record)
            if v["step"] <= 0:
                raise Fault(FaultKind.RUNAWAY, f"loop step {v['step']}", self._place(at, record))
            if v["lo"] >= v["hi"]:
                return self.targets[at] + 1
            self.loops.append((at, v["lo"], v["hi"], v["step"]))
            self._set(record.fields["rd"], v["lo"])
            return at + 1
        start, counter, hi, step = self.loops.pop()
        if counter + step >= hi:
            return at + 1
        self.loops.append((start, counter + step, hi, step))
        self._set(self.records[start].fields["rd"], counter + step)
        return start + 1

    def _execute(self, at: int, record: Record) -> None:
        kind = record.kind
        if issubclass(kind, KcScalar):
            a, b = self._value(record.fields["a"]), self._value(record.fields["b"])
            try:
                self._set(record.fields["rd"], kind.FOLD(a, b))
            except ZeroDivisionError:
                raise Fault(FaultKind.BAD_DESCRIPTOR, "division by zero", self._place(at, record)) from None
            return
        if kind is KcAffine:
            v = self._values(record)
            self._set(record.fields["rd"], v["c"] + sum(v[f"r{i}"] * v[f"k{i}"] for i in range(1, 5)))
            return
        self.machine.place = self._place(at, record)
        operands = Operands(self._values(record), record.fmt, record.fmt2)
        if kind is KcLoadScalar:
            value = self.machine.read(operands["address"], 1, record.fmt)[0]
            self._set(record.fields["rd"], int(value))
            return
        execute(self.machine, record, operands)

    def _place(self, at: int, record: Record) -> FaultPlace:
        place = FaultPlace(self.tile, at, record.kind.ENGINE.name, record.kind.MNEMONIC, record.origin)
        return replace(place, counters=tuple(counter for _, counter, _, _ in self.loops))
