"""Emits index arithmetic, buffers and transfers of one step; sizes are folded where they are known."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias, TypeVar

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.made import compare, constant_index, for_op, if_op, of_two, put, yield_op
from hlo2tx8.lower.box_levels import BoxLevel, Multiply, Size, coalesce

OpT = TypeVar("OpT", bound=Operation)
INDEX = IndexType()
NUM_DMA_LEVELS = 3
Transfer: TypeAlias = Callable[[tuple[BoxLevel, ...], tuple[Size, ...]], None]


LEAST_SAVED = 2
"""Strips of a buffer that are a larger part than 1 / this are not worth instructions of their own."""


@dataclass(frozen=True)
class Strip:
    """`count` runs of `run` elements each, `distance` from one to the next, from element `start` on."""

    start: int
    run: int
    distance: int
    count: int

    @staticmethod
    def of(shape: Sequence[int], lane: int, first: int, last: int) -> "Strip":
        """Of a dense vector of that shape the lanes of one dimension from `first` to in front of `last`."""
        inner = prod(shape[lane + 1 :])
        return Strip(first * inner, (last - first) * inner, shape[lane] * inner, prod(shape[:lane]))


@dataclass
class StepBuilder(Multiply):
    """Instructions of one box: `shape` lanes, of which `valid` entries count along the dimensions it names.

    `prologue` inserts what does not change from step to step; its buffers live as long as the function.
    """

    builder: Builder
    prologue: Builder
    shape: tuple[int, ...]
    valid: Mapping[int, SSAValue]
    origin: str = ""

    # ------------------------------------------------------------------------------------------------ sizes

    @property
    def num_lanes(self) -> int:
        return prod(self.shape)

    @property
    def extents(self) -> tuple[Size, ...]:
        """Lanes per dimension, with the tails."""
        return tuple(self.valid.get(lane, size) for lane, size in enumerate(self.shape))

    def count(self) -> Size:
        """Elements of a vector in this step."""
        count: Size = prod(size for lane, size in enumerate(self.shape) if lane not in self.valid)
        for valid in self.valid.values():
            count = self(valid, count)
        return count

    def value(self, size: Size) -> SSAValue:
        """The size as an index value."""
        return self.insert(constant_index(size)).results[0] if isinstance(size, int) else size

    def emit(self, a: Size, b: Size) -> SSAValue:
        return self.insert(of_two(arith.MuliOp, self.value(a), self.value(b))).results[0]

    def add(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        return self.insert(of_two(arith.AddiOp, self.value(a), self.value(b))).results[0]

    def subtract(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.insert(of_two(arith.SubiOp, self.value(a), self.value(b))).results[0]

    def minimum(self, a: Size, b: Size) -> Size:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.insert(of_two(arith.MinSIOp, self.value(a), self.value(b))).results[0]

    def at_least_zero(self, a: Size) -> Size:
        if isinstance(a, int):
            return max(a, 0)
        return self.insert(of_two(arith.MaxSIOp, a, self.value(0))).results[0]

    # ------------------------------------------------------------------------------------------- structure

    def insert(self, op: OpT) -> OpT:
        return put(self.builder, op)

    @contextmanager
    def if_positive(self, sizes: Sequence[Size]) -> Generator[None, None, None]:
        """Emits what follows only for steps in which every size is positive."""
        dynamic = [s for s in sizes if isinstance(s, SSAValue)]
        outer = self.builder
        for size in dynamic:
            block = Block()
            condition = self.insert(compare(size, self.value(0), "sgt")).results[0]
            self.insert(if_op(condition, [], Region(block)))
            self.builder = Builder(InsertPoint.at_end(block))
        blocks = [self.builder.insertion_point.block] if dynamic else []
        yield
        for block in self._enclosing(blocks, len(dynamic)):
            block.add_op(yield_op())
        self.builder = outer

    def _enclosing(self, start: list[Block], depth: int) -> list[Block]:
        found: list[Block] = []
        block: Block | None = start[0] if start else None
        while block is not None and len(found) < depth:
            found.append(block)
            parent = block.parent_op()
            block = parent.parent_block() if parent is not None else None
        return found

    # --------------------------------------------------------------------------------------------- buffers

    def alloc(self, fmt: Format, num_elements: int | None = None) -> SSAValue:
        """A buffer for a vector of the box, or of `num_elements`."""
        elements = self.num_lanes if num_elements is None else num_elements
        return self.insert(spm.AllocOp(max(elements, 1) * fmt.bytes)).result

    def at(self, buffer: SSAValue, num_bytes: Size) -> SSAValue:
        """The address `num_bytes` into a buffer."""
        return buffer if num_bytes == 0 else self.insert(spm.OffsetOp(buffer, self.value(num_bytes))).result

    def fill(self, buffer: SSAValue, bits: int, fmt: Format, n: Size) -> None:
        """buffer[0:n] = the element with these bits; an element wider than the operand is written in halves."""
        if fmt is Format.RAW128:
            for half in range(2):
                word = bits >> 64 * half & (1 << 64) - 1
                dst = self.at(buffer, 8 * half)
                make = TdmaMemset.make
                self.insert(make(fmt=Format.UINT64, dst=dst, value=word, n=1, s1=2, n1=n, s2=0, n2=1, origin=self.origin))
            return
        self.insert(TdmaMemset.make(fmt=fmt, dst=buffer, value=bits, n=n, s1=0, n1=1, s2=0, n2=1, origin=self.origin))

    def fill_strips(self, buffer: SSAValue, bits: int, fmt: Format, strips: Sequence[Strip], n: int) -> None:
        """Fills runs of a buffer with elements, or all `n` where that is about as much."""
        if fmt is Format.RAW128 or sum(strip.run * strip.count for strip in strips) > n // LEAST_SAVED:
            self.fill(buffer, bits, fmt, n)
            return
        for strip in strips:
            dst = self.at(buffer, strip.start * fmt.bytes)
            run: dict[str, Any] = {"value": bits, "n": strip.run, "s1": strip.distance, "n1": strip.count, "s2": 0, "n2": 1}
            self.insert(TdmaMemset.make(fmt=fmt, dst=dst, origin=self.origin, **run))

    # ------------------------------------------------------------------------------------------- transfers

    def load(self, dst: SSAValue, source: SSAValue, offset: Size, levels: Sequence[BoxLevel], fmt: Format) -> None:
        """RDMA of a strided box of DDR elements, dense into SPM."""

        def transfer(inner: tuple[BoxLevel, ...], starts: tuple[Size, ...]) -> None:
            ddr, local = starts
            self.insert(
                Rdma.make(
                    fmt=fmt,
                    dst=self.at(dst, self(local, fmt.bytes)),
                    slot=source,
                    offset=self(self.add(offset, ddr), fmt.bytes),
                    origin=self.origin,
                    **_dma_levels(inner),
                )
            )

        self._walk(self._with_dense(levels), NUM_DMA_LEVELS, transfer)

    def store(self, target: SSAValue, offset: Size, src: SSAValue, levels: Sequence[BoxLevel], fmt: Format) -> None:
        """WDMA of dense SPM elements to a strided box in DDR."""

        def transfer(inner: tuple[BoxLevel, ...], starts: tuple[Size, ...]) -> None:
            ddr, local = starts
            self.insert(
                Wdma.make(
                    fmt=fmt,
                    slot=target,
                    offset=self(self.add(offset, ddr), fmt.bytes),
                    src=self.at(src, self(local, fmt.bytes)),
                    origin=self.origin,
                    **_dma_levels(inner),
                )
            )

        self._walk(self._with_dense(levels), NUM_DMA_LEVELS, transfer)

    def move(self, dst: SSAValue, src: SSAValue, levels: Sequence[BoxLevel], fmt: Format) -> None:
        """TDMA between SPM buffers; the sides of a level are (read, write), in elements."""

        def transfer(inner: tuple[BoxLevel, ...], starts: tuple[Size, ...]) -> None:
            self.insert(
                _gather_scatter(
                    self.at(dst, self(starts[1], fmt.bytes)),
                    self.at(src, self(starts[0], fmt.bytes)),
                    inner,
                    fmt,
                    self,
                    self.origin,
                )
            )

        self._walk(coalesce(levels, self), NUM_DMA_LEVELS, transfer)

    def _with_dense(self, levels: Sequence[BoxLevel]) -> tuple[BoxLevel, ...]:
        """Adds the dense SPM side to one-sided levels."""
        strides: list[Size] = []
        running: Size = 1
        merged = coalesce(levels, self)
        for level in reversed(merged):
            strides.append(running)
            running = self(running, level.extent)
        return tuple(BoxLevel(lv.extent, (*lv.strides, s)) for lv, s in zip(merged, reversed(strides), strict=True))

    def _walk(self, levels: tuple[BoxLevel, ...], num_levels: int, transfer: Transfer) -> None:
        """Loops over the outer levels that a descriptor has no room for."""
        is_run = bool(levels) and all(s == 1 for s in levels[-1].strides)
        room = num_levels + (1 if is_run else 0)
        starts: tuple[Size, ...] = (0, 0)
        outer = self.builder
        blocks: list[Block] = []
        for level in levels[: max(len(levels) - room, 0)]:
            block = Block(arg_types=[INDEX])
            lower, upper, step = (self.value(b) for b in (0, level.extent, 1))
            self.insert(for_op(lower, upper, step, [], Region(block)))
            self.builder = Builder(InsertPoint.at_end(block))
            blocks.append(block)
            starts = tuple(
                self.add(start, self(block.args[0], stride)) for start, stride in zip(starts, level.strides, strict=True)
            )
        transfer(levels[max(len(levels) - room, 0) :], starts)
        for block in blocks:
            block.add_op(yield_op())
        self.builder = outer


def step_at(point: InsertPoint) -> StepBuilder:
    """Emits index arithmetic and transfers at a place, outside of boxes."""
    builder = Builder(point)
    return StepBuilder(builder, builder, (), {})


def _split_run(levels: tuple[BoxLevel, ...]) -> tuple[Size, tuple[BoxLevel, ...]]:
    """(elements of the contiguous run, levels outside of it)."""
    if levels and all(s == 1 for s in levels[-1].strides):
        return levels[-1].extent, levels[:-1]
    return 1, levels


def _dma_levels(levels: tuple[BoxLevel, ...]) -> dict[str, Any]:
    run, outer = _split_run(levels)
    fields: dict[str, Any] = {"count": run}
    padded = (*reversed(outer), *(BoxLevel(1, (0, 0)) for _ in range(NUM_DMA_LEVELS - len(outer))))
    for i, level in enumerate(padded, start=1):
        fields[f"s{i}"] = level.strides[0]
        fields[f"n{i}"] = level.extent
    return fields


def _gather_scatter(
    dst: SSAValue, src: SSAValue, levels: tuple[BoxLevel, ...], fmt: Format, multiply: Multiply, origin: str
) -> Operation:
    run, outer = _split_run(levels)
    padded = (*reversed(outer), *(BoxLevel(1, (0, 0)) for _ in range(NUM_DMA_LEVELS - len(outer))))
    fields: dict[str, Any] = {}
    for i, level in enumerate(padded, start=1):
        read, write = level.strides
        fields |= {f"rs{i}": multiply(read, fmt.bytes), f"rn{i}": level.extent}
        fields |= {f"ws{i}": multiply(write, fmt.bytes), f"wn{i}": level.extent}
    return TdmaGatherScatter.make(fmt=fmt, dst=dst, src=src, run_bytes=multiply(run, fmt.bytes), origin=origin, **fields)
