"""States of a counted loop that have two places: a turn reads one and writes the other, the next turn the other way around.

    KC_loop r2 = 0 to 64                            KC_loop r2 = 0 to 64
                                                      KC_mod r58 = r2 mod 2
      RDMA slot 6                                     RDMA slot 6 offset = 32768*r58
      WDMA slot 12                             ⟶      WDMA slot 6 offset = 32768 - 32768*r58
      all tiles meet; copy slot 12 to slot 6        KC_end
    KC_end

Rows that a product reads as a whole, while other tiles write the next ones: the state of a recurrent network. The kernels of the
loop leave the last register of views to the number of the place.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue, Use

from hlo2tx8.dialects.launch import KernelOp, RepeatOp, UpdateOp, ViewOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.link.views import LAST_REGISTER, Begin
from hlo2tx8.lower.encode.encode import ViewBase
from hlo2tx8.lower.encode.registers import VIEW_REGISTERS
from hlo2tx8.partitioner.instruction import CONSTANTS

PLACES = 2
IsFree: TypeAlias = Callable[[KernelOp, Mapping[int, ViewBase]], bool]
"""Does a kernel leave the last register of views alone, if some arguments begin there?"""


@dataclass(frozen=True)
class Swapped:
    """State `number` of a loop, whose value in a turn is `old`, and `new` in the next one."""

    number: int
    old: SSAValue
    new: SSAValue

    @property
    def size_bytes(self) -> int:
        """Of one place."""
        return port_of(self.old.type).size_bytes

    @property
    def type(self) -> TensorType[Attribute]:
        """Of both places."""
        tensor = as_tensor(self.old.type)
        return TensorType(tensor.element_type, (PLACES, *tensor.get_shape()))

    @property
    def written(self) -> tuple[KernelOp, Mapping[int, ViewBase]]:
        """The kernel that makes the next one, and where it may write that."""
        maker = self.new.owner
        assert isinstance(maker, KernelOp)
        number = len(maker.operands) + tuple(maker.results).index(self.new)
        return maker, {number: ViewBase(self.size_bytes, ((LAST_REGISTER, -self.size_bytes),))}

    def begins(self, turn: SSAValue) -> tuple[Begin, Begin]:
        """Where the state is, and the next one, if `turn` is the number of the turn, modulo 2."""
        size = self.size_bytes
        return Begin(0, ((turn, PLACES - 1, size),)), Begin(size, ((turn, PLACES - 1, -size),))


def swapped(op: RepeatOp, others: int, unset: Container[int], is_free: IsFree) -> list[Swapped]:
    """The states of a loop that would be copied in each turn, as what makes the next one still reads them. So many `others` numbers
    say where views begin that the loop reads."""
    block = op.body.block
    *ops, terminator = block.ops
    if op.count.value.data < PLACES or not all(_is_plain(own) for own in ops):
        return []
    kernels = [own for own in ops if isinstance(own, KernelOp)]
    starts = [start for own in ops if isinstance(own, ViewOp | UpdateOp) for start in own.starts]
    numbers = {start for start in starts if scalar_of(start) is None}
    if others + len(numbers) >= VIEW_REGISTERS or any(not is_free(kernel, {}) for kernel in kernels):
        return []
    states = (Swapped(n, old, new) for n, (old, new) in enumerate(zip(block.args, terminator.operands, strict=True)))
    found = [own for own in states if own.number not in unset and _is_copied(own, block)]
    return [own for own in found if is_free(*own.written)]


def _is_plain(op: Operation) -> bool:
    return op.name in CONSTANTS or (isinstance(op, KernelOp | ViewOp | UpdateOp) and Rectangle.of(op) is None)


def _is_copied(own: Swapped, block: Block) -> bool:
    """Is a state read by kernels alone, one of which makes the next one, which cannot be written over it yet?"""
    maker = own.new.owner
    if not isinstance(maker, KernelOp) or maker.parent is not block or maker.updated or not own.size_bytes:
        return False
    last = terminator_of(block)
    ends = [use for use in own.new.uses if use.operation is last]
    if len(ends) != 1 or not all(_is_kernels(use) for use in (*own.old.uses, *own.new.uses) if use not in ends):
        return False
    late = [use for use in own.old.uses if use.operation is maker or maker.is_before_in_block(use.operation)]
    numbers = maker.replaces.get_values() if maker.replaces else ()
    is_over = len(late) == 1 and late[0].operation is maker and late[0].index in numbers
    return bool(late) and not is_over


def _is_kernels(use: Use) -> bool:
    """Does a kernel read a value there that it does not update?"""
    op = use.operation
    return isinstance(op, KernelOp) and op.operands[use.index] not in op.updated.values()
