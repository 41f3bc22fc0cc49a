"""Where views begin in their slots, and the registers that say so at run time.

    %2 = launch.view %0 at(%1) {steps = [1024], rooms = [11]}         RDMA 0x10000 slot 1; KC_wait; KC_load_scalar r56
    %3 = launch.kernel @f(%2)                                          KC_max r56 = r56, 0; KC_min r56 = r56, 11
                                                                       the kernel's records: RDMA slot 0 offset = 2048*r56 + ...

A kernel that reads a view is encoded with what its argument's offsets are more than those of a tensor of its own. Views by the same
number share a register, which is loaded again when something has written it since.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcAffine, KcMax, KcMin, KcMod
from hlo2tx8.dialects.launch import KernelOp, ViewOp
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.link.barriers import Scalars
from hlo2tx8.link.builder import PieceBuilder
from hlo2tx8.link.counted import Counted
from hlo2tx8.lower.encode.encode import ViewBase
from hlo2tx8.lower.encode.registers import FIRST_VIEW_REGISTER, VIEW_REGISTERS


@dataclass(frozen=True)
class Begin:
    """Where a view begins in its slot: `offset` bytes, and of each term a number, clamped to 0..room, times some bytes."""

    offset: int = 0
    terms: tuple[tuple[SSAValue, int, int], ...] = ()

    @property
    def numbers(self) -> tuple[tuple[SSAValue, int], ...]:
        """The numbers that must be known, with their rooms."""
        return tuple(dict.fromkeys((start, room) for start, room, _ in self.terms))


@dataclass
class SlotViews:
    """The views of a program while it is linked that do not begin where their slots do."""

    pieces: PieceBuilder
    begins: dict[SSAValue, Begin] = field(default_factory=dict[SSAValue, Begin])
    most: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The greatest that counters of loops are, or 0."""

    def count(self, counter: Counted, turn: Register) -> None:
        """Append what brings a loop's counter into a register, or 0 where it is negative, at the beginning of its body; `turn` has
        the number of the turn."""
        register, (least, most) = _REGISTERS[0], counter.ends
        records = [Record(KcAffine, {"rd": Register(register), "c": counter.start, "r1": turn, "k1": counter.step})]
        if least < 0:
            records.append(Record(KcMax, {"rd": Register(register), "a": Register(register), "b": 0}))
        self.pieces.add(Scalars(records))
        self.most[counter.value] = max(most, 0)
        self.pieces.held[register] = counter.value, max(most, 0)

    def swap(self, turn: SSAValue, register: Register) -> None:
        """Append what brings the number of a turn, which is in a register, modulo 2 into the last register, which is left to it;
        `turn` stands for that number."""
        self.pieces.add(Scalars([Record(KcMod, {"rd": Register(LAST_REGISTER), "a": register, "b": 2})]))
        self.pieces.held[LAST_REGISTER] = turn, 1

    def clamped(self, number: tuple[SSAValue, int]) -> tuple[SSAValue, int]:
        """A number and its room; of a counter that is never more than that, the greatest that it is."""
        return number[0], min(self.most.get(*number), number[1])

    def of(self, op: ViewOp) -> Begin:
        """Where a view begins in the slot of the tensor that it shows."""
        port = port_of(op.tensor.type)
        size = port.size_bytes // prod(port.shape) if prod(port.shape) else 0
        outer = self.begins.get(op.tensor, Begin())
        terms = ((*self.clamped((start, room)), step * size) for start, step, room in op.terms if room)
        return Begin(outer.offset + op.first * size, (*outer.terms, *terms))

    def add(self, op: ViewOp) -> None:
        """Place a view: in its tensor's slot if kernels alone read it, else in a copy."""
        slots, begin = self.pieces.slots, self.of(op)
        slot = slots.of[op.tensor]
        if begin == Begin():
            slots.put(op.result, slot)
        elif len(begin.numbers) <= VIEW_REGISTERS and _is_for_kernels(op.result):
            slots.show(op.result, slot, [slots.of[start] for start, _ in begin.numbers])
            self.begins[op.result] = begin
            self.bases([begin], op)
        else:
            self.copy(op.tensor, begin, slots.place(op.result), op.result, op)

    def copy(self, source: SSAValue, begin: Begin, target: int, shown: SSAValue, op: Operation) -> None:
        """Append a copy of what is shown of a slot's value."""
        (base,) = self.bases([begin], op)
        self.pieces.copy_part(self.pieces.slots.of[source], base, target, port_of(shown.type).size_bytes, op)

    def bases(self, begins: Sequence[Begin], op: Operation) -> list[ViewBase]:
        """The same with registers, into which what is not there yet is loaded; there are enough."""
        wanted = list(dict.fromkeys(number for begin in begins for number in begin.numbers))
        held = self.pieces.held
        for number in wanted:
            if number not in held.values():
                free = next(r for r in _REGISTERS if held.get(r) not in wanted)
                start, room = number
                self.pieces.read_back(start, Register(free), op)
                clamp = ((KcMax, 0), (KcMin, room))
                self.pieces.add(Scalars([Record(kind, {"rd": Register(free), "a": Register(free), "b": b}) for kind, b in clamp]))
                held[free] = number
        registers = {number: register for register, number in held.items()}
        return [
            ViewBase(begin.offset, tuple((registers[start, room], size) for start, room, size in begin.terms)) for begin in begins
        ]


_REGISTERS = range(FIRST_VIEW_REGISTER, FIRST_VIEW_REGISTER + VIEW_REGISTERS)
LAST_REGISTER = _REGISTERS[-1]


def are_enough(begins: Iterable[Begin]) -> bool:
    """Are there registers for all numbers of some views?"""
    return len(dict.fromkeys(number for begin in begins for number in begin.numbers)) <= VIEW_REGISTERS


def _is_for_kernels(value: SSAValue) -> bool:
    """Do only kernels read it, and what shows it or a part of it?"""
    return all(isinstance(use.operation, KernelOp) or (isinstance(use.operation, ViewOp) and use.index == 0) for use in value.uses)
