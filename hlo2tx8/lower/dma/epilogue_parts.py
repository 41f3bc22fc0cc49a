"""What a step does with the result of its last product, one part after the other: channel blocks, or rows of one.

    load(%b); expand(%e, %b)                load(%b)                                         once
    add(%t, %y, %e) of 262144          ⟶    for each %part:
    mul(%z, %t, %t) of 262144                 expand(%e, %b + %part * 128)                   ahead, %e has two copies
    store(%z)                                 add(%t, %y + %part * 65536, %e) of 32768       %t is alive in here only
                                              mul(%z, %t, %t) of 32768
                                              store(%z, %part)                               %z has two copies

Channel blocks lie one after the other in every buffer that has an element per element of the result, and so do rows in a block.
The last rows of a block may be fewer than other parts have, or none where the step decides how many rows there are; it may also
decide how many blocks there are. What DMA brings is brought while the part before is computed. A buffer of one value, from before
the loop, is as long as a part.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_logic import CtBitsBinary, CtBitsUnit
from hlo2tx8.device.isa.ct_move import CtConvert, CtMaskMove
from hlo2tx8.device.isa.forms import (
    BITS,
    CtInstruction,
    CtV,
    CtVS,
    CtVuV,
    CtVuVLoop,
    CtVV,
    KcConvertForm,
    KcInstruction,
    KcV,
    KcVV,
)
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.dialects import spm, vec
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.allocate_spm import LiveRange, SpmSpace, place
from hlo2tx8.lower.dma.mesh import quotient, remainder
from hlo2tx8.lower.dma.slices import buffers_of, factors_of
from hlo2tx8.lower.select.step_builder import StepBuilder

ELEMENTWISE = (CtV, CtVV, CtVS, CtConvert, CtMaskMove, KcV, KcVV, KcConvertForm)
"""Of each element of their buffers, all of them."""
PACKED = (CtBitsUnit, CtBitsBinary)
"""On the bits of all elements."""
COPIES = 2
"""Of a buffer that one part fills while another one's is read."""


