"""Run a program in the loaded core: slices of time between which Python sees signals, faults with their place."""

import ctypes
from collections.abc import Sequence
from os import cpu_count

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.program import Program

MAX_DEPTH = 32
SLICE_SECONDS = 0.1  # between two looks at Ctrl-C
SINGLE_THREAD_BYTES = 1 << 18  # launches that move less than this finish before a thread has started
DONE, TIME, FAULT, MEMORY = range(4)  # enum outcome of core.c
KINDS: tuple[FaultKind | None, ...] = (  # enum fault_kind of core.h
    None,
    FaultKind.ILLEGAL_OPCODE,
    FaultKind.OUT_OF_BOUNDS,
    FaultKind.BAD_DESCRIPTOR,
    FaultKind.UNEQUAL_BARRIER,
    FaultKind.RUNAWAY,
)


class _Slot(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_int64))


class _Fault(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int64),
        ("tile", ctypes.c_int64),
        ("record", ctypes.c_int64),
        ("num_counters", ctypes.c_int64),
        ("counters", ctypes.c_int64 * MAX_DEPTH),
        ("detail", ctypes.c_char * 160),
    )


def launch(library: ctypes.CDLL, program: Program, slots: Sequence[np.ndarray], chip: Chip, threads: int) -> None:
    """Runs until all tiles end. Raises Fault, MemoryError, or what a signal handler raises."""
    code = np.ascontiguousarray(program.code, np.uint64)
    table = (_Slot * max(1, len(slots)))(*(_Slot(s.ctypes.data, s.nbytes) for s in slots))
    if not threads:
        small = sum(s.nbytes for s in slots) < SINGLE_THREAD_BYTES
        threads = 1 if small else cpu_count() or 1
    fault = _Fault()
    library.tx8_create.restype = ctypes.c_void_p
    machine = library.tx8_create(
        ctypes.c_void_p(code.ctypes.data),
        ctypes.c_int64(len(code)),
        table,
        ctypes.c_int64(len(slots)),
        ctypes.c_int64(chip.spm_limit),
        ctypes.c_int(chip.tiles),
        ctypes.c_int(threads),
        ctypes.byref(fault),
    )
    if not machine:
        if not fault.kind:
            raise MemoryError(f"no memory for {chip.tiles} scratchpads of {chip.spm_limit} bytes")
        raise _illegal(program, fault)
    try:
        outcome = TIME
        while outcome == TIME:
            outcome = library.tx8_run(ctypes.c_void_p(machine), ctypes.c_double(SLICE_SECONDS), ctypes.byref(fault))
    finally:
        library.tx8_destroy(ctypes.c_void_p(machine))
    if outcome == FAULT:
        raise _fault(program, chip, fault)


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

    kind = KINDS[int(fault.kind)]
    assert kind is not None
    record = int(fault.record)
    if kind is FaultKind.UNEQUAL_BARRIER:
        detail = f"{fault.num_counters} of {chip.tiles} tiles wait at the barrier of record {record}, others do not"
        return Fault(kind, detail, FaultPlace(0, record))
    words = [int(w) for w in program.code[record]]
    instruction = BY_OPCODE[words[0] & 0xFFFF]
    origin = program.origins[words[2]] if words[2] < len(program.origins) else ""
    counters = tuple(int(c) for c in fault.counters[: fault.num_counters])
    place = FaultPlace(int(fault.tile), record, instruction.ENGINE.name, instruction.MNEMONIC, origin, counters)
    return Fault(kind, fault.detail.decode(), place)
