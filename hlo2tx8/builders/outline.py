"""Fusions as functions: a fusion becomes a private function with a tag and its call, and such a call a fusion again.

%1 = hlo.fusion "f"(%0) {...}    ⟷    %1 = func.call @f(%0)        func.func private @f(...) attributes {fusion = "elementwise"}
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import FusionOp

FUSION = "fusion"
"""The attribute of a function whose calls are one fusion each: what made it."""


def outlined(fusion: FusionOp, name: str, tag: str) -> FuncOp:
    """A function of the ops of a fusion, which the fusion loses."""
    region: Region = fusion.detach_region(fusion.body)
    last = region.block.last_op
    assert last is not None
    Rewriter.replace_op(last, ReturnOp(*last.operands), [])
    type_ = FunctionType.from_lists([arg.type for arg in region.block.args], list(fusion.result_types))
    function = FuncOp(name, type_, region, "private")
    function.attributes[FUSION] = StringAttr(tag)
    return function


def fusion_of(function: FuncOp, operands: Sequence[SSAValue]) -> FusionOp:
    """A fusion of copies of the ops of a function."""
    region = Region()
    function.body.clone_into(region)
    last = region.block.last_op
    assert last is not None
    Rewriter.replace_op(last, stablehlo.ReturnOp(list(last.operands)), [])
    return FusionOp(list(operands), list(function.function_type.outputs), "kLoop", region, function.sym_name.data)
