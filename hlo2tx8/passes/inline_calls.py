"""Pass inline-calls: calls and composites become the bodies of the functions they name.

    %1 = func.call @_pad(%0)                                 ⟶    the body of @_pad on %0
    %1 = stablehlo.composite "gelu" %0 {decomposition = @f}  ⟶    the body of @f on %0
    %1 = func.call @f(%0), of @f {fusion = "elementwise"}    ⟶    hlo.fusion "f"(%0) of the body of @f

Also inside of the regions of control flow. What stays beside @main is functions with the attribute `no_inline` that are called
there and in such regions, and what is named otherwise. Recursive calls stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.outline import FUSION, fusion_of
from hlo2tx8.builders.rewrite_named import ops_inside
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.module import NO_INLINE
from hlo2tx8.hlo.regions import CALL, CONTROL

CALLS: Mapping[str, str] = {CALL: "callee", "stablehlo.composite": "decomposition"}
"""Ops that run a function, and the property that names it."""
MAX_DEPTH = 64


@dataclass(frozen=True)
class InlineCallsPass(ModulePass):
    """Inline what @main calls, and drop functions that nothing names any more; see the module docstring."""

    name = "inline-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.block.ops if isinstance(f, FuncOp)}
        main = functions.get("main")
        if main is None:
            return
        for root in (main, *(f for f in functions.values() if NO_INLINE in f.attributes)):
            for _ in range(MAX_DEPTH):
                calls = [inner for inner in ops_inside(root) if inner.name in CALLS and not _stays(inner, functions)]
                if not calls:
                    break
                for call in calls:
                    _inline(call, functions)
        needed = reached_functions(main, functions)
        for name, function in functions.items():
            if name not in needed:
                function.detach()
                function.erase()


def _stays(call: Operation, functions: Mapping[str, FuncOp]) -> bool:
    """Is it a call of a function that stays, in no region but those of control flow?"""
    if call.name != CALL or NO_INLINE not in functions.get(_callee(call), call).attributes:
        return False
    around = call.parent_op()
    while around is not None and around.name in CONTROL:
        around = around.parent_op()
    return isinstance(around, FuncOp)


def reached_functions(main: FuncOp, functions: Mapping[str, FuncOp]) -> dict[str, None]:
    """The names of @main, of the functions that its ops name, and of those that these name."""
    found = {main.sym_name.data: None}
    waiting = [main]
    while waiting:
        new = [name for name in named_functions(waiting.pop()) if name in functions and name not in found]
        found.update(dict.fromkeys(new))
        waiting += [functions[name] for name in new]
    return found


def named_functions(root: Operation) -> dict[str, None]:
    """Functions that an op inside of `root` names: calls, composites, custom calls."""
    found: dict[str, None] = {}
    for op in nested_ops(root):
        for value in op.properties.values():
            names = cast(ArrayAttr[Attribute], value).data if isinstance(value, ArrayAttr) else (value,)
            for name in names:
                if isinstance(name, SymbolRefAttr):
                    found[name.root_reference.data] = None
    return found


def _callee(call: Operation) -> str:
    callee = call.properties.get(CALLS[call.name])
    return callee.root_reference.data if isinstance(callee, SymbolRefAttr) else ""


def _inline(call: Operation, functions: Mapping[str, FuncOp]) -> None:
    name = _callee(call)
    if name not in functions:
        raise CompileError("E1002", f"{call.name} of unknown function @{name}")
    function = functions[name]
    if FUSION in function.attributes:
        fusion = fusion_of(function, call.operands)
        fusion.attributes.update(call.attributes)
        Rewriter.replace_op(call, fusion)
        return
    block, body = call.parent, function.body.block
    assert block is not None
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.operands, strict=True))
    for op in body.ops:
        if op.name == "func.return":
            Rewriter.replace_op(call, [], [values.get(value, value) for value in op.operands])
            return
        block.insert_op_before(op.clone(values), call)
