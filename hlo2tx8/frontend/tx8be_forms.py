"""Ops of `tx8be` that mean several of StableHLO: products with what follows them, statistics in f32, operands that spread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import ElementsAttr, LiteralAttr, StructAttr
from hlo2tx8.dialects.stablehlo import OPS
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.dialects.tx8be import Tx8beOp
from hlo2tx8.dialects.tx8be_shapes import conv_layouts, places, shape_of, tensor_in, tensor_of
from hlo2tx8.errors import ParseError
from hlo2tx8.frontend.literals import dtype_of

Made = TypeVar("Made", bound=Operation)


@dataclass(frozen=True)
class HloBuilder:
    """Appends StableHLO to a block; `place` is where the op that it makes them for comes from."""

    block: Block
    place: str

    def add(self, op: Made) -> Made:
        """Append an op."""
        if self.place:
            op.attributes["loc"] = StringAttr(self.place)
        self.block.add_op(op)
        return op

    def op(self, name: str, operands: Sequence[SSAValue], type_: Attribute, **attributes: Attribute) -> SSAValue:
        """The result of the op of that name."""
        return self.add(OPS[name](operands, [type_], attributes)).results[0]

    def convert(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The value in another element type."""
        type_ = tensor_of(value)
        return value if type_.get_element_type() == element else self.op("convert", [value], TensorType(element, type_.get_shape()))

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The value in another shape."""
        return self.op("reshape", [value], TensorType(tensor_of(value).get_element_type(), list(shape)))

    def spread(self, value: SSAValue, shape: Sequence[int], dims: Sequence[int]) -> SSAValue:
        """The value broadcast to a shape."""
        if tuple(shape_of(value)) == tuple(shape) and tuple(dims) == tuple(range(len(shape))):
            return value
        type_ = TensorType(tensor_of(value).get_element_type(), list(shape))
        return self.op("broadcast_in_dim", [value], type_, broadcast_dimensions=numbers(dims))

    def number(self, value: int, element: Attribute) -> SSAValue:
        """A rank-0 constant."""
        type_ = TensorType(element, [])
        return self.op("constant", [], type_, value=LiteralAttr.from_array(np.array(value, dtype_of(type_))))


def numbers(values: Sequence[int]) -> DenseArrayBase:
    """`array<i64: ...>`."""
    return DenseArrayBase.from_list(i64, list(values))


def literal_in(value: Attribute, type_: Attribute, place: str = "") -> LiteralAttr:
    """The literal of a Constant's value."""
    tensor = tensor_in(type_)
    shape = () if tensor is None else tuple(tensor.get_shape())
    if tensor is not None and isinstance(value, LiteralAttr):
        if value.array.dtype == dtype_of(tensor) and value.array.shape in ((), shape):
            return value
    elif tensor is not None and isinstance(value, DenseIntOrFPElementsAttr) and value.get_type() == type_:
        array = np.frombuffer(value.data.data, dtype_of(tensor))
        return LiteralAttr.from_array(array.reshape(() if array.size == 1 else shape))
    raise ParseError("E1003", f"{place}: the value of a Constant is no tensor of its type {type_}")


def _gemm(builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any]) -> SSAValue:
    """left [..., M, K] by right [K, N], or [..., K, N]."""
    left, right = (len(shape_of(v)) for v in operands[:2])
    batch = range(left - 2) if right > 2 else range(0)
    inner = left - 2 if op["transL"] else left - 1, right - 1 if op["transR"] else right - 2
    pairs = [("batching", batch, batch), ("contracting", inner[:1], inner[1:])]
    words = [
        f"{side}_{kind}_dimensions = {list((one, two)[k])}" for kind, one, two in pairs for k, side in enumerate(("lhs", "rhs"))
    ]
    struct = StructAttr(parse_struct(f"#stablehlo.dot<{', '.join(word for word in words if not word.endswith('[]'))}>"))
    return _product(builder, op, operands, "dot_general", left - 1, dot_dimension_numbers=struct)


