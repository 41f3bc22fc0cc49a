"""The modelled time of a program: stretches between barriers, each followed once however often it occurs.

A stretch ends with a barrier outside of all loops before which the kernel core waits for all engines: nothing is under way
then, so times add up. Stretches that differ in DDR slots, offsets and origins only cost the same.
"""

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa import BY_OPCODE
from hlo2tx8.device.isa.base import Engine, Instruction, Role
from hlo2tx8.device.isa.encoding import HEADER_WORDS, RECORD_WORDS, EncodingError, decode_records
from hlo2tx8.device.isa.kc_control import KcBarrier, KcEnd, KcEndIf, KcHalt, KcIf, KcLoop, KcWait
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing.bundle import (
    BARRIER,
    BARRIER_WAIT,
    ENGINE_BUSY,
    ENGINE_INSTRUCTIONS,
    FULL,
    ISSUE,
    PER_ENGINE,
    PER_RECORD,
    PER_TILE,
    QUEUED,
    WAITING,
)
from hlo2tx8.device.timing.engines import Recorder
from hlo2tx8.device.timing.machine import Machine
from hlo2tx8.device.timing.native import Timed, time_steps
from hlo2tx8.device.timing.report import EngineCounters, Part, RecordCost, Report
from hlo2tx8.device.timing.steps import NUM_REGISTERS, Steps, Value

NAMES = {e: e.name for e in Engine}
ALL_QUEUED = sum(1 << e for e in QUEUED)


def model(program: Program, chip: Chip, recorder: Recorder | None = None) -> Report:
    """The modelled time of a program that decodes, EncodingError otherwise; a recorder is told all that happens."""
    parts_of = stretches(program, chip)
    parts: list[Part] = []
    now, unknown = float(chip.cycles.launch), set[int]()
    known: dict[bytes, Timed] = {}
    for first, key, steps in parts_of:
        cost = known.get(key)
        if recorder is not None:
            machine = Machine(steps, chip, recorder, follow=recorder.begin(first, now, len(parts_of)))
            cost = cost_of(machine)
            recorder.end(machine.ddr.samples or ())
        elif cost is None:
            cost = known[key] = time_steps(steps, chip) or cost_of(Machine(steps, chip))
        unknown |= {first + record for record in cost.unknown}
        parts.append(Part(first, first + len(steps.records), cost.cycles, cost.records, cost.counters))
        now += cost.cycles
        if cost.is_end:
            break
    return _report(program, chip, parts, float(chip.cycles.launch), unknown)


def report_of(program: Program, chip: Chip, parts: Sequence[Part], unknown: Iterable[int] = ()) -> Report:
    """What some parts of a program's report cost by themselves, without the launch."""
    return _report(program, chip, parts, 0.0, {i for i in unknown if any(p.first <= i < p.end for p in parts)})


def cost_of(machine: Machine) -> Timed:
    """Of one stretch, which the machine follows."""
    tile: Value = tuple(range(machine.chip.tiles)) if machine.chip.tiles > 1 else 0
    cycles = machine.run([0, tile, *[0] * (NUM_REGISTERS - 2)])
    is_end = all(b.at < len(machine.steps.steps) - 1 for b in machine.bundles)
    return Timed(cycles, machine.records, machine.counters, frozenset(machine.unknown), is_end)


def stretches(program: Program, chip: Chip) -> list[tuple[int, bytes, Steps]]:
    """(first record, what tells it from others, steps) of each stretch; one if registers live from one to the next."""
    code = program.code
    cuts = _cuts(code)
    compiled: dict[bytes, Steps] = {}
    found: list[tuple[int, bytes, Steps]] = []
    for first, end in zip([0, *cuts], [*cuts, len(code)], strict=True):
        key = _without_places(code[first:end])
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


def _report(program: Program, chip: Chip, parts: Sequence[Part], launch: float, unknown: set[int]) -> Report:
    sums = np.zeros((len(program.code), PER_RECORD))
    counters = np.zeros((chip.tiles, PER_TILE))
    for part in parts:
        counters += part.counters
        sums[part.first : part.end] += part.records[: (part.end - part.first) * PER_RECORD].reshape(-1, PER_RECORD)
    cycles = launch + sum(part.cycles for part in parts)
    rows = [tuple(row) for row in counters.tolist()]
    engines = [NAMES[BY_OPCODE[code].ENGINE] for code in (program.code[:, 0] & np.uint64(0xFFFF)).tolist()]
    of_row = {row: {name: _engine(e, row, cycles) for e, name in NAMES.items()} for row in set(rows)}
    return Report(
        cycles=cycles,
        clock_hz=chip.clock_hz,
        tiles=tuple(of_row[row] for row in rows),
        records=tuple(_record(name, row, chip.tiles) for name, row in zip(engines, sums.tolist(), strict=True)),
        overhead={
            "issue": max(row[ISSUE] for row in rows),
            "barrier": max(row[BARRIER] for row in rows),
            "launch": launch,
        },
        ddr_bytes_per_cycle=min(chip.ddr_bytes_per_cycle, chip.tiles * chip.cycles.dma_bytes_per_cycle),
        unknown=tuple(sorted(unknown)),
        parts=tuple(parts),
    )


def _record(engine: str, sums: Sequence[float], tiles: int) -> RecordCost:
    count, busy, elapsed, charged, moved, operations, least = sums
    mean = (count / tiles, busy / tiles, elapsed / tiles, least / tiles)
    return RecordCost(engine, *mean, round(moved), round(charged), round(operations))


def _engine(engine: Engine, row: Sequence[float], cycles: float) -> EngineCounters:
    base = engine * PER_ENGINE
    causes: dict[str, float] = {}
    if engine is Engine.KC:
        causes = {"barrier": row[BARRIER] + row[BARRIER_WAIT], "issue": row[ISSUE]}
        for e in QUEUED:
            causes[f"{NAMES[e]} queue"], causes[f"wait for {NAMES[e]}"] = row[FULL + e], row[WAITING + e]
    else:
        causes = {NAMES[e]: row[base + e] for e in QUEUED}
    blocked = {name: value for name, value in causes.items() if value}
    busy = row[base + ENGINE_BUSY]
    return EngineCounters(round(row[base + ENGINE_INSTRUCTIONS]), busy, blocked, max(cycles - busy - sum(blocked.values()), 0.0))
