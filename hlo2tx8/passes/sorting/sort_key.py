"""Sort keys: comparators f(a) < f(b) or f(a) > f(b) of one operand; such keys become distinct integers of 64 bits.

packed = f(x) as an integer of the same order << 32 | the element's number along the dimension
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, TensorType, f32, i32, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.lift_body import lift_body
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.types import DType, bit_width, is_float, is_integer, is_pred, is_unsigned, numpy_dtype
from hlo2tx8.ir import i64_attr

KEY_BITS = 32


@dataclass(frozen=True)
class SortKey:
    """The key of a sort: f of operand `number`, largest first if `is_descending`; `function` computes f from all of a comparator's
    arguments.

    `is_total`: floats are ordered as in IEEE 754's totalOrder, in which both zeros and all NaNs differ.
    """

    number: int
    function: Block
    is_descending: bool
    is_total: bool

    @property
    def dtype(self) -> DType:
        """Of what the function gives."""
        terminator = self.function.last_op
        assert terminator is not None
        return tensor_like(terminator.operands[0].type).dtype

    def ordered(self, e: Expansion) -> Term:
        """The key of each element as i32 in the order of the sort."""
        shape = tensor_like(e.op.operands[self.number].type).shape
        arguments = [operand for operand in e.op.operands for _ in range(2)]
        key = ordered_key(Term(e, lift_body(self.function, arguments, shape, e.op)[0]), is_total=self.is_total)
        return key ^ -1 if self.is_descending else key

    def packed(self, e: Expansion, dimension: int) -> Term:
        """Key and index of each element in one integer, in the order of the sort."""
        key = self.ordered(e)
        shape = key.type.get_shape()
        return with_number(key, Term(e, e.emit("iota", [], TensorType(i32, shape), iota_dimension=i64_attr(dimension))))


def with_number(key: Term, number: Term) -> Term:
    """Key and number of each element, both i32, in one integer in their order: of equal keys the smaller number first."""
    return (key.converted(i64) << KEY_BITS) | number.converted(i64)


def sort_key(comparator: Block) -> SortKey | None:
    """The key that a comparator compares, if it compares a single one of at most 32 bits; else None."""
    terminator = comparator.last_op
    assert terminator is not None
    compare = terminator.operands[0].owner
    if not isinstance(compare, Operation) or compare.name != "stablehlo.compare":
        return None
    attributes, (left, right) = attributes_of(compare), compare.operands
    direction = str(attributes["comparison_direction"])
    if direction not in ("LT", "GT") or not _fits(tensor_like(left.type).dtype) or not _is_same_of_next(left, right):
        return None
    arguments = _arguments_of(left)
    if len(arguments) != 1 or arguments[0].index % 2:
        return None
    is_total = str(attributes.get("compare_type")) == "TOTALORDER"
    return SortKey(arguments[0].index // 2, _function(comparator, left), direction == "GT", is_total)


def _fits(dtype: DType) -> bool:
    return (dtype.kind == "b" or is_float(dtype) or is_integer(dtype)) and bit_width(dtype) <= KEY_BITS


def ordered_key(key: Term, *, is_total: bool) -> Term:
    """The key as i32 of the same order."""
    dtype = tensor_like(key.value.type).dtype
    if is_float(dtype):
        wide = key if dtype.itemsize == 4 else key.converted(f32)
        wide = wide if is_total else wide.equals(0.0).choose(0.0, wide)
        return _turned_if_negative(wide.bitcast(i32))
    if is_unsigned(dtype) and bit_width(dtype) == KEY_BITS:
        return key.bitcast(i32) ^ -(1 << 31)
    return key if key.type.element_type == i32 else key.converted(i32)


def own_key(values: Term) -> Term:
    """Integers of at most 32 bits in the order of the elements, floats in the total order: of the elements' own width if they are
    floats or signed."""
    dtype = tensor_like(values.value.type).dtype
    if is_float(dtype):
        return _turned_if_negative(values.bitcast(IntegerType(bit_width(dtype))))
    return values if is_integer(dtype) and not is_unsigned(dtype) else ordered_key(values, is_total=True)


def own_key_bits(dtype: DType) -> int:
    """Bits that own keys of elements of a dtype differ in, sign included."""
    return bit_width(dtype) + (is_pred(dtype) or (is_unsigned(dtype) and bit_width(dtype) < KEY_BITS))


def element_of_own_key(key: Term, element: Attribute) -> Term:
    """The elements whose own keys these i32 are."""
    dtype = numpy_dtype(element)
    if is_float(dtype):
        return _turned_if_negative(key.converted(IntegerType(bit_width(dtype)))).bitcast(element)
    if is_unsigned(dtype) and bit_width(dtype) == KEY_BITS:
        return (key ^ -(1 << 31)).bitcast(element)
    return key.converted(element)


def _turned_if_negative(bits: Term) -> Term:
    """Bits of floats as integers in their order, and back."""
    width = bit_width(tensor_like(bits.value.type).dtype)
    return bits ^ (bits.call("shift_right_arithmetic", width - 1) & ((1 << (width - 1)) - 1))


def _is_same_of_next(left: SSAValue, right: SSAValue) -> bool:
    """Are these the same function, of an argument and of the one behind it?"""
    if isinstance(left, BlockArgument):
        return isinstance(right, BlockArgument) and left.owner is right.owner and right.index == left.index + 1
    a, b = left.owner, right.owner
    if not isinstance(a, Operation) or not isinstance(b, Operation) or a.name != b.name or a.properties != b.properties:
        return False
    if a.regions or left.type != right.type or len(a.operands) != len(b.operands):
        return False
    return all(_is_same_of_next(x, y) for x, y in zip(a.operands, b.operands, strict=True))


def _arguments_of(value: SSAValue) -> list[BlockArgument]:
    """The arguments that a value depends on."""
    found: dict[BlockArgument, None] = {}
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, BlockArgument):
            found[value] = None
        elif isinstance(value.owner, Operation):
            stack += value.owner.operands
    return list(found)


def _function(comparator: Block, value: SSAValue) -> Block:
    """A copy of the comparator that returns one of its values, and computes nothing else."""
    new = Block(arg_types=comparator.arg_types)
    mapping: dict[SSAValue, SSAValue] = dict(zip(comparator.args, new.args, strict=True))
    needed: dict[Operation, None] = {}
    stack = [value]
    while stack:
        owner = stack.pop().owner
        if isinstance(owner, Operation):
            needed[owner] = None
            stack += owner.operands
    new.add_ops([op.clone(value_mapper=mapping) for op in comparator.ops if op in needed])
    new.add_op(ReturnOp([mapping[value]]))
    Region(new)
    return new
