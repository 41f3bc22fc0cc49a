"""What a fusion decision saves, in modelled cycles of the whole chip.

An intermediate that stays in a fusion is neither written to DDR nor read from it, and a kernel less waits for all tiles; an
instruction that several fusions have a copy of is computed as often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, prod

from xdsl.dialects.builtin import DenseArrayBase, i1
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.isa import ct_activation
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.vector_instructions import (
    CT_BITS,
    FLOATS,
    WITHOUT_CT,
    converts_integers,
    ct_unary,
    is_rounded_exponential,
    rounds_as_it_converts,
)
from hlo2tx8.dialects.xla_dot import PASSES
from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.partitioner.contraction import num_products
from hlo2tx8.partitioner.instruction import kind_of, shape_of, tensor_type
from hlo2tx8.schedule.contraction_work import BLOCK

AT_ONCE = ("add", "subtract", "multiply", "maximum", "minimum", "and", "or", "xor", "not", "negate", "abs", "convert")
"""What the kernel core has one instruction for."""
PER_CHANNEL_PASSES = 4
"""Of a batch norm: the mean is subtracted, two factors and the offset are applied."""


@dataclass(frozen=True)
class Costs:
    """What fusion decisions cost and save on a chip of these rates, in cycles of the whole chip."""

    rates: Rates

    def transfer(self, value: SSAValue) -> float:
        """Reading or writing the tensor once."""
        return size_bytes(value) / self.rates.ddr

    def width(self, value: SSAValue) -> int:
        """Bytes of an element."""
        return numpy_dtype(tensor_type(value).element_type).itemsize

    def of_body(self, moved: Sequence[SSAValue], body: Sequence[Operation]) -> float:
        """A kernel that moves these tensors once and has these instructions: what bounds it, and what it costs besides."""
        computed = sum(self.compute(op) for op in body if kind_of(op) is Kind.ELEMENTWISE)
        return max(sum(map(self.transfer, moved)), computed) + self.rates.kernel

    def saved(self, op: Operation, reads: int, writes: int) -> float:
        """What it saves not to read and write the results of an instruction so often, and to have a kernel less."""
        return (reads + writes) * sum(map(self.transfer, op.results)) + self.rates.kernel

    def compute(self, op: Operation) -> float:
        """Computing all elements of an elementwise instruction."""
        size = max(map(size_bytes, (*op.operands, *op.results)))
        if not _is_for_vectors(op):
            return size / (self.rates.tiles * self.rates.kernel_core)
        return size / (self.rates.tiles * self.rates.vector) * vector_times(op, self.rates)

    def repeated(self, op: Operation, times: float) -> float:
        """Computing an elementwise instruction so many times instead of once, on the kernel core, which issues nothing for other
        engines meanwhile. What the vector engine computes may cost nothing."""
        is_without = op.name.partition(".")[2] in WITHOUT_CT and not rounds_as_it_converts(op)
        on_core = kind_of(op) is Kind.ELEMENTWISE and (not _is_for_vectors(op) or is_without)
        size = max(map(size_bytes, (*op.operands, *op.results)), default=0) if on_core else 0
        return max(0.0, times - 1) * size / (self.rates.tiles * self.rates.kernel_core)

    def alone(self, op: Operation, root: Operation) -> float:
        """What reading each element of an instruction's result by itself takes longer in a fusion with that root, whose elements
        may be fewer than tiles."""
        elements, busy = (max(1, prod(tensor_type(own.results[0]).get_shape())) for own in (op, root))
        return elements * self.rates.transfer_start * (1 / min(busy, self.rates.tiles) - 1 / self.rates.tiles)

    def products(self, dot: Operation) -> float:
        """What the matrix engines of all tiles take for a dot."""
        rate = self.rates.int8_products if self.width(dot.operands[0]) == 1 else self.rates.products
        passes = len(PASSES[num_parts(dot)])
        return prod(tensor_type(dot.results[0]).get_shape()) * num_products(dot) * passes / (rate * self.rates.tiles)

    def with_blocks(self, dot: Operation) -> int:
        """How many tiles a product has blocks for, of as many rows as the engine takes at once. Columns that are no whole blocks
        are made by rows alone."""
        *rows, columns = tensor_type(dot.results[0]).get_shape()
        blocks = columns // BLOCK if columns % BLOCK == 0 else 1
        return min(self.rates.tiles, ceil(prod(rows) / self.rates.product_rows) * blocks)

    def idle(self, num_rows: int, num_bytes: float) -> float:
        """What moving as many bytes takes longer if fewer rows than tiles share the work."""
        busy = min(self.rates.tiles, num_rows)
        return max(0.0, num_bytes / (busy * self.rates.transfer) - num_bytes / self.rates.ddr)


def cycles_per_element(op: Operation, rates: Rates) -> float:
    """Of a tile that computes an element of an instruction's result; infinite where nobody said."""
    match kind_of(op):
        case Kind.SHAPING | Kind.CONSTANT:
            return 0.0
        case Kind.INDEXED:
            return 1.0
        case Kind.ELEMENTWISE | Kind.PER_CHANNEL:
            width = max(numpy_dtype(tensor_type(value).element_type).itemsize for value in (*op.operands, *op.results))
            return width / rates.vector * vector_times(op, rates) if _is_for_vectors(op) else width / rates.mixed_kernel_core
        case _ if op.name in ("stablehlo.reduce", "stablehlo.reduce_window"):
            terms = op.properties.get("window_dimensions")
            read = prod(terms.get_values()) if isinstance(terms, DenseArrayBase) else _ratio(op)
            return read * sum(cycles_per_element(inner, rates) for inner in op.regions[0].block.ops if inner.results)
        case _:
            return inf


