"""SCHEDULED → addresses: every buffer gets a place in the scratchpad, no two live ones overlap.

A buffer lives from its first to its last access in program order; one that is allocated outside of a loop lives through the
whole loop; so do small ones of a group's steps, which would else wait until another engine is done with what has been in their
place, and, if there is room, small ones from in front of the loop, for whose place its first loads would wait. A small one that
only the kernel core accesses has a place of its own all the time, so that the core, whose accesses the queues do not order, need
not wait for engines that had the place before. Buffers are placed by decreasing size at the lowest gap among those alive at the
same time.

    %b = spm.alloc {size = 512, copies = 2}      %a = arith.constant 65536 : index
    %t = spm.turn %b, %s                    →    %t = xla.apply_indexing #map<(s) -> (s mod 2 * 512 + 65536)>(%s)
"""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.isa import BufferType, Engine, Instruction
from hlo2tx8.device.isa.lsu import Wdma
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import constant_index, of_two
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.errors import CapacityError
from hlo2tx8.indexing import Dim, IndexingMap, Variable
from hlo2tx8.ir import insert_before
from hlo2tx8.lower.buffer_table import BufferLife, note_buffers
from hlo2tx8.lower.dma.slices import buffers_of

MAX_TURNS = 2**40
SMALL_BYTES = 4096
"""Statistics of a step's rows take no more."""
PAUSES = (1024, 128, 64, 32, 16, 8)
"""Positions in program order for which a place rests after a buffer was accessed last, the most that fit."""
FROM_START = "from_start"
"""Attribute of a buffer that other tiles may write as soon as they have begun with the kernel: nothing has its place before."""
MOST_OF_CORE = 64
"""Bytes of a buffer of the kernel core that has a place of its own."""


@dataclass(frozen=True)
class SpmSpace:
    """The bytes of SPM that buffers may take; each starts at a multiple of `alignment`."""

    start: int
    limit: int
    alignment: int

    def aligned(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment


class LiveRange(NamedTuple):
    """Positions, in program order, of the first and the last access to a buffer."""

    start: int
    end: int

    def overlaps(self, other: "LiveRange") -> bool:
        return self.start <= other.end and other.start <= self.end


@dataclass
class SpmRange:
    """A stretch of the scratchpad and when it is taken: `starts` and `ends` of live ranges by time, of which no two overlap."""

    address: int
    size_bytes: int
    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])

    def take(self, live: LiveRange) -> None:
        at = bisect_right(self.starts, live.start)
        self.starts.insert(at, live.start)
        self.ends.insert(at, live.end)


@dataclass(frozen=True)
class AllocateSpmPass(ModulePass):
    """Gives addresses to `spm.alloc`; see the module docstring. CapacityError if they do not fit.

    chip: file of the description, "" for the built-in one. is_measuring: addresses may lie beyond the scratchpad's end, to see how
    much room the buffers need.
    """

    name = "allocate-spm"
    chip: str = ""
    is_measuring: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chip = load_chip(self.chip)
        space = SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes)
        for function in defined_functions(op):
            allocs = [o for o in nested_ops(function) if isinstance(o, spm.AllocOp)]
            addresses, ranges = _apart(function, allocs, space)
            if not self.is_measuring:
                _check(function.sym_name.data, allocs, addresses, space)
            strides: dict[SSAValue, int] = {a.result: space.aligned(a.size_bytes) for a in allocs}
            unused = LiveRange(0, 0)
            lives: dict[SSAValue, BufferLife] = {
                a.result: BufferLife(*ranges.get(a.result, unused), spm.KEPT in a.attributes) for a in allocs
            }
            note_buffers(function, addresses, strides, lives)
            for alloc in allocs:
                _assign(alloc, addresses[alloc.result], space.aligned(alloc.size_bytes))


def _apart(
    function: func.FuncOp, allocs: list[spm.AllocOp], space: SpmSpace
) -> tuple[dict[SSAValue, int], dict[SSAValue, LiveRange]]:
    """An address for every buffer, and when it is its. Where turns overlap, a place is taken again as late as there is room for:
    engines of the other turn would wait until its last reader is done."""
    is_overlapped = any(xla.BAND_TURNS in op.attributes for op in nested_ops(function))
    lives = live_ranges(function, keeps_small=True)
    addresses = place(allocs, lives, space)
    if end_of(allocs, addresses, space) > space.limit:
        lives = live_ranges(function)
        addresses = place(allocs, lives, space)
    apart = _stored_apart(function, lives) if xla.MESH in function.attributes else lives
    if apart != lives and end_of(allocs, there := place(allocs, apart, space), space) <= space.limit:
        lives, addresses = apart, there
    for pause in PAUSES if is_overlapped else ():
        found = rested(allocs, lives, space, pause)
        if found is not None:
            return found, {buffer: LiveRange(live.start, live.end + pause) for buffer, live in lives.items()}
    return addresses, lives


