"""Element reads and writes at indices that data decide."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoMemoryEffect, Pure

from hlo2tx8.dialects.xla_indexing import index
from hlo2tx8.ir import DeclaredOp, i64_array


@irdl_op_definition
class ExtractAtOp(DeclaredOp):
    """The element of a tensor at `indices`, moved along dims[k] by the integer shifts[k]; it must lie inside.

    %v = xla.extract_at %x[%i, %j] by [0](%s) : tensor<8x4xf32>[index, index], (i32) -> f32          x[i + s, j]
    """

    name = "xla.extract_at"
    tensor = operand_def(TensorType)
    indices = var_operand_def(index)
    shifts = var_operand_def(IntegerType)
    dims = prop_def(DenseArrayBase.constr(i64))
    res = result_def()
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$tensor `[` $indices `]` `by` $dims `(` $shifts `)` attr-dict `:` "
        "type($tensor) `[` type($indices) `]` `,` `(` type($shifts) `)` `->` type($res)"
    )

    def __init__(self, tensor: SSAValue, indices: Sequence[SSAValue], dims: Sequence[int], shifts: Sequence[SSAValue]):
        type_: Attribute = tensor.type
        assert isinstance(type_, TensorType)
        super().__init__(
            operands=[tensor, indices, shifts],
            result_types=[cast("TensorType[Attribute]", type_).element_type],
            properties={"dims": i64_array(dims)},
        )


@irdl_op_definition
class InsertAtOp(DeclaredOp):
    """The tensor with an element at `indices`, moved along dims[k] by the integer shifts[k]; it must lie inside. Nothing is written
    if `where` is false.

    %t = xla.insert_at %v into %x[%i, %j] by [0](%s) where %w : f32, tensor<8x4xf32>[index, index], (i32)  if w: x[i + s, j] = v
    """

    name = "xla.insert_at"
    scalar = operand_def()
    dest = operand_def(TensorType)
    indices = var_operand_def(index)
    shifts = var_operand_def(IntegerType)
    where = opt_operand_def(i1)
    dims = prop_def(DenseArrayBase.constr(i64))
    res = result_def(TensorType)
    traits = traits_def(NoMemoryEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$scalar `into` $dest `[` $indices `]` `by` $dims `(` $shifts `)` (`where` $where^)? attr-dict `:` "
        "type($scalar) `,` type($dest) `[` type($indices) `]` `,` `(` type($shifts) `)` `->` type($res)"
    )

    def __init__(
        self,
        scalar: SSAValue,
        dest: SSAValue,
        indices: Sequence[SSAValue],
        dims: Sequence[int],
        shifts: Sequence[SSAValue],
        where: SSAValue | None = None,
    ):
        super().__init__(
            operands=[scalar, dest, indices, shifts, where],
            result_types=[dest.type],
            properties={"dims": i64_array(dims)},
        )


IN_ORDER = "xla.in_order"
"""Attribute of a loop that carries tensors: a turn reads what those before it wrote."""
