"""What the package onnx knows of ops: their schemas, defaults, result types, and what they mean in terms of other ops."""

# pyright: basic

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from hlo2tx8.frontend.onnx.conversion import NUMBER_OF
from hlo2tx8.frontend.onnx.package import onnx_module
from hlo2tx8.frontend.onnx.scope import TracedValue
from hlo2tx8.frontend.onnx.table import NodeCall, OpRow

TYPES = {
    "tensor(bool)": "bool",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(float)": "float32",
    "tensor(int8)": "int8",
}
"""Types of results that do not depend on the node."""


@cache
def schema_of(op: str, opset: int, domain: str) -> Any:
    """The schema of an op at an opset; None if it has none."""
    defs = onnx_module("defs")
    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


def defaults_of(schema: Any) -> dict[str, Any]:
    """The values of attributes that a node may leave out."""
    if schema is None:
        return {}
    protos = onnx_module("helper")
    found: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type:
            value = protos.get_attribute_value(attribute.default_value)
            value = [v.decode() if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value
            found[name] = value.decode() if isinstance(value, bytes) else value
    return found


def typed(row: OpRow, call: NodeCall, schema: Any, arrays: Sequence[Any]) -> list[Any]:
    """The results of a row's function in the dtypes that the schema says: that of an input of the same type, or one named."""
    found = row.apply(call, *arrays)
    results = list(found) if isinstance(found, tuple) else [found]
    if schema is None:
        return results
    types = {key: np.dtype(name) for key, name in TYPES.items()}
    for number, array in enumerate(arrays):
        if array is not None:
            types.setdefault(schema.inputs[min(number, len(schema.inputs) - 1)].type_str, array.dtype)
    for number, result in enumerate(results):
        wanted = types.get(schema.outputs[min(number, len(schema.outputs) - 1)].type_str)
        if result is not None and wanted is not None and result.dtype != wanted:
            results[number] = result.astype(wanted)
    return results


def _type_proto(value: TracedValue | None) -> Any:
    """The type of a value as a schema's function is asked for by."""
    package = onnx_module()
    proto = package.TypeProto()
    if value is None:
        return proto
    if isinstance(value.array, tuple):
        first = _type_proto(value.array[0]) if value.array else proto
        proto.sequence_type.elem_type.CopyFrom(first)
        return proto
    proto.tensor_type.elem_type = NUMBER_OF[value.array.dtype.name]
    proto.tensor_type.shape.CopyFrom(package.TensorShapeProto())
    for size in value.array.shape:
        proto.tensor_type.shape.dim.add().dim_value = size
    return proto


def body_of(schema: Any, opset: int, node: Any, attributes: Mapping[str, Any], inputs: Sequence[TracedValue | None]) -> Any:
    """What the schema says that an op means in terms of others; None if it says nothing."""
    package = onnx_module()
    plain, dependent = (
        [v for v in versions if v <= opset]
        for versions in (schema.function_opset_versions, schema.context_dependent_function_opset_versions)
    )
    if plain:
        data = schema.get_function_with_opset_version(max(plain))
    elif dependent:
        own = package.NodeProto.FromString(node.SerializeToString())
        del own.attribute[:]
        own.attribute.extend(attributes.values())
        types = [_type_proto(value).SerializeToString() for value in inputs]
        data = schema.get_context_dependent_function_with_opset_version(max(dependent), own.SerializeToString(), types)
    else:
        return None
    return package.FunctionProto.FromString(data) if data else None