def cycles_per_summed_element(op: Operation, rates: Rates) -> float:
    """Of an instruction on the sums of a product, which lie as they are wanted: nothing is brought for it, and the kernel core
    takes one instruction for what it has one for."""
    found = cycles_per_element(op, rates)
    return found * rates.mixed_kernel_core / rates.kernel_core if is_at_once(op) else found


def is_at_once(op: Operation) -> bool:
    """Is it what the kernel core computes in one instruction?"""
    return not _is_for_vectors(op) and op.name.partition(".")[2] in AT_ONCE


def _ratio(op: Operation) -> float:
    return prod(tensor_type(op.operands[0]).get_shape()) / max(1, prod(tensor_type(op.results[0]).get_shape()))


def is_in_vectors(value: SSAValue) -> bool:
    """Has the vector engine such elements: floats, or what comparing floats says where only floats are made of it?"""
    if tensor_type(value).element_type != i1 or not isinstance(value.owner, Operation):
        return _is_float(value)
    made = [result for use in value.uses for result in use.operation.results]
    return bool(made) and all(map(_is_float, (*value.owner.operands, *made)))


def is_by_vectors(op: Operation) -> bool:
    """Does the vector engine compute it: something of elements that it has, a conversion of integers, bits of what it made?"""
    return all(map(is_in_vectors, (*op.operands, *op.results))) or converts_integers(op) or _is_of_bits(op)


def _is_for_vectors(op: Operation) -> bool:
    return is_in_vectors(op.results[0]) or _is_truth_of_vectors(op.results[0]) or converts_integers(op) or _is_of_bits(op)


def _is_of_bits(op: Operation) -> bool:
    """Does it change bits of integers that the vector engine made of floats, or take them for another type?"""
    name = op.name.removeprefix("stablehlo.")
    if (name not in CT_BITS and name != "bitcast_convert") or tensor_type(op.results[0]).element_type == i1:
        return False
    made = [value.owner for value in op.operands if scalar_of(value) is None]
    return bool(made) and all(isinstance(own, Operation) and (converts_integers(own) or _is_of_bits(own)) for own in made)


def _is_truth_of_vectors(value: SSAValue) -> bool:
    """Is it what comparing floats says, or what is said of such together?"""
    if not isinstance(op := value.owner, Operation) or tensor_type(value).element_type != i1:
        return False
    name = op.name.removeprefix("stablehlo.")
    if name == "compare":
        return all(map(_is_float, op.operands))
    return name in ("not", *CT_BITS) and all(map(_is_truth_of_vectors, op.operands))


def _is_float(value: SSAValue) -> bool:
    return isinstance(tensor_type(value).element_type, FLOATS)


def vector_times(op: Operation, rates: Rates) -> int:
    """How many times as long as an addition the vector engine takes for the instruction, 1 where it has none."""
    if rounds_as_it_converts(op):
        return 0
    if kind_of(op) is Kind.PER_CHANNEL:
        return PER_CHANNEL_PASSES
    if is_rounded_exponential(op):
        return rates.beats.of(ct_activation.CtExpLowPrecision.COST) - 1  # what rounds it does nothing then
    kind = ct_unary(op.name.partition(".")[2], numpy_dtype(tensor_type(op.results[0]).element_type).itemsize)
    return 1 if kind is None else rates.beats.of(kind.COST)


def size_bytes(value: SSAValue) -> int:
    """Bytes of a tensor in DDR."""
    return prod(shape_of(value)) * numpy_dtype(tensor_type(value).element_type).itemsize
