"""Composites are coarse ops: fusions of what they compute, with their names and attributes, until the pass recognize-coarse knows
whether they are to be kept.

%1 = stablehlo.composite "byteir.softmax" %0 {decomposition = @f}    ⟶    hlo.fusion "softmax" {coarse = {axis = 1}} of @f's body
"""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Region, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.frontend import shim
from hlo2tx8.kernel_registry import canonical

COARSE = "hlo.coarse"
"""The attribute of a call that was a composite."""
KIND = "kCustom"


def calls_of_composites(module: Any) -> None:
    """Changes the MLIR module in place: its composites become calls that say what they were."""
    ir = shim.ir()
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.composite":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        with op.context, op.location, ir.InsertionPoint(op):
            given = {key: op.attributes[key] for key in op.attributes.keys()}  # noqa: SIM118
            said = {"name": given["name"], "attributes": given.get("composite_attributes", ir.DictAttr.get({}))}
            attributes = {"callee": given["decomposition"], COARSE: ir.DictAttr.get(said)}
            results = [result.type for result in op.results]
            call = ir.Operation.create("func.call", results=results, operands=list(op.operands), attributes=attributes)
        for old, new in zip(op.results, call.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def coarse_fusion(name: str, attributes: Attribute, operands: Sequence[SSAValue], body: Region) -> FusionOp:
    """The fusion that a coarse op is."""
    last = body.block.last_op
    assert last is not None
    fusion = FusionOp(list(operands), [value.type for value in last.operands], KIND, body, canonical(name))
    fusion.properties["coarse"] = attributes if isinstance(attributes, DictionaryAttr) else DictionaryAttr({})
    return fusion