def _conv(builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any]) -> SSAValue:
    letters = {**dict(zip("NHWC", "b01f", strict=True)), **dict(zip("OI", "oi", strict=True))}
    sides = [", ".join(letters[letter] for letter in layout) for layout in conv_layouts(op)]
    struct = StructAttr(parse_struct(f"#stablehlo.conv<[{sides[0]}]x[{sides[1]}]->[{sides[2]}]>"))
    pads = np.array(op["pads"], np.int64).reshape(2, 2)
    return _product(
        builder,
        op,
        operands,
        "convolution",
        conv_layouts(op)[2].index("C"),
        window_strides=numbers(op["strides"]),
        padding=ElementsAttr(LiteralAttr.from_array(pads), TensorType(i64, [2, 2])),
        rhs_dilation=numbers(op["dilations"]),
        dimension_numbers=struct,
        feature_group_count=IntegerAttr(op["groups"], i64),
        batch_group_count=IntegerAttr(1, i64),
    )


def _product(
    builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any], hlo: str, channel: int, **attributes: Attribute
) -> SSAValue:
    """(sum + bias) * scale. Floats round after each of them; of int8 sums are exact, and the result saturates."""
    type_ = tensor_of(op.results[0])
    is_int = type_.get_element_type() == i8
    bias, scale = (*operands[2:], None, None)[:2]
    found = builder.op(hlo, operands[:2], TensorType(i32, type_.get_shape()) if is_int else type_, **attributes)
    is_scaled = scale is not None or (bias is not None and tensor_of(bias).get_element_type() != i32)
    if is_int and is_scaled:
        found = builder.convert(found, f32)
    for name, factor in (("add", bias), ("multiply", scale)):
        if factor is not None:
            kind = tensor_of(found).get_element_type()
            size = shape_of(factor)[-1:] or (1,)
            column = builder.reshape(builder.convert(factor, kind), size if size[0] != 1 else ())
            whole = builder.spread(column, type_.get_shape(), (channel,) if size[0] != 1 else ())
            found = builder.op(name, [found, whole], tensor_of(found))
    if not is_int:
        return found
    if is_scaled:
        found = builder.op("round_nearest_even", [found], tensor_of(found))
    kind = tensor_of(found).get_element_type()
    limits = [builder.number(limit, kind) for limit in (-128, 127)]
    return builder.convert(builder.op("clamp", [limits[0], found, limits[1]], tensor_of(found)), i8)


def _batch_norm(builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any]) -> SSAValue:
    """In f32, whatever the input is; the result is rounded once."""
    type_ = tensor_of(op.results[0])
    shape = tuple(type_.get_shape())
    statistics = [builder.reshape(value, shape[-1:]) for value in operands[1:]]
    attributes = {"epsilon": FloatAttr(op["epsilon"], f32), "feature_index": IntegerAttr(len(shape) - 1, i64)}
    values = [builder.convert(operands[0], f32), *statistics]
    found = builder.op("batch_norm_inference", values, TensorType(f32, shape), **attributes)
    return builder.convert(found, type_.get_element_type())


def _broadcast(builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any]) -> SSAValue:
    return builder.spread(operands[0], shape_of(op.results[0]), places(op))


def _transpose(builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any]) -> SSAValue:
    return builder.op("transpose", operands, op.results[0].type, permutation=numbers(op["permutation"]))


def _elementwise(builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any]) -> SSAValue:
    shape = shape_of(op.results[0])
    same = [builder.spread(v, shape, range(len(shape) - len(shape_of(v)), len(shape))) for v in operands]
    return builder.op(op.ROW.hlo.partition(".")[2], same, op.results[0].type)


def _constant(builder: HloBuilder, op: Tx8beOp, operands: Sequence[Any]) -> SSAValue:
    type_ = op.results[0].type
    return builder.op("constant", [], type_, value=literal_in(op.attributes["value"], type_, builder.place))


FORMS: Mapping[str, Callable[[HloBuilder, Tx8beOp, Sequence[Any]], SSAValue]] = {
    "Gemm": _gemm,
    "Conv": _conv,
    "BatchNorm_Inference": _batch_norm,
    "Broadcast": _broadcast,
    "Transpose": _transpose,
    "Constant": _constant,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _elementwise),
}
"""By the op's name; operands are values, or None where `tx8be.None` stands."""
