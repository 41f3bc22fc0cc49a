"""Ops that run beside others: a chip does one thing after the other, so what starts is done at once.

%1 = async_start(%0) { all_reduce }         ⟶    %2 = all_reduce %0
%2 = async_done(%1)
"""

from typing import Any

from hlo2tx8.frontend import shim


def inline_async(module: Any) -> None:
    """Changes the module in place: the body of an async_start takes the place of it, and what it gives that of the async_done."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name == "stablehlo.async_start":
            found.append(op)
        return shim.ir().WalkResult.ADVANCE

    module.operation.walk(visit)
    for start in found:
        (block,) = start.regions[0].blocks
        for argument, operand in zip(block.arguments, start.operands, strict=True):
            argument.replace_all_uses_with(operand)
        *body, last = list(block.operations)
        for op in body:
            op.move_before(start)
        for use in list(start.results[0].uses):
            done = use.owner.operation
            for result, value in zip(done.results, last.operation.operands, strict=True):
                result.replace_all_uses_with(value)
            done.erase()
        start.erase()
