"""Pass raise-precision: dots and convolutions that say DEFAULT, or nothing, get the precision that the options ask for.

dot_general f32, f32 -> f32        ⟶    dot_general f32, f32 -> f32, precision_config = [HIGHEST, HIGHEST]

What says HIGH or HIGHEST, or names an algorithm, stays as it is.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass

from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.precision import asked_precision
from hlo2tx8.options import Precision

PRODUCTS = ("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution")


@dataclass(frozen=True)
class RaisePrecisionPass(ModulePass):
    """`matmul_precision`: that of the options; with "default" nothing is done."""

    name = "raise-precision"

    matmul_precision: Precision = "default"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise_precision(op, self.matmul_precision)


def raise_precision(module: ModuleOp, precision: Precision) -> None:
    """What the pass does, in place."""
    if precision == "default":
        return
    config = ArrayAttr([StringAttr(precision.upper())] * 2)
    for op in module.walk():
        if op.name in PRODUCTS and asked_precision(op) == "DEFAULT" and attributes_of(op).get("algorithm") is None:
            op.properties["precision_config"] = config
