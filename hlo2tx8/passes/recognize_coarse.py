"""Pass recognize-coarse: coarse ops that are wanted stay one op each, others become the instructions they are made of.

Before:                                                   After, with --keep=softmax:
    hlo.fusion "gelu"(%x) {coarse, the body}                  the body
    %m = reduce max %y ... %s = divide %e, %t                 %s = hlo.fusion "softmax"(%y) {coarse, these instructions}

Wanted are names that `keep` has, and those for which a kernel is registered. Composites and custom calls have their names from the
source; instructions are recognised by what they compute, see `rules.coarse`.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.hlo.regions import CONTROL, inline_region
from hlo2tx8.kernel_registry import REGISTRY, canonical


@dataclass(frozen=True)
class RecognizeCoarsePass(ModulePass):
    """Keep the coarse ops of these names, and those with a registered kernel; see the module docstring."""

    name = "recognize-coarse"

    keep: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        wanted = wanted_names(self.keep)
        for function in program_functions(op):
            _dissolve(function.body.block, wanted)


def wanted_names(keep: str) -> dict[str, None]:
    """The names in a list with commas between them, and those of registered kernels."""
    return dict.fromkeys(canonical(name.strip()) for name in keep.split(",") if name.strip()) | REGISTRY.names()


def _dissolve(block: Block, wanted: dict[str, None]) -> None:
    """Replaces coarse ops that are not wanted, or are inside of one that is, by what they are made of."""
    waiting = list(block.ops)[::-1]
    while waiting:
        op = waiting.pop()
        if isinstance(op, FusionOp) and op.coarse is not None:
            inside = list(op.body.block.ops)[:-1]
            if op.fusion_name is None or op.fusion_name.data not in wanted:
                inline_region(op, op.body.block, list(op.operands))
                waiting += inside[::-1]
            else:
                _dissolve(op.body.block, {})
        elif op.name in CONTROL:
            for region in op.regions:
                _dissolve(region.block, wanted)
