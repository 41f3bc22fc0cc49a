"""Strict mode: the definition with queues, where an instruction executes as late as the machine may do it.

Of what the kernel core issues, nothing is executed until something forces it: a wait for its engine, a later instruction on the
same bytes in a queue that is range-checked against its own, or a full queue. So a program that lacks a wait meets old data or
poison. That is also found without luck: `Order` knows which accesses are ordered, and two that conflict and are not ordered are a
race, whatever the data. Beside that, operands must stay in their named buffers while those are alive, read only what was written
there, start where their layout may, and the program must store all of its outputs and wait for all of its engines.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.definition.execute import execute
from hlo2tx8.device.definition.memory import DeviceMemory, Scratchpad
from hlo2tx8.device.definition.remote import check_tiles
from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.isa.base import violation
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import RANGE_CHECKED, Engine, Operands
from hlo2tx8.device.layouts import BATCH_ALIGNMENT_BYTES
from hlo2tx8.device.program import Program
from hlo2tx8.device.strict.memory import DdrState, StrictScratchpad, poisoned
from hlo2tx8.device.strict.named_buffers import BufferTable
from hlo2tx8.device.strict.order import IssuedInstruction, Meetings, Order
from hlo2tx8.device.touches import Touch, spm_of, tile_of, touches


@dataclass(frozen=True)
class Checks:
    """What all tiles of a run share while faults are looked for."""

    buffers: BufferTable
    ddr: DdrState
    meetings: Meetings


class StrictSystem:
    """The tiles of one run. Without `checks` instructions are late, and what is wrong shows in the outputs only."""

    def __init__(self, program: Program, records: Sequence[Record], slots: Sequence[np.ndarray], chip: Chip, checks: bool) -> None:
        self.program = program
        memory = DeviceMemory(slots)
        is_remote = any(record.kind.ENGINE is Engine.DTE for record in records)
        meetings = Meetings(chip.tiles, is_remote)
        self.checks = Checks(BufferTable(program, records), DdrState(program, slots), meetings) if checks else None
        if not checks:
            DdrState(program, slots)
        pads = [_scratchpad(t, chip.spm_limit, checks) for t in range(chip.tiles)]
        machines = [TileMachine(pad, memory, vars(chip.laws), pads) for pad in pads]
        self.tiles = tuple(StrictTile(t, machine, chip, self.checks) for t, machine in enumerate(machines))

    def meet(self) -> None:
        """All tiles are at a barrier."""
        if self.checks:
            self.checks.meetings.meet([tile.order.kernel for tile in self.tiles])

    def end(self) -> None:
        """All tiles have ended."""
        if self.checks:
            self.checks.ddr.end(self.program)


def _scratchpad(tile: int, size_bytes: int, checks: bool) -> Scratchpad:
    if checks:
        return StrictScratchpad(spm_of(tile), size_bytes)
    pad = Scratchpad(size_bytes)
    pad.data = poisoned(size_bytes)
    return pad


class StrictTile:
    """The queues of one tile."""

    def __init__(self, number: int, machine: TileMachine, chip: Chip, checks: Checks | None) -> None:
        self.number, self.machine, self.chip, self.checks = number, machine, chip, checks
        self.queues: dict[Engine, deque[IssuedInstruction]] = {e: deque() for e in Engine}
        self.order = Order(number)

    def execute(self, record: Record, operands: Operands, place: FaultPlace) -> None:
        """Executes a kernel-core instruction, gives any other to its queue."""
        violated = violation(record.kind, operands)
        if violated:
            raise Fault(FaultKind.BAD_DESCRIPTOR, violated, place)
        if record.kind.ENGINE is Engine.DTE:
            check_tiles(operands, self.chip.tiles, place)
        touched = tuple(self._checked(t, record, operands, place) for t in self._touches(record, operands))
        if record.kind.ENGINE is Engine.KC:
            self._on_kernel_core(record, operands, touched, place)
            return
        issued = self.order.issue(record, operands, place, touched)
        if self.checks:
            self.order.check(issued)
            self.checks.meetings.check(issued, issued.touches)
        queue = self.queues[record.kind.ENGINE]
        queue.append(issued)
        if len(queue) > self.chip.queue_depth:
            self._perform(queue[0])

    def load_scalar(self, record: Record, operands: Operands, place: FaultPlace) -> int:
        """The integer at an SPM address."""
        touched = tuple(self._checked(t, record, operands, place) for t in self._touches(record, operands))
        self.machine.place = place
        self._watch(self.order.now(record, operands, place), touched)
        value = int(self.machine.read(operands["address"], 1, record.fmt)[0])
        self._watch(None, ())
        return value

    def wait(self, engines: int, place: FaultPlace) -> None:
        """Until those engines have finished what they were given."""
        for engine, queue in self.queues.items():
            if engines >> engine & 1:
                while queue:
                    self._perform(queue[-1])
                self.order.wait(engine)

    def end(self, place: FaultPlace) -> None:
        """The tile's program is over: its engines should have nothing left to do."""
        while under_way := [i for queue in self.queues.values() for i in queue]:
            self._perform(min(under_way, key=lambda i: i.serial))
        left = self.order.unfinished()
        if left and self.checks:
            raise Fault(FaultKind.UNFINISHED, "the program ends and nothing has waited for this instruction", left.place)

    # ---------------------------------------------------------------------------------------------- checks

    def _touches(self, record: Record, operands: Operands) -> Sequence[Touch]:
        return tuple(touches(record.kind, operands, self.number, self.chip.spm_limit))

    def _checked(self, touch: Touch, record: Record, operands: Operands, place: FaultPlace) -> Touch:
        """The touch with its tag; faults if it is out of bounds, out of its buffer or not aligned."""
        if touch.space < 0:
            self.machine.spm.check(touch.start, touch.end - touch.start, place)
        else:
            self.machine.ddr.slot(touch.space, touch.start, touch.end, place)
        if not self.checks:
            return touch
        if touch.space < 0 and operands.values.get("batch", 1) > 1 and touch.start % BATCH_ALIGNMENT_BYTES:
            begin = f"begin at multiples of {BATCH_ALIGNMENT_BYTES} bytes, not at {touch.start:#x}"
            raise Fault(FaultKind.MISALIGNED, f"operand {touch.field} has batches, they {begin}", place)
        return self.checks.buffers.check(touch, place)

    # ------------------------------------------------------------------------------------------- execution

    def _on_kernel_core(self, record: Record, operands: Operands, touched: Sequence[Touch], place: FaultPlace) -> None:
        self._watch(self.order.now(record, operands, place), touched)
        self.machine.place = place
        execute(self.machine, record, operands)
        self._watch(None, ())

    def _watch(self, accessing: IssuedInstruction | None, touched: Sequence[Touch]) -> None:
        """From now on the kernel core executes; None: it does not."""
        spm = self.machine.spm
        if self.checks and isinstance(spm, StrictScratchpad):
            spm.touches = sorted(touched, key=lambda t: t.is_write)
            spm.watch = None if accessing is None else lambda touch: self._accessed(accessing, touch)

    def _accessed(self, accessing: IssuedInstruction, touch: Touch) -> None:
        """The kernel core reads or writes bytes."""
        self.order.check_touch(accessing, touch)
        if self.checks:
            self.checks.meetings.check(accessing, (touch,))

    def _perform(self, issued: IssuedInstruction) -> None:
        """Executes what was issued, before it everything the queues say must be."""
        if issued.is_done:
            return
        for earlier in sorted(
            (i for queue in self.queues.values() for i in queue if i.serial < issued.serial), key=lambda i: i.serial
        ):
            if earlier.engine is issued.engine or (is_range_checked(earlier, issued) and earlier.conflicts(issued)):
                self._perform(earlier)
        issued.is_done = True
        self.queues[issued.engine].popleft()
        self.machine.place = issued.place
        if self.checks:
            for touch in issued.touches:
                pad = self.machine.scratchpads[tile_of(touch.space)] if touch.space < 0 else None
                if isinstance(pad, StrictScratchpad):
                    pad.touches = sorted(issued.touches, key=lambda t: t.is_write)
            self.checks.ddr.before(issued.touches, issued.place)
        execute(self.machine, issued.record, issued.operands)
        if self.checks:
            self.checks.ddr.after(issued.touches)


def is_range_checked(a: IssuedInstruction, b: IssuedInstruction) -> bool:
    """Do the queues order these two by the ranges they touch?"""
    return a.engine in RANGE_CHECKED and b.engine in RANGE_CHECKED
