"""Builds the ops that an op is expanded to, in front of it and with its origin."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import FusionOp, LiteralAttr, StructAttr
from hlo2tx8.dialects.hlo_indexed import ReadAtOp, place_properties
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.hlo.ops.convolution import ConvNumbers
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.ir import i64_array, insert_before, tensor_type_of


def int_array(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Integers as an attribute of HLO ops."""
    return i64_array(values)


def dot_numbers(
    lhs_batching: Sequence[int], rhs_batching: Sequence[int], lhs_contracting: Sequence[int], rhs_contracting: Sequence[int]
) -> StructAttr:
    """The dot_dimension_numbers of a dot_general, as MLIR prints them."""
    batching = f"lhs_batching_dimensions = {list(lhs_batching)}, rhs_batching_dimensions = {list(rhs_batching)}, "
    contracting = f"lhs_contracting_dimensions = {list(lhs_contracting)}, rhs_contracting_dimensions = {list(rhs_contracting)}"
    return StructAttr(parse_struct(f"#stablehlo.dot<{batching if lhs_batching else ''}{contracting}>"))


def conv_numbers(numbers: ConvNumbers) -> StructAttr:
    """The dimension_numbers of a convolution, as MLIR prints them."""

    def written(batch: int, feature: int, spatial: Sequence[int], names: str) -> str:
        of = {batch: names[0], feature: names[1]} | {d: str(i) for i, d in enumerate(spatial)}
        return f"[{', '.join(of[d] for d in range(len(of)))}]"

    n = numbers
    image = written(n.input_batch_dimension, n.input_feature_dimension, n.input_spatial_dimensions, "bf")
    kernel = written(n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, n.kernel_spatial_dimensions, "io")
    result = written(n.output_batch_dimension, n.output_feature_dimension, n.output_spatial_dimensions, "bf")
    return StructAttr(parse_struct(f"#stablehlo.conv<{image}x{kernel}->{result}>"))


