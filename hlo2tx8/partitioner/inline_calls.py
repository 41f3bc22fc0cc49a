"""Calls of functions of the source, inlined: fusions do not look into functions.

%1 = func.call @_pad(%0)   ⟶   the body of @_pad on %0
"""

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, SSAValue

MAX_DEPTH = 64


def inline_calls(module: ModuleOp, block: Block) -> None:
    """Replace the calls in a block by the called bodies, and drop functions nobody calls any more.

    Calls inside regions of control flow stay, and so do recursive ones.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    for _ in range(MAX_DEPTH):
        calls = [op for op in block.ops if isinstance(op, CallOp)]
        if not calls:
            break
        for call in calls:
            _inline(call, functions[call.callee.root_reference.data], block)
    needed = _named(module)
    for name, function in functions.items():
        if function.body.block is not block and name not in needed:
            function.detach()
            function.erase()


def _named(module: ModuleOp) -> dict[str, None]:
    """Functions that an op names: calls, composites, custom calls."""
    found: dict[str, None] = {}
    for op in module.walk():
        for value in op.properties.values():
            if isinstance(value, SymbolRefAttr):
                found[value.root_reference.data] = None
    return found


def _inline(call: CallOp, function: FuncOp, block: Block) -> None:
    body = function.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.arguments, strict=True))
    for op in body.ops:
        if op.name == "func.return":
            for result, value in zip(call.res, op.operands, strict=True):
                result.replace_all_uses_with(values.get(value, value))
            break
        block.insert_op_before(op.clone(values), call)
    call.detach()
    call.erase()
