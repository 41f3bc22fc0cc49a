"""Questions about a module: its name, its @main, the functions that it calls."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp

from hlo2tx8.dialects.nested import nested_of
from hlo2tx8.errors import InputError

NO_INLINE = "no_inline"
"""The attribute of a function that stays one: its calls are not replaced by its body."""


def module_name(module: ModuleOp) -> str:
    """The module's symbol name, or "module"."""
    return module.sym_name.data if module.sym_name is not None else "module"


def find_main(module: ModuleOp) -> FuncOp:
    """The function @main; InputError where there is none."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise InputError("E1004", "the module has no function @main")


def program_functions(module: ModuleOp) -> list[FuncOp]:
    """@main, last, and the functions that it calls, each behind those that it calls itself; InputError where there is no @main, or
    a function that is called."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    found: dict[FuncOp, None] = {}
    active = [find_main(module)]
    while active:
        names = [op.callee.string_value() for op in nested_of(active[-1], CallOp)]
        if missing := [name for name in names if name not in functions]:
            raise InputError("E1004", f"@{active[-1].sym_name.data} calls @{missing[0]}, which is not there")
        new = next((functions[name] for name in names if functions[name] not in found), None)
        if new is None:
            found[active.pop()] = None
        elif new in active:
            raise InputError("E1004", f"@{new.sym_name.data} calls itself")
        else:
            active.append(new)
    return list(found)
