"""Pass expand-chlo: chlo ops that have no instruction of their own become stablehlo ops.

%1 = chlo.square %0            ⟶    %1 = stablehlo.multiply %0, %0
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class ExpandChloPass(ModulePass):
    """Replace the module's body by its legalized form; a module without chlo ops is left alone."""

    name = "expand-chlo"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not any(inner.name.startswith("chlo.") for inner in op.walk()):
            return
        from hlo2tx8.frontend import legalize_chlo

        legal = legalize_chlo(op)
        if legal is not op:
            op.detach_region(op.body)
            op.add_region(legal.detach_region(legal.body))
