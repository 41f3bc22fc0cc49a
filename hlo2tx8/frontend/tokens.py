"""Tokens as arrays without elements: the emulator does everything in order, so nothing is left of them."""

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo.module import find_main

EMPTY = TensorType(i1, [0])
_SOURCES = ("stablehlo.create_token", "stablehlo.after_all")


def is_token(type_: Attribute) -> bool:
    """Is it the type of tokens?"""
    return str(type_) == "!stablehlo.token"


def replace_tokens(module: ModuleOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Gives every token the type bool[0], in place; which arguments and which results of @main were tokens."""
    kind = find_main(module).function_type
    found = _tokens(kind.inputs.data), _tokens(kind.outputs.data)
    for op in tuple(module.walk()):
        values: list[SSAValue] = [*op.results, *(argument for region in op.regions for b in region.blocks for argument in b.args)]
        for value in values:
            if is_token(value.type):
                Rewriter.replace_value_with_new_type(value, EMPTY)
        if op.name in _SOURCES:
            Rewriter.replace_op(
                op, stablehlo.OPS["constant"]([], [EMPTY], {"value": LiteralAttr.from_array(np.zeros(0, np.bool_))})
            )
    for op in module.walk():
        if isinstance(op, FuncOp):
            op.update_function_type()
    return found


def _tokens(types: tuple[Attribute, ...]) -> tuple[int, ...]:
    return tuple(i for i, type_ in enumerate(types) if is_token(type_))