def _stored_apart(function: func.FuncOp, lives: Mapping[SSAValue, LiveRange]) -> dict[SSAValue, LiveRange]:
    """The same, but what loops store has a place of its own in them: what the next turn makes need not wait until it is stored."""
    found = dict(lives)
    for loop in [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]:
        inside = list(nested_ops(loop))
        allocs = [op.result for op in inside if isinstance(op, spm.AllocOp) and op.result in lives]
        stored = {spm.root_buffer(value) for op in inside if isinstance(op, Wdma) for value in buffers_of(op, is_write=False)}
        for buffer in (alloc for alloc in allocs if alloc in stored):
            found[buffer] = LiveRange(min(lives[own].start for own in allocs), max(lives[own].end for own in allocs))
    return found


def rested(
    allocs: list[spm.AllocOp], lives: Mapping[SSAValue, LiveRange], space: SpmSpace, pause: int
) -> dict[SSAValue, int] | None:
    """Addresses at which no place is taken again before so many operations have gone by; None if there is no room for that."""
    ranges = {buffer: LiveRange(live.start, live.end + pause) for buffer, live in lives.items()}
    addresses = place(allocs, ranges, space)
    return addresses if end_of(allocs, addresses, space) <= space.limit else None


def end_of(allocs: list[spm.AllocOp], addresses: dict[SSAValue, int], space: SpmSpace) -> int:
    """Behind the last byte of all buffers."""
    return max((addresses[a.result] + space.aligned(a.size_bytes) * a.num_copies for a in allocs), default=0)


def _check(kernel: str, allocs: list[spm.AllocOp], addresses: dict[SSAValue, int], space: SpmSpace) -> None:
    """CapacityError if a buffer ends beyond the scratchpad."""
    end = end_of(allocs, addresses, space)
    if end > space.limit:
        taken, room = end - space.start, space.limit - space.start
        message = f"the buffers of kernel {kernel} take {taken:,} bytes, the scratchpad has {room:,} for them"
        raise CapacityError("E3101", message, hint="split its fusion")


def live_ranges(function: func.FuncOp, *, keeps_small: bool = False) -> dict[SSAValue, LiveRange]:
    """Live range of each `spm.alloc` of a function; `keeps_small`: small ones from in front of a loop live until it ends."""
    ranges: dict[SSAValue, LiveRange] = {}
    end = _number(function.body.block, 0, ranges, frozenset(), keeps_small=keeps_small)
    ops = nested_ops(function)
    of_engines = [op for op in ops if isinstance(op, Instruction) and op.ENGINE is not Engine.KC]
    used = (v for op in of_engines for v in op._operands)  # pyright: ignore[reportPrivateUsage] - of each op, without a view
    moved = {spm.root_buffer(value) for value in used if type(value.type) is BufferType}
    for alloc in [o for o in ops if isinstance(o, spm.AllocOp)]:
        if alloc.result not in ranges:
            continue
        if alloc.result not in moved and alloc.size_bytes <= MOST_OF_CORE:
            ranges[alloc.result] = LiveRange(0, end)
        elif FROM_START in alloc.attributes:
            ranges[alloc.result] = LiveRange(0, ranges[alloc.result].end)
    return ranges


