"""The modelled time of a program: stretches between barriers, each followed once however often it occurs.

A stretch ends with a barrier outside of all loops before which the kernel core waits for all engines: nothing is under way
then, so times add up. Stretches that differ in DDR slots, offsets and origins only cost the same.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.isa import BY_OPCODE
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import HEADER_WORDS, RECORD_WORDS, EncodingError, decode_records
from hlo2tx8.device.isa.fields import Role
from hlo2tx8.device.isa.kc_control import KcBarrier, KcEnd, KcEndIf, KcFunction, KcHalt, KcIf, KcLoadScalar, KcLoop, KcWait
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.device.timing.bundle import QUEUED
from hlo2tx8.device.timing.costs import launch_cycles
from hlo2tx8.device.timing.engines import Recorder
from hlo2tx8.device.timing.machine import TimingMachine
from hlo2tx8.device.timing.native import time_program
from hlo2tx8.device.timing.replay import Replay
from hlo2tx8.device.timing.report import Part, Report, Timed
from hlo2tx8.device.timing.steps import NUM_REGISTERS, Steps, Value

ALL_QUEUED = sum(1 << e for e in QUEUED)


def model(program: Program, chip: Chip, recorder: Recorder | None = None, *, decisions: Decisions | None = None) -> Report:
    """The modelled time of a program that decodes, EncodingError otherwise; a recorder is told all that happens.

    `decisions` are those of a run, of its `deciding_records`: the time is that of the run.
    """
    found = time_program(program.code, chip, decisions) if recorder is None else None
    parts = [Part(first, end, timed) for first, end, timed in found or follow(program, chip, recorder, decisions)]
    at_host = sum(slot.size_bytes for slot in program.slots if slot.kind in (SlotKind.INPUT, SlotKind.OUTPUT))
    return Report(program.code, chip, tuple(parts), launch_cycles(program.code, chip), decisions is not None, at_host)


def follow(
    program: Program, chip: Chip, recorder: Recorder | None = None, decisions: Decisions | None = None
) -> list[tuple[int, int, Timed]]:
    """(first record, end, cost) of each part of a program, as far as parts happen, by the machine in Python."""
    parts_of = stretches(program, chip, decisions is not None)
    parts: list[tuple[int, int, Timed]] = []
    now = launch_cycles(program.code, chip)
    known: dict[bytes, Timed] = {}
    for first, key, steps in parts_of:
        timed = known.get(key)
        replay = Replay(decisions, first, first + len(steps.records)) if decisions is not None else None
        if recorder is not None:
            machine = TimingMachine(steps, chip, recorder, follow=recorder.begin(first, now, len(parts_of)), replay=replay)
            timed = cost_of(machine)
            recorder.end(machine.ddr.samples or (), machine.noc.samples or ())
        elif timed is None:
            timed = known[key] = cost_of(TimingMachine(steps, chip, replay=replay))
        parts.append((first, first + len(steps.records), timed))
        now += timed.cycles
        if timed.is_end:
            break
    return parts


def report_of(program: Program, chip: Chip, parts: Sequence[Part]) -> Report:
    """What some parts of a program's report cost by themselves, without the launch."""
    return Report(program.code, chip, tuple(parts), 0.0)


def deciding_records(program: Program, chip: Chip) -> tuple[int, ...]:
    """Records that load what matters to the time of a program that decodes; none if no trip count or branch depends on them."""
    parts = stretches(program, chip)
    if not any(steps.is_decided_by_data for _, _, steps in parts):
        return ()
    return tuple(sorted(first + record for first, _, steps in parts for record in steps.loaded))


def cost_of(machine: TimingMachine) -> Timed:
    """The cost of one stretch, which the machine follows to its end."""
    tile: Value = tuple(range(machine.chip.tiles)) if machine.chip.tiles > 1 else 0
    cycles = machine.run([0, tile, *[0] * (NUM_REGISTERS - 2)])
    is_end = all(b.at < len(machine.steps.steps) - 1 for b in machine.bundles)
    return Timed(cycles, machine.records, machine.counters, frozenset(machine.unknown), machine.steps.loaded, is_end)


def stretches(program: Program, chip: Chip, is_run: bool = False) -> list[tuple[int, bytes, Steps]]:
    """(first record, what tells it from others, steps) of each stretch; one if registers live from one to the next, or if it
    has functions.

    In a run, what loads numbers may do so differently each time.
    """
    code = program.code
    cuts = _cuts(code)
    compiled: dict[bytes, Steps] = {}
    found: list[tuple[int, bytes, Steps]] = []
    for first, end in zip([0, *cuts], [*cuts, len(code)], strict=True):
        key = _without_places(code[first:end])
        if is_run and (code[first:end, 0] & np.uint64(0xFFFF) == KcLoadScalar.OPCODE).any():
            key += first.to_bytes(8, "little")
        if key not in compiled:
            try:
                compiled[key] = Steps(decode_records(code[first:end], program.origins), chip)
            except EncodingError:
                decode_records(code, program.origins)
                raise
        found.append((first, key, compiled[key]))
    if any(steps.live_in for _, _, steps in found[1:]):
        return [(0, b"", Steps(decode_records(code, program.origins), chip))]
    return found


def _cuts(code: np.ndarray) -> list[int]:
    """The records behind barriers that end a stretch."""
    if code.ndim != 2 or not len(code):
        return []
    opcodes = (code[:, 0] & np.uint64(0xFFFF)).astype(np.int64)
    if (opcodes == KcFunction.OPCODE).any():
        return []
    opens, closes = (_is_one_of(opcodes, kinds) for kinds in ((KcLoop, KcIf), (KcEnd, KcEndIf)))
    depth = np.cumsum(opens.astype(int) - closes)
    waits = (opcodes == KcWait.OPCODE) & (code[:, 1] == 0) & (code[:, HEADER_WORDS] & np.uint64(ALL_QUEUED) == ALL_QUEUED)
    is_cut = (opcodes[1:] == KcBarrier.OPCODE) & waits[:-1] & (depth[1:] == 0)
    cuts = [int(i) + 2 for i in np.flatnonzero(is_cut)] if not (depth < 0).any() else []
    is_end = _is_one_of(opcodes, (KcWait, KcHalt))
    return [cut for cut in cuts if not is_end[cut:].all()]  # nothing happens behind the last barrier


def _is_one_of(opcodes: np.ndarray, kinds: tuple[type[Instruction], type[Instruction]]) -> np.ndarray:
    return (opcodes == kinds[0].OPCODE) | (opcodes == kinds[1].OPCODE)


def _without_places(code: np.ndarray) -> bytes:
    """The words without origins, partners of blocks, DDR slots and offsets: what the time does not depend on."""
    words = code.copy()
    words[:, 2:HEADER_WORDS] = 0
    words[_places()[words[:, 0] & np.uint64(0xFFFF)]] = 0
    return words.tobytes()


@cache
def _places() -> np.ndarray:
    """Of all opcodes, which words are DDR slots and offsets."""
    found = np.zeros((1 << 16, RECORD_WORDS), bool)
    for opcode, kind in BY_OPCODE.items():
        for position, f in enumerate(kind.FIELDS):
            found[opcode, HEADER_WORDS + position] = f.role in (Role.SLOT, Role.DDR_READ, Role.DDR_WRITE)
    return found
