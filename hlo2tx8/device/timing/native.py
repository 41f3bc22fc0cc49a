"""The timing model in C: what `model.py` and `machine.py` define, when nobody records what happens.

The core is given the words of a program and what their heads mean; it asks back for the costs it has no rules for.
"""

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hlo2tx8.device.chip import Beats, Chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import HEAD_MASK, HEADER_WORDS, RECORD_WORDS, EncodingError, head_of
from hlo2tx8.device.isa.extents import Elements, Span
from hlo2tx8.device.isa.fields import Engine, Field, Operands, Role
from hlo2tx8.device.isa.forms import DmaForm, KcGatherForm, KcScalar, KcScatterForm
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcExit,
    KcFloorDiv,
    KcIf,
    KcLess,
    KcLoop,
    KcMax,
    KcMin,
    KcMod,
    KcMul,
    KcWait,
)
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, TdmaMemset
from hlo2tx8.device.native.loader import load
from hlo2tx8.device.timing.bundle import PER_RECORD, PER_TILE
from hlo2tx8.device.timing.costs import computes, cost, least
from hlo2tx8.device.timing.needed import is_scalar
from hlo2tx8.device.timing.report import Timed
from hlo2tx8.device.timing.steps import FUNCTIONS, PLAIN, Op, shape_names

OPERAND_WORDS = RECORD_WORDS - HEADER_WORDS
MOST_RANGES = 8
SHAPE = struct.Struct(f"<5dq{3 * MOST_RANGES}q4q")
UNKNOWN, AFFINE = 0, 1
FOLDS: tuple[type[KcScalar], ...] = (KcFloorDiv, KcMod, KcMin, KcMax, KcMul, KcLess)
"""Those of timing.h, from 2 on."""
OPS: Mapping[type[Instruction], Op] = {KcLoop: Op.LOOP, KcIf: Op.IF, KcExit: Op.EXIT, KcWait: Op.WAIT, **PLAIN}
BY_PYTHON, DMA, TDMA, CT, KC, KC_EACH, DTE = range(7)
ELEMENTS, SPAN = 1, 2
COUNTS, DECIDES, IS_SOURCE, IS_NUMBER, IS_PLACE = (1 << i for i in range(5))
PLACES = (Role.SLOT, Role.DDR_READ, Role.DDR_WRITE)


_ASK_SHAPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_INDEX, _NUMBER, _REAL, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class _Levels(ctypes.Structure):
    _fields_: ClassVar = [("run", _INDEX), ("scale", _INDEX), ("num", _INDEX), ("strides", _INDEX * 3), ("counts", _INDEX * 3)]


class _Extent(ctypes.Structure):
    _fields_: ClassVar = [(n, _INDEX) for n in ("field", "is_write", "extent", "num_factors")]
    _fields_ += [("factors", _INDEX * 4), ("scale", _INDEX), ("divisor", _INDEX), ("levels", _Levels)]


class _Kind(ctypes.Structure):
    _fields_: ClassVar = [("head", ctypes.c_uint64)]
    _fields_ += [(n, _INDEX) for n in ("op", "fold", "engine", "cost", "format_bytes", "computes", "work")]
    _fields_ += [(n, _INDEX) for n in ("num_fields", "num_extents", "num_sides", "other_tile", "other_tiles")]
    _fields_ += [("least", _NUMBER * OPERAND_WORDS), ("flags", ctypes.c_uint8 * (OPERAND_WORDS + 4))]
    _fields_ += [("extents", _Extent * MOST_RANGES), ("sides", _Levels * 2)]


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


class _Timing(ctypes.Structure):
    _fields_: ClassVar = [("words", _POINTER), ("kinds", ctypes.c_char_p)]
    _fields_ += [(n, _NUMBER) for n in ("num_records", "num_kinds", "most_parts", "kind_bytes", "per_record", "per_tile")]
    _fields_ += [("chip", _Chip), ("shape", _ASK_SHAPE)]
    _fields_ += [(n, _POINTER) for n in ("records", "counters", "unknown", "loaded")]
    _fields_ += [("parts", ctypes.POINTER(_Part)), ("num_parts", _NUMBER), ("decisions", _POINTER), ("num_decisions", _NUMBER)]


