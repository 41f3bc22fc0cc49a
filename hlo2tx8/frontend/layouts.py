"""Layouts of values while a module is walked: which ops pass them on, which the entry has, which a bitcast allows."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, TupleType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute

from hlo2tx8.dialects.hlo import CopyOp
from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.frontend.types import Layout, layout_of, row_major, with_layout
from hlo2tx8.hlo.types import bit_width, numpy_dtype

_IS_HLO = "mhlo.is_dynamic"
_PARAMETER_LAYOUTS = "mhlo.xla_entry_computation_parameter_layouts"
_RESULT_LAYOUTS = "mhlo.xla_entry_computation_result_layout"

CARRIERS = (
    *("stablehlo.while", "stablehlo.if", "stablehlo.case", "stablehlo.optimization_barrier"),
    *("stablehlo.tuple", "stablehlo.get_tuple_element"),
)
"""Ops whose results have the layouts of what goes in, because their text does not say."""


def carry_layouts(
    name: str,
    operands: Sequence[SSAValue],
    results: list[Attribute],
    regions: Sequence[Region],
    attributes: Mapping[str, Attribute],
) -> list[Attribute]:
    """The result types with the layouts of the operands, or of what the first region returns."""
    match name:
        case "stablehlo.tuple":
            return [TupleType(ArrayAttr(cast(list[TypeAttribute], [value.type for value in operands])))]
        case "stablehlo.get_tuple_element":
            index = attributes["index"]
            assert isinstance(index, IntegerAttr)
            return [cast(TupleType, operands[0].type).types.data[index.value.data]]
        case "stablehlo.while" | "stablehlo.optimization_barrier":
            sources: Sequence[SSAValue] = operands
        case _:
            last = regions[0].block.last_op
            sources = last.operands if last is not None else ()
    return [with_layout(type_, layout_of(value.type)) for type_, value in zip(results, sources, strict=True)]


def laid_out(type_: Attribute, layout: Any) -> Attribute:
    """The type of a result with the layout that MLIR's attribute gives: numbers, or an array of them for the tensors of a tuple."""
    if not isinstance(type_, TupleType):
        return with_layout(type_, tuple(int(v) for v in layout))
    elements = [laid_out(element, each) for element, each in zip(type_.types, layout, strict=True)]
    return TupleType(ArrayAttr(cast(list[TypeAttribute], elements)))


def parameter_layouts(module_attributes: Any) -> list[Layout]:
    """Layouts of the entry's parameters; none where all are row-major."""
    return _layouts(module_attributes, _PARAMETER_LAYOUTS)


def call_row_major(call: func.CallOp) -> tuple[list[Operation], list[SSAValue]]:
    """In place of a call, one of a function that takes and gives row-major tensors, with copies around it; and the results that the
    first one had."""
    before, operands = _copies(call.operands, [_row_major(value.type) for value in call.operands])
    new = func.CallOp(call.callee, operands, [_row_major(type_) for type_ in call.result_types])
    new.attributes |= call.attributes
    behind, results = _copies(new.results, call.result_types)
    call.erase()
    return [*before, new, *behind], results


def _copies(values: Sequence[SSAValue], types: Sequence[Attribute]) -> tuple[list[Operation], list[SSAValue]]:
    """Copies of the values that are not of these types, and all values of these types."""
    copies = [CopyOp(operands=[[v]], result_types=[[t]]) if v.type != t else None for v, t in zip(values, types, strict=True)]
    found = [value if copy is None else copy.results[0] for value, copy in zip(values, copies, strict=True)]
    return [copy for copy in copies if copy is not None], found


def _row_major(type_: Attribute) -> Attribute:
    return with_layout(type_, row_major(as_tensor(type_).get_num_dims())) if is_tensor(type_) else type_


def copy_results(last: func.ReturnOp, module_attributes: Any = None) -> func.ReturnOp:
    """Copies in front of a return, so that results have the layouts that an HLO module promises for its entry, or are row major."""
    if module_attributes is not None and _IS_HLO not in module_attributes:
        return last
    layouts = _layouts(module_attributes or {}, _RESULT_LAYOUTS)
    values = list(last.operands)
    block = cast(Block, last.parent)
    for i, value in enumerate(values):
        if not is_tensor(value.type):
            continue
        tensor = as_tensor(value.type)
        type_ = with_layout(tensor, (layouts[i] if i < len(layouts) else None) or row_major(tensor.get_num_dims()))
        if type_ == tensor:
            continue
        copy = CopyOp(operands=[[value]], result_types=[[type_]])
        block.insert_op_before(copy, last)
        values[i] = copy.results[0]
    if values == list(last.operands):
        return last
    new = func.ReturnOp(*values)
    block.insert_op_before(new, last)
    last.detach()
    last.erase()
    return new


def size_bits(type_: Attribute) -> int:
    """Bits of all elements of a tensor."""
    tensor = as_tensor(type_)
    return prod(tensor.get_shape()) * bit_width(numpy_dtype(tensor.get_element_type()))


def _layouts(attributes: Any, key: str) -> list[Layout]:
    """Layouts of the entry's parameters or results, as HLO text gives them; none for tokens and tuples."""
    if key not in attributes:
        return []
    found: list[Layout] = []
    for value in attributes[key]:
        try:
            found.append(tuple(int(v) for v in value))
        except TypeError:
            found.append(None)
    return found
