"""Pass widen-narrow-types: elements no instruction computes with (f8, f6, f4, i4, i2) are computed with in wider ones.

%1 = stablehlo.add %0, %0 : i4      ⟶    %a = convert %0 : i4 -> i8; %b = add %a, %a; %1 = convert %b : i8 -> i4
%2 = stablehlo.compare %x, %y : f8  ⟶    compare of both as f32

A conversion is arithmetic on the bytes elements are kept in (`hlo.to_bits`, `hlo.from_bits`). Operations that only move elements
stay. Integers wrap at their own width, floats round after each operation; sums of floats are kept in f32 until they are done.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, ModuleOp, Signedness, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.hlo.types import bit_width, integer_limits, is_float, is_narrow_element, is_unsigned, numpy_dtype
from hlo2tx8.passes.formats.floats_of_bytes import as_half
from hlo2tx8.passes.formats.narrow_floats import float_to_single, from_bits, single_to_float, to_bits

_OWN = ("hlo.to_bits", "hlo.from_bits", "stablehlo.select")
_ON_BITS = tuple(f"stablehlo.{name}" for name in ("shift_right_logical", "popcnt", "count_leading_zeros"))
"""Ops on signed integers that see the bits in front of them as zeros."""
_ARITHMETIC = tuple(f"stablehlo.{name}" for name in ("add", "subtract", "multiply", "divide", "dot_general", "convolution"))
_MOVES = tuple(f"stablehlo.{name}" for name in ("reshape", "transpose", "broadcast_in_dim"))
_SAME_WHEN_WIDE = tuple(f"stablehlo.{name}" for name in ("add", "multiply", "and", "or", "xor", "maximum", "minimum"))
"""Combiners that may stay in the wider type until all is combined."""


@dataclass(frozen=True)
class WidenNarrowTypesPass(ModulePass):
    """Rewrites every op that computes with narrow elements; see the module docstring."""

    name = "widen-narrow-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not _has_narrow(op):
            return
        for inner in tuple(op.walk()):
            narrow = any(_is_narrow(value.type) for value in (*inner.operands, *inner.results))
            if narrow and inner.name not in _OWN and _is_there(inner, op):
                _widen(inner)


def _has_narrow(module: ModuleOp) -> bool:
    """Is any value of the module narrow? Values share the objects that are their types."""
    types: dict[int, Attribute] = {}
    for op in nested_ops(module):
        for result in op.results:
            types[id(result.type)] = result.type
        for region in op.regions:
            for block in region.blocks:
                types |= {id(arg.type): arg.type for arg in block.args}
    return any(_is_narrow(type_) for type_ in types.values())


def _is_there(op: Operation, module: ModuleOp) -> bool:
    """Is the op still part of the module?"""
    while (parent := op.parent_op()) is not None:
        op = parent
    return op is module


def _is_narrow(type_: Attribute) -> bool:
    """Is it a tensor of elements that are kept in a byte and that no instruction computes with?"""
    return is_tensor(type_) and is_narrow_element(as_tensor(type_).element_type)


def _widen(op: Operation) -> None:
    if not has_spec(op.name):
        return
    match spec_of(op).kind:
        case Kind.ELEMENTWISE if op.name == "stablehlo.convert":
            _convert(op)
        case Kind.ELEMENTWISE if op.name == "stablehlo.bitcast_convert":
            _bitcast(op)
        case Kind.ELEMENTWISE | Kind.DOT:
            _elementwise(op)
        case Kind.REDUCE:
            _reduce(op)
        case _ if op.name == "stablehlo.iota":
            _elementwise(op)
        case _:
            pass


def _element(value: SSAValue) -> Attribute:
    return as_tensor(value.type).element_type


def wide_element(element: Attribute) -> Attribute:
    """The element type to compute in: f32 for narrow floats, i8 or ui8 for narrow integers, other types unchanged."""
    if not is_narrow_element(element):
        return element
    dtype = numpy_dtype(element)
    if is_float(dtype):
        return Float32Type()
    return IntegerType(8, Signedness.UNSIGNED if is_unsigned(dtype) else Signedness.SIGNLESS)


def _wide_type(type_: Attribute) -> Attribute:
    return TensorType(wide_element(as_tensor(type_).element_type), as_tensor(type_).get_shape()) if _is_narrow(type_) else type_


def widened(e: Expansion, value: SSAValue) -> SSAValue:
    """The value converted to the type it is computed in."""
    if not _is_narrow(value.type):
        return value
    dtype = numpy_dtype(_element(value))
    if is_float(dtype):
        return float_to_single(e, value)
    byte, wide = to_bits(e, value), as_tensor(_wide_type(value.type))
    if is_unsigned(dtype):
        return e.emit("and", [byte, e.splat((1 << bit_width(dtype)) - 1, wide)], wide)
    return _sign_extended(e, e.emit("bitcast_convert", [byte], wide), bit_width(dtype))


def narrowed(e: Expansion, value: SSAValue, element: Attribute) -> SSAValue:
    """A value of the wide type converted back to `element`: integers wrapped, floats rounded."""
    if _element(value) == element:
        return value
    if is_float(numpy_dtype(element)):
        return single_to_float(e, value, element)
    byte_type = _bytes_like(value)
    byte = value if value.type == byte_type else e.emit("bitcast_convert", [value], byte_type)
    kept = e.emit("and", [byte, e.splat((1 << bit_width(numpy_dtype(element))) - 1, byte_type)], byte_type)
    return from_bits(e, kept, element)


def _bytes_like(value: SSAValue) -> TensorType[Attribute]:
    return TensorType(IntegerType(8, Signedness.UNSIGNED), as_tensor(value.type).get_shape())


def _replace(e: Expansion, values: Sequence[SSAValue]) -> None:
    results = zip(values, e.op.results, strict=True)
    e.replace(*(narrowed(e, v, _element(r)) if _is_narrow(r.type) else v for v, r in results))


def _elementwise(op: Operation) -> None:
    e = Expansion(op)
    operands = [widened(e, value) for value in op.operands]
    if op.name == "stablehlo.shift_right_arithmetic":
        operands[0] = _sign_extended(e, operands[0], _width(op))
    elif op.name in _ON_BITS:
        wide = as_tensor(operands[0].type)
        operands[0] = e.emit("and", [operands[0], e.splat((1 << _width(op)) - 1, wide)], wide)
    new = type(op).create(operands=operands, result_types=[_wide_type(r.type) for r in op.results], properties=dict(op.properties))
    found = e.insert(new).results[0]
    if op.name == "stablehlo.count_leading_zeros":
        found = e.emit("subtract", [found, e.splat(8 - _width(op), as_tensor(found.type))], found.type)
    _replace(e, [found])


def _width(op: Operation) -> int:
    return bit_width(numpy_dtype(_element(op.operands[0])))


def _sign_extended(e: Expansion, value: SSAValue, width: int) -> SSAValue:
    """Integers of 8 bits whose upper bits are those of the highest of `width`."""
    type_ = as_tensor(value.type)
    shift = e.splat(8 - width, type_)
    return e.emit("shift_right_arithmetic", [e.emit("shift_left", [value, shift], type_), shift], type_)


def _convert(op: Operation) -> None:
    e = Expansion(op)
    source, target = _element(op.operands[0]), _element(op.results[0])
    if source == target:
        e.replace(op.operands[0])
        return
    is_for_sums = isinstance(target, Float32Type) and _is_computed_with(op.results[0])
    if (is_for_sums or isinstance(target, BFloat16Type | Float16Type)) and (half := as_half(e, op.operands[0])) is not None:
        e.replace(e.converted(half, target))
        return
    if (
        isinstance(target, BFloat16Type | Float16Type | Float32Type)
        and not is_float(numpy_dtype(source))
        and _is_narrow(op.operands[0].type)
    ):
        e.replace(_as_float(e, op.operands[0], target))
        return
    value = widened(e, op.operands[0])
    wide = wide_element(target)
    own = _element(value)
    if is_narrow_element(target) and is_float(numpy_dtype(own)):
        if not is_float(numpy_dtype(target)):
            value = _clamped(e, value, target)
        elif isinstance(own, Float64Type):
            wide = own
    if own != wide:
        value = e.emit("convert", [value], TensorType(wide, as_tensor(value.type).get_shape()))
    _replace(e, [value])


def _is_computed_with(value: SSAValue) -> bool:
    """Is a value only multiplied and added up, so that the sign of a NaN is lost anyway?"""
    users = [use.operation for use in value.uses]
    return bool(users) and all(
        user.name in _ARITHMETIC or (user.name in _MOVES and _is_computed_with(user.results[0])) for user in users
    )


def _as_float(e: Expansion, value: SSAValue, target: Attribute) -> SSAValue:
    """Integers of few bits as floats: the vector engine converts what they are more than the least one."""
    dtype, byte = numpy_dtype(_element(value)), to_bits(e, value)
    width, type_ = bit_width(dtype), TensorType(target, as_tensor(value.type).get_shape())
    kept = e.emit("and", [byte, e.splat((1 << width) - 1, as_tensor(byte.type))], byte.type)
    if not is_unsigned(dtype):
        kept = e.emit("xor", [kept, e.splat(1 << (width - 1), as_tensor(byte.type))], byte.type)
    signed = e.emit("bitcast_convert", [kept], TensorType(IntegerType(8), type_.get_shape()))
    number = e.converted(signed, target)
    return number if is_unsigned(dtype) else e.emit("subtract", [number, e.splat(1 << (width - 1), type_)], type_)


def _clamped(e: Expansion, value: SSAValue, target: Attribute) -> SSAValue:
    """Floats within the limits of an integer type; NaN stays."""
    type_ = as_tensor(value.type)
    for name, limit in zip(("maximum", "minimum"), integer_limits(numpy_dtype(target)), strict=True):
        literal = LiteralAttr.from_array(np.array(limit).astype(numpy_dtype(type_.element_type)))
        value = e.emit(name, [value, e.emit("constant", [], type_, value=literal)], type_)
    return value


def _bitcast(op: Operation) -> None:
    """Between elements of equal width; the expansion of bitcasts has none between others left but through bytes."""
    source, target = _element(op.operands[0]), _element(op.results[0])
    if bit_width(numpy_dtype(source)) != bit_width(numpy_dtype(target)):
        return
    e, value = Expansion(op), op.operands[0]
    byte_type = _bytes_like(value)
    if is_narrow_element(source):
        value = to_bits(e, value)
    elif value.type != byte_type:
        value = e.emit("bitcast_convert", [value], byte_type)
    if is_narrow_element(target):
        value = from_bits(e, value, target)
    elif value.type != op.results[0].type:
        value = e.emit("bitcast_convert", [value], op.results[0].type)
    e.replace(value)


def _reduce(op: Operation) -> None:
    """A combiner that is one op works in the wider type until all is combined; another one's ops are rewritten where they are."""
    block = op.regions[0].block
    if not _is_simple(block):
        return
    e = Expansion(op)
    operands = [widened(e, value) for value in op.operands]
    new = type(op).create(
        operands=operands,
        result_types=[_wide_type(r.type) for r in op.results],
        properties=dict(op.properties),
        regions=[_one_op(block, _wide_type(block.args[0].type))],
    )
    _replace(e, list(e.insert(new).results))


def _is_simple(block: Block) -> bool:
    """Does a combiner give in the wider type what it gives in its own?"""
    combiner = block.first_op
    if combiner is None or len(block.args) != 2 or len(ops_of(block)) != 2 or combiner.name not in _SAME_WHEN_WIDE:
        return False
    rounds = combiner.name == "stablehlo.multiply" and is_float(numpy_dtype(_element(block.args[0])))
    return set(combiner.operands) == set(block.args) and not rounds


def _one_op(block: Block, type_: Attribute) -> Region:
    """The region of a combiner that is one op, with another type."""
    old = block.first_op
    assert old is not None
    new = Block(arg_types=[type_, type_])
    operands = [new.args[0 if operand is block.args[0] else 1] for operand in old.operands]
    combiner = type(old).create(operands=operands, result_types=[type_], properties=dict(old.properties))
    new.add_ops([combiner, stablehlo.ReturnOp(list(combiner.results))])
    return Region(new)
