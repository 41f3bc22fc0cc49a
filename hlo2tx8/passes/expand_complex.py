"""Pass expand-complex: no complex numbers any more, each is two real ones.

func @main(%z : 4 x complex<f32>)              func @main(%p : 4 x 2 x f32)
  %w = multiply %z, %z                 ⟶         %a = %p[:, 0], %b = %p[:, 1]
  return %w                                      %c = a a - b b, %d = a b + b a
                                                 return concatenate %c, %d
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.rewrite_named import ops_inside
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.passes.complex.compositions import COMPOSITIONS
from hlo2tx8.passes.complex.parts import SplitComplex, is_complex


@dataclass(frozen=True)
class ExpandComplexPass(ModulePass):
    """Rewrite @main and what it calls; a module without complex numbers is left alone."""

    name = "expand-complex"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [function for function in program_functions(op) if _has_complex(function)]
        if not functions:
            return
        for inner in (inner for function in functions for inner in ops_inside(function)):
            if inner.name in COMPOSITIONS and _is_complex(inner):
                COMPOSITIONS[inner.name](inner)
        from hlo2tx8.frontend import legalize_complex

        legalize_complex(op)
        for function in functions:
            SplitComplex().function(function)


def _has_complex(function: FuncOp) -> bool:
    return any(is_complex(arg.type) for arg in function.body.block.args) or any(map(_is_complex, ops_inside(function)))


def _is_complex(op: Operation) -> bool:
    return any(map(is_complex, op.result_types))
