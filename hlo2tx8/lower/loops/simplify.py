"""Pass simplify: constants move to the top of a function, equal ops merge, unused ops go.

Before:                                              After:
    xla.loop ... {                                       %c = arith.constant 5.000000e-01 : f32
      %c = arith.constant 5.000000e-01 : f32             xla.loop ... {
      %x = tensor.extract %p0[%i]                          %x = tensor.extract %p0[%i]
      %y = tensor.extract %p0[%i]                          %z = arith.mulf %x, %x : f32
      %d = arith.constant 5.000000e-01 : f32               %w = arith.mulf %z, %c : f32
      %z = arith.mulf %x, %y : f32
      %w = arith.mulf %z, %d : f32
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.dialects.xla import ApplyIndexingOp, ConstantOp, ElementwiseOp, ExtractAtOp, InDomainOp, PureCallOp

Known: TypeAlias = dict[Hashable, Operation]

_CONSTANTS = (arith.ConstantOp, ConstantOp)
_ELEMENT_OPS = (ApplyIndexingOp, InDomainOp, ElementwiseOp, PureCallOp, tensor.ExtractOp, ExtractAtOp)
"""Besides arith and math: ops whose result follows from operands, properties and attributes. An extract reads a
tensor value, and inserts make new ones."""


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """One walk forward that merges, then one backward that removes; see the module docstring."""

    name = "simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            block = function.body.block
            constants: Known = {}
            _merge(block, {}, constants)
            first = block.first_op
            if first is not None and constants:
                for constant in constants.values():
                    constant.detach()
                first = block.first_op
                assert first is not None
                block.insert_ops_before(tuple(constants.values()), first)
            _remove_unused(block)


def _merge(block: Block, known: Known, constants: Known) -> None:
    """Replace ops by equal ones that dominate them; gather the constants."""
    for op in ops_of(block):
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    _merge(inner, dict(known), constants)
            continue
        is_constant = isinstance(op, _CONSTANTS)
        if not is_constant and not _is_mergeable(op):
            continue
        table = constants if is_constant else known
        key = _key(op)
        other = table.setdefault(key, op)
        if other is not op:
            _replace(op, other)


def _is_mergeable(op: Operation) -> bool:
    return isinstance(op, _ELEMENT_OPS) or op.name.startswith(("arith.", "math."))


def _key(op: Operation) -> Hashable:
    attributes = tuple((name, value) for name, value in op.attributes.items() if name != "loc")
    types = tuple(op.result_types)
    return (op.name, tuple(op.operands), tuple(op.properties.items()), attributes, types)


def _replace(op: Operation, other: Operation) -> None:
    for old, new in zip(op.results, other.results, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()


def _remove_unused(block: Block) -> None:
    for op in reversed(ops_of(block)):
        for region in op.regions:
            for inner in region.blocks:
                _remove_unused(inner)
        if not op.results or any(_is_used(result) for result in op.results):
            continue
        if _is_mergeable(op) or isinstance(op, (*_CONSTANTS, scf.IfOp)):
            op.detach()
            op.erase()


def _is_used(value: SSAValue) -> bool:
    return value.first_use is not None
