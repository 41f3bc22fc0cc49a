"""Pass expand-chlo: chlo ops that have no instruction of their own become stablehlo ops.

%1 = chlo.square %0            ⟶    %1 = stablehlo.multiply %0, %0
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects import chlo
from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.hlo.types import is_float, is_narrow_element, numpy_dtype

CHLO = frozenset(op.name for op in chlo.OPS.values())
OF_CODES = ("chlo.next_after", "chlo.broadcast_next_after", "chlo.constant_like", "chlo.broadcast_select")
"""Ops on the bits of their operands, or on none."""


@dataclass(frozen=True)
class ExpandChloPass(ModulePass):
    """Replace the module's body by its legalized form; a module without chlo ops is left alone."""

    name = "expand-chlo"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = ops_named(op, CHLO)
        if not found:
            return
        from hlo2tx8.frontend import legalize_chlo

        for inner in found:
            if inner.name not in OF_CODES:
                _widen(inner)
        legal = legalize_chlo(op)
        if legal is not op:
            op.detach_region(op.body)
            op.add_region(legal.detach_region(legal.body))


def _widen(op: Operation) -> None:
    """Computes an op of floats of a byte or less in f32."""
    e, type_ = Expansion(op), op.results[0].type if len(op.results) == 1 else None
    if type_ is None or not any(_is_small(value) for value in op.operands):
        return
    operands = [Term(e, value).converted(f32).value if _is_small(value) else value for value in op.operands]
    element = f32 if _is_small(op.results[0]) else as_tensor(type_).element_type
    result = TensorType(element, as_tensor(type_).get_shape(), as_tensor(type_).encoding)
    new = type(op).create(operands=operands, result_types=[result], properties=dict(op.properties))
    found = Term(e, e.insert(new).results[0])
    e.replace(found.converted(as_tensor(type_).element_type).value if result != type_ else found.value)


def _is_small(value: SSAValue) -> bool:
    if not is_tensor(value.type):
        return False
    element = as_tensor(value.type).element_type
    return is_narrow_element(element) and is_float(numpy_dtype(element))
