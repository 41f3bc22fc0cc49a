"""The counter of a loop whose number of turns is known, in a register: where only places in tensors depend on it, no slot has it.

    %i = 0 ... add %i, 1; %i in slot 11                    KC_loop r2 = 0 to 64
    KC_loop r2 = 0 to 64                                     KC_affine r56 = 0 + 1*r2
      RDMA slot 11; KC_load_scalar r56            ⟶          RDMA slot 0 offset = 32768*r56
      RDMA slot 0 offset = 32768*r56                       KC_end
      RDMA slot 11; KC add 1; WDMA slot 11
    KC_end

A kernel may need the register itself; then the next one that wants the counter reads it from its slot, as in loops that are not
counted, and the kernel that adds to it is launched at the end of the body.
"""

from collections.abc import Container
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue, Use

from hlo2tx8.dialects.launch import KernelOp, RepeatOp, UpdateOp, ViewOp, WhileOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.hlo.types import integer_limits, numpy_dtype


@dataclass(frozen=True)
class Counted:
    """A loop variable that is `start` in the first turn and `step` more in each one behind it, up to `last`; `next` is the launch
    that makes the next one, if only places in tensors depend on the variable."""

    value: SSAValue
    start: int
    step: int
    last: int
    next: KernelOp | None

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest that it is."""
        return min(self.start, self.last), max(self.start, self.last)


def counted(op: RepeatOp) -> Counted | None:
    """The counter of a loop, None if it has none, or one that wraps."""
    if op.counter is None or op.count.value.data < 1:
        return None
    number, start, step = op.counter.get_values()
    value = op.body.block.args[number]
    last = start + step * (op.count.value.data - 1)
    least, most = integer_limits(numpy_dtype(as_tensor(value.type).element_type))
    if not all(least <= n <= min(most, 2**31 - 1) for n in (start, last)):
        return None
    return Counted(value, start, step, last, _next(op, number))


def _next(op: RepeatOp, number: int) -> KernelOp | None:
    """The launch that makes the next number, if nothing else but places in tensors depends on it."""
    value = op.body.block.args[number]
    made = terminator_of(op.body.block).operands[number]
    if op.results[number].first_use is not None or not isinstance(made.owner, KernelOp) or not made.has_one_use():
        return None
    if len(made.owner.results) > 1 or [*made.owner.operands] != [value]:
        return None
    others = [use for use in value.uses if use.operation is not made.owner]
    is_place = all(
        (isinstance(use.operation, ViewOp) and use.index >= 1) or (isinstance(use.operation, UpdateOp) and use.index >= 2)
        for use in others
    )
    return made.owner if is_place else None


def unset_states(op: RepeatOp | WhileOp) -> Container[int]:
    """The numbers of a loop's states that have no initial value."""
    return op.unset.get_values() if isinstance(op, RepeatOp) and op.unset is not None else ()


def is_unread(op: Operation) -> bool:
    """Is it a launch of whose results nobody reads any, as they are but what states of loops are unset to?"""
    uses = [use for result in op.results for use in result.uses]
    return isinstance(op, KernelOp) and bool(uses) and all(_is_unset(use) for use in uses)


def _is_unset(use: Use) -> bool:
    return isinstance(use.operation, RepeatOp) and use.index in unset_states(use.operation)
