"""What a product multiplies that is made, element by element, of fewer bytes: weights with zero points, or factors of groups.

    %f = convert %q                               [4096, 4096] i8 -> bf16
    %g = reshape %f                               [32, 128, 4096]
    %r = broadcast_in_dim %s                      [32, 4096] -> [32, 128, 4096]
    %w = reshape (multiply %g, %r)                [4096, 4096]
    %y = dot_general %x, %w

`%w` is made of `%q`; `%r` and what makes it of `%s` say what it is made with. 128 rows in a row have the same factors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.types import bit_width, is_float, is_integer, is_unsigned, numpy_dtype
from hlo2tx8.partitioner.instruction import is_splat_constant, shape_of, tensor_type

CONVERT, RESHAPE, BROADCAST = (f"stablehlo.{name}" for name in ("convert", "reshape", "broadcast_in_dim"))
ARITHMETIC = tuple(f"stablehlo.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"))
MOVES = ("hlo.to_bits", "stablehlo.bitcast_convert")
"""What gives the same bits another type."""
BITS = tuple(f"stablehlo.{name}" for name in ("and", "or", "xor"))
STEPS = frozenset((CONVERT, RESHAPE, *ARITHMETIC, *MOVES, *BITS))
INTEGER_BITS, FLOAT_BITS = (8, 16, 32), (16, 32)
"""Of what the vector engine converts."""


@dataclass(frozen=True)
class MadeFrom:
    """How a value is made of `source`: by `steps`, the last one first, and `others`, which give steps what they read besides."""

    source: SSAValue
    steps: tuple[Operation, ...] = ()
    others: tuple[Operation, ...] = ()

    @property
    def is_conversion(self) -> bool:
        """Is the value the source in another type, and no more than that?"""
        return len(self.steps) == 1 and self.steps[0].name not in BITS

    @property
    def passes(self) -> float:
        """Vector instructions for each element behind the first conversion, as many as there would be on what is multiplied."""
        computed = [_width_bytes(op.results[0]) for op in self.steps if op.name not in (RESHAPE, *MOVES)][:-1]
        return sum(computed) / _width_bytes(self.steps[0].results[0]) if computed else 0.0

    def run(self, dim: int) -> int | None:
        """So many indices of a dimension that follow each other have the same factors, 0 if there are no groups; None if the value,
        or what it is made with, is seen in other shapes besides."""
        if not self.steps:
            return 0
        shape = shape_of(self.steps[0].results[0])
        all_shapes = {shape_of(op.results[0]) for op in (*self.steps, *self.others)}
        seen = [own for own in all_shapes if own != shape and prod(own) == prod(shape)]
        is_cut = all(len(own) > dim + 1 and (*own[:dim], own[dim] * own[dim + 1], *own[dim + 2 :]) == shape for own in seen)
        runs = {own[dim + 1] for own in seen} if is_cut else set[int]()
        return 0 if not seen else runs.pop() if len(runs) == 1 else None


def made_from(value: SSAValue) -> MadeFrom:
    """What a value is made of by conversions, arithmetic with what is repeated, and other shapes: of itself if by none."""
    steps, others = list[Operation](), list[Operation]()
    source, end = value, (0, 0)
    readers = 1
    while (not steps or len(list(value.uses)) == readers) and (step := _step(value)) is not None:
        ops, value, more = step
        steps += ops
        others += more
        readers = 1 + (len(ops) > 1)
        if ops[-1].name in (CONVERT, *MOVES, *BITS):
            source, end = value, (len(steps), len(others))
    return MadeFrom(source, tuple(steps[: end[0]]), tuple(others[: end[1]]))


def have_same_source(dot: Operation, other: Operation, number: int) -> bool:
    """Is an operand of two products made of the same bytes, of different parts of them?"""
    made, also = made_from(dot.operands[number]), made_from(other.operands[number])
    return bool(made.steps) and bool(also.steps) and made.source is also.source


def _step(value: SSAValue) -> tuple[Sequence[Operation], SSAValue, Sequence[Operation]] | None:
    """What makes a value, of which one, and what gives it the others. A sum of a value and what is made of it is one step."""
    op = value.owner
    if isinstance(op, Block) or op.name not in STEPS or not is_row_major(tensor_type(value)):
        return None
    if op.name in (RESHAPE, *MOVES) or (op.name == CONVERT and _is_converted_by_vectors(op)):
        return [op], op.operands[0], ()
    if op.name in BITS and bit_width(numpy_dtype(tensor_type(value).element_type)) in INTEGER_BITS:
        constants = [number for number in (0, 1) if is_splat(op.operands[number])]
        return ([op], op.operands[1 - constants[0]], _repeated(op.operands[constants[0]]) or ()) if len(constants) == 1 else None
    if op.name not in ARITHMETIC or not _is_of_vectors(value):
        return None
    for number in (0, 1):
        found = _repeated(op.operands[1 - number])
        if found is not None and _repeated(op.operands[number]) is None:
            return [op], op.operands[number], found
    return _sum_with_own(op)


def _sum_with_own(op: Operation) -> tuple[Sequence[Operation], SSAValue, Sequence[Operation]] | None:
    """The step of a value plus what arithmetic with numbers makes of it."""
    first, value = op.operands
    ops, others = [op], list[Operation]()
    while value is not first and isinstance(own := value.owner, Operation) and own.name in ARITHMETIC and value.has_one_use():
        found = _repeated(own.operands[1])
        if found is None:
            return None
        ops.append(own)
        others += found
        value = own.operands[0]
    return (ops, first, others) if value is first and len(ops) > 1 else None


def is_splat(value: SSAValue) -> bool:
    """Is it one number, repeated?"""
    found = _repeated(value)
    return bool(found) and is_splat_constant(found[-1])


def _repeated(value: SSAValue) -> Sequence[Operation] | None:
    """What repeats a smaller tensor, or a number; None if a value is nothing of that."""
    found: list[Operation] = []
    while isinstance(op := value.owner, Operation) and op.name in (BROADCAST, RESHAPE) and value.has_one_use():
        found.append(op)
        value = op.operands[0]
    if isinstance(op := value.owner, Operation) and is_splat_constant(op):
        return [*found, op]
    return found if any(op.name == BROADCAST for op in found) else None


def _is_of_vectors(value: SSAValue) -> bool:
    dtype = numpy_dtype(tensor_type(value).element_type)
    return is_float(dtype) and bit_width(dtype) in FLOAT_BITS


def _is_converted_by_vectors(op: Operation) -> bool:
    """Are elements of a type that the vector engine makes floats of, or floats of which it makes integers?"""
    source, made = (numpy_dtype(tensor_type(value).element_type) for value in (op.operands[0], op.results[0]))
    integer = made if is_integer(made) else source
    if is_integer(integer) and (bit_width(integer) not in INTEGER_BITS or is_unsigned(integer)):
        return False
    return all(bit_width(own) in FLOAT_BITS for own in (source, made) if is_float(own)) and (is_float(source) or is_float(made))


def _width_bytes(value: SSAValue) -> int:
    return numpy_dtype(tensor_type(value).element_type).itemsize
