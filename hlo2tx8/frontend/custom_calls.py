"""Custom calls by which other systems write operations that StableHLO does not have.

custom_call @mhlo.erf(%x)                       ⟶    chlo.erf %x, and so each op of chlo by its name
custom_call @TopK(%x), @mhlo.topk(%x) {k}       ⟶    chlo.top_k %x; of the smallest, or by a comparator, a sort and slices
custom_call @ApproxTopK(%x, %i, ...) by @f      ⟶    a sort by @f of which a slice is kept: all of the best, so any recall is met
custom_call @lapack_spotrf_ffi(%a)              ⟶    see lapack.py
custom_call @byteir.softmax(%x)                 ⟶    see coarse_calls.py
custom_call @scaled-dot(%a, %b, %s, %t)         ⟶    see scaled_dot.py
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, TupleType, i1, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.frontend.coarse_calls import expand_coarse_call
from hlo2tx8.frontend.lapack import expand_lapack
from hlo2tx8.frontend.scaled_dot import SCALED_DOT, expand_scaled_dot

TOP_K = ("TopK", "mhlo.topk", "chlo.top_k")
NAMED = {f"{dialect}.{name}": op for dialect in ("mhlo", "chlo") for name, op in chlo.OPS.items()}


def expand_custom_calls(module: ModuleOp) -> None:
    """Changes the module in place; custom calls that it knows nothing of stay."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    for op in [op for op in nested_ops(module) if op.name == "stablehlo.custom_call"]:
        found = _expanded(op, functions)
        if found is not None:
            _replace(op, found)


def _expanded(op: Operation, functions: Mapping[str, FuncOp]) -> Sequence[SSAValue] | None:
    attributes = decode_attributes(op)
    target = attributes["call_target_name"]
    called = [functions[name] for name in map(str, attributes.get("called_computations") or ()) if name in functions]
    types = _result_types(op)
    if target in TOP_K and len(op.operands) == 1 and len(types) == 2:
        return _top_k(op, types, called, is_largest=bool(_own_attributes(attributes).get("largest", True)))
    if target == "ApproxTopK" and len(called) == 1 and (config := _config(attributes)):
        return _first_of_sorted(Expansion(op), op.operands[: len(types)], types, config["reduction_dim"], _as_block(called[0]))
    if target == SCALED_DOT and len(op.operands) == 4:
        return expand_scaled_dot(op, types[0])
    if (found := expand_lapack(op, attributes, types)) is not None:
        return found
    if (found := expand_coarse_call(op, attributes, types)) is not None:
        return found
    class_ = NAMED.get(str(target))
    if class_ is None or called or len(types) != 1:
        return None
    given = op.attributes.get("mhlo.attributes")
    properties = dict(given.data) if isinstance(given, DictionaryAttr) else {}
    if not set(properties) <= set(class_.ATTRIBUTES):
        return None
    return Expansion(op).insert(class_(op.operands, types, properties)).results


def _top_k(op: Operation, types: Sequence[Attribute], called: Sequence[FuncOp], *, is_largest: bool) -> Sequence[SSAValue]:
    """Elements and places of the first ones along the last dimension."""
    e, whole = Expansion(op), as_tensor(op.operands[0].type)
    shape, index = whole.get_shape(), as_tensor(types[1]).element_type
    if is_largest and not called:
        properties = {"k": IntegerAttr(as_tensor(types[0]).get_shape()[-1], i64)}
        indices = TensorType(i32, as_tensor(types[1]).get_shape())
        values, places = e.insert(chlo.OPS["top_k"](op.operands, [types[0], indices], properties)).results
        return values, e.converted(places, index)
    dim = len(shape) - 1
    places = e.emit("iota", [], TensorType(index, shape), iota_dimension=IntegerAttr(dim, i64))
    block = _as_block(called[0]) if called else _comparator([whole.element_type, index], "GT" if is_largest else "LT")
    return _first_of_sorted(e, [op.operands[0], places], types, dim, block)


def _first_of_sorted(
    e: Expansion, arrays: Sequence[SSAValue], types: Sequence[Attribute], dim: int, comparator: Block
) -> Sequence[SSAValue]:
    """As many elements as the types have, from the start of the sorted arrays."""
    properties = {"dimension": IntegerAttr(dim, i64), "is_stable": IntegerAttr(1, i1)}
    ordered = e.insert(stablehlo.OPS["sort"](arrays, [value.type for value in arrays], properties, [Region(comparator)])).results
    found: list[SSAValue] = []
    for value, type_ in zip(ordered, types, strict=True):
        limits = as_tensor(type_).get_shape()
        bounds = {"start_indices": int_array([0] * len(limits)), "limit_indices": int_array(limits)}
        found.append(e.emit("slice", [value], type_, strides=int_array([1] * len(limits)), **bounds))
    return found


def _comparator(elements: Sequence[Attribute], direction: str) -> Block:
    """Compares the first pair of numbers; NaNs have their place in the total order."""
    block = Block(arg_types=[TensorType(element, []) for element in elements for _ in range(2)])
    properties = {"comparison_direction": StringAttr(direction)}
    if not isinstance(elements[0], type(i32)):
        properties["compare_type"] = StringAttr("TOTALORDER")
    compare = stablehlo.OPS["compare"](block.args[:2], [TensorType(i1, [])], properties)
    block.add_ops([compare, stablehlo.ReturnOp(compare.results)])
    return block


def _as_block(function: FuncOp) -> Block:
    """The body of a function as that of an op."""
    region = function.body.clone()
    end = region.block.last_op
    assert end is not None
    Rewriter.replace_op(end, stablehlo.ReturnOp(list(end.operands)), [])
    return region.detach_block(0)


def _config(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What a custom call says about itself, in an attribute of jax's or as JSON in HLO text."""
    given: Any = attributes.get("mhlo.backend_config") or attributes.get("backend_config")
    try:
        found: Any = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) and "reduction_dim" in found else {}


def _own_attributes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of the op that a custom call stands for."""
    found: Mapping[str, Any] | None = attributes.get("mhlo.attributes")
    return found or {}


def _result_types(op: Operation) -> Sequence[Attribute]:
    """Types of the results; of the elements where HLO text has one result, a tuple."""
    types = op.result_types
    return list(types[0].types) if len(types) == 1 and isinstance(types[0], TupleType) else types


def _replace(op: Operation, values: Sequence[SSAValue]) -> None:
    e = Expansion(op)
    if len(op.results) == 1 and isinstance(op.results[0].type, TupleType):
        types = _result_types(op)
        values = [v if v.type == type_ else e.emit("reshape", [v], type_) for v, type_ in zip(values, types, strict=True)]
        values = e.insert(stablehlo.OPS["tuple"](values, op.result_types)).results
        Rewriter.replace_op(op, [], values)
        return
    e.replace(*values)
