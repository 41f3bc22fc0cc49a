"""Tensors in SPM: what a box of a step has stored, a later box of the same step loads without DDR.

    vec.store %p, %s[%o] {strides = [512, 1]}                      %p : [128, 512]
    %q = vec.load %s[%o] {strides = [64, 512, 1]} : [8, 128, 64]   the same elements: TDMA reads %p in that order

Where order and shape are the same the load is the stored vector itself. A load may begin elsewhere, and be clipped: a window
reads some of the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.dialects import spm, vec, xla
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import Dim, IndexingMap, Variable
from hlo2tx8.lower.box_levels import BoxLevel, Size, dense_strides
from hlo2tx8.lower.select.select_memory import Box
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True)
class Resident:
    """What the current step has of a tensor: `buffer` holds a dense vector of `extents`, whose first element is the tensor's at
    `start` of the step's variables, and lane k of which moves by `strides[k]` elements of the tensor. If it `is_padded` it lies in
    padded channel blocks instead, and whoever loads it takes it so."""

    buffer: SSAValue
    start: IndexingMap
    variables: tuple[SSAValue, ...]
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    extents: tuple[Size, ...]
    is_padded: bool = False

    @staticmethod
    def of(step: StepBuilder, op: vec.StoreOp, buffer: SSAValue, is_padded: bool = False) -> "Resident":
        """What a store leaves in SPM, for steps of other boxes too: its buffer is allocated outside of the box's guard."""
        start, variables = _place(op.offset)
        _allocate_outside_of_guards(buffer)
        return Resident(buffer, start, variables, vec.ints(op.strides), tuple(step.shape), tuple(step.extents), is_padded)

    def load(self, step: StepBuilder, op: vec.LoadOp, fmt: Format, slots: Mapping[SSAValue, SSAValue]) -> SSAValue:
        """The vector that a load without clips gives, in the same step or for rows that the step has too; CompileError if it walks
        otherwise."""
        if self.is_padded:
            return self.buffer
        strides, dense = vec.ints(op.strides), dense_strides(step.extents, step)
        moving = [k for k, size in enumerate(step.shape) if size > 1]
        own = [k for k, size in enumerate(self.shape) if size > 1]
        is_same = _place(op.offset) == (self.start, self.variables)
        if is_same and [(strides[k], step.shape[k]) for k in moving] == [(self.strides[k], self.shape[k]) for k in own]:
            return self.buffer
        start = 0 if is_same else self._start(step, op, slots, [0] * len(strides))
        lanes = [self._levels(step, lane, stride, step.extents[lane]) for lane, stride in enumerate(strides)]
        source = step.at(self.buffer, step(start, fmt.bytes))
        if all(len(lanes[k]) == 1 and lanes[k][0].strides[0] == dense[k] for k in moving):
            return source
        result = step.alloc(fmt)
        step.move(result, source, [level for lane in lanes for level in lane], fmt)
        return result

    def place(
        self, step: StepBuilder, op: vec.LoadOp, fmt: Format, slots: Mapping[SSAValue, SSAValue], dst: SSAValue, box: Box
    ) -> None:
        """Puts what a load with clips reads, which is not empty, into its lanes of a vector."""
        source = step.at(self.buffer, step(self._start(step, op, slots, box.starts), fmt.bytes))
        at: Size = 0
        for start, stride in zip(box.starts, dense_strides(step.extents, step), strict=True):
            at = step.add(at, step(start, stride))
        clipped = vec.ints(op.clipped)
        lanes = (
            self._levels(step, lane, stride, extent, is_clipped=lane in clipped)
            for lane, (stride, extent) in enumerate(zip(vec.ints(op.strides), box.extents, strict=True))
        )
        step.move(step.at(dst, step(at, fmt.bytes)), source, [level for lane in lanes for level in lane], fmt)

    def _start(self, step: StepBuilder, op: vec.LoadOp, slots: Mapping[SSAValue, SSAValue], starts: Sequence[Size]) -> Size:
        """The element of the buffer that is a load's at these lanes: its distance from the first one, lane by lane."""
        start, variables = _place(op.offset)
        if variables[: len(self.variables)] != self.variables:
            raise CompileError("E3201", "a load from a tensor in SPM starts elsewhere than what the step has stored")
        distance = start.with_results((start.results[0] - self.start.results[0],)).simplify()
        position: Size = step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(distance), [slots[v] for v in variables])).res[0]
        for first, stride in zip(starts, vec.ints(op.strides), strict=True):
            position = step.add(position, step(first, stride))
        lanes = sorted((k for k, stride in enumerate(self.strides) if stride), key=lambda k: -self.strides[k])
        reach = Variable(0, max(self.strides, default=1) * max(self.shape, default=1))
        outer = [reach.hi + 1, *(self.strides[k] for k in lanes)]
        coordinates = [Dim(0) % size // self.strides[k] for k, size in zip(lanes, outer, strict=False)]
        map = IndexingMap((reach,), (), (), tuple(coordinates)).simplify()
        found = step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(map), [step.value(position)])).res
        dense = dense_strides(self.extents, step)
        total: Size = 0
        for k, coordinate in zip(lanes, found, strict=True):
            total = step.add(total, step(coordinate, dense[k]))
        return total

    def _lane(self, stride: int, size: int) -> int | None:
        """The lane of the buffer along which so many elements of the tensor are that are so far apart."""
        lanes = (k for k, own in enumerate(self.strides) if own and stride % own == 0 and stride * (size - 1) < own * self.shape[k])
        return max(lanes, key=lambda k: self.strides[k], default=None)

    def _levels(self, step: StepBuilder, lane: int, stride: int, extent: Size, *, is_clipped: bool = False) -> list[BoxLevel]:
        """A lane of a load as levels of a move, the outermost first: several where it goes over whole lanes of the buffer. A lane
        of 128 elements on a buffer [4, 8, 64], blocks of 64 of 8 rows, is 2 that are 512 apart, of 64 next to each other."""
        size = step.shape[lane]
        write, dense = dense_strides(step.extents, step)[lane], dense_strides(self.extents, step)
        if size == 1 or stride == 0:
            return [BoxLevel(extent, (0, write))]
        found: list[BoxLevel] = []
        while (own := self._lane(stride, 1 if is_clipped else size)) is None:
            own = self._lane(stride, 2)
            count, rest = (1, 0) if own is None else divmod(self.strides[own] * self.shape[own], stride)
            if own is None or rest or size % count or extent != size or self.extents[own] != self.shape[own]:
                raise CompileError("E3201", "a load from a tensor in SPM walks over it in another way than it was stored")
            found.append(BoxLevel(count, (step(stride // self.strides[own], dense[own]), write)))
            size, stride, write = size // count, stride * count, step(write, count)
            extent = size
        return [BoxLevel(extent, (step(stride // self.strides[own], dense[own]), write)), *reversed(found)]


def is_resident(tensor: SSAValue) -> bool:
    """Is a VECTOR-level tensor in SPM?"""
    return isinstance(tensor.owner, xla.AllocateScratchOp) and tensor.owner.in_spm is not None


def starts_alike(offset: SSAValue, other: SSAValue) -> bool:
    """Do two accesses to tensors in SPM start at the same place in every step?"""
    return all(isinstance(value.owner, xla.ApplyIndexingOp) for value in (offset, other)) and _place(offset) == _place(other)


def distance(offset: SSAValue, other: SSAValue) -> int | None:
    """Elements from one access to another that moves with the same variables; None if these are not known, or it varies."""
    if not all(isinstance(value.owner, xla.ApplyIndexingOp) for value in (offset, other)):
        return None
    (start, variables), (there, others) = _place(offset), _place(other)
    constant, terms = start.with_results((there.results[0] - start.results[0],)).simplify().results[0].affine_terms()
    return constant if variables == others and not terms else None


def _place(offset: SSAValue) -> tuple[IndexingMap, tuple[SSAValue, ...]]:
    """Where an access starts, as a map of the variables of the loops around."""
    apply = offset.owner
    if not isinstance(apply, xla.ApplyIndexingOp):
        raise CompileError("E3201", "an access to a tensor in SPM has no map")
    map = apply.map.data
    return map.with_results((map.results[apply.results.index(offset)],)), tuple(apply.operands)


def _allocate_outside_of_guards(buffer: SSAValue) -> None:
    """Moves the allocation of a buffer in front of the branches around it."""
    alloc = spm.root_buffer(buffer).owner
    if not isinstance(alloc, spm.AllocOp):
        return
    outermost: Operation | None = None
    parent = alloc.parent_op()
    while isinstance(parent, scf.IfOp):
        outermost, parent = parent, parent.parent_op()
    block = outermost.parent_block() if outermost is not None else None
    if outermost is not None and block is not None:
        alloc.detach()
        block.insert_op_before(alloc, outermost)
