"""What selectors of boxes have in common: the vectors they know, and operands, buffers and copies of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.kc_move import KcVConvert
from hlo2tx8.dialects.vec import VecDotOp
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.element_format import Operand, PerChannel, Splat, Vector, constant_bits, storage_format
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.select.store_blocks import InBlocks


@dataclass(frozen=True)
class Sums:
    """Partial sums in a buffer, in the engine's layout; where `started` is 0 they count as zero, whatever the buffer holds."""

    buffer: SSAValue
    started: Size


@dataclass(frozen=True)
class Side:
    """A side's buffers, one per part, and format, whether its channels are not the depth, and the lanes of its vector in order."""

    buffers: tuple[SSAValue, ...]
    fmt: Format
    is_transposed: bool
    order: tuple[int, ...]
    step: StepBuilder

    @property
    def buffer(self) -> SSAValue:
        return self.buffers[0]

    def part(self, number: int) -> "Side":
        """The side with one of its parts only."""
        return replace(self, buffers=(self.buffers[number],))


@dataclass
class Selector(ABC):
    """Selects instructions for operations on the vectors of one `vec.box`.

    `slots` maps VECTOR-level tensors, scalars and indices to their SCHEDULED counterparts, `hoisted` has what was emitted before
    the steps; `vectors` holds the buffer or splat of each vector value, `sums` the partial sums of contractions; the matrix engine
    did the conversions `narrowed`. `sides` has the operands of dots, with the dots and their numbers in them, per block.
    """

    step: StepBuilder
    slots: dict[SSAValue, SSAValue]
    hoisted: dict[tuple[object, ...], SSAValue]
    vectors: dict[SSAValue, Vector] = field(default_factory=dict[SSAValue, Vector])
    sums: dict[SSAValue, Sums] = field(default_factory=dict[SSAValue, Sums])
    narrowed: set[Operation] = field(default_factory=set[Operation])
    sides: dict[Block | None, list[tuple[VecDotOp, int, Side]]] = field(
        default_factory=dict[Block | None, list[tuple[VecDotOp, int, Side]]]
    )

    in_blocks: dict[SSAValue, InBlocks] = field(default_factory=dict[SSAValue, InBlocks])
    """Results of the matrix engine that are only stored."""
    is_side: bool = False

    @abstractmethod
    def select(self, block: Block) -> None:
        """Selects all operations of a block."""

    @abstractmethod
    def select_one(self, op: Operation) -> None:
        """Selects one operation of the box."""

    @abstractmethod
    def within(self, step: StepBuilder) -> "Selector":
        """A selector for vectors of another shape that knows the same values."""

    @abstractmethod
    def take_units(self) -> None:
        """Reads what whole blocks of columns have once as that, where this is the side of a contraction."""

    def is_in_blocks(self, value: SSAValue) -> bool:
        """Does a vector lie in padded channel blocks, as the matrix engine reads it?"""
        return False

    def vector(self, value: SSAValue) -> Vector:
        """The buffer or splat of a value; a scalar is the same in all lanes."""
        return self.vectors[value] if value in self.vectors else _splat(value)

    def operand(self, value: SSAValue) -> Operand:
        """The value as an instruction's operand."""
        return self.vector(value)

    def buffer(self, value: Operand) -> SSAValue:
        """The vector in SPM; a splat is written once, before the steps."""
        if isinstance(value, PerChannel):
            raise CompileError("E3201", "only vectors in channel blocks have an element per channel")
        return self.filled_before_steps(value, self.step.num_lanes) if isinstance(value, Splat) else value

    def filled_before_steps(self, value: Splat, count: int) -> SSAValue:
        """A buffer of as many equal elements, written once, before the steps."""
        key = ("splat", value.bits, value.fmt, count)
        if key not in self.hoisted:
            self.hoisted[key] = self.in_prologue(lambda: self.filled(value, count, count))
        return self.hoisted[key]

    def apply_per_channel(
        self, forms: tuple[type[Instruction], type[Instruction]], a: SSAValue, unit: SSAValue, fmt: Format
    ) -> SSAValue:
        """A vector with an element per channel applied to it, as `forms`, VuV and VuV_loop, do."""
        raise CompileError("E3201", "only vectors in channel blocks have an element per channel")

    def in_prologue(self, emit: Callable[[], SSAValue]) -> SSAValue:
        """What `emit` gives, emitted before the steps."""
        outer, self.step.builder = self.step.builder, self.step.prologue
        valid, self.step.valid = self.step.valid, {}
        result = emit()
        self.step.builder, self.step.valid = outer, valid
        return result

    def filled(self, value: Splat, n: Size, num_elements: int | None = None) -> SSAValue:
        """A new vector of the same element, of which the first `n` are written."""
        buffer = self.step.alloc(value.fmt, num_elements)
        self.step.fill(buffer, value.bits, value.fmt, n)
        return buffer

    def copy(self, source: SSAValue, fmt: Format) -> SSAValue:
        """A copy of a vector."""
        dst = self.step.alloc(fmt)
        self.step.move(dst, source, [BoxLevel(self.step.count(), (1, 1))], fmt)
        return dst

    def own_buffer(self, value: Vector, fmt: Format) -> SSAValue:
        """A new buffer that holds the vector."""
        return self.filled(value, self.step.count()) if isinstance(value, Splat) else self.copy(value, fmt)

    def as_format(self, value: Vector, fmt: Format, wanted: Format) -> SSAValue:
        """The vector converted to another format on the kernel core."""
        source = self.buffer(value)
        if fmt is wanted:
            return source
        dst = self.step.alloc(wanted)
        self.step.insert(KcVConvert.make(fmt=wanted, fmt2=fmt, dst=dst, src=source, n=self.step.count(), origin=self.step.origin))
        return dst


def _splat(value: SSAValue) -> Splat:
    return Splat(constant_bits(value), storage_format(value.type))
