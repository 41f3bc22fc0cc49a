"""Run a program in the loaded core: slices of time between which Python sees signals, faults with their place."""

import ctypes
import math
import os
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import MOST_ROWS, Log
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.program import Program
from hlo2tx8.device.status import Status

MAX_DEPTH = 32
SLICE_SECONDS = 0.1  # between two looks at Ctrl-C
MOST_KEPT = 4
SINGLE_THREAD_BYTES = 1 << 18  # launches that move less than this finish before a thread has started
DONE, TIME, FAULT, MEMORY = range(4)  # enum outcome of core.c
KINDS: tuple[FaultKind | None, ...] = (  # enum fault_kind of core.h
    None,
    FaultKind.ILLEGAL_OPCODE,
    FaultKind.OUT_OF_BOUNDS,
    FaultKind.BAD_DESCRIPTOR,
    FaultKind.UNEQUAL_BARRIER,
    FaultKind.RUNAWAY,
    FaultKind.UNPUBLISHED,
)


class _Fault(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int64),
        ("tile", ctypes.c_int64),
        ("record", ctypes.c_int64),
        ("num_counters", ctypes.c_int64),
        ("counters", ctypes.c_int64 * MAX_DEPTH),
        ("detail", ctypes.c_char * 160),
    )


class _Kept:
    """Machines, their worker threads and the code they are ready for between two runs, by (scratchpad size, tiles, threads): making
    one costs 100 us. A machine knows its code by the address, so that stays alive with it."""

    def __init__(self) -> None:
        self.machines: dict[tuple[int, int, int], list[tuple[int, np.ndarray]]] = {}
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """A child has no worker threads."""
        self.machines.clear()
        self.lock = threading.Lock()

    def take(self, key: tuple[int, int, int], code: np.ndarray) -> int | None:
        """A machine nobody else has, ready for the code if there is such a one; None if there is none."""
        with self.lock:
            machines = self.machines.setdefault(key, [])
            ready = [place for place, (_, own) in enumerate(machines) if own is code]
            return machines.pop(*ready[:1])[0] if machines else None

    def give(self, key: tuple[int, int, int], machine: int, code: np.ndarray) -> bool:
        """Keeps a machine whose run is done; False if enough are kept."""
        with self.lock:
            machines = self.machines.setdefault(key, [])
            if len(machines) < MOST_KEPT:
                machines.append((machine, code))
                return True
        return False


_KEPT = _Kept()


def declare(library: ctypes.CDLL) -> None:
    """Says what the functions take; once per library."""
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    program = (pointer, number, pointer, number)
    library.tx8_create.restype = pointer
    library.tx8_create.argtypes = (*program, number, ctypes.c_int, ctypes.c_int, pointer)
    library.tx8_restart.argtypes = (pointer, *program, pointer)
    library.tx8_set_laws.argtypes = (pointer, ctypes.c_double, ctypes.c_double)
    library.tx8_set_laws.restype = None
    library.tx8_keep_status.argtypes = (pointer, ctypes.c_int)
    library.tx8_keep_status.restype = None
    library.tx8_status.argtypes = (pointer, ctypes.c_int)
    library.tx8_status.restype = ctypes.c_uint32
    library.tx8_keep_decisions.argtypes = (pointer, pointer, number)
    library.tx8_keep_decisions.restype = None
    library.tx8_decisions.argtypes = (pointer, pointer, number)
    library.tx8_decisions.restype = number
    library.tx8_run.argtypes = (pointer, ctypes.c_double, pointer)
    library.tx8_place.argtypes = (pointer, pointer)
    library.tx8_place.restype = None
    library.tx8_destroy.argtypes = (pointer,)
    library.tx8_destroy.restype = None


def processors() -> int:
    """How many processors this process may use, which a container or `taskset` makes fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _address(data: Any) -> int:
    """Of the first element; numpy's own way takes four times as long, but it serves types that have no buffer."""
    if data.nbytes and data.flags.writeable and data.dtype.isbuiltin == 1:
        return ctypes.addressof(ctypes.c_char.from_buffer(data))
    return data.ctypes.data


