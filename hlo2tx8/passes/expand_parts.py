"""Pass expand-parts: the parts of numbers that are real.

real %x    ⟶    %x
imag %x    ⟶    constant 0
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.types import is_complex


@dataclass(frozen=True)
class ExpandPartsPass(ModulePass):
    """Rewrites real and imag of real numbers; see the module docstring."""

    name = "expand-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.real": _expand_part, "stablehlo.imag": _expand_part})


def _expand_part(op: Operation) -> None:
    source = tensor_like(op.operands[0].type)
    if is_complex(source.dtype):
        return
    if op.name == "stablehlo.real":
        Rewriter.replace_op(op, [], [op.operands[0]])
        return
    e = Expansion(op)
    zero = LiteralAttr.from_array(np.zeros((), source.dtype))
    e.replace(e.emit("constant", [], op.results[0].type, value=zero))
