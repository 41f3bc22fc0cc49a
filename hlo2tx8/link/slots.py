"""Which DDR slot each value of @main lies in, so that as few copies and as little memory as possible are needed.

A scratch slot is used again once no value in it is alive and nothing holds it. A value may be wanted in a slot: an output, or the
home of the loop state it becomes; it is put there if nobody else's value is alive there when it is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.func import CallOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.device.program import Slot, SlotKind
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.launch import CaseOp, KernelOp, RepeatOp, UpdateOp, WhileOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.link.donation import reshaped


def _in_place(op: Operation) -> Sequence[tuple[SSAValue, SSAValue]]:
    """The operands that an op turns into results in their slots, and those results."""
    match op:
        case WhileOp() | RepeatOp():
            return tuple(zip(op.operands, op.results, strict=True))
        case UpdateOp():
            return ((op.tensor, op.result),)
        case KernelOp():
            return tuple((old, result) for result, old in op.updated.items())
        case _:
            return ()


MAKERS = (KernelOp, WhileOp, RepeatOp, CaseOp, CallOp, UpdateOp)
"""Ops that write their results; those of others are in slots already."""


@dataclass
class Slots:
    """The DDR slots of a program while it is linked; `of` maps each value placed so far to its slot; `read_with`
    has the slots of numbers that say where in it a view begins."""

    table: list[Slot] = field(default_factory=list[Slot])
    constants: list[npt.NDArray[Any]] = field(default_factory=list[npt.NDArray[Any]])
    of: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    alive: dict[int, dict[SSAValue, None]] = field(default_factory=dict[int, dict[SSAValue, None]])
    holders: dict[int, int] = field(default_factory=dict[int, int])
    wanted: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    read_with: dict[SSAValue, Sequence[int]] = field(default_factory=dict[SSAValue, Sequence[int]])
    scratches: list[int] = field(default_factory=list[int])

    def add(self, kind: SlotKind, index: int, type_: Attribute, takes_over: int | None = None) -> int:
        """Make a new slot for a tensor of that type, and return its number; an output may take over the memory of an input."""
        port = port_of(type_)
        if kind is SlotKind.SCRATCH:
            self.scratches.append(len(self.table))
        self.table.append(Slot(kind, index, port.dtype, port.shape, port.size_bytes, f"{kind.value}{index}", takes_over))
        return len(self.table) - 1

    def add_constant(self, op: Operation) -> None:
        """A constant too large to be written into instructions gets a slot of its own."""
        (result,) = op.results
        port = port_of(result.type)
        array = np.broadcast_to(np.asarray(decode_attributes(op)["value"]), port.shape)
        self.put(result, self.add(SlotKind.CONSTANT, len(self.constants), result.type))
        self.constants.append(np.ascontiguousarray(port.to_device(array)).reshape(port.shape))

    def put(self, value: SSAValue, slot: int) -> None:
        """Note that the value lies in that slot."""
        self.of[value] = slot
        self.alive.setdefault(slot, {})[value] = None

    def show(self, value: SSAValue, slot: int, starts: Sequence[int]) -> None:
        """Note that a view lies in that slot, and that numbers in the slots `starts` are needed as long as it is."""
        self.put(value, slot)
        self.read_with[value] = starts
        for start in starts:
            self.alive.setdefault(start, {})[value] = None

    def end(self, values: "list[SSAValue]") -> None:
        """Note that these values are not read any more, so that their slots become free."""
        for value in values:
            for slot in (self.of.get(value), *self.read_with.get(value, ())):
                if slot is not None:
                    self.alive[slot].pop(value, None)

    def hold(self, slot: int) -> None:
        """Keep a slot from being given to other values, even while no value in it is needed; `release` ends that."""
        self.holders[slot] = self.holders.get(slot, 0) + 1

    def release(self, slot: int) -> None:
        """Allow a held slot to be given to other values again."""
        self.holders[slot] -= 1

    def hold_all(self) -> None:
        """Keep all slots so far from being given to other values."""
        for slot in range(len(self.table)):
            self.hold(slot)

    def is_empty(self, slot: int, but: SSAValue | None = None) -> bool:
        """True if no value that is still needed lies in the slot, apart from `but`."""
        return all(value is but for value in self.alive.get(slot, {}))

    def scratch(self, type_: Attribute, *, is_new: bool = False) -> int:
        """A scratch slot for a tensor of that type: the smallest free one that is large enough, else, or if `is_new`, a new one."""
        size = port_of(type_).size_bytes
        large = () if is_new else (number for number in self.scratches if self.table[number].size_bytes >= size)
        free = [number for number in large if not self.alive.get(number) and not self.holders.get(number)]
        if not free:
            return self.add(SlotKind.SCRATCH, len(self.scratches), type_)
        return min(free, key=lambda number: self.table[number].size_bytes)

    def put_anew(self, value: SSAValue) -> int:
        """A new scratch slot for a value that lies there from the start."""
        self.put(value, self.scratch(value.type, is_new=True))
        return self.of[value]

    def place(self, value: SSAValue) -> int:
        """Choose the slot of a value that is about to be computed: the one it is wanted in, else scratch."""
        slot = self.wanted.get(value)
        if slot is None or not self.is_empty(slot):
            slot = self.scratch(value.type)
        self.put(value, slot)
        return slot

    def replace(self, value: SSAValue, dying: "list[SSAValue]") -> int:
        """As `place`, but the wanted slot may still hold one of the values `dying`, which the computation reads for the last
        time.
        """
        slot = self.wanted.get(value)
        if slot is None or not any(self.of[old] == slot and self.is_empty(slot, old) for old in dying):
            return self.place(value)
        self.put(value, slot)
        return slot

    def over(self, value: SSAValue, old: SSAValue, *, is_last_use: bool) -> int:
        """Choose the slot of a value computed from `old` in place: old's slot if this is its last use, else as `place`."""
        own = self.of[old]
        if not (is_last_use and self.is_writable(own) and self.is_empty(own, old)):
            return self.place(value)
        self.put(value, own)
        return own

    def is_writable(self, slot: int) -> bool:
        """True for a slot that the program may write: no input and no constant."""
        return self.table[slot].kind in (SlotKind.SCRATCH, SlotKind.OUTPUT)

    def want(self, block: Block, slots: "list[int]") -> None:
        """Note that the values of the block's terminator, and loop variables that become them, should be computed in these
        slots.
        """
        assert block.last_op is not None
        for value, slot in zip(map(reshaped, block.last_op.operands), slots, strict=True):
            if isinstance(value.owner, MAKERS) and value.owner.parent is block:
                self.wanted.setdefault(value, slot)
        for op in reversed(ops_of(block)):
            for start, result in _in_place(op):
                is_made_for_it = isinstance(start.owner, MAKERS) and start.owner.parent is block and start.has_one_use()
                if is_made_for_it and result in self.wanted:
                    self.wanted.setdefault(start, self.wanted[result])

    def home_of_new(self, result: SSAValue, taken: "list[int]", dying: SSAValue | None) -> int:
        """The slot of a loop variable that has no initial value, where a value may be that is read no more."""
        wanted = self.wanted.get(result)
        is_free = wanted is not None and wanted not in taken and self.is_empty(wanted, dying)
        return wanted if wanted is not None and is_free else self.scratch(result.type)

    def home(self, start: SSAValue, result: SSAValue, taken: "list[int]", *, is_last_use: bool) -> int:
        """Choose the slot of a loop variable: where its result is wanted, where its initial value lies, or scratch, so that copies
        are avoided.
        """
        wanted, own = self.wanted.get(result), self.of[start]
        if wanted is not None and wanted not in taken and self.is_empty(wanted, start if is_last_use else None):
            return wanted
        if is_last_use and self.is_writable(own) and own not in taken and self.is_empty(own, start):
            return own
        return self.scratch(result.type)
