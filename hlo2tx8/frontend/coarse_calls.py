"""Custom calls of ByteIR's coarse ops, and of those for which a kernel was registered with a reference, become coarse ops.

%1 = stablehlo.custom_call @byteir.softmax(%0) {byteir_attrs = {axis = 1}}    ⟶    hlo.fusion "softmax" {coarse = {axis = 1}}
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.hlo import decode_attribute, origin
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.coarse import coarse_fusion
from hlo2tx8.frontend.coarse_formulas import FORMULAS
from hlo2tx8.frontend.types import type_from_text, type_to_text
from hlo2tx8.frontend.walker import walk_module
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.kernel_registry import BYTEIR, REGISTRY, canonical


def expand_coarse_call(op: Operation, attributes: Mapping[str, Any], types: Sequence[Attribute]) -> Sequence[SSAValue] | None:
    """The results of the fusion that a custom call stands for; None if nobody has a formula for its name.

    CompileError E1002 for attributes that the formula has not, or results that are not its own.
    """
    target = str(attributes["call_target_name"])
    formula = REGISTRY.reference(target) or (FORMULAS.get(canonical(target)) if target.startswith(BYTEIR) else None)
    if formula is None:
        return None
    given = op.attributes.get("byteir_attrs") or op.attributes.get("mhlo.backend_config") or op.properties.get("backend_config")
    said = given if isinstance(given, DictionaryAttr) else DictionaryAttr({})
    plain = [type_from_text(type_to_text(value.type)) for value in op.operands]
    shapes = [(tuple(as_tensor(t).get_shape()), numpy_dtype(as_tensor(t).element_type)) for t in plain]
    known = decode_attribute(said)
    try:
        lowered = shim.lower_for_types(partial(formula, **known), shapes)
    except (NotImplementedError, TypeError, ValueError) as error:
        first = next(iter(str(error).splitlines()), "what it is given")
        raise CompileError("E1002", f"{target}: {first}", origin=origin(op)) from None
    module = shim.lowered_module(lowered)
    shim.run_pipeline(module, "builtin.module(canonicalize,cse)")
    (main,) = (inner for inner in walk_module(module, inline=True).body.block.ops)
    assert isinstance(main, FuncOp)
    last = main.body.block.last_op
    assert last is not None
    wanted = [type_from_text(type_to_text(type_)) for type_ in types]
    results = [_of_width(v, type_, last) for v, type_ in zip(last.operands, wanted, strict=False)]
    if [value.type for value in results] != wanted or len(results) < len(last.operands):
        raise CompileError("E1002", f"{target} gives {', '.join(type_to_text(v.type) for v in last.operands)}", origin=origin(op))
    for inner in main.body.walk():
        inner.attributes.pop("loc", None)
        inner.attributes |= {key: value for key, value in op.attributes.items() if key == "loc"}
    last.detach()
    last.erase()
    body = main.detach_region(main.body)
    body.block.add_op(ReturnOp(results))
    e = Expansion(op)
    operands = [v if v.type == t else e.emit("reshape", [v], t) for v, t in zip(op.operands, plain, strict=True)]
    return e.insert(coarse_fusion(target, said, operands, body)).results


def _of_width(value: SSAValue, type_: Attribute, before: Operation) -> SSAValue:
    """An integer, such as a place, in the width that a call gives it; any other value as it is."""
    found, wanted = as_tensor(value.type), as_tensor(type_)
    if not all(isinstance(t.element_type, IntegerType) for t in (found, wanted)) or found.get_shape() != wanted.get_shape():
        return value
    return value if found == wanted else Expansion(before).emit("convert", [value], wanted)