def time_program(code: np.ndarray, chip: Chip, decisions: Decisions | None = None) -> list[tuple[int, int, Timed]] | None:
    """(first record, end, cost) of each part of a program, as far as parts happen; None where only Python can tell."""
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
    timing = _Timing(
        *(code.ctypes.data, b"".join(kind for kind in kinds if kind)),
        *(size, len(kinds), most_parts, ctypes.sizeof(_Kind), PER_RECORD, PER_TILE, _chip(chip)),
        _ASK_SHAPE(_Asked(first_words, chip).shape),
        *(a.ctypes.data for a in (records, counters, unknown, loaded)),
        *(parts, 0),
        *((None, 0) if rows_decided is None else (rows_decided.ctypes.data, len(rows_decided))),
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


# ---------------------------------------------------------------------------------------------------- what heads mean


@lru_cache(4096)
def kind_row(code: int, beats: Beats, is_ddr_at_peak: bool) -> bytes | None:
    """`struct timed_kind` of a head, with these cycles per beat; None if the core does not follow its kind.

    Where DDR is not at its peak rate Python is asked for the costs of transfers.
    """
    head = head_of(code)
    kind, names = head.kind, head.names
    spm = [f for f in kind.FIELDS if f.role in (Role.SPM_READ, Role.SPM_WRITE) and f.num_bytes is not None]
    if len(spm) > MOST_RANGES or kind in FUNCTIONS:
        return None
    counts, decides = shape_names(kind)
    sides = _sides(kind, head.fmt.bytes, names)
    work = _work(kind)
    work = work if is_ddr_at_peak or work != DMA else BY_PYTHON
    found = _Kind(
        *(code, _op(kind), _fold(kind), kind.ENGINE, beats.of(kind.COST), head.fmt.bytes, computes(kind), work),
        *(len(names), len(spm), len(sides)),
        *(names.index(name) if kind.ENGINE is Engine.DTE and name in names else -1 for name in ("tile", "tiles")),
    )
    for number, f in enumerate(kind.FIELDS):
        found.least[number] = least(f)
        found.flags[number] = (f.name in counts) * COUNTS | (f.name in decides) * DECIDES | (f.name != "rd") * IS_SOURCE
        found.flags[number] |= (f.role is Role.REGISTER) * IS_NUMBER | (f.role in PLACES) * IS_PLACE
    for number, f in enumerate(spm):
        found.extents[number] = _extent(f, head.fmt, head.fmt2, names)
    for number, side in enumerate(sides):
        found.sides[number] = side
    return bytes(found)


def _op(kind: type[Instruction]) -> Op:
    if kind in OPS:
        return OPS[kind]
    return Op.SCALAR if is_scalar(kind) else Op.WORK if kind.ENGINE is Engine.KC else Op.ISSUE


def _fold(kind: type[Instruction]) -> int:
    return AFFINE if kind is KcAffine else 2 + FOLDS.index(kind) if kind in FOLDS else UNKNOWN


def _work(kind: type[Instruction]) -> int:
    """The rule of timing.h that gives its cost."""
    if issubclass(kind, KcGatherForm | KcScatterForm):
        return KC_EACH
    if kind in (TdmaMemset, TdmaGatherScatter):
        return TDMA
    return {Engine.RDMA: DMA, Engine.WDMA: DMA, Engine.CT: CT, Engine.KC: KC, Engine.DTE: DTE}.get(kind.ENGINE, BY_PYTHON)


def _sides(kind: type[Instruction], size: int, names: Sequence[str]) -> list[_Levels]:
    """What a transfer moves, of both sides if they differ; what a kernel-core instruction goes over element by element."""
    three = [(f"s{i}", f"n{i}") for i in (1, 2, 3)]
    if issubclass(kind, DmaForm) and kind.ENGINE is not Engine.DTE:
        return [_levels("count", three, size, names)]
    if kind is TdmaMemset:
        return [_levels("n", three[:2], size, names)]
    if kind is TdmaGatherScatter:
        return [_levels("run_bytes", [(f"{side}{s}", f"{side}{n}") for s, n in three], 1, names) for side in "rw"]
    return [_levels("n", (), 1, names)] if issubclass(kind, KcGatherForm | KcScatterForm) else []


def _levels(run: str, levels: Sequence[tuple[str, str]], scale: int, names: Sequence[str]) -> _Levels:
    strides, counts = (tuple(names.index(level[side]) for level in levels) for side in (0, 1))
    return _Levels(names.index(run), scale, len(levels), strides, counts)


def _extent(f: Field, fmt: Format, fmt2: Format, names: Sequence[str]) -> _Extent:
    head = (names.index(f.name), f.role is Role.SPM_WRITE)
    size: object = f.num_bytes
    if isinstance(size, Elements):
        factors = tuple(map(names.index, size.counts))
        return _Extent(*head, ELEMENTS, len(factors), factors, size.scale(fmt, fmt2), size.divisor)
    if isinstance(size, Span):
        return _Extent(*head, SPAN, levels=_levels(size.run, size.levels, size.scale(fmt), names))
    return _Extent(*head, BY_PYTHON)
