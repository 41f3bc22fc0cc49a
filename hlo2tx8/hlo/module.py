"""Questions about a module: its name, its @main."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from hlo2tx8.errors import InputError


def module_name(module: ModuleOp) -> str:
    """The module's symbol name, or "module"."""
    return module.sym_name.data if module.sym_name is not None else "module"


def find_main(module: ModuleOp) -> FuncOp:
    """The function @main; InputError where there is none."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise InputError("E1004", "the module has no function @main")