@dataclass
class Expansion:
    """Builds ops in front of one op, with its origin."""

    op: Operation

    def emit(self, name: str, operands: Sequence[SSAValue], type_: Attribute, **properties: Attribute) -> SSAValue:
        """The result of a new `stablehlo.<name>`."""
        return self.insert(stablehlo.OPS[name](operands, [type_], properties)).results[0]

    def same(self, op: Operation, operands: Sequence[SSAValue], type_: Attribute) -> SSAValue:
        """The one result of an op like another one, of other operands and of this type."""
        return self.insert(type(op).create(operands=operands, result_types=[type_], properties=dict(op.properties))).results[0]

    def insert(self, new: Operation) -> Operation:
        """A new op, in its place."""
        new.attributes |= {k: v for k, v in self.op.attributes.items() if k == "loc"}
        insert_before(new, self.op)
        return new

    def splat(self, value: float, type_: TensorType[Attribute]) -> SSAValue:
        """A constant whose elements are all `value`."""
        dtype = numpy_dtype(type_.element_type)
        return self.emit("constant", [], type_, value=LiteralAttr.from_array(np.array(value, dtype)))

    def like(self, value: SSAValue, shape: Sequence[int]) -> TensorType[Attribute]:
        """A tensor type of that shape with the element type of `value`."""
        return tensor_type_of(as_tensor(value.type).element_type, shape)

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """The dimensions in another order; the value itself if it is the same."""
        if list(order) == sorted(order):
            return value
        shape = as_tensor(value.type).get_shape()
        return self.emit("transpose", [value], self.like(value, [shape[d] for d in order]), permutation=int_array(order))

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The elements in another shape; the value itself if it is the same."""
        same = as_tensor(value.type).get_shape() == tuple(shape)
        return value if same else self.emit("reshape", [value], self.like(value, shape))

    def sliced(self, value: SSAValue, dim: int, start: int, end: int) -> SSAValue:
        """The elements `start` up to but not including `end` along a dimension; the value itself if that is all."""
        shape = as_tensor(value.type).get_shape()
        if end - start == shape[dim]:
            return value
        first, last = [0] * len(shape), [*shape[:dim], end, *shape[dim + 1 :]]
        first[dim] = start
        bounds = {"start_indices": int_array(first), "limit_indices": int_array(last), "strides": int_array([1] * len(shape))}
        return self.emit("slice", [value], self.like(value, (*shape[:dim], end - start, *shape[dim + 1 :])), **bounds)

    def converted(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The value with elements of that type."""
        type_ = as_tensor(value.type)
        return value if type_.element_type == element else self.emit("convert", [value], TensorType(element, type_.get_shape()))

    def view(self, source: SSAValue, map: IndexingMap) -> SSAValue:
        """The elements of a tensor that an unconstrained map selects; an element may be selected several times."""
        shape = [d.hi + 1 for d in map.dims]
        return self.insert(ReadAtOp([source], [self.like(source, shape)], place_properties(map, (), (), ()))).results[0]

    def pad(self, source: SSAValue, value: SSAValue, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> SSAValue:
        """The source with `value` around its elements and between them; the source itself if nothing is to be added.

        Holes between elements are made first, by an additional dimension behind every element, so that each access stays affine.
        """
        shape = as_tensor(source.type).get_shape()
        holes = [inner if n > 1 else 0 for inner, n in zip(interior, shape, strict=True)]
        if any(holes):
            source = self._with_holes(source, value, holes)
            high = [n - inner for n, inner in zip(high, holes, strict=True)]
        if not any((*low, *high)):
            return source
        return self._pad(source, value, low, high)

    def _pad(self, source: SSAValue, value: SSAValue, low: Sequence[int], high: Sequence[int]) -> SSAValue:
        shape = [max(0, n + a + b) for n, a, b in zip(as_tensor(source.type).get_shape(), low, high, strict=True)]
        amounts = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": [0] * len(shape)}
        return self.emit("pad", [source, value], self.like(source, shape), **{k: int_array(v) for k, v in amounts.items()})

    def _with_holes(self, source: SSAValue, value: SSAValue, holes: Sequence[int]) -> SSAValue:
        """Each element with so many holes behind it along each dimension."""
        before, shape = self.op.prev_op, as_tensor(source.type).get_shape()
        split = [n for size, inner in zip(shape, holes, strict=True) for n in ((size, 1) if inner else (size,))]
        behind = [n for inner in holes for n in ((0, inner) if inner else (0,))]
        apart = self._pad(self.emit("reshape", [source], self.like(source, split)), value, [0] * len(split), behind)
        joined = [size * (inner + 1) for size, inner in zip(shape, holes, strict=True)]
        return self.fuse_since(before, [self.emit("reshape", [apart], self.like(source, joined))])[0]

    def replace(self, *values: SSAValue) -> None:
        """Replace the op's results by these values, brought into the results' layouts."""
        pairs = zip(values, self.op.results, strict=True)
        laid_out = [v if v.type == result.type else self.emit("reshape", [v], result.type) for v, result in pairs]
        Rewriter.replace_op(self.op, [], laid_out)

    def built_since(self, before: Operation | None) -> list[Operation]:
        """The ops between another one (None: the start of the block) and this one, in order."""
        members: list[Operation] = []
        member = self.op.prev_op
        while member is not None and member is not before:
            members.append(member)
            member = member.prev_op
        return members[::-1]

    def fuse_since(self, before: Operation | None, roots: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Put all ops built after `before` (None: after the start of the block) into one fusion that returns the roots.

        For ops that would be expensive by themselves, such as views many times larger than the tensor they read.
        """
        fusion = fused(self.built_since(before), roots, f"{self.op.name.rpartition('.')[2]}_fusion", self.op)
        fusion.attributes |= {k: v for k, v in self.op.attributes.items() if k == "loc"}
        fusion.is_expansion = UnitAttr()
        return fusion.results


def fused(members: Sequence[Operation], roots: Sequence[SSAValue], name: str, before: Operation) -> FusionOp:
    """A fusion, in front of an op, of what stands in front of it: it returns the roots, for whoever reads them outside."""
    inside = {result for op in members for result in op.results}
    read = dict.fromkeys(v for op in members for v in op.operands if v not in inside)
    body = Block(arg_types=[value.type for value in read])
    fusion = FusionOp(list(read), [root.type for root in roots], "kLoop", Region(body), name)
    Builder(InsertPoint.before(before)).insert(fusion)
    for op in members:
        op.detach()
        body.add_op(op)
    for value, arg in zip(read, body.args, strict=True):
        value.replace_uses_with_if(arg, lambda use: use.operation.parent is body)
    for root, result in zip(roots, fusion.results, strict=True):
        root.replace_uses_with_if(result, lambda use: use.operation.parent is not body)
    body.add_op(stablehlo.ReturnOp(list(roots)))
    return fusion
