"""Ops of dialect `vec` whose addresses are computed from data."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, TensorType, VectorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def

from hlo2tx8.ir import DeclaredOp, i64_array


@irdl_op_definition
class LoadAtOp(DeclaredOp):
    """result[l] = source[offset + sum(strides[k] * lk) + shift[l]]; the shift varies along the lane dimensions `varying` only."""

    name = "vec.load_at"
    source = operand_def(TensorType)
    offset = operand_def(IndexType)
    shift = operand_def(VectorType)
    strides = prop_def(DenseArrayBase.constr(i64))
    varying = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)

    def __init__(
        self,
        source: SSAValue,
        offset: SSAValue,
        strides: Sequence[int],
        shift: SSAValue,
        varying: Sequence[int],
        result_type: Attribute,
    ):
        arrays = {"strides": strides, "varying": varying}
        super().__init__(
            operands=[source, offset, shift],
            properties={name: i64_array(array) for name, array in arrays.items()},
            result_types=[result_type],
        )


@irdl_op_definition
class ReadScalarOp(DeclaredOp):
    """Load the integer at an SPM address into a register of the kernel core, to be used as an index; `format` is its element type
    in SPM.
    """

    name = "vec.read_scalar"
    address = operand_def()
    format = prop_def()
    result = result_def(IndexType)

    def __init__(self, address: SSAValue, format: Attribute):
        super().__init__(operands=[address], properties={"format": format}, result_types=[IndexType()])


@irdl_op_definition
class StoreAtOp(DeclaredOp):
    """target[offset + sum(strides[k] * lk) + shift] = value[l], if `where` is true; it and the shift are the same in all lanes.

    The stores of a box have the same `where`.
    """

    name = "vec.store_at"
    value = operand_def(VectorType)
    target = operand_def(TensorType)
    offset = operand_def(IndexType)
    shift = operand_def(VectorType)
    where = opt_operand_def(VectorType)
    strides = prop_def(DenseArrayBase.constr(i64))

    def __init__(
        self,
        value: SSAValue,
        target: SSAValue,
        offset: SSAValue,
        strides: Sequence[int],
        shift: SSAValue,
        where: SSAValue | None = None,
    ):
        properties = {"strides": i64_array(strides)}
        super().__init__(operands=[value, target, offset, shift, where], properties=properties)
