"""The timing model in C: what `model.py` and `machine.py` define, when nobody records what happens.

The core is given the words of a program and what their heads mean; it asks back for the costs it has no rules for.
"""

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.isa.encoding import HEAD_MASK, RECORD_WORDS, EncodingError, head_of
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.kc_control import (
    KcBarrier,
)
from hlo2tx8.device.native.loader import load
from hlo2tx8.device.timing.bundle import PER_RECORD, PER_TILE
from hlo2tx8.device.timing.costs import cost
from hlo2tx8.device.timing.kinds import MOST_RANGES, TimedKind, kind_row
from hlo2tx8.device.timing.notes import Notes
from hlo2tx8.device.timing.report import Timed

SHAPE = struct.Struct(f"<5dq{3 * MOST_RANGES}q4q")

_ASK_SHAPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_NUMBER, _REAL, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


CYCLES = (
    *("issue", "wait", "barrier", "ct_startup", "ct_bytes_per_cycle", "dma_startup", "dma_min_run_bytes", "tdma_startup"),
    *("tdma_bytes_per_cycle", "tdma_min_run_bytes", "kc_vector_bytes_per_cycle", "dte_startup", "dte_hop", "dte_bytes_per_cycle"),
)


class _Chip(ctypes.Structure):
    _fields_: ClassVar = [(n, _NUMBER) for n in ("tiles", "queue_depth", *CYCLES, "mesh_columns")]
    _fields_ += [("ddr_rate", _REAL), ("port_rate", _REAL)]


class _Part(ctypes.Structure):
    _fields_: ClassVar = [(n, _NUMBER) for n in ("first", "end", "same_as", "all_ended")]
    _fields_ += [("cycles", _REAL)]


class _Notes(ctypes.Structure):
    _fields_: ClassVar = [("rows", _POINTER), ("most", _NUMBER), ("num", _NUMBER)]


class _Timing(ctypes.Structure):
    _fields_: ClassVar = [("words", _POINTER), ("kinds", ctypes.c_char_p)]
    _fields_ += [(n, _NUMBER) for n in ("num_records", "num_kinds", "most_parts", "kind_bytes", "per_record", "per_tile")]
    _fields_ += [("chip", _Chip), ("shape", _ASK_SHAPE)]
    _fields_ += [(n, _POINTER) for n in ("records", "counters", "unknown", "loaded")]
    _fields_ += [("parts", ctypes.POINTER(_Part)), ("num_parts", _NUMBER), ("decisions", _POINTER), ("num_decisions", _NUMBER)]
    _fields_ += [("notes", ctypes.POINTER(_Notes))]


def time_program(
    code: np.ndarray, chip: Chip, decisions: Decisions | None = None, notes: Notes | None = None
) -> list[tuple[int, int, Timed]] | None:
    """(first record, end, cost) of each part of a program, as far as parts happen; None where only Python can tell. `notes` get
    what happens.
    """
    core = load()
    run: Callable[[object], int] | None = None if isinstance(core, str) else getattr(core.library, "tx8_time_program", None)
    if run is None or code.ndim != 2 or code.shape[1] != RECORD_WORDS or code.dtype != np.uint64:
        return None
    code = np.ascontiguousarray(code)
    first_words: list[int] = code[:, 0].tolist()
    try:
        is_at_peak = chip.ddr_read_charge == chip.ddr_write_charge == 1
        kinds = [kind_row(head, chip.beats, is_at_peak) for head in {word & HEAD_MASK for word in first_words}]
    except EncodingError:
        return None
    if None in kinds:
        return None
    size = len(code)
    most_parts = sum(word & 0xFFFF == KcBarrier.OPCODE for word in first_words) + 1
    records = np.zeros((max(size, 1), PER_RECORD))
    counters = np.zeros((most_parts, chip.tiles, PER_TILE))
    unknown, loaded = np.zeros((2, max(size, 1)), np.uint8)
    rows_decided = None if decisions is None else np.ascontiguousarray(decisions.rows, np.int64)
    parts = (_Part * most_parts)()
    kept = None if notes is None else _Notes(notes.rows.ctypes.data, len(notes.rows), 0)
    timing = _Timing(
        *(code.ctypes.data, b"".join(kind for kind in kinds if kind)),
        *(size, len(kinds), most_parts, ctypes.sizeof(TimedKind), PER_RECORD, PER_TILE, _chip(chip)),
        _ASK_SHAPE(_Asked(first_words, chip).shape),
        *(a.ctypes.data for a in (records, counters, unknown, loaded)),
        *(parts, 0),
        *((None, 0) if rows_decided is None else (rows_decided.ctypes.data, len(rows_decided))),
        None if kept is None else ctypes.pointer(kept),
    )
    if run(ctypes.byref(timing)):
        return None
    found: list[tuple[int, int, Timed]] = []
    for part in parts[: timing.num_parts]:
        same = parts[part.same_as]
        rows = slice(same.first, max(same.end, 1))
        decided, loads = (frozenset[int](np.flatnonzero(marks[rows]).tolist()) for marks in (unknown, loaded))
        timed = Timed(part.cycles, records[rows].reshape(-1), counters[part.same_as], decided, loads, bool(part.all_ended))
        found.append((part.first, part.end, timed))
    if notes is not None and kept is not None:
        notes.place(kept.num, [(part.first, part.same_as, part.cycles) for part in parts[: timing.num_parts]])
    return found


def _chip(chip: Chip) -> _Chip:
    cycles, port = [getattr(chip.cycles, name) for name in CYCLES], float(chip.cycles.dma_bytes_per_cycle)
    return _Chip(chip.tiles, chip.queue_depth, *cycles, chip.mesh[-1], chip.ddr_bytes_per_cycle, port)


class _Asked:
    """What the core asks: what instructions cost."""

    def __init__(self, first_words: Sequence[int], chip: Chip) -> None:
        self.first_words, self.chip = first_words, chip

    def shape(self, record: int, operands: int, shape: int) -> int:
        """0, and `struct timed_shape`; 1 if the core does not follow its kind, or it has no cost, as Python will say."""
        try:
            head = head_of(self.first_words[record] & HEAD_MASK)
            values = dict(zip(head.names, (ctypes.c_int64 * len(head.names)).from_address(operands), strict=True))
            work, ranges = cost(head.kind, Operands(values, head.fmt, head.fmt2), self.chip)
            if work.packet is not None:
                return 1
            flat = [number for r in ranges for number in r]
            flat += [0] * (3 * MOST_RANGES + 4 - len(flat))
            costs = (work.cycles, work.ddr_bytes, work.bytes, work.operations, work.least_cycles)
            ctypes.memmove(shape, SHAPE.pack(*costs, len(ranges), *flat), SHAPE.size)
        except Exception:  # nothing may be raised through the core
            return 1
        return 0
