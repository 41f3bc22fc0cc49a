"""Our dialects and passes for xDSL tools: the entry point `xdsl.universe` makes stock xdsl-opt know them.

The passes are those of the pipeline and some more; a dialect is imported only when a tool asks for it by name.
"""

from collections.abc import Callable
from importlib import import_module

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from hlo2tx8.compiler.pipeline import EXTRA_STAGES, PIPELINE, Stage
from hlo2tx8.dialects.launch import kernels

DIALECTS: tuple[tuple[str, str, str], ...] = (
    ("chlo", "hlo2tx8.dialects.chlo", "Chlo"),
    ("hlo", "hlo2tx8.dialects.hlo", "Hlo"),
    ("launch", "hlo2tx8.dialects.launch", "Launch"),
    ("spm", "hlo2tx8.dialects.spm", "Spm"),
    ("stablehlo", "hlo2tx8.dialects.stablehlo", "StableHlo"),
    ("tx8", "hlo2tx8.device.isa", "Tx8"),
    ("tx8be", "hlo2tx8.dialects.tx8be", "Tx8be"),
    ("vec", "hlo2tx8.dialects.vec", "Vec"),
    ("xla", "hlo2tx8.dialects.xla", "Xla"),
)
"""(dialect, module, attribute)"""


def _dialect(module: str, attribute: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        return getattr(import_module(module), attribute)

    return load


def _pass(stage: Stage) -> Callable[[], type[ModulePass]]:
    step = type(stage.step)
    return lambda: _on_kernels(step) if stage.per_kernel else step


def _on_kernels(step: type[ModulePass]) -> type[ModulePass]:
    """A pass on kernels that, given a module with kernels in it, as levels from LOOPS on are printed, runs on each of them."""

    def apply(self: ModulePass, ctx: Context, op: ModuleOp) -> None:
        for kernel in tuple(kernels(op).values()) or (op,):
            step.apply(self, ctx, kernel)

    return type(step.__name__, (step,), {"apply": apply})


UNIVERSE = Universe(
    all_dialects={name: _dialect(module, attribute) for name, module, attribute in DIALECTS},
    all_passes={stage.step.name: _pass(stage) for stage in (*PIPELINE, *EXTRA_STAGES)},
)
