"""Pass split-packed-products: a product of weights several of which are in a byte becomes one of each part of the bytes.

    %l = and %q, 15        %h = shift_right_logical %q, 4        [2048, 4096]
    %w = reshape (concatenate %l, %h along 1)                    [2048, 2, 4096] -> [4096, 4096]
    %y = dot_general %x, (convert %w)

    ⟶    add (dot_general %x0, (convert %l)), (dot_general %x1, (convert %h))

%x0 has the even columns of %x, %x1 the odd ones. Where columns of the result are packed it is put together of the parts' columns.
Sums of two products are f32; nothing is added up in another precision, but in another order.

`Options(reassociate=False)` leaves the pass out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, dot_numbers
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import attributes_of, has_spec
from hlo2tx8.hlo.ops.dot import numbers_of, places_in_result
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.hlo.types import bit_width, is_float, is_integer, numpy_dtype
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.contraction import dot_dimensions
from hlo2tx8.partitioner.equal_ops import erase_unread_of_functions
from hlo2tx8.partitioner.instruction import kind_of, shape_of, tensor_type
from hlo2tx8.passes.integers.bit_fields import bit_field
from hlo2tx8.passes.integers.factors import kind_of as dtype_of
from hlo2tx8.passes.packed.cut import BROADCAST, CONCATENATE, TRANSPOSE, Cut, CutParts, joined, keeps_elements

MOST_PARTS = 8
"""Of a word of 32 bits, of four bits each."""
FEW_PARTS, MOST_ROWS = 4, 128
"""Of more parts than these tiles do not share what they read: such weights are split for so many rows only."""
MOST_DEPTH = 40
"""Ops between a product and what is packed."""


@dataclass(frozen=True)
class SplitPackedProductsPass(ModulePass):
    """Rewrites products of packed weights; see the module docstring."""

    name = "split-packed-products"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes: list[str] = []
        for dot in ops_named(op, ("stablehlo.dot_general", "stablehlo.dot")):
            for side in (0, 1):
                cut = _packed(dot.operands[side]) if is_float(dtype_of(dot.operands[side])) and num_parts(dot) == 1 else None
                if cut is not None and _split(_general(dot), side, cut):
                    notes.append(f"dot_general of weights {cut.count} of which are packed: reassociated, one of each part")
                    break
        if notes:
            erase_unread_of_functions(op)
        if self.explain:
            add_notes(op, notes)


def _packed(value: SSAValue, depth: int = 0) -> Cut | None:
    """How a value is cut into parts that are each made of the same bytes; None if it is not known to be."""
    op = value.owner
    if not isinstance(op, Operation) or not has_spec(op.name) or len(op.results) != 1 or depth > MOST_DEPTH:
        return None
    if op.name == CONCATENATE:
        return _of_same_bytes(op)
    if op.name == TRANSPOSE or keeps_elements(op):
        inner = _packed(op.operands[0], depth + 1)
        return inner and inner.behind(op)
    if op.name == BROADCAST or kind_of(op) is not Kind.ELEMENTWISE:
        return None
    if (cut := _moved_apart(op)) is not None:
        return cut
    others = [operand for operand in op.operands if not _is_repeated(operand)]
    return _packed(others[0], depth + 1) if len(others) == 1 and shape_of(others[0]) == shape_of(value) else None


def _is_repeated(value: SSAValue) -> bool:
    """Is it a broadcast of fewer elements, maybe in another shape or type?"""
    while isinstance(op := value.owner, Operation) and (keeps_elements(op) or op.name == "stablehlo.convert"):
        value = op.operands[0]
    return scalar_of(value) is not None or (isinstance(op := value.owner, Operation) and op.name == BROADCAST)


def _of_same_bytes(op: Operation) -> Cut | None:
    """Of a concatenation of different bits of the same bytes."""
    dim, values = int(attributes_of(op)["dimension"]), list(op.operands)
    if not 1 < len(values) <= MOST_PARTS or len({shape_of(value) for value in values}) > 1:
        return None
    fields = [bit_field(_unshaped(value)) for value in values]
    found = [field for field in fields if field is not None]
    if len(found) < len(fields) or len({field.source for field in found}) > 1:
        return None
    if any(a.mask & b.mask for number, a in enumerate(found) for b in found[:number]):
        return None
    return Cut(dim, len(values), shape_of(values[0])[dim])


def _unshaped(value: SSAValue) -> SSAValue:
    while isinstance(op := value.owner, Operation) and keeps_elements(op):
        value = op.operands[0]
    return value


def _moved_apart(op: Operation) -> Cut | None:
    """Of bytes, repeated along a dimension, whose bits are moved by another number at each index there."""
    if op.name.rpartition(".")[2] not in ("shift_right_logical", "shift_right_arithmetic", "shift_left"):
        return None
    spread, shape = _unconverted(op.operands[0]).owner, shape_of(op.results[0])
    if not isinstance(spread, Operation) or spread.name != BROADCAST or scalar_of(op.operands[1]) is not None:
        return None
    if not is_integer(dtype_of(op.operands[0])) or bit_width(dtype_of(op.operands[0])) not in (8, 16, 32):
        return None
    dims, inner = tuple(attributes_of(spread)["broadcast_dimensions"]), shape_of(spread.operands[0])
    kept = {dim for dim, size in zip(dims, inner, strict=True) if size == shape[dim]}
    new = [dim for dim, size in enumerate(shape) if size > 1 and dim not in kept]
    if len(new) != 1 or not 1 < shape[new[0]] <= MOST_PARTS:
        return None
    return Cut(new[0], shape[new[0]], 1)


def _unconverted(value: SSAValue) -> SSAValue:
    while isinstance(op := value.owner, Operation) and op.name == "stablehlo.convert":
        value = op.operands[0]
    return value


def _general(dot: Operation) -> Operation:
    """The product of two matrices, or more, as a `dot_general`."""
    if dot.name != "stablehlo.dot":
        return dot
    e = Expansion(dot)
    kept = {key: value for key, value in dot.properties.items() if key == "precision_config"}
    numbers = dot_numbers(*dot_dimensions(dot))
    value = e.emit("dot_general", dot.operands, dot.results[0].type, dot_dimension_numbers=numbers, **kept)
    e.replace(value)
    found = value.owner
    assert isinstance(found, Operation)
    return found


def _split(dot: Operation, side: int, cut: Cut) -> bool:
    """Replaces a product by those of the parts; False if it cannot be."""
    numbers, type_, other = numbers_of(attributes_of(dot)), tensor_type(dot.results[0]), dot.operands[1 - side]
    batch, added = numbers[side], numbers[2 + side]
    rows = prod(shape_of(other)) // prod(shape_of(other)[dim] for dim in (*numbers[1 - side], *numbers[3 - side]))
    if cut.dim in batch or not is_float(numpy_dtype(type_.element_type)) or (cut.count > FEW_PARTS and rows > MOST_ROWS):
        return False
    e = Expansion(dot)
    parts = CutParts(e)
    weights = [parts.of(dot.operands[side], cut, number) for number in range(cut.count)]
    if cut.dim in added:
        place = numbers[3 - side][added.index(cut.dim)]
        others = [parts.of(other, Cut(place, cut.count, cut.inner), number) for number in range(cut.count)]
        result = TensorType(f32, type_.get_shape())
        products = [_product(e, dot, side, own, row, result) for own, row in zip(weights, others, strict=True)]
        total = products[0]
        for product in products[1:]:
            total = e.emit("add", [total, product], result)
        e.replace(e.converted(total, type_.element_type))
        return True
    ranks = [len(shape_of(value)) for value in dot.operands]
    own = Cut(places_in_result(attributes_of(dot), ranks, side)[cut.dim], cut.count, cut.inner)
    result = TensorType(f32, own.of_part(type_.get_shape()))
    products = [_product(e, dot, side, weight, other, result) for weight in weights]
    e.replace(joined(e, [e.converted(product, type_.element_type) for product in products], own, type_.get_shape()))
    return True


def _product(e: Expansion, dot: Operation, side: int, weights: SSAValue, other: SSAValue, type_: TensorType) -> SSAValue:
    operands: Sequence[SSAValue] = (weights, other) if side == 0 else (other, weights)
    return e.same(dot, operands, type_)
