"""Our dialects and passes for xDSL tools: the entry point `xdsl.universe` makes stock xdsl-opt know them.

The passes are those of the pipeline; a dialect is imported only when a tool asks for it by name.
"""

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from hlo2tx8.compiler.pipeline import PIPELINE

DIALECTS: tuple[tuple[str, str, str], ...] = (
    ("chlo", "hlo2tx8.dialects.chlo", "Chlo"),
    ("hlo", "hlo2tx8.dialects.hlo", "Hlo"),
    ("launch", "hlo2tx8.dialects.launch", "Launch"),
    ("spm", "hlo2tx8.dialects.spm", "Spm"),
    ("stablehlo", "hlo2tx8.dialects.stablehlo", "StableHlo"),
    ("tx8", "hlo2tx8.device.isa", "Tx8"),
    ("vec", "hlo2tx8.dialects.vec", "Vec"),
    ("xla", "hlo2tx8.dialects.xla", "Xla"),
)
"""(dialect, module, attribute)"""


def _dialect(module: str, attribute: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        return getattr(import_module(module), attribute)

    return load


def _pass(step: ModulePass) -> Callable[[], type[ModulePass]]:
    return lambda: type(step)


UNIVERSE = Universe(
    all_dialects={name: _dialect(module, attribute) for name, module, attribute in DIALECTS},
    all_passes={stage.step.name: _pass(stage.step) for stage in PIPELINE},
)