def launch(
    library: ctypes.CDLL,
    program: Program,
    slots: Sequence[np.ndarray],
    chip: Chip,
    threads: int,
    keeps_status: bool,
    progress: Callable[[FaultPlace], None] | None = None,
    log: Log | None = None,
) -> tuple[Status, ...]:
    """Runs until all tiles end; the exception bits of each, none unless they are kept. `log` gets what its records load.

    While the core works Python is free for other threads. `progress` is told every SLICE_SECONDS where the first tile is that has
    not ended. Raises Fault, MemoryError, or what a signal handler or `progress` raises.
    """
    code = np.ascontiguousarray(program.code, np.uint64)
    if code.flags.writeable:
        code = code.copy()  # another address: what can be written may not be what a kept machine has seen
    table = array("q", [number for slot in slots for number in (_address(slot), slot.nbytes)])  # struct tx8_slot of core.h
    if not threads:
        small = sum(table[1::2]) < SINGLE_THREAD_BYTES
        threads = 1 if small else processors()
    fault = _Fault()
    key = (chip.spm_limit, chip.tiles, threads)
    arguments = (code.ctypes.data, len(code), table.buffer_info()[0], len(slots))
    machine = _KEPT.take(key, code)
    if machine is not None and library.tx8_restart(machine, *arguments, ctypes.byref(fault)):
        library.tx8_destroy(machine)
        raise _refused(program, chip, fault)
    if machine is None:
        machine = library.tx8_create(*arguments, *key, ctypes.byref(fault))
    if not machine:
        raise _refused(program, chip, fault)
    library.tx8_set_laws(machine, *(math.nan if v is None else v for v in (chip.laws.satrelu_bound, chip.laws.leakyrelu_slope)))
    library.tx8_keep_status(machine, keeps_status)
    decides = np.zeros(len(code) if log is not None else 0, np.uint8)
    if log is not None:
        decides[list(log.records)] = 1
        library.tx8_keep_decisions(machine, decides.ctypes.data, MOST_ROWS + 1)
    outcome, status = TIME, ()
    try:
        while outcome == TIME:
            outcome = library.tx8_run(machine, SLICE_SECONDS, ctypes.byref(fault))
            if outcome == TIME and progress is not None:
                library.tx8_place(machine, ctypes.byref(fault))
                progress(_place(program, fault))
        if keeps_status:
            status = tuple(Status(library.tx8_status(machine, tile)) for tile in range(chip.tiles))
        if log is not None:
            log.give(_kept_decisions(library, machine))
    finally:
        if outcome != DONE or not _KEPT.give(key, machine, code):
            library.tx8_destroy(machine)
    if outcome == FAULT:
        raise _fault(program, chip, fault)
    return status


def _kept_decisions(library: ctypes.CDLL, machine: int) -> np.ndarray:
    rows = np.empty((library.tx8_decisions(machine, None, 0), 4), np.int64)
    library.tx8_decisions(machine, rows.ctypes.data, len(rows))
    return rows


def _refused(program: Program, chip: Chip, fault: _Fault) -> Exception:
    if not fault.kind:
        return MemoryError(f"no memory for {chip.tiles} scratchpads of {chip.spm_limit} bytes")
    return _illegal(program, fault)


def _illegal(program: Program, fault: _Fault) -> Fault:
    """The decoder's own words where it refuses the program too."""
    from hlo2tx8.device.isa.encoding import EncodingError, decode_records

    detail = fault.detail.decode()
    try:
        decode_records(program.code, program.origins)
    except EncodingError as error:
        detail = str(error)
    return Fault(FaultKind.ILLEGAL_OPCODE, detail, FaultPlace(0, 0))


def _fault(program: Program, chip: Chip, fault: _Fault) -> Fault:
    from hlo2tx8.device.isa import BY_OPCODE
    from hlo2tx8.device.isa.base import unpublished

    kind = KINDS[int(fault.kind)]
    assert kind is not None
    record = int(fault.record)
    if kind is FaultKind.UNEQUAL_BARRIER:
        detail = f"{fault.num_counters} of {chip.tiles} tiles wait at the barrier of record {record}, others do not"
        return Fault(kind, detail, FaultPlace(0, record))
    instruction = BY_OPCODE[int(program.code[record, 0]) & 0xFFFF]
    detail = unpublished(instruction) if kind is FaultKind.UNPUBLISHED else fault.detail.decode()
    return Fault(kind, detail, _place(program, fault))


def _place(program: Program, fault: _Fault) -> FaultPlace:
    from hlo2tx8.device.isa import BY_OPCODE

    record = int(fault.record)
    words = [int(w) for w in program.code[record]]
    instruction = BY_OPCODE[words[0] & 0xFFFF]
    origin = program.origins[words[2]] if words[2] < len(program.origins) else ""
    counters = tuple(int(c) for c in fault.counters[: fault.num_counters])
    return FaultPlace(int(fault.tile), record, instruction.ENGINE.name, instruction.MNEMONIC, origin, counters)
