"""chlo ops expanded to StableHLO by jaxlib's own pass."""

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.frontend import shim
from hlo2tx8.frontend.export import to_mlir_text
from hlo2tx8.frontend.walker import walk_module

LEGALIZE = "builtin.module(func.func(chlo-legalize-to-stablehlo),canonicalize,cse)"


def legalize_chlo(module: ModuleOp) -> ModuleOp:
    """A module without chlo ops, in which every function of the input keeps its name and type; fusions become calls."""
    exported = shim.parse_module(to_mlir_text(module), shim.make_context())
    shim.run_pipeline(exported, LEGALIZE)
    return walk_module(exported)
