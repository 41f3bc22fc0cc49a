"""Dialect `launch`: from LOOPS down, @main launches kernels, each a module of its own.

    builtin.module @m {
      func.func @main(%0 : tensor<4xf32>) -> tensor<4xf32> {
        %1 = launch.kernel @gelu(%0) {group = 0} : (tensor<4xf32>) -> tensor<4xf32>
        func.return %1 : tensor<4xf32>
      }
      builtin.module @gelu { func.func @gelu(%p0 : ..., %r0 : ...) -> tensor<4xf32> {...} }
    }

A kernel's entry function takes the operands, then one tensor per result that it writes. Launches happen in
order; those of one group belong together in SPM.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException


class _LaunchesKernel(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, KernelOp)
        if op.parent is not None and op.kernel() is None:
            raise VerifyException(f"no kernel module {op.callee}")


@irdl_op_definition
class KernelOp(IRDLOperation):
    """results = kernel(operands): one launch of kernel module `callee`, as part of group number `group`."""

    name = "launch.kernel"

    operands_ = var_operand_def()
    results_ = var_result_def()
    callee = prop_def(SymbolRefAttr)
    group = prop_def(IntegerAttr[IntegerType])

    traits = traits_def(_LaunchesKernel())

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $operands_ `)` attr-dict `:` functional-type($operands_, $results_)"

    def __init__(
        self,
        callee: str,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        group: int = 0,
        origin: str = "",
    ) -> None:
        super().__init__(
            operands=[operands],
            result_types=[result_types],
            properties={"callee": SymbolRefAttr(callee), "group": IntegerAttr(group, i64)},
            attributes={"loc": StringAttr(origin)} if origin else {},
        )

    def kernel(self) -> ModuleOp | None:
        """The launched module, a sibling of the function this op stands in."""
        top: Operation | None = self
        while top is not None and not isinstance(top, ModuleOp):
            top = top.parent_op()
        return kernels(top).get(self.callee.string_value()) if top is not None else None


def kernels(module: ModuleOp) -> dict[str, ModuleOp]:
    """The kernel modules inside a top module by name, in order."""
    nested = (op for op in module.body.block.ops if isinstance(op, ModuleOp))
    return {op.sym_name.data: op for op in nested if op.sym_name is not None}


Launch = Dialect("launch", [KernelOp], [])
