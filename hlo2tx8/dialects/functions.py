"""The functions of a module."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from hlo2tx8.dialects.nested import ops_of


def defined_functions(module: ModuleOp) -> tuple[FuncOp, ...]:
    """The functions of the module's own block that have a body, as they are now: a pass may add and remove some meanwhile."""
    return tuple(op for op in ops_of(module.body.block) if isinstance(op, FuncOp) and not op.is_declaration)
