"""The functions of a module."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp


def defined_functions(module: ModuleOp) -> tuple[FuncOp, ...]:
    """The functions of the module's own block that have a body, as they are now: a pass may add and remove some meanwhile."""
    return tuple(op for op in module.body.block.ops if isinstance(op, FuncOp) and not op.is_declaration)
