"""The sharding rule of an op in jaxlib's MLIR: what its spec needs is read off the op."""
# pyright: basic

from collections.abc import Sequence
from typing import Any

from hlo2tx8.dialects.hlo import decode_attribute
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.attributes import AttributeReader
from hlo2tx8.hlo.lookup import has_spec, spec_of, tensor_like
from hlo2tx8.hlo.spec import Kind, TensorLike
from hlo2tx8.spmd.derive_rule import derive_rule
from hlo2tx8.spmd.mlir_values import is_tensor, splat_of
from hlo2tx8.spmd.sharding_rule import ADD, OpShardingRule, batch_rule, passthrough_rule, replicated_rule

_BARRIER = "stablehlo.optimization_barrier"
_IGNORED = ("sdy.", "mhlo.")
NEUTRAL: dict[str, float | None] = {
    ADD: 0,
    "stablehlo.multiply": 1,
    **dict.fromkeys(("stablehlo.maximum", "stablehlo.minimum", "stablehlo.and", "stablehlo.or")),
}
"""Ops that may combine what several devices have reduced, and the initial value that all devices may start with; None if any."""


def rule_of(op: Any, operands: Sequence[Sequence[int]], reader: AttributeReader) -> OpShardingRule:
    """The rule of an op whose operands have these shapes in the whole program; its results still have theirs."""
    results = [tuple(v.type.shape) if is_tensor(v.type) else () for v in op.results]
    if op.name == _BARRIER:
        return passthrough_rule(operands)
    if not has_spec(op.name) or not op.results or not all(is_tensor(v.type) for v in (*op.operands, *op.results)):
        return replicated_rule(operands, results)
    spec = spec_of(op.name)
    if spec.kind is Kind.CONSTANT:
        is_splat = splat_of(op) is not None and 0 not in results[0]
        return batch_rule((), results, range(len(results[0]))) if is_splat else replicated_rule(operands, results)
    names = [name for name in op.attributes.keys() if not name.startswith(_IGNORED)]  # noqa: SIM118
    attributes = {name: decode_attribute(reader.read(op.attributes[name])) for name in names}
    dtypes = [tensor_like(reader.type(v.type)).dtype for v in (*op.operands, *op.results)]
    shapes = [*map(tuple, operands), *results]
    tensors = [TensorLike(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    count = len(op.operands)
    return derive_rule(spec, attributes, tensors[:count], tensors[count:], _reduction(op, spec.kind))


def _reduction(op: Any, kind: Kind) -> str:
    """The op that combines partial results of the op's region; empty if none does, or the initial value would count twice."""
    if len(op.regions) != 1 or len(op.results) != 1:
        return ""
    block = op.regions[0].blocks[0]
    inner = [o.operation for o in block.operations]
    if len(inner) != 2 or len(inner[0].operands) != 2 or {*inner[0].operands} != {*block.arguments}:
        return ""
    name = inner[0].name
    if name not in NEUTRAL or (kind is Kind.REDUCE and not _is_neutral(op.operands[1], NEUTRAL[name])):
        return ""
    return name if kind is Kind.REDUCE or name == ADD else ""


def _is_neutral(initial: Any, neutral: float | None) -> bool:
    """Is the value a constant that is the neutral one everywhere?"""
    ir = shim.ir()
    if neutral is None:
        return True
    if isinstance(initial.owner, ir.Block) or initial.owner.operation.name != "stablehlo.constant":
        return False
    splat = splat_of(initial.owner.operation)
    return isinstance(splat, (ir.FloatAttr, ir.IntegerAttr, ir.BoolAttr)) and splat.value == neutral
