"""Expands chlo ops, and some ops on complex numbers, by jaxlib's own passes, one op at a time so that fusions and layouts stay."""

from functools import lru_cache

from xdsl.dialects import func
from xdsl.dialects.builtin import ComplexType, FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import CopyOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.export import to_mlir_text
from hlo2tx8.frontend.types import type_from_text, type_to_text
from hlo2tx8.frontend.walker import walk_module

LEGALIZE = "builtin.module(func.func(chlo-legalize-to-stablehlo),canonicalize,cse)"
LEGALIZE_COMPLEX = "builtin.module(func.func(stablehlo-complex-math-expander),canonicalize,cse)"
COMPLEX_FUNCTIONS = ("stablehlo.log", "stablehlo.log_plus_one", "stablehlo.sqrt")
"""Ops of complex numbers that need more than a formula to be accurate everywhere."""


def legalize_chlo(module: ModuleOp) -> ModuleOp:
    """The module, changed in place: chlo ops become stablehlo ops at the same spot with the same origin.

    An op the pass has no expansion for (chlo.scan, chlo.ragged_dot on some types) stays.
    """
    for op in [op for op in nested_ops(module) if op.name.startswith("chlo.") and not op.regions]:
        _expand(op, LEGALIZE)
    return module


def legalize_complex(module: ModuleOp) -> None:
    """Changes the module in place: some functions of complex numbers become real arithmetic on their parts."""
    for op in [op for op in nested_ops(module) if op.name in COMPLEX_FUNCTIONS]:
        if isinstance(as_tensor(op.results[0].type).element_type, ComplexType):
            _expand(op, LEGALIZE_COMPLEX)


def _expand(op: Operation, passes: str) -> None:
    block = op.parent
    assert block is not None
    body = _expansion(to_mlir_text(ModuleOp([_function_of(op)])), passes)
    if body is None:
        return
    mapping: dict[SSAValue, SSAValue] = dict(zip(body.args, op.operands, strict=True))
    loc = op.attributes.get("loc")
    last = body.last_op
    assert last is not None
    for inner in body.ops:
        if inner is last:
            break
        new = inner.clone(mapping)
        new.attributes.pop("loc", None)
        if loc is not None:
            new.attributes["loc"] = loc
        block.insert_op_before(new, op)
    for old, found in zip(op.results, last.operands, strict=True):
        value = mapping[found]
        if value.type != old.type:
            copy = CopyOp(operands=[[value]], result_types=[[old.type]])
            block.insert_op_before(copy, op)
            value = copy.results[0]
        old.replace_all_uses_with(value)
    op.detach()
    op.erase()


def _function_of(op: Operation) -> func.FuncOp:
    """@main with that op alone, without layouts."""
    inputs = [type_from_text(type_to_text(value.type)) for value in op.operands]
    block = Block(arg_types=inputs)
    outputs = [type_from_text(type_to_text(type_)) for type_ in op.result_types]
    copy = type(op).create(operands=block.args, result_types=outputs, properties=dict(op.properties))
    block.add_ops([copy, func.ReturnOp(*copy.results)])
    return func.FuncOp("main", FunctionType.from_lists(inputs, outputs), Region(block))


@lru_cache(maxsize=256)
def _expansion(text: str, passes: str) -> Block | None:
    """The body of @main after the passes; None if a chlo op is left."""
    module = shim.parse_module(text, shim.make_context())
    try:
        shim.run_pipeline(module, passes)
    except shim.mlir_error():
        return None
    (function,) = walk_module(module).body.block.ops
    assert isinstance(function, func.FuncOp)
    body = function.body.block
    return None if any(op.name.startswith("chlo.") for op in body.walk()) else body