@dataclass(frozen=True)
class Epilogue:
    """`ops` of a step in order, with the arithmetic they depend on: `once` what all parts share, `ahead` what DMA brings of a part,
    `compute` the rest. `result` is what the last product leaves: `blocks` channel blocks of `points` rows, at most `most_points`,
    of `width` channels each. `whole` are the other buffers with an element per element of it, `moved` those that DMA accesses;
    `fills` fill one before the loop. `brought` are there as a whole, too, loaded before, a copy for each step. `present`: how much
    of the blocks a step has, if it decides that: as many as its most is of them all."""

    ops: tuple[Operation, ...]
    result: spm.AllocOp
    blocks: int
    points: Size
    most_points: int
    width: int
    element_bytes: int
    whole: tuple[spm.AllocOp, ...] = ()
    moved: tuple[spm.AllocOp, ...] = ()
    fills: tuple[TdmaMemset, ...] = ()
    once: tuple[Instruction, ...] = ()
    ahead: tuple[Instruction, ...] = ()
    compute: tuple[Instruction, ...] = ()
    brought: tuple[spm.AllocOp, ...] = ()
    present: vec.ExtentOp | None = None

    def is_of_blocks(self, value: Size, times: int, *sizes: Size) -> bool:
        """Is a size the number of the step's blocks, times so much and times other sizes?"""
        if self.present is None:
            return is_product(value, self.blocks * times, *sizes)
        return is_product(value, self.blocks // self.present.upper.value.data * times, self.present.result, *sizes)

    @property
    def counter(self) -> SSAValue:
        """The number of the step."""
        there = (op.parent for op in self.ops if isinstance(op, Instruction))  # buffers may be in front of the loop
        block = next(block for block in there if block is not None)  # and what is loaded early is in none for a while
        return block.args[0]

    @property
    def filled(self) -> tuple[spm.AllocOp, ...]:
        """Buffers of one value."""
        owners = (buffer.owner for fill in self.fills for buffer in buffers_of(fill, is_write=True))
        return tuple(owner for owner in owners if isinstance(owner, spm.AllocOp))

    @property
    def there(self) -> tuple[spm.AllocOp, ...]:
        """Buffers with an element per element of the result that no part has copies of."""
        return (self.result, *self.brought)

    def element_bytes_of(self, alloc: spm.AllocOp) -> int:
        """The size of an element of such a buffer."""
        return self.element_bytes if alloc is self.result else alloc.size_bytes // (self.blocks * self.most_points * self.width)

    def width_of(self, op: Instruction) -> int:
        """The bytes of the elements whose bits an instruction takes."""
        (written,) = buffers_of(op, is_write=True)
        assert isinstance(written.owner, spm.AllocOp)
        return self.element_bytes_of(written.owner)

    @property
    def local(self) -> tuple[spm.AllocOp, ...]:
        """Buffers that only a part's own arithmetic accesses."""
        return tuple(alloc for alloc in self.whole if alloc not in self.moved and alloc not in self.filled)

    @property
    def has_arithmetic(self) -> bool:
        """Is there more than transfers?"""
        return any(isinstance(op, CtInstruction | KcInstruction) or is_of_elements(op) for op in self.compute)

    def cycles(self, num_parts: int, chip: Chip) -> float:
        """What the vector engine, and DMA with elements one by one, takes for a whole result in so many parts."""
        c, count = chip.cycles, self.blocks * self.most_points * self.width
        found = 0.0
        for op in self.compute:
            if isinstance(op, CtInstruction):
                size = max(op.fmt.bytes, op.fmt2.bytes if op.FORMATS2 else 0)
                found += num_parts * c.ct_startup + count * size * chip.beats.of(op.COST) / c.ct_bytes_per_cycle
            elif is_of_elements(op):
                found += num_parts * c.tdma_startup + count * c.tdma_min_run_bytes / c.tdma_bytes_per_cycle
        return found

    def can_cut(self, num_parts: int) -> bool:
        """Can it go over the result in so many parts: some whole blocks each, or some rows of one block?"""
        if num_parts <= self.blocks:
            return self.blocks % num_parts == 0
        chunks = num_parts // self.blocks
        if num_parts % self.blocks or (chunks - 1) * -(-self.most_points // chunks) >= self.most_points:
            return False
        ops = (*self.ahead, *self.compute)
        moves = [(op, "rw") for op in ops if isinstance(op, TdmaGatherScatter) and turning(op, "w")]
        transfers = [(op, ("",)) for op in ops if isinstance(op, Rdma | Wdma) and not self.is_one_run(op)]
        return all(self.rows_level(op, side) for op, sides in (*moves, *transfers) for side in sides)

    def is_even(self, num_parts: int) -> bool:
        """Are so many parts all as large?"""
        return isinstance(self.points, int) and self.points % max(1, num_parts // self.blocks) == 0

    def share(self, size: int, num_parts: int) -> int:
        """What the largest part has of so much for the whole result."""
        rows = -(-self.most_points // max(1, num_parts // self.blocks))
        return size // (self.blocks * self.most_points) * max(1, self.blocks // num_parts) * rows

    def saved_bytes(self, num_parts: int, space: SpmSpace) -> int:
        """What buffers of parts take less than those of a whole result."""
        ranges: dict[SSAValue, LiveRange] = {}
        parts: dict[SSAValue, spm.AllocOp] = {a.result: spm.AllocOp(self.share(a.size_bytes, num_parts)) for a in self.local}
        for position, op in enumerate(self.compute):
            for buffer in (*buffers_of(op, is_write=True), *buffers_of(op, is_write=False)):
                if buffer in parts:
                    part = parts[buffer].result
                    ranges[part] = LiveRange(ranges.get(part, LiveRange(position, position)).start, position)
        own = list(parts.values())
        places = place(own, ranges, space)
        taken = max((places[a.result] - space.start + space.aligned(a.size_bytes) for a in own), default=0)
        taken += sum(COPIES * space.aligned(self.share(alloc.size_bytes, num_parts)) for alloc in self.moved)
        taken += sum(space.aligned(self.share(alloc.size_bytes, num_parts)) for alloc in self.filled)
        return sum(space.aligned(alloc.size_bytes) for alloc in self.whole) - taken

    def kept_bytes(self, num_parts: int, space: SpmSpace) -> int:
        """What the result, unless it stays where it is, and the buffers of parts take until all parts are done."""
        own = () if spm.KEPT in self.result.attributes else (self.result,)
        whole = sum(space.aligned(alloc.size_bytes) for alloc in (*own, *self.whole))
        return whole - self.saved_bytes(num_parts, space)

    def shorten(self, num_parts: int, before: StepBuilder) -> dict[SSAValue, SSAValue]:
        """The buffers that parts use in turns instead of whole ones; those of one value become as long as a part."""
        for fill, alloc in zip(self.fills, self.filled, strict=True):
            values: dict[str, Any] = dict(fill.values())
            values["n"] = self.share(values["n"], num_parts)
            alloc.size = IntegerAttr(self.share(alloc.size_bytes, num_parts), alloc.size.type)
            block = fill.parent_block()
            assert block is not None
            block.insert_op_before(TdmaMemset.make(fmt=fill.fmt, origin=fill.origin, **values), fill)
            fill.detach()
            fill.erase()
        return {a.result: before.insert(spm.AllocOp(self.share(a.size_bytes, num_parts), COPIES)).result for a in self.moved}

    def emit(
        self,
        wanted: Sequence[Instruction],
        step: StepBuilder,
        number: Size,
        num_parts: int,
        mapping: Mapping[SSAValue, SSAValue],
        parts: Mapping[SSAValue, SSAValue],
    ) -> None:
        """The wanted instructions for a part, with values replaced by `mapping`; `parts` are the buffers of parts in turns."""
        known = dict(mapping)
        buffers = {buffer: step.insert(spm.TurnOp(part, step.value(number))).result for buffer, part in parts.items()}
        own: EpiloguePart | None = None
        with ExitStack() as branches:
            for op in self.ops:
                if isinstance(op, spm.AllocOp) or (isinstance(op, Instruction) and op not in wanted):
                    continue
                if not isinstance(op, Instruction) or op in self.once:
                    step.insert(cloned(op, known))
                    continue
                if own is None:
                    own = self._part(step, number, num_parts, known)
                    if num_parts > self.blocks and not isinstance(self.points, int):
                        branches.enter_context(step.if_positive([own.rows]))
                    if wanted is self.compute:
                        sizes = {alloc.result: self.share(alloc.size_bytes, num_parts) for alloc in self.local}
                        buffers |= {buffer: step.insert(spm.AllocOp(size)).result for buffer, size in sizes.items()}
                values: dict[str, Any] = {
                    name: known.get(value, value) if isinstance(value, SSAValue) else value for name, value in op.values().items()
                }
                for name, value in op.values().items():
                    if isinstance(value, SSAValue) and value in buffers:
                        values[name] = buffers[value]
                    elif isinstance(value, SSAValue) and isinstance(alloc := value.owner, spm.AllocOp) and alloc in self.there:
                        values[name] = step.at(self._copy(step, alloc, known), step(own.begin, self.element_bytes_of(alloc)))
                self._cut(step, op, values, own)
                step.insert(type(op).make(fmt=op.fmt, fmt2=op.fmt2, rnd=op.rounding, origin=op.origin, **values))

    def _copy(self, step: StepBuilder, alloc: spm.AllocOp, known: Mapping[SSAValue, SSAValue]) -> SSAValue:
        """The step's copy of a buffer, or its part of one."""
        turn = known.get(self.counter, self.counter)
        if alloc.num_steps > 1:
            return step.at(alloc.result, step(turn, alloc.step_bytes))
        return alloc.result if alloc.num_copies == 1 else step.insert(spm.TurnOp(alloc.result, turn)).result

    def _part(self, step: StepBuilder, number: Size, num_parts: int, known: Mapping[SSAValue, SSAValue]) -> "EpiloguePart":
        """Which blocks and rows a part has."""
        blocks, chunks = max(1, self.blocks // num_parts), max(1, num_parts // self.blocks)
        points = known.get(self.points, self.points) if isinstance(self.points, SSAValue) else self.points
        block, chunk = _divmod(step, number, chunks)
        first, rows = 0, points
        if chunks > 1:
            most = -(-self.most_points // chunks)
            first = step(chunk, most)
            rows = most if self.is_even(num_parts) else step.minimum(most, step.subtract(points, first))
        block = step(block, blocks)
        begin = step(step.add(step(block, points), first), self.width)
        return EpiloguePart(blocks, block, first, rows, begin, step(rows, blocks * self.width), step(rows, self.width), chunks > 1)

    def is_whole(self, op: Instruction) -> bool:
        """Does an instruction access a buffer with an element per element of the result?"""
        return any(buffer.owner in (*self.there, *self.whole) for write in (True, False) for buffer in buffers_of(op, write))

    def is_one_run(self, op: Instruction) -> bool:
        """Does a transfer move the whole result from, or to, one place in DDR?"""
        points = self.points
        return isinstance(points, int) and not turning(op, "") and op.field("count") == self.blocks * points * self.width

    def _cut(self, step: StepBuilder, op: Instruction, values: dict[str, Any], part: "EpiloguePart") -> None:
        """Changes an instruction's fields to what it does for a part."""
        if isinstance(op, (*ELEMENTWISE, CtVuV, TdmaMemset)):
            values["n"] = part.elements
        elif is_of_elements(op):
            values |= {"rn1": part.elements, "wn1": part.elements}
        elif isinstance(op, PACKED):
            values["n"] = step(part.elements, BITS * self.width_of(op))
        elif isinstance(op, TdmaGatherScatter) and not turning(op, "w"):
            values["run_bytes"] = step(part.elements, op.fmt.bytes)
        elif isinstance(op, CtVuVLoop):
            values["unit"] = step.at(values["unit"], step(part.block, values["u"] * op.fmt.bytes))
            values |= {"n": part.of_block, "full_n": part.elements, "full_u": values["u"] * part.blocks}
        elif isinstance(op, Rdma | Wdma) and self.is_one_run(op):
            values["count"] = part.elements
            values["offset"] = step.add(values["offset"], step(part.begin, op.fmt.bytes))
        elif isinstance(op, Rdma | Wdma):
            rows, outer = self.rows_level(op), self.blocks_level(op)
            if outer:
                values["offset"] = step.add(values["offset"], step(step(part.block, values[f"s{outer}"]), op.fmt.bytes))
                values[f"n{outer}"] = part.blocks
            if part.is_of_rows:
                values["offset"] = step.add(values["offset"], step(step(part.first, values[f"s{rows}"]), op.fmt.bytes))
                values[f"n{rows}"] = part.rows
        else:
            is_brought = op.field("src") not in [alloc.result for alloc in (*self.there, *self.whole)]
            for side in "rw":
                rows, outer = self.rows_level(op, side), self.blocks_level(op, side)
                if outer:
                    values[f"{side}n{outer}"] = part.blocks
                if side == "r" and is_brought and outer:
                    values["src"] = step.at(values["src"], step(part.block, values[f"rs{outer}"]))
                if part.is_of_rows:
                    values[f"{side}n{rows}"] = part.rows
                    if side == "r" and is_brought:
                        values["src"] = step.at(values["src"], step(part.first, values[f"rs{rows}"]))

    def blocks_level(self, op: Instruction, side: str = "") -> int:
        """The level of a transfer, or of a side of a move, that goes over channel blocks; 0 if there is one block."""
        return 0 if self.blocks == 1 else turning(op, side)[0]

    def rows_level(self, op: Instruction, side: str = "") -> int:
        """The level that goes over all rows; 0 if there is none."""
        levels = turning(op, side)[self.blocks > 1 :]
        return next((level for level in levels[:1] if op.field(f"{side}n{level}") == self.points), 0)


@dataclass(frozen=True)
class EpiloguePart:
    """So many `blocks` from a `block` on, or rows of one of them, if it `is_of_rows`: `rows` from the `first` one on. It has so
    many `elements`, `of_block` of each block, from element `begin` of the result on."""

    blocks: int
    block: Size
    first: Size
    rows: Size
    begin: Size
    elements: Size
    of_block: Size
    is_of_rows: bool


def is_product(value: Size, times: int, *sizes: Size) -> bool:
    """Is a size the product of others, and times so much?"""
    number, owners = factors_of(value)
    known = [factors_of(size) for size in sizes]
    wanted = [owner for _, own in known for owner in own]
    return number == times * prod(own for own, _ in known) and sorted(owners, key=id) == sorted(wanted, key=id)


def is_of_elements(op: Instruction) -> bool:
    """Does a move take a part of each of its elements, one after the other, and leave these side by side?"""
    is_move = isinstance(op, TdmaGatherScatter) and turning(op, "r") == turning(op, "w") == [1]
    return is_move and op.field("run_bytes") == op.field("ws1") == op.fmt.bytes and op.field("rn1") == op.field("wn1")


def turning(op: Instruction, side: str) -> list[int]:
    """The levels of a transfer, or of a side of a move, that turn more than once, the outermost first."""
    return [level for level in (3, 2, 1) if op.field(f"{side}n{level}") != 1]


def _divmod(step: StepBuilder, number: Size, divisor: int) -> tuple[Size, Size]:
    if divisor == 1:
        return number, 0
    if isinstance(number, int):
        return divmod(number, divisor)
    return quotient(step, number, divisor), remainder(step, number, divisor)
