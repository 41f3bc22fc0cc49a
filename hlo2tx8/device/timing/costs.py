"""What one instruction costs: cycles of its engine, bytes of the DDR, operations; numbers from the chip description."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from hlo2tx8.device.chip import Chip, Cycles
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.dte import destinations
from hlo2tx8.device.isa.fields import Engine, Field, Operands, Role
from hlo2tx8.device.isa.forms import KcGatherForm, KcScatterForm
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, TdmaMemset
from hlo2tx8.device.isa.tdma import TdmaTensor
from hlo2tx8.device.timing.ne_cycles import ne_cycles, product_of
from hlo2tx8.device.timing.noc import Packet

NO_BOUND = 1 << 63


class Range(NamedTuple):
    """SPM bytes [start, end) that an instruction reads or writes."""

    start: int
    end: int
    is_write: bool

    def conflicts_with(self, other: "Range") -> bool:
        """Must one of them wait for the other?"""
        return self.start < other.end and other.start < self.end and (self.is_write or other.is_write)


@dataclass(frozen=True)
class Work:
    """What an instruction asks of its engine.

    `cycles` from its start to its end; of a transfer, until its `ddr_bytes`, in which short runs count as longer ones and slower
    directions as more, or its `packet` begin to flow; `bytes` are those it moves from or to DDR. `operations` are elements
    computed, a multiply-add of the matrix engine is two; at its peak rate the engine takes `least_cycles` for them.
    """

    cycles: float
    ddr_bytes: float = 0
    bytes: int = 0
    operations: int = 0
    least_cycles: float = 0.0
    packet: Packet | None = None


def spm_ranges(kind: type[Instruction], o: Operands) -> tuple[Range, ...]:
    """The SPM bytes an instruction reads and writes."""
    values = o.values
    return tuple([Range(at := values[name], at + num_bytes(o), is_write) for name, num_bytes, is_write in _extents(kind)])


def cost(kind: type[Instruction], o: Operands, chip: Chip) -> tuple[Work, tuple[Range, ...]]:
    """What an instruction with these operands asks of its engine, and its ranges.

    Registers may hold what no operand may be: such a record faults when it runs, here it costs what the nearest operands do.
    """
    if any(not low <= o.values[name] <= high for name, low, high in _bounds(kind)):
        o = Operands({**o.values, **{name: min(max(o[name], low), high) for name, low, high in _bounds(kind)}}, o.fmt, o.fmt2)
    ranges = spm_ranges(kind, o)
    return work_of(kind, o, chip, ranges), ranges


def launch_cycles(code: np.ndarray, chip: Chip) -> float:
    """Cycles until the kernel cores begin: they are launched while the words of the program are fetched."""
    return max(float(chip.cycles.launch), code.nbytes / chip.cycles.program_bytes_per_cycle)


def least(f: Field) -> int:
    """What an operand counts as that is not known."""
    return f.least or int(f.role is Role.COUNT)


@cache
def _bounds(kind: type[Instruction]) -> tuple[tuple[str, int, int], ...]:
    """Of the operands that have bounds: name, least, most."""
    found: list[tuple[str, int, int]] = []
    for f in kind.FIELDS:
        is_natural = f.role in (Role.COUNT, Role.STRIDE)
        if is_natural or f.least is not None or f.most is not None:
            low = f.least if f.least is not None else 0 if is_natural else -NO_BOUND
            found.append((f.name, low, NO_BOUND if f.most is None else f.most))
    return tuple(found)


@cache
def _extents(kind: type[Instruction]) -> tuple[tuple[str, Callable[[Operands], int], bool], ...]:
    """Of the operands in SPM: name, bytes, is it written?"""
    return tuple(
        (f.name, f.num_bytes, f.role is Role.SPM_WRITE)
        for f in kind.FIELDS
        if f.role in (Role.SPM_READ, Role.SPM_WRITE) and f.num_bytes is not None
    )


def work_of(kind: type[Instruction], o: Operands, chip: Chip, ranges: Sequence[Range]) -> Work:
    """The cost of an instruction with these operands, which reads and writes these ranges."""
    c, size, beat = chip.cycles, o.fmt.bytes, chip.beats.of(kind.COST)
    match kind.ENGINE:
        case Engine.RDMA | Engine.WDMA:
            levels = [(o[f"s{i}"] * size, o[f"n{i}"]) for i in (1, 2, 3)]
            run = o["count"] * size
            charge = chip.ddr_read_charge if kind.ENGINE is Engine.RDMA else chip.ddr_write_charge
            return Work(c.dma_startup, charge * _moved_bytes(run, levels, c.dma_min_run_bytes), _moved_bytes(run, levels, 1))
        case Engine.TDMA:
            return Work(c.tdma_startup + _tdma_bytes(kind, o, c.tdma_min_run_bytes) / c.tdma_bytes_per_cycle)
        case Engine.CT:
            widest = max((r.end - r.start for r in ranges), default=0)
            operations, at_peak = _elements(kind, o, widest), widest / c.ct_bytes_per_cycle * beat
            cycles = c.ct_startup + -(-widest // c.ct_bytes_per_cycle) * beat
            return Work(cycles, operations=operations, least_cycles=at_peak if operations else 0.0)
        case Engine.KC:
            if issubclass(kind, KcGatherForm | KcScatterForm):
                return Work(max(o["n"], 1))
            widest = max((r.end - r.start for r in ranges), default=Format.INT64.bytes)
            cycles = max(-(-widest // c.kc_vector_bytes_per_cycle), 1) * beat
            operations = _elements(kind, o, widest)
            return Work(cycles, operations=operations, least_cycles=cycles if operations else 0.0)
        case Engine.DTE:
            return Work(c.dte_startup, packet=_packet(o, ranges))
        case Engine.NE:
            products = product_of(kind, o).multiply_adds
            at_peak = products / _products_per_cycle(o, c)
            return Work(ne_cycles(kind, o, c), operations=2 * products, least_cycles=at_peak)


def _packet(o: Operands, ranges: Sequence[Range]) -> Packet:
    """What an instruction of DTE moves: to the tiles it names, or from one of them if it writes this tile's scratchpad."""
    is_pull = any(r.is_write for r in ranges)
    return Packet(destinations(o), is_pull, max((r.end - r.start for r in ranges), default=0))


