"""A box [points, channels] whose vectors lie in channel blocks: what a channel has once is computed once and applied by VuV.

    x, f16 [14, 129]          RDMA, dense           [14][129]
                              TDMA_gatherScatter    two blocks [14][64] and a tail [14][4], 128 zeros of padding
    x - mean                  VuV_sub_loop          the blocks, mean[r * 64 ..] in round r
                              VuV_sub               the tail, mean[128 .. 131]
    rsqrt(variance + eps)     on [132], in the first step only; all steps find its buffer
    result                    TDMA_gatherScatter    dense again, then WDMA

Blocks have their places for the most points of a step, whatever a step has: counts and addresses are the same in all of them.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import spm, vec
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.made import compare, if_op, of_two, yield_op
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel
from hlo2tx8.lower.element_format import Operand, PerChannel, Splat, Vector, storage_format
from hlo2tx8.lower.select.select_access import same_in_all_steps
from hlo2tx8.lower.select.select_box import BoxSelector, neighbour_origin
from hlo2tx8.lower.select.select_memory import clipped_box, load_box, store_box
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.vectorize.varying_lanes import Known, varying_lanes

CHANNELS = 1
"""The lane dimension of channels; dimension 0 are the points."""


@dataclass
class ChannelStep(StepBuilder):
    """Vectors of an element per channel: their buffers live as long as the function, so that every step finds them."""

    def alloc(self, fmt: Format, num_elements: int | None = None) -> SSAValue:
        elements = self.num_lanes if num_elements is None else num_elements
        return self.prologue.insert(spm.AllocOp(max(elements, 1) * fmt.bytes)).result


@dataclass
class ChannelSelector(BoxSelector):
    """Selects instructions for a box in channel blocks.

    `step` is one dimension of all elements with padding; `dense` has the box as it is in DDR; `per_channel` selects what a
    channel has once; `layout` says where the blocks are.
    """

    dense: StepBuilder = field(kw_only=True)
    per_channel: BoxSelector = field(kw_only=True)
    layout: Blocked = field(kw_only=True)
    known: Known = field(default_factory=Known)
    spread: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @staticmethod
    def of(step: StepBuilder, slots: dict[SSAValue, SSAValue], hoisted: dict[tuple[object, ...], SSAValue]) -> "ChannelSelector":
        """The selector of a box [points, channels]."""
        points, channels = step.shape
        layout = Blocked(Format.FP32, 1, points, channels)
        width = layout.aligned_channels
        blocks = StepBuilder(step.builder, step.prologue, (points * width,), {}, step.origin)
        once = BoxSelector(ChannelStep(step.builder, step.prologue, (width,), {}, step.origin), slots, hoisted)
        return ChannelSelector(blocks, slots, hoisted, dense=step, per_channel=once, layout=layout)

    def select(self, block: Block) -> None:
        for op in block.ops:
            self._set_origin(op)
            if not self._is_per_channel(op):
                self.select_one(op)
            elif isinstance(op, vec.LoadOp):
                self._load_per_channel(op)
            else:
                self._compute_per_channel(op)

    def operand(self, value: SSAValue) -> Operand:
        """As a unit vector where it has an element per channel."""
        found = self.per_channel.vectors.get(value)
        if found is None or isinstance(found, Splat):
            return self.vector(value)
        return PerChannel(found, storage_format(value.type))

    def vector(self, value: SSAValue) -> Vector:
        """The buffer of all points, or a splat."""
        found = self.per_channel.vectors.get(value)
        if found is None:
            return super().vector(value)
        return found if isinstance(found, Splat) else self.buffer(PerChannel(found, storage_format(value.type)))

    def buffer(self, value: Operand) -> SSAValue:
        """The vector in SPM; an element per channel is spread over the points once."""
        if not isinstance(value, PerChannel):
            return super().buffer(value)
        if value.buffer not in self.spread:
            with self._in_first_step():
                self.spread[value.buffer] = self._spread(value)
        return self.spread[value.buffer]

    def _spread(self, value: PerChannel) -> SSAValue:
        """The elements of the channels at all points."""
        step, layout = self.per_channel.step, self.layout
        dst = step.alloc(value.fmt, self.step.num_lanes)
        width, blocks, tail = layout.block_width, layout.num_blocks, layout.tail_width
        points = layout.points
        if blocks:
            of_blocks = BoxLevel(blocks, (width, points * width))
            step.move(dst, value.buffer, [of_blocks, BoxLevel(points, (0, width)), BoxLevel(width, (1, 1))], value.fmt)
        if tail:
            first = blocks * width * value.fmt.bytes
            source, target = step.at(value.buffer, first), step.at(dst, points * first)
            step.move(target, source, [BoxLevel(points, (0, tail)), BoxLevel(tail, (1, 1))], value.fmt)
        return dst

    def apply_per_channel(
        self, forms: tuple[type[Instruction], type[Instruction]], a: SSAValue, unit: SSAValue, fmt: Format
    ) -> SSAValue:
        """One instruction for all whole blocks, a round each, and one for the tail: `forms` are VuV and VuV_loop."""
        step, layout, dst = self.step, self.layout, self.step.alloc(fmt)
        vuv, vuv_loop = forms
        width, blocks, tail = layout.block_width, layout.num_blocks, layout.tail_width
        if blocks:
            n = layout.points * width
            counts: dict[str, Any] = {"n": n, "u": width, "full_n": n * blocks, "full_u": width * blocks}
            step.insert(vuv_loop.make(fmt=fmt, dst=dst, a=a, unit=unit, origin=step.origin, **counts))
        if tail:
            first, start = blocks * width * fmt.bytes, layout.points * blocks * width * fmt.bytes
            fields: dict[str, Any] = {"dst": step.at(dst, start), "a": step.at(a, start), "unit": step.at(unit, first)}
            step.insert(vuv.make(fmt=fmt, n=layout.points * tail, u=tail, origin=step.origin, **fields))
        return dst

    # ------------------------------------------------------------------------------------------- once per channel

    def _is_per_channel(self, op: Operation) -> bool:
        """Does the operation give an element per channel that is the same in all steps?"""
        if isinstance(op, vec.LoadOp):
            return self._moves(op) and same_in_all_steps(self.dense, op) is not None
        if isinstance(op, (vec.SplatOp, vec.BroadcastOp)) or op.regions or len(op.results) != 1 or not op.operands:
            return False
        return self._moves(op) and all(value in self.per_channel.vectors or self._is_splat(value) for value in op.operands)

    def _moves(self, op: Operation) -> bool:
        return varying_lanes(op.results[0], self.known) in ((), (CHANNELS,))

    def _is_splat(self, value: SSAValue) -> bool:
        return isinstance(self.vectors.get(value), Splat)

    def _load_per_channel(self, op: vec.LoadOp) -> None:
        """Before the steps, with zeros as padding."""
        step, fmt, start = self.per_channel.step, storage_format(op.result.type), same_in_all_steps(self.dense, op)
        assert start is not None
        source, stride = self.slots[op.source], vec.ints(op.strides)[CHANNELS]
        key = ("channels", source, start, stride, fmt, step.shape)
        if key not in self.hoisted:
            outer, step.builder = step.builder, step.prologue
            buffer = self.hoisted[key] = step.alloc(fmt)
            if step.num_lanes > self.layout.channels:
                step.fill(buffer, 0, fmt, step.num_lanes)
            step.load(buffer, source, start, [BoxLevel(self.layout.channels, (stride,))], fmt)
            step.builder = outer
        self.per_channel.vectors[op.result] = self.hoisted[key]

    def _compute_per_channel(self, op: Operation) -> None:
        """In the first step."""
        splats = {value: self.vectors[value] for value in op.operands if self._is_splat(value)}
        self.per_channel.vectors |= splats
        with self._in_first_step():
            self.per_channel.select_one(op)

    @contextmanager
    def _in_first_step(self) -> Generator[None, None, None]:
        """What is emitted inside runs in the first turn of the loops around the box only."""
        once, step = self.per_channel.step, self.step
        inside: list[Block] = []
        builder = step.builder
        for loop in _loops_around(step.builder.insertion_point.block):
            bound = builder.insert(of_two(arith.AddiOp, loop.lb, loop.step)).result
            condition = builder.insert(compare(loop.body.block.args[0], bound, "slt")).result
            inside.append(Block())
            builder.insert(if_op(condition, [], Region(inside[-1])))
            builder = Builder(InsertPoint.at_end(inside[-1]))
        outer, once.builder = once.builder, builder
        yield
        once.builder = outer
        for block in inside:
            block.add_op(yield_op())

    # ------------------------------------------------------------------------------------------------ memory

    def _load(self, op: vec.LoadOp) -> SSAValue:
        """Dense from DDR, then into blocks, whose padding is written once."""
        if op.fill is not None or vec.ints(op.clipped):
            raise CompileError("E3201", "a load in channel blocks has no clips")
        fmt, step = storage_format(op.result.type), self.step
        box = clipped_box(self.dense, ())
        loaded = load_box(self.dense, self.slots[op.source], self.slots[op.offset], vec.ints(op.strides), box, fmt)
        key = ("blocks", op, fmt, step.shape)
        if key not in self.hoisted:
            self.hoisted[key] = self.in_prologue(lambda: self._zeros(fmt))
        for levels, blocked, dense in self._moves_of_blocks(fmt):
            step.move(step.at(self.hoisted[key], blocked), step.at(loaded, dense), levels, fmt)
        return self.hoisted[key]

    def _zeros(self, fmt: Format) -> SSAValue:
        """A buffer for blocks: zeros where a step may not write."""
        buffer = self.step.alloc(fmt)
        if self.dense.valid or self.layout.aligned_channels != self.layout.channels:
            self.step.fill(buffer, 0, fmt, self.step.num_lanes)
        return buffer

    def _store(self, op: vec.StoreOp) -> None:
        fmt, step = storage_format(op.value.type), self.step
        source, dense_buffer = self.buffer(self.vector(op.value)), self.dense.alloc(fmt)
        for levels, blocked, dense in self._moves_of_blocks(fmt):
            swapped = [replace(level, strides=level.strides[::-1]) for level in levels]
            step.move(step.at(dense_buffer, dense), step.at(source, blocked), swapped, fmt)
        store_box(self.dense, self.slots[op.target], self.slots[op.offset], dense_buffer, vec.ints(op.strides), fmt)

    def _moves_of_blocks(self, fmt: Format) -> list[tuple[list[BoxLevel], int, int]]:
        """Per transfer its levels, (dense, blocked) strides each, and the first bytes of the blocked and of the dense side."""
        layout, points = self.layout, self.dense.extents[0]
        channels, width = layout.channels, layout.block_width
        whole = channels // width
        found: list[tuple[list[BoxLevel], int, int]] = []
        if whole:
            of_blocks = BoxLevel(whole, (width, layout.points * width))
            found.append(([of_blocks, BoxLevel(points, (channels, width)), BoxLevel(width, (1, 1))], 0, 0))
        for block in layout.blocks():
            if block.first >= whole * width:
                levels = [BoxLevel(points, (channels, block.width)), BoxLevel(block.channels, (1, 1))]
                found.append((levels, block.offset * fmt.bytes, block.first * fmt.bytes))
        return found

    def _set_origin(self, op: Operation) -> None:
        found = origin(op) or neighbour_origin(op)
        for step in (self.step, self.dense, self.per_channel.step):
            step.origin = found


def _loops_around(block: Block) -> list[scf.ForOp]:
    """The loops that a block is in, the innermost first."""
    found: list[scf.ForOp] = []
    op = block.parent_op()
    while op is not None:
        if isinstance(op, scf.ForOp):
            found.append(op)
        op = op.parent_op()
    return found
