"""What a kernel loads before all else, and where the kernel before it has no more to do with loads: see load_ahead.

The first kernel                        The second
    KC_loop r2 = 0 to 12                    KC_floordiv r2 = r1 / 4
      KC_if r3; RDMA_load; KC_endif         TDMA_memset 0x10000
    > CT_add; WDMA_store                    KC_if r3; RDMA_load 0x10000 slot 7; KC_endif    < may be done before
    KC_end                                  KC_wait RDMA; KC_barrier; DTE_multicast

Loads for the second kernel go where > is, in the loop's last turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.encoding import NUM_REGISTERS, Record, Register, number_of, partners
from hlo2tx8.device.isa.fields import SPM_ROLES
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import KcAffine, KcEndIf, KcIf, KcLoop, KcWait
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset
from hlo2tx8.link.barriers import LinkedCode
from hlo2tx8.lower.encode.registers import FIRST_FREE_REGISTER, FIRST_VIEW_REGISTER, VIEW_REGISTERS

FREE_REGISTERS = tuple(n for n in range(FIRST_FREE_REGISTER, NUM_REGISTERS) if not 0 <= n - FIRST_VIEW_REGISTER < VIEW_REGISTERS)
"""Those that say nothing about later kernels."""


@dataclass(frozen=True)
class Opening:
    """What a kernel may load ahead: the records up to `end` are straight on; by buffer those that load or fill it first."""

    end: int
    loads: Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Seam:
    """Where loads for the next kernel go: before record `at`, in the last turns of `loops` (records that begin them). From there on
    the kernel uses the bytes `taken` and not the registers `free`; `unused` ones it never does."""

    at: int
    loops: tuple[int, ...]
    taken: tuple[tuple[int, int], ...]
    free: Sequence[int]
    unused: Sequence[int]


def opening_of(code: LinkedCode, is_fixed: Sequence[bool]) -> Opening:
    """What a kernel loads first, from slots of which `is_fixed` says that nothing writes them."""
    touched: dict[int, list[int]] = {}
    used: dict[int, list[int]] = {}
    for use in code.uses:
        used.setdefault(use.record, []).append(use.buffer)
    end, depth = 0, 0
    for i, record in enumerate(code.records):
        if not _is_plain(record) or len(used.get(i, ())) != _num_places(record.kind):
            break
        depth += (record.kind is KcIf) - (record.kind is KcEndIf)
        for buffer in used.get(i, ()):
            touched.setdefault(buffer, []).append(i)
        if depth == 0:
            end = i + 1
    loads: dict[int, list[int]] = {}
    for buffer, records in touched.items():
        first: list[int] = []
        for i in records:
            record = code.records[i]
            slot = record.fields.get("slot")
            if i >= end or not (record.kind is TdmaMemset or (record.kind is Rdma and isinstance(slot, int) and is_fixed[slot])):
                break
            first.append(i)
        while first and code.records[first[-1]].kind is not Rdma:
            first.pop()
        if first:
            loads[buffer] = first
    return Opening(end, loads)


def _is_plain(record: Record) -> bool:
    """May it stand between a kernel's beginning and loads that are done before that? Not a loop: what stands behind a load in one
    turn is before that of the next."""
    if record.kind.ENGINE is Engine.KC:
        return record.kind in (KcIf, KcEndIf, KcAffine, KcWait) or issubclass(record.kind, KcScalar)
    return record.kind.ENGINE is not Engine.DTE


def seam_of(code: LinkedCode) -> Seam | None:
    """Where a kernel ends as far as loads are concerned; None if it is not known what it uses then."""
    records, ends = code.records, partners(code.records)
    used = {use.record for use in code.uses}
    if any(i not in used for i, record in enumerate(records) if _num_places(record.kind)):
        return None
    last = max((i for i, record in enumerate(records) if _is_of_loads(record)), default=-1)
    at, loops = last + 1, list[int]()
    for begin in [i for i, end in enumerate(ends) if i <= last < end and records[i].kind in (KcLoop, KcIf)]:
        if not turns_of(records[begin]):
            at = ends[begin] + 1
            break
        loops.append(begin)
    unused = unnamed(records, FREE_REGISTERS)
    if len(loops) > len(unused):
        at, loops = ends[loops[0]] + 1, []
    own = unused[: len(loops)]
    counters = {number for i in loops for number in (number_of(records[i].fields["rd"]), *own)}
    free = unnamed(records[at:], [n for n in FREE_REGISTERS if n not in counters])
    late = [use.buffer for use in code.uses if use.record >= at or records[use.record].kind.ENGINE is Engine.DTE]
    taken = sorted((code.buffers[n].address, code.buffers[n].end) for n in dict.fromkeys(late))
    return Seam(at, tuple(loops), _merged(taken), free, own)


def _is_of_loads(record: Record) -> bool:
    """Is it a load, or waits for loads?"""
    engines = record.fields["engines"] if record.kind is KcWait else 0
    return record.kind is Rdma or isinstance(engines, Register) or bool(engines >> Engine.RDMA & 1)


def turns_of(record: Record) -> range:
    """The turns of a loop that are known; none of a branch."""
    bounds = [record.fields.get(name) for name in ("lo", "hi", "step")]
    lo, hi, step = (bound if type(bound) is int else 0 for bound in bounds)
    return range(lo, hi, step) if all(type(bound) is int for bound in bounds) and step > 0 else range(0)


def _merged(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same bytes as ranges that do not touch, of ranges in order."""
    found: list[tuple[int, int]] = []
    for start, end in ranges:
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return tuple(found)


@cache
def _num_places(kind: type[Instruction]) -> int:
    """How many operands are addresses in the scratchpad."""
    return sum(f.role in SPM_ROLES for f in kind.FIELDS)


def registers_of(record: Record) -> list[Register]:
    """The registers that a record reads or writes."""
    found = [value for value in record.fields.values() if type(value) is Register]
    number = record.fields.get("rd")
    return [*found, Register(number)] if isinstance(number, int) else found


def unnamed(records: Sequence[Record], numbers: Sequence[int]) -> list[int]:
    """Those of the registers that no record names."""
    named: set[int] = set()
    for record in records:
        named.update([value.number for value in record.fields.values() if type(value) is Register])
        if isinstance(number := record.fields.get("rd"), int):
            named.add(number)
    return [number for number in numbers if number not in named]