def _products_per_cycle(o: Operands, c: Cycles) -> int:
    speedup = c.ne_int8_speedup if o.fmt2 is Format.INT8 else 1
    return c.ne_arrays * c.ne_tile_rows * c.ne_tile_columns * c.ne_tile_depth * speedup


def _elements(kind: type[Instruction], o: Operands, widest: int) -> int:
    """Elements that are computed, of the widest operand's bytes; moves compute none."""
    return widest // o.fmt.bytes if computes(kind) else 0


def computes(kind: type[Instruction]) -> bool:
    """Does it do more than move elements?"""
    return hasattr(kind, "COMPUTE") or bool(kind.FUNCTION)


def _tdma_bytes(kind: type[Instruction], o: Operands, min_run: int) -> int:
    if kind is TdmaMemset:
        return _moved_bytes(o["n"] * o.fmt.bytes, [(o[f"s{i}"] * o.fmt.bytes, o[f"n{i}"]) for i in (1, 2)], min_run)
    if kind is TdmaGatherScatter:
        sides = ([(o[f"{side}s{i}"], o[f"{side}n{i}"]) for i in (1, 2, 3)] for side in "rw")
        return max(_moved_bytes(o["run_bytes"], levels, min_run) for levels in sides)
    if issubclass(kind, TdmaTensor):
        return kind.moved_bytes(o, min_run)
    raise NotImplementedError(f"cycles of {kind.MNEMONIC}")


def _moved_bytes(run: int, levels: Sequence[tuple[int, int]], min_run: int) -> int:
    """Bytes of a strided transfer of runs; levels are (distance, turns), innermost first.

    Runs that touch are one, and every one counts as at least `min_run`.
    """
    total = run * prod(turns for _, turns in levels)
    for distance, turns in levels:
        if turns > 1 and distance != run:
            break
        run *= turns
    return total // run * max(run, min_run) if run else 0
