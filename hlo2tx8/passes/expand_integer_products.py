"""Pass expand-integer-products: products of integers other than i8 become some of i8, which the matrix engine multiplies.

dot_general i8 %a, i8 %b -> i8      ⟶   convert (dot_general(%a, %b) -> i32)
dot_general u8 %a, i8 %b -> i32     ⟶   dot_general(%a - 128 as i8, %b) + 128 * (sums of %b)
dot_general i16 %a, i8 %b -> i32    ⟶   (dot_general(high bytes, %b) << 8) + dot_general(low bytes - 128, %b) + 128 * (sums of %b)
dot_general i32, i32 -> i32         ⟶   the ten products of bytes that count modulo 2^32, shifted and added up
convolution (convert u8) - zero     ⟶   as a dot; the image is padded with the zero point

A factor is the sum of its digits, of 8 bits each, and an offset, see `integers.factors`; conversions and zero points are looked
through. Sums wrap modulo 2^32, as those of the integers do. Products that have few terms for each element that would be taken apart
stay as they are, and so do those of 64 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.types import bit_width, dtype, holds_all, is_integer
from hlo2tx8.notes import add_notes
from hlo2tx8.passes.integers.factors import SCALAR, Factor, FactorSource, factor_of, kind_of, shaped, source_of
from hlo2tx8.passes.integers.products import ConvolutionProduct, DotProduct, IntegerProduct

PRODUCTS = ("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution")
TERMS_OF_PRODUCT = 24_000
"""Terms, one for each digit of an element besides, that vectors multiply and add up in the time of a small product of i8 and what
adds it to others."""


@dataclass(frozen=True)
class ExpandIntegerProductsPass(ModulePass):
    """Rewrites dots and convolutions; see the module docstring."""

    name = "expand-integer-products"

    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        notes = [_expand(product) for product in ops_named(op, PRODUCTS)]
        if self.explain:
            add_notes(op, [note for note in notes if note is not None])


def _expand(op: Operation) -> str | None:
    """Replaces the product by what takes less time; a line about it, None if it stays."""
    kinds = [kind_of(value) for value in (*op.operands, op.results[0])]
    if not all(map(is_integer, kinds)):
        return None
    e, is_convolution = Expansion(op), op.name == "stablehlo.convolution"
    product = ConvolutionProduct(e) if is_convolution else DotProduct.of(e)
    if kinds[:2] == [dtype("int8")] * 2 and bit_width(kinds[2]) < 32:
        e.replace(e.converted(product.product(*op.operands), as_tensor(op.results[0].type).element_type))
        return f"{op.name} of int8 in int32"
    if all(holds_all(dtype("int8"), kind) for kind in kinds[:2]):
        return None
    if (bits := bit_width(kinds[2])) not in (8, 16, 32):
        return None
    left, right = (source_of(value, bits) for value in op.operands)
    fill = None
    if is_convolution:
        fill = left.fill(e) if left.has_offset else None
        if left.has_offset and fill is None:
            left = FactorSource(op.operands[0], bits=bits)
        if right.has_offset and int(attributes_of(op)["batch_group_count"]) > 1:
            right = FactorSource(op.operands[1], bits=bits)
            if right.has_offset:
                return None
    places = [p + q for p in range(left.num_digits) for q in range(right.num_digits) if 8 * (p + q) < bits]
    if not _is_worth(op, (left, right), product.num_terms, len(places)):
        return None
    values = [shaped(e, source) for source in (left, right)]
    if isinstance(product, ConvolutionProduct) and fill is not None:
        values[0] = product.padded(values[0], fill)
    factors = [factor_of(e, source, value) for source, value in zip((left, right), values, strict=True)]
    total = _with_offsets(e, product, factors, _product(e, product, factors, max(places)))
    e.replace(e.converted(total, as_tensor(op.results[0].type).element_type))
    given = " and ".join(f"{kind_of(source.value)} ({source.num_digits})" for source in (left, right))
    return f"{op.name} of {given} by digits: {len(places)} of int8"


def _is_worth(op: Operation, sources: Sequence[FactorSource], num_terms: int, num_products: int) -> bool:
    """Are there enough terms to make up for kernels of their own and the digits?"""
    sizes = [prod(tensor_like(value.type).shape) for value in op.operands]
    digits = [n * s.num_digits for n, s in zip(sizes, sources, strict=True) if kind_of(s.value) != dtype("int8")]
    return prod(tensor_like(op.results[0].type).shape) * num_terms >= TERMS_OF_PRODUCT * num_products + sum(digits)


def _product(e: Expansion, product: IntegerProduct, factors: Sequence[Factor], highest: int) -> SSAValue:
    """The sum of digits' products, each 2^8 times for each place."""
    left, right = (factor.digits for factor in factors)
    parts = [[(a, right[place - p]) for p, a in enumerate(left) if 0 <= place - p < len(right)] for place in range(highest + 1)]
    return _in_places(e, [reduce(partial(_add, e), [product.product(a, b) for a, b in pairs]) for pairs in parts])


def _with_offsets(e: Expansion, product: IntegerProduct, factors: Sequence[Factor], total: SSAValue) -> SSAValue:
    """sum((a + x) (b + y)) = sum(a b) + x sum(b) + y (sum(a) + n x), given sum(a b)."""
    left, right = factors
    if left.offset is not None:
        sums = _in_places(e, [product.sums(1, digit) for digit in right.digits])
        total = _add(e, total, product.spread(1, _times(e, sums, left.offset)))
    if right.offset is not None:
        sums = _in_places(e, [product.sums(0, digit) for digit in left.digits])
        if left.offset is not None:
            more = _times(e, left.offset, e.splat(product.num_terms, SCALAR))
            sums = _add(e, sums, _spread(e, more, sums))
        total = _add(e, total, product.spread(0, _times(e, sums, right.offset)))
    return total


def _in_places(e: Expansion, values: Sequence[SSAValue]) -> SSAValue:
    """The sum of 2^(8 p) * values[p]."""
    total = values[-1]
    for value in reversed(values[:-1]):
        shifted = e.emit("shift_left", [total, _spread(e, e.splat(8, SCALAR), total)], total.type)
        total = _add(e, shifted, value)
    return total


def _add(e: Expansion, a: SSAValue, b: SSAValue) -> SSAValue:
    return e.emit("add", [a, b], a.type)


def _times(e: Expansion, values: SSAValue, scalar: SSAValue) -> SSAValue:
    return e.emit("multiply", [values, _spread(e, scalar, values)], values.type)


def _spread(e: Expansion, scalar: SSAValue, like: SSAValue) -> SSAValue:
    """The number of rank 0 for each element of the other value."""
    shape = tensor_like(like.type).shape
    return e.emit("broadcast_in_dim", [scalar], e.like(scalar, shape), broadcast_dimensions=int_array(())) if shape else scalar
