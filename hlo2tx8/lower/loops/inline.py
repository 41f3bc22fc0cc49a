"""Pass inline: a function called once moves into its caller; one that only moves an index goes into all of them.

Before:
    func.func @f(...) { ... %v = xla.pure_call @f_log(%p0, %i) ... }
    func.func private @f_log(%p0: tensor<8xf32>, %i0: index) -> f32 { %x = tensor.extract %p0[%i0] ... }

After:
    func.func @f(...) { ... %x = tensor.extract %p0[%i] ... }

Functions with other results that are called several times stay: copying them would let code grow exponentially. So do those
marked `xla.compute_once`, which the loop of a reduction calls.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.dialects.xla import PureCallOp
from hlo2tx8.errors import LevelError

INLINED = frozenset(("xla.no_compute", "xla.made_again"))
"""Marks of functions that are inlined however often they are called."""


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """Inlines functions with a single call, and those that are marked; see the module docstring."""

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.block.ops if isinstance(f, func.FuncOp)}
        calls: dict[str, list[PureCallOp]] = {name: [] for name in functions}
        for function in functions.values():
            for call in calls_in(function):
                calls[callee_of(call)].append(call)
        for name in callers_first(functions):
            function = functions[name]
            if "xla.entry" in function.attributes or "xla.compute_once" in function.attributes:
                continue
            found = calls[name]
            if len(found) > 1 and not INLINED.intersection(function.attributes):
                continue
            for call in found[:-1]:
                copy = function.clone()
                for inner in calls_in(copy):
                    calls[callee_of(inner)].append(inner)
                move_body(copy, call)
            if found:
                move_body(function, found[-1])
            else:
                _forget_calls(function, calls)
            function.detach()
            function.erase(safe_erase=False)


def calls_in(function: Operation) -> list[PureCallOp]:
    """All calls in a function, in order."""
    return [op for op in nested_ops(function) if isinstance(op, PureCallOp)]


def callee_of(call: PureCallOp) -> str:
    return call.callee.root_reference.data


def callers_first(functions: dict[str, func.FuncOp]) -> list[str]:
    """Function names such that each comes after all that call it; LevelError on recursion."""
    callees = {name: list(dict.fromkeys(callee_of(call) for call in calls_in(function))) for name, function in functions.items()}
    waiting = dict.fromkeys(functions, 0)
    for names in callees.values():
        for name in names:
            waiting[name] += 1
    ready = [name for name, count in waiting.items() if count == 0]
    order: list[str] = []
    while ready:
        name = ready.pop(0)
        order.append(name)
        for callee in callees[name]:
            waiting[callee] -= 1
            if waiting[callee] == 0:
                ready.append(callee)
    if len(order) != len(functions):
        raise LevelError("E1006", "subgraph functions call each other in a circle")
    return order


def move_body(function: func.FuncOp, call: PureCallOp) -> None:
    """Move the body of a function in front of a call of it, and let it give the call's results."""
    source, target = function.body.block, call.parent_block()
    assert target is not None
    for arg, value in zip(source.args, call.arguments, strict=True):
        arg.replace_all_uses_with(value)
    for op in ops_of(source):
        if isinstance(op, func.ReturnOp):
            for result, value in zip(call.res, op.arguments, strict=True):
                if value.name_hint is None:
                    value.name_hint = result.name_hint
                result.replace_all_uses_with(value)
            break
        op.detach()
        target.insert_op_before(op, call)
    call.detach()
    call.erase()


def _forget_calls(function: func.FuncOp, calls: dict[str, list[PureCallOp]]) -> None:
    """A function nobody calls calls nobody."""
    for call in calls_in(function):
        calls[callee_of(call)].remove(call)
