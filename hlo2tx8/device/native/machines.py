"""Machines of the core, and those that wait for their next run: making one costs 100 us, making it ready some more."""

import ctypes
import math
import os
import threading
import weakref
from array import array
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.host_memory import KEPT_BYTES, LARGE_BYTES, RECYCLED_BYTES, allocate
from hlo2tx8.device.native.loader import LoadedCore
from hlo2tx8.device.program import Program, SlotKind

MAX_COUNTERS = 32  # of loops around a fault, the innermost ones
MOST_KEPT = 8
SINGLE_THREAD_BYTES = 1 << 15  # programs with fewer in their slots are not worth a thread
LINE_BYTES = 64


class PlaceOfFault(ctypes.Structure):
    """struct tx8_fault of core.h."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("tile", ctypes.c_int64),
        ("record", ctypes.c_int64),
        ("num_counters", ctypes.c_int64),
        ("counters", ctypes.c_int64 * MAX_COUNTERS),
        ("detail", ctypes.c_char * 160),
    )


class RefusedError(Exception):
    """The core takes no such program, `fault` says why, or has no memory: then its kind is 0."""

    def __init__(self, fault: PlaceOfFault) -> None:
        super().__init__()
        self.fault = fault


class UnfitError(ValueError):
    """An array that cannot be bound to its slot."""


class NativeMachine:
    """One of the core's, ready for a program whose slots `given` the caller binds to arrays for each run.

    All other slots are its own: constants, scratch of small sizes as long as it lives, large scratch until another one runs.
    """

    def __init__(
        self, core: LoadedCore, program: Program, given: Sequence[int], sizes: Sequence[int], chip: Chip, threads: int
    ) -> None:
        """`sizes` are the bytes of the given slots; raises RefusedError."""
        self.core, self.library, self.chip = core, core.library, chip
        self.fault = PlaceOfFault()
        self.fault_address = ctypes.addressof(self.fault)
        self.threads, self.num_threads = threads, threads or _threads_for(program)
        self.keeps_status = self.decides = False
        self.machine = 0
        self._bind(program, given, sizes)
        self.machine = self.library.tx8_create(*self._arguments(), chip.spm_limit, chip.tiles, self.num_threads, self.fault_address)
        if not self.machine:
            raise RefusedError(self.fault)
        laws = chip.laws.satrelu_bound, chip.laws.leakyrelu_slope
        self.library.tx8_set_laws(self.machine, *(math.nan if v is None else v for v in laws))
        self.library.tx8_trust(self.machine, self.writes_first)

    def make_ready(self, program: Program, given: Sequence[int], sizes: Sequence[int]) -> None:
        """For another program, or for other slots of the same one; raises RefusedError, and is good for nothing then."""
        old = self.code  # until its address is no longer that of what the machine knows
        self._bind(program, given, sizes)
        if self.library.tx8_restart(self.machine, *self._arguments(), self.fault_address):
            self.destroy()
            raise RefusedError(self.fault)
        self.library.tx8_trust(self.machine, self.writes_first)
        del old

    def _bind(self, program: Program, given: Sequence[int], sizes: Sequence[int]) -> None:
        memory: list[np.ndarray] = []
        scratch: list[np.ndarray] = []
        # A machine that waits keeps no program and no constants. No Python code runs at their end, where interrupts get lost.
        self.memory = {0: (memory, scratch)}
        self.trusts = program.trusted
        # What the compiler linked reads nothing of SPM that it did not write, which strict mode checks; other programs find zeros.
        self.writes_first = program.trusted and bool(program.launches)
        self.program, self.given = weakref.ref(program, partial(self.memory.pop, 0)), given
        code = np.ascontiguousarray(program.code, np.uint64)
        # Another address where it can be written: then it may not be what the machine has seen.
        self.code = code.copy() if code.flags.writeable else code
        theirs = set(given)
        own = [number for number in range(len(program.slots)) if number not in theirs]
        count = max([len(program.slots), *(number + 1 for number in given)])
        self.table = array("q", bytes(16 * count))  # struct tx8_slot of core.h
        self.table_address = self.table.buffer_info()[0]
        self.numbers = array("q", given)
        self.numbers_address = self.numbers.buffer_info()[0]
        self.looks = program.looks if given is program.given else array("q")
        self.looks_address = self.looks.buffer_info()[0] if self.looks else 0
        for number, size in zip(given, sizes, strict=True):
            self.table[2 * number + 1] = size
        self.large: list[tuple[int, int]] = []
        small: list[tuple[int, int]] = []
        end = 0
        for number in own:
            slot = program.slots[number]
            self.table[2 * number + 1] = slot.size_bytes
            if slot.kind is SlotKind.CONSTANT:
                memory.append(np.ascontiguousarray(program.constants[slot.index]))
                self.table[2 * number] = address_of(memory[-1])
            elif slot.size_bytes < RECYCLED_BYTES and end < LARGE_BYTES:
                small.append((2 * number, end))
                end += -(-slot.size_bytes // LINE_BYTES) * LINE_BYTES
            else:
                self.large.append((2 * number, slot.size_bytes))
        memory.append(np.zeros(end + LINE_BYTES, np.uint8))
        start = -(-address_of(memory[-1]) // LINE_BYTES) * LINE_BYTES
        for place, offset in small:
            self.table[place] = start + offset
        self.keeps_scratch = self.trusts and sum(size for _, size in self.large) <= KEPT_BYTES

    def _arguments(self) -> tuple[int, int, int, int]:
        return self.code.ctypes.data, len(self.code), self.table_address, len(self.table) // 2

    def fits(self, chip: Chip, threads: int, program: Program) -> bool:
        """Can it be made ready for the program?"""
        return self.chip == chip and self.num_threads == (threads or _threads_for(program))

    def bind(self, arrays: tuple[np.ndarray, ...]) -> None:
        """Takes the arrays of the next run, of the given slots, which have to stay alive until its end.

        UnfitError if one is not contiguous or of another size.
        """
        at, count, places = 0, len(self.numbers), (self.numbers_address, self.table_address, self.looks_address)
        while (at := self.core.bind(arrays, at, count, *places)) < count:
            data, place = arrays[at], 2 * self.numbers[at]
            if not data.flags.c_contiguous or data.nbytes != self.table[place + 1]:
                raise UnfitError(f"slot {self.numbers[at]} has {self.table[place + 1]} contiguous bytes, given {data.nbytes}")
            self.table[place] = data.ctypes.data
            at += 1
        scratch = self.memory[0][1]
        for place, size in () if scratch else self.large:
            scratch.append(allocate(size, cleared=not self.trusts))
            self.table[place] = address_of(scratch[-1])

    def leave_scratch(self) -> None:
        """Gives large scratch to whoever runs next."""
        if 0 in self.memory:
            self.memory[0][1].clear()

    def keep_status(self, keeps: bool) -> None:
        """Says whether the runs from now on keep exception bits."""
        if keeps is not self.keeps_status:
            self.library.tx8_keep_status(self.machine, keeps)
            self.keeps_status = keeps

    def keep_decisions(self, records: Iterable[int], most: int) -> np.ndarray | None:
        """What these records load, in the next run; what has to stay alive until its end."""
        rows = list(records)
        if not rows and not self.decides:
            return None
        decides = np.zeros(len(self.code), np.uint8) if rows else None
        if decides is not None:
            decides[rows] = 1
        self.library.tx8_keep_decisions(self.machine, None if decides is None else decides.ctypes.data, most)
        self.decides = bool(rows)
        return decides

    def destroy(self) -> None:
        """Once."""
        self.library.tx8_destroy(self.machine)


class _Kept:
    """Machines whose run is done, the last one first. That one has its large scratch still: most programs run again and again."""

    def __init__(self) -> None:
        self.machines: list[NativeMachine] = []
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """A child has no worker threads."""
        self.machines.clear()
        self.lock = threading.Lock()

    def take(self, program: Program, given: Sequence[int], chip: Chip, threads: int) -> tuple[NativeMachine | None, bool]:
        """A machine nobody else has, and whether it is ready; None if there is none that could be made ready."""
        with self.lock:
            for place, m in enumerate(self.machines):
                if m.program() is program and m.given is given and m.chip is chip and m.threads == threads:
                    if place:
                        self.machines[0].leave_scratch()
                    return self.machines.pop(place), True
            if self.machines:
                self.machines[0].leave_scratch()
            for place, m in enumerate(self.machines):
                if m.fits(chip, threads, program):
                    return self.machines.pop(place), False
        return None, False

    def give(self, machine: NativeMachine) -> None:
        """Keeps a machine whose run is done, in place of the oldest one if enough are kept."""
        if not machine.keeps_scratch:
            machine.leave_scratch()
        with self.lock:
            if self.machines:
                self.machines[0].leave_scratch()
            self.machines.insert(0, machine)
            oldest = self.machines.pop() if len(self.machines) > MOST_KEPT else None
        if oldest is not None:
            oldest.destroy()


KEPT = _Kept()


def machine_for(
    core: LoadedCore, program: Program, given: Sequence[int], arrays: Sequence[np.ndarray], chip: Chip, threads: int
) -> NativeMachine:
    """One that is ready, its own: `KEPT.give` or `destroy` it after the run. Raises RefusedError."""
    machine, is_ready = KEPT.take(program, given, chip, threads)
    if machine is not None and is_ready:
        return machine
    is_programs = given is program.given
    sizes = [program.slots[n].size_bytes for n in given] if is_programs else [a.nbytes for a in arrays]
    if machine is None:
        return NativeMachine(core, program, given, sizes, chip, threads)
    machine.threads, machine.chip = threads, chip
    machine.make_ready(program, given, sizes)
    return machine


def processors() -> int:
    """How many processors this process may use, which a container or `taskset` makes fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads_for(program: Program) -> int:
    return 1 if sum(slot.size_bytes for slot in program.slots) < SINGLE_THREAD_BYTES else processors()


def address_of(data: np.ndarray) -> int:
    """The address of an array's first element."""
    return data.ctypes.data
