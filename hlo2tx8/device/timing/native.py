"""The timing model's machine in C: what `machine.py` defines, for steps without packets and when nobody records what happens."""

import ctypes
import struct
from collections.abc import Callable, Sequence
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.base import Engine
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import KcFloorDiv, KcLess, KcMax, KcMin, KcMod, KcMul
from hlo2tx8.device.native.loader import load
from hlo2tx8.device.timing.bundle import PER_RECORD, PER_TILE
from hlo2tx8.device.timing.steps import NUM_REGISTERS, Op, Step, Steps, affine

MOST_RANGES = 8
VALUE = struct.Struct("<qii")
SHAPE = struct.Struct(f"<5dq{3 * MOST_RANGES}q")
UNKNOWN, AFFINE = 0, 1
FOLDS: tuple[type[KcScalar], ...] = (KcFloorDiv, KcMod, KcMin, KcMax, KcMul, KcLess)
"""Those of timing.h, from 2 on."""


class Timed(NamedTuple):
    """Of one stretch: `records` are sums over tiles, `counters` one row per tile; `unknown` records have trip counts or branches
    that depend on data; does the program of every tile end in it?"""

    cycles: float
    records: np.ndarray
    counters: np.ndarray
    unknown: frozenset[int]
    is_end: bool


_ASK_SHAPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_NUMBER, _REAL, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class _Timing(ctypes.Structure):
    _fields_: ClassVar = [(n, _POINTER) for n in ("steps", "indices", "constants")]
    _fields_ += [(n, _NUMBER) for n in ("num_steps", "num_constants", "num_records", "num_tiles", "queue_depth")]
    _fields_ += [(n, _NUMBER) for n in ("issue_cycles", "wait_cycles", "barrier_cycles", "per_record", "per_tile")]
    _fields_ += [("ddr_rate", _REAL), ("port_rate", _REAL), ("shape", _ASK_SHAPE)]
    _fields_ += [(n, _POINTER) for n in ("records", "counters", "unknown")]
    _fields_ += [("cycles", _REAL), ("all_ended", _NUMBER)]


def time_steps(steps: Steps, chip: Chip) -> Timed | None:
    """What the steps cost on all tiles of the chip; None where only the Python machine can tell."""
    core = load()
    run: Callable[[object], int] | None = None if isinstance(core, str) else getattr(core.library, "tx8_time", None)
    if run is None or any(step.engine is Engine.DTE for step in steps.steps):
        return None
    table, indices = _tables(steps.steps)
    constants = np.array([*steps.constants], np.int64)
    records = np.zeros(PER_RECORD * max(len(steps.records), 1))
    counters = np.zeros((chip.tiles, PER_TILE))
    unknown = np.zeros(max(len(steps.records), 1), np.uint8)
    asked = _Asked(steps)
    timing = _Timing(
        *(a.ctypes.data for a in (table, indices, constants)),
        *(len(table), len(constants), max(len(steps.records), 1), chip.tiles, chip.queue_depth),
        *(chip.cycles.issue, chip.cycles.wait, chip.cycles.barrier, PER_RECORD, PER_TILE),
        *(chip.ddr_bytes_per_cycle, float(chip.cycles.dma_bytes_per_cycle)),
        _ASK_SHAPE(asked.shape),
        *(a.ctypes.data for a in (records, counters, unknown)),
    )
    if run(ctypes.byref(timing)):
        return None
    return Timed(timing.cycles, records, counters, frozenset(np.flatnonzero(unknown).tolist()), bool(timing.all_ended))


def _tables(steps: Sequence[Step]) -> tuple[np.ndarray, np.ndarray]:
    """`struct timed_step` of every step, and the indices they point to."""
    rows: list[tuple[int, ...]] = []
    indices: list[tuple[int, ...]] = []
    at = 0
    for s in steps:
        counts = tuple(i for i in s.counts if i < NUM_REGISTERS)
        head = (s.op, s.record, s.before, s.rd, s.cycles, _fold(s), s.target, s.engine, s.decides_counts, s.rotation, s.varies)
        places: list[int] = []
        for part in (s.inputs, s.carried, counts):
            places += (len(part), at)
            indices.append(part)
            at += len(part)
        rows.append((*head, *places))
    return np.array(rows, np.int32), np.fromiter(chain(*indices, (0,)), np.int32, at + 1)


def _fold(step: Step) -> int:
    if step.op is not Op.SCALAR or step.fold is None:
        return UNKNOWN
    return AFFINE if step.fold is affine else 2 + [kind.FOLD for kind in FOLDS].index(step.fold)


class _Asked:
    """What the core asks: what instructions cost."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def shape(self, number: int, key: int, shape: int) -> int:
        """0, and `struct timed_shape`; 1 if the core does not follow its kind, or it has no cost, as Python will say."""
        step = self.steps.steps[number]
        try:
            work, ranges = self.steps.cost(step, _values(key, len(step.inputs)))
        except Exception:  # nothing may be raised through the core
            return 1
        if len(ranges) > MOST_RANGES or work.packet is not None:
            return 1
        flat = [number for r in ranges for number in r]
        flat += [0] * (3 * MOST_RANGES - len(flat))
        costs = (work.cycles, work.ddr_bytes, work.bytes, work.operations, work.least_cycles)
        ctypes.memmove(shape, SHAPE.pack(*costs, len(ranges), *flat), SHAPE.size)
        return 0


def _values(address: int, count: int) -> list[int | None]:
    """`struct timed_value`s."""
    return [value if is_known else None for value, is_known, _ in VALUE.iter_unpack(ctypes.string_at(address, VALUE.size * count))]
