"""Run a program in the loaded core: slices of time between which Python sees signals, faults with their place."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import MOST_ROWS, Log
from hlo2tx8.device.faults import Fault, FaultKind, FaultPlace
from hlo2tx8.device.native.loader import LoadedCore
from hlo2tx8.device.native.machines import KEPT, PlaceOfFault, RefusedError, UnfitError, machine_for
from hlo2tx8.device.program import Program
from hlo2tx8.device.status import Status

SLICE_SECONDS = 0.1  # between two looks at Ctrl-C
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


def launch(
    core: LoadedCore,
    program: Program,
    arrays: Sequence[np.ndarray],
    given: Sequence[int],
    chip: Chip,
    threads: int,
    keeps_status: bool,
    progress: Callable[[FaultPlace], None] | None = None,
    log: Log | None = None,
    max_steps: int = 0,
) -> tuple[Status, ...]:
    """Runs until all tiles end; the exception bits of each, none unless they are kept. `log` gets what its records load;
    `max_steps` as of Emulator.

    `arrays` are the slots `given`, always the same object for quick launches; the others are the machine's. While the core works
    Python is free for other threads. `progress` is told every SLICE_SECONDS where the first tile is that has not ended. Raises
    Fault, MemoryError, UnfitError, or what a signal handler or `progress` raises.
    """
    try:
        machine = machine_for(core, program, given, arrays, chip, threads)
    except RefusedError as error:
        raise _refused(program, chip, error.fault) from None
    bound = tuple(arrays)
    try:
        machine.bind(bound)
    except UnfitError:
        KEPT.give(machine)
        raise
    library, outcome, status = core.library, TIME, ()
    try:
        machine.keep_status(keeps_status)
        decides = machine.keep_decisions(log.records if log is not None else (), MOST_ROWS + 1)
        while outcome == TIME:
            outcome = library.tx8_run(machine.machine, SLICE_SECONDS, machine.fault_address, max_steps)
            if outcome == TIME and progress is not None:
                library.tx8_place(machine.machine, machine.fault_address)
                progress(_place(program, machine.fault))
        del bound, decides
        if keeps_status:
            status = tuple(Status(library.tx8_status(machine.machine, tile)) for tile in range(chip.tiles))
        if log is not None:
            log.give(_kept_decisions(library, machine.machine))
    finally:
        if outcome == DONE:
            KEPT.give(machine)
        else:
            machine.destroy()
    if outcome == FAULT:
        raise _fault(program, chip, machine.fault)
    return status


def _kept_decisions(library: ctypes.CDLL, machine: int) -> np.ndarray:
    rows = np.empty((library.tx8_decisions(machine, None, 0), 4), np.int64)
    library.tx8_decisions(machine, rows.ctypes.data, len(rows))
    return rows


def _refused(program: Program, chip: Chip, fault: PlaceOfFault) -> Exception:
    if not fault.kind:
        return MemoryError(f"no memory for {chip.tiles} scratchpads of {chip.spm_limit} bytes")
    return _illegal(program, fault)


def _illegal(program: Program, fault: PlaceOfFault) -> Fault:
    """The decoder's own words where it refuses the program too."""
    from hlo2tx8.device.isa.encoding import EncodingError, decode_records

    detail = fault.detail.decode()
    try:
        decode_records(program.code, program.origins)
    except EncodingError as error:
        detail = str(error)
    return Fault(FaultKind.ILLEGAL_OPCODE, detail, FaultPlace(0, 0))


def _fault(program: Program, chip: Chip, fault: PlaceOfFault) -> Fault:
    from hlo2tx8.device.isa import BY_OPCODE
    from hlo2tx8.device.isa.base import unpublished
    from hlo2tx8.device.isa.kc_control import KcEnd

    kind = KINDS[int(fault.kind)]
    assert kind is not None
    record = int(fault.record)
    if kind is FaultKind.UNEQUAL_BARRIER:
        detail = f"{fault.num_counters} of {chip.tiles} tiles wait at the barrier of record {record}, others do not"
        return Fault(kind, detail, FaultPlace(0, record))
    instruction = BY_OPCODE[int(program.code[record, 0]) & 0xFFFF]
    detail = unpublished(instruction) if kind is FaultKind.UNPUBLISHED else fault.detail.decode()
    place = _place(program, fault)
    if kind is FaultKind.RUNAWAY and instruction is KcEnd:  # the loop's end says nothing of where it is from
        names = {number: name for number, name in enumerate(program.origins) if name}
        numbers = map(int, program.code[record::-1, 2])
        place = replace(place, origin=next((names[number] for number in numbers if number in names), ""))
    return Fault(kind, detail, place)


def _place(program: Program, fault: PlaceOfFault) -> FaultPlace:
    from hlo2tx8.device.isa import BY_OPCODE

    record = int(fault.record)
    words = [int(w) for w in program.code[record]]
    instruction = BY_OPCODE[words[0] & 0xFFFF]
    origin = program.origins[words[2]] if words[2] < len(program.origins) else ""
    counters = tuple(int(c) for c in fault.counters[: fault.num_counters])
    return FaultPlace(int(fault.tile), record, instruction.ENGINE.name, instruction.MNEMONIC, origin, counters)