def _number(
    block: Block, position: int, ranges: dict[SSAValue, LiveRange], around: frozenset[SSAValue], *, keeps_small: bool
) -> int:
    """Numbers the ops of a block from `position` on; `around` are the buffers allocated in the blocks around it."""
    ops = ops_of(block)
    allocated = around | {op.result for op in ops if isinstance(op, spm.AllocOp)}
    loop_before = position
    for op in ops:
        position += 1
        if op.regions:
            start, known = position, set(ranges) if isinstance(op, scf.ForOp) else set[SSAValue]()
            for region in op.regions:
                for inner in region.blocks:
                    position = _number(inner, position, ranges, allocated, keeps_small=keeps_small)
            if isinstance(op, scf.ForOp):
                is_step = xla.ROW_STEPS in op.attributes
                for buffer in [
                    b
                    for b, r in ranges.items()
                    if (r.end > start and (b in allocated or b in known or (is_step and _is_small(b))))
                    or (keeps_small and r.start > loop_before and b in allocated and _is_small(b))
                ]:
                    old = ranges[buffer]
                    ranges[buffer] = LiveRange(min(old.start, start), position)
                loop_before = position
            continue
        if isinstance(op, (spm.AllocOp, spm.TurnOp, spm.OffsetOp)):
            continue
        for operand in op._operands:  # pyright: ignore[reportPrivateUsage] - of each op, without a view
            if type(operand.type) is BufferType:
                buffer = spm.root_buffer(operand)
                old = ranges.get(buffer)
                ranges[buffer] = LiveRange(position if old is None else old.start, position)
    return position


def _is_small(buffer: SSAValue) -> bool:
    return isinstance(buffer.owner, spm.AllocOp) and buffer.owner.size_bytes * buffer.owner.num_copies <= SMALL_BYTES


def place(allocs: list[spm.AllocOp], ranges: dict[SSAValue, LiveRange], space: SpmSpace) -> dict[SSAValue, int]:
    """An address for every buffer."""
    unused = LiveRange(0, 0)
    lives = [BufferLife(*ranges.get(a.result, unused), spm.KEPT in a.attributes) for a in allocs]
    sizes = [(a.size_bytes, a.num_copies) for a in allocs]
    return dict(zip([a.result for a in allocs], place_all(sizes, lives, space), strict=True))


def place_all(
    sizes: Sequence[tuple[int, int]], lives: Sequence[BufferLife], space: SpmSpace, taken: Sequence[SpmRange] = ()
) -> list[int]:
    """Addresses of buffers of (bytes, copies) beside what is `taken`: first what stays, which lives longest, then the largest,
    each at the lowest gap. Most have one of few sizes, so there are few places."""
    addresses = [0] * len(sizes)
    places = sorted(taken, key=lambda p: p.address)
    found: dict[tuple[int, int], SpmRange] = {}
    for number in sorted(range(len(sizes)), key=lambda n: (not lives[n].is_kept, -sizes[n][0] * sizes[n][1])):
        live = LiveRange(lives[number].start, lives[number].end)
        size = space.aligned(sizes[number][0]) * sizes[number][1]
        address, (start, end) = space.start, live
        for other in places:
            if other.address >= address + size:
                break
            if other.address + other.size_bytes > address:
                before = bisect_right(other.starts, end)
                if before and other.ends[before - 1] >= start:  # it is taken then
                    address = other.address + other.size_bytes
        addresses[number] = address
        if size and (address, size) not in found:
            found[address, size] = SpmRange(address, size)
            insort(places, found[address, size], key=lambda p: p.address)
        if size:
            found[address, size].take(live)
    return addresses


def _assign(alloc: spm.AllocOp, address: int, stride: int) -> None:
    """Replaces the buffer, its turns and offsets by index values."""
    for use in list(alloc.result.uses):
        if isinstance(use.operation, spm.TurnOp):
            turn = use.operation
            variable = Variable(0, MAX_TURNS, "turn")
            m = IndexingMap((variable,), (), (), (Dim(0) % alloc.num_copies * stride + address,), ())
            new = xla.ApplyIndexingOp(xla.IndexingMapAttr(m), [turn.turn])
            _replace(turn, new, new.results[0])
    if alloc.result.uses:
        constant = constant_index(address)
        _replace(alloc, constant, constant.result)
    else:
        alloc.detach()
        alloc.erase()


def _replace(old: spm.AllocOp | spm.TurnOp, new: Operation, address: SSAValue) -> None:
    """Puts `new`, whose result is the address, in the place of `old`."""
    _put_before(new, old)
    _set_address(old.result, address)
    old.detach()
    old.erase()


def _put_before(new: Operation, old: Operation) -> None:
    insert_before(new, old)


def _set_address(buffer: SSAValue, address: SSAValue) -> None:
    """Replaces a buffer by its address, offsets from it by additions, offsets from those too."""
    for use in list(buffer.uses):
        offset = use.operation
        if isinstance(offset, spm.OffsetOp):
            add = of_two(arith.AddiOp, address, offset.bytes)
            _put_before(add, offset)
            _set_address(offset.result, add.result)
            offset.detach()
            offset.erase()
    buffer.replace_all_uses_with(address)
