"""Pass expand-mixed-factors: a product of two types becomes one of one type.

That type holds all values of both, and the matrix engine multiplies it.

dot_general bf16, i4 -> bf16       ⟶    dot_general bf16, bf16 -> bf16
dot_general f16, bf16 -> f32       ⟶    dot_general f32, f32 -> f32, which one pass of TF32 multiplies exactly
convolution i8, i8 -> f32          ⟶    convolution bf16, bf16 -> f32
dot_general i16, i16 -> f32        ⟶    dot_general f32, f32 -> f32 at HIGHEST
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.precision import DEFAULT, HIGHEST
from hlo2tx8.hlo.types import holds_all, is_float, numpy_dtype, significant_bits

FACTORS: tuple[Attribute, ...] = (BFloat16Type(), Float16Type(), Float32Type())
"""What the engine multiplies, the smallest first."""
TF32_BITS = 11
"""Of the significand, with the one that is not stored."""


@dataclass(frozen=True)
class ExpandMixedFactorsPass(ModulePass):
    """Rewrites dots and convolutions; see the module docstring."""

    name = "expand-mixed-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, dict.fromkeys(("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution"), _mixed))


def common_factor(left: Attribute, right: Attribute, result: Attribute) -> Attribute | None:
    """The type to multiply in; None if the operands can stay as they are, or if no type has all values of both."""
    kinds = [numpy_dtype(element) for element in (left, right)]
    if not holds_all(numpy_dtype(Float32Type()), numpy_dtype(result)) or not is_float(numpy_dtype(result)):
        return None
    if left == right and is_float(kinds[0]):
        return None
    return next((factor for factor in FACTORS if all(holds_all(numpy_dtype(factor), kind) for kind in kinds)), None)


def _mixed(op: Operation) -> None:
    left, right, result = (as_tensor(value.type).element_type for value in (*op.operands[:2], op.results[0]))
    factor = common_factor(left, right, result)
    if factor is None:
        return
    e = Expansion(op)
    properties = dict(op.properties)
    if Float32Type() not in (left, right):
        properties.pop("algorithm", None)
        fits = all(significant_bits(numpy_dtype(element)) <= TF32_BITS for element in (left, right))
        properties["precision_config"] = DEFAULT if fits else HIGHEST
    kept = op.name.removeprefix("stablehlo.")
    e.replace(e.emit(kept, [e.converted(value, factor) for value in op.operands], op.results[0].type, **properties))
