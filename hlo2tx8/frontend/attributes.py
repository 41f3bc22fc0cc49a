"""Attributes of MLIR ops as xDSL attributes, each distinct one converted once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute

from hlo2tx8.dialects.hlo import OpaqueAttr, StructAttr
from hlo2tx8.dialects.literal import ElementsAttr, LiteralAttr
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.literals import literal_of, literal_of_bytes
from hlo2tx8.frontend.types import type_from_text

_ENUM = re.compile(r"#(?:stablehlo|chlo|mhlo)<\w+ (\w+)>$")
_RAGGED_DOT = re.compile(r"#mhlo\.ragged_dot<dot_dimension_numbers = #mhlo\.dot<(.*?)>, ")
_STRUCT = re.compile(r"#(?:stablehlo|chlo|mhlo)\.\w+<")
_RESOURCE = re.compile(r'dense_resource<"?(.*?)"?> :')
_BLOB = re.compile(r'^\s+"?([^\s"]+)"?: "0x([0-9A-Fa-f]*)"', re.MULTILINE)


@dataclass
class AttributeReader:
    """Converts types and attributes of one MLIR module."""

    module: Any
    types: dict[Any, Attribute] = field(default_factory=dict[Any, Attribute])
    known: dict[Any, Attribute] = field(default_factory=dict[Any, Attribute])
    symbols: set[str] = field(default_factory=set[str])
    """Names of functions that attributes read so far refer to."""

    @cached_property
    def ir(self) -> Any:
        """MLIR's Python bindings."""
        return shim.ir()

    @cached_property
    def resources(self) -> Mapping[str, bytes]:
        """The blobs of `dense_resource` attributes by name, each preceded by four bytes that give its alignment."""
        text: str = self.module.operation.get_asm(large_elements_limit=1)
        _, _, tail = text.rpartition("{-#")
        return {name: bytes.fromhex(digits)[4:] for name, digits in _BLOB.findall(tail)}

    def type(self, type_: Any) -> Attribute:
        """The xDSL type."""
        found = self.types.get(type_)
        if found is None:
            found = self.types[type_] = type_from_text(str(type_))
        return found

    def tensor(self, type_: Any) -> TensorType[Attribute]:
        """The xDSL type of a tensor; CompileError for other types."""
        found = self.type(type_)
        if not isinstance(found, TensorType):
            raise CompileError("E1001", f"a constant of type {found} is not supported")
        return cast("TensorType[Attribute]", found)

    def read(self, value: Any) -> Attribute:
        """The xDSL attribute."""
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._convert(value)
        return found

    def literal(self, op: Any) -> Attribute:
        """The value of a constant op."""
        type_ = self.tensor(op.results[0].type)
        try:
            value = op.attributes["value"]
        except Exception:  # the bindings have no class for complex elements
            text: str = op.get_asm()
            return literal_of(None, type_, text[text.rindex("dense") :])
        return self._elements(value, type_)

    def _elements(self, value: Any, type_: TensorType[Attribute]) -> LiteralAttr:
        if isinstance(value, self.ir.DenseElementsAttr):
            return literal_of(value, type_)
        text = str(value)
        match = _RESOURCE.match(text)
        if match is None:
            return literal_of(None, type_, text)
        if match.group(1) not in self.resources:
            raise CompileError("E1003", f"the module has no resource {match.group(1)}")
        return literal_of_bytes(self.resources[match.group(1)], type_)

    def _convert(self, value: Any) -> Attribute:
        ir = self.ir
        match value:
            case ir.BoolAttr():
                return IntegerAttr(int(value.value), i1)
            case ir.IntegerAttr():
                return IntegerAttr(value.value, cast(IntegerType | IndexType, self.type(value.type)))
            case ir.FloatAttr():
                return FloatAttr(value.value, cast(Any, self.type(value.type)))
            case ir.StringAttr():
                return StringAttr(value.value)
            case ir.FlatSymbolRefAttr():
                self.symbols.add(value.value)
                return SymbolRefAttr(value.value)
            case ir.DenseI64ArrayAttr():
                return DenseArrayBase.from_list(i64, list(value))
            case ir.DenseF64ArrayAttr():
                return DenseArrayBase.from_list(f64, list(value))
            case ir.DenseI32ArrayAttr():
                return DenseArrayBase.from_list(i32, list(value))
            case ir.DenseBoolArrayAttr():
                return DenseArrayBase.from_list(i1, [int(v) for v in value])
            case ir.ArrayAttr():
                return ArrayAttr([self.read(v) for v in value])
            case ir.DictAttr():
                return DictionaryAttr({n.name: self.read(n.attr) for n in value})
            case ir.UnitAttr():
                return UnitAttr()
            case ir.DenseElementsAttr():
                type_ = self.tensor(value.type)
                return ElementsAttr(literal_of(value, type_), type_)
            case _:
                return _foreign(str(value))


def _foreign(text: str) -> Attribute:
    """Enums as their word, structures with fields, anything else as its text."""
    enum = _ENUM.match(text)
    if enum is not None:
        return StringAttr(enum.group(1))
    text = _RAGGED_DOT.sub(r"#chlo.ragged_dot<\1, ", text)
    if _STRUCT.match(text):
        return StructAttr(parse_struct(text))
    return OpaqueAttr(text)
