"""Pass fuse-by-template: instructions become functions with a tag, as one of five templates says.

Before:                                    After fuse-by-template{config=elementwise}:
    %0 = stablehlo.tanh %x                     %1 = func.call @elementwise_fusion(%x, %y)
    %1 = stablehlo.add %0, %y
                                               func.func private @elementwise_fusion(...) attributes {fusion = "elementwise"}

`config`: elementwise, matmul_epilogue, reduction, concat_slice or trivial; `templates` has them, `fusion_template` what they say.
`single`: an instruction alone becomes a function too. Equal ones are one function; functions with a tag are left as they are.
inline-calls makes a fusion of each call, which plan-fusions keeps.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.outline import FUSION, outlined
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.errors import InputError
from hlo2tx8.fusion.fusion_template import FusionTemplate, fuse_block
from hlo2tx8.fusion.templates import TEMPLATES
from hlo2tx8.hlo.fingerprint import fingerprint


@dataclass(frozen=True)
class FuseByTemplatePass(ModulePass):
    """Fuse and outline what a template takes; see the module docstring."""

    name = "fuse-by-template"

    config: str
    single: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.config not in TEMPLATES:
            raise InputError("E1004", f"no template is called {self.config!r}", hint=f"config is one of {', '.join(TEMPLATES)}")
        fuse_module(op, TEMPLATES[self.config], single=self.single)


def fuse_module(module: ModuleOp, template: FusionTemplate, *, single: bool = False) -> None:
    """Put what the template takes of each function without a tag into functions of their own, behind the others."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    taken = {f.sym_name.data: 0 for f in functions}
    known: dict[Hashable, FuncOp] = {}
    for fusion in [fusion for function in functions for fusion in _fusions(function, template, single, taken)]:
        key = fingerprint(fusion)
        if key not in known:
            assert fusion.fusion_name is not None
            known[key] = outlined(fusion, fusion.fusion_name.data, template.name)
            module.body.block.add_op(known[key])
        call = CallOp(known[key].sym_name.data, list(fusion.operands), list(fusion.result_types))
        call.attributes.update(fusion.attributes)
        Rewriter.replace_op(fusion, call)


def _fusions(function: FuncOp, template: FusionTemplate, single: bool, taken: dict[str, int]) -> Iterator[FusionOp]:
    if FUSION not in function.attributes:
        for block in function.body.blocks:
            yield from fuse_block(block, template, single=single, taken=taken)
