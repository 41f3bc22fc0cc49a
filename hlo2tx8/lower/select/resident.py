"""Tensors in SPM: what a box of a step has stored, a later box of the same step loads without DDR.

    vec.store %p, %s[%o] {strides = [512, 1]}                      %p : [128, 512]
    %q = vec.load %s[%o] {strides = [64, 512, 1]} : [8, 128, 64]   the same elements: TDMA reads %p in that order

Where order and shape are the same the load is the stored vector itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.dialects import spm, vec, xla
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.lower.box_levels import BoxLevel, Size, dense_strides
from hlo2tx8.lower.select.step_builder import StepBuilder


@dataclass(frozen=True)
class Resident:
    """What the current step has of a tensor: `buffer` holds a dense vector of `extents`, whose first element is the tensor's at
    `start` of the step's variables, and lane k of which moves by `strides[k]` elements of the tensor."""

    buffer: SSAValue
    start: IndexingMap
    variables: tuple[SSAValue, ...]
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    extents: tuple[Size, ...]

    @staticmethod
    def of(step: StepBuilder, op: vec.StoreOp, buffer: SSAValue) -> "Resident":
        """What a store leaves in SPM, for steps of other boxes too: its buffer is allocated outside of the box's guard."""
        start, variables = _place(op.offset)
        _allocate_outside_of_guards(buffer)
        return Resident(buffer, start, variables, vec.ints(op.strides), tuple(step.shape), tuple(step.extents))

    def load(self, step: StepBuilder, op: vec.LoadOp, fmt: Format) -> SSAValue:
        """The vector that a load of the same step gives; CompileError if it reads what the step has not stored."""
        strides, place = vec.ints(op.strides), _place(op.offset)
        if place != (self.start, self.variables) or vec.ints(op.clipped):
            raise CompileError("E3201", "a load from a tensor in SPM starts elsewhere than what the step has stored")
        moving = [k for k, size in enumerate(step.shape) if size > 1]
        own = [k for k, size in enumerate(self.shape) if size > 1]
        if [(strides[k], step.shape[k]) for k in moving] == [(self.strides[k], self.shape[k]) for k in own]:
            return self.buffer
        result = step.alloc(fmt)
        read = self._read_strides(step, strides, dense_strides(self.extents, step))
        write = dense_strides(step.extents, step)
        levels = [BoxLevel(extent, (r, w)) for extent, r, w in zip(step.extents, read, write, strict=True)]
        step.move(result, self.buffer, levels, fmt)
        return result

    def _read_strides(self, step: StepBuilder, strides: Sequence[int], dense: Sequence[Size]) -> list[Size]:
        """How far each lane of a load moves inside of the buffer."""
        found: list[Size] = []
        for stride, size in zip(strides, step.shape, strict=True):
            if size == 1 or stride == 0:
                found.append(0)
                continue
            inside = [
                k for k, own in enumerate(self.strides) if own and stride % own == 0 and stride * (size - 1) < own * self.shape[k]
            ]
            if not inside:
                raise CompileError("E3201", "a load from a tensor in SPM walks over it in another way than it was stored")
            lane = max(inside, key=lambda k: self.strides[k])
            found.append(step(stride // self.strides[lane], dense[lane]))
        return found


def is_resident(tensor: SSAValue) -> bool:
    """Is a VECTOR-level tensor in SPM?"""
    return isinstance(tensor.owner, xla.AllocateScratchOp) and tensor.owner.in_spm is not None


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
