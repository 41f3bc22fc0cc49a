"""Dialect `tx8be`: the back-end IR of the vendor's flow; `tx8be_rows` lists its ops.

%0 = "tx8be.Input"(%arg0) {layout_str = "Unknown", mem_scope = #tx8be<memscope_mode DDR>} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
%2 = "tx8be.None"() : () -> none
%3 = "tx8be.Gemm"(%0, %1, %2, %2) {transL = false} : (tensor<4x8xbf16>, tensor<8x2xbf16>, none, none) -> tensor<4x2xbf16>
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NoneType,
    StringAttr,
    TensorType,
    TupleType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, traits_def
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.dialects.hlo_form import OpenForm
from hlo2tx8.dialects.tx8be_attributes import ATTRIBUTES
from hlo2tx8.dialects.tx8be_rows import COMMON, NO_DEFAULT, ROWS, Property, Tx8beRow
from hlo2tx8.dialects.tx8be_shapes import CHECKS
from hlo2tx8.ir import i64_attr

SUFFIXES = "?*"


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """What orders ops that have effects."""

    name = "tx8be.token"


class Tx8beOp(OpenForm):
    """An op of the dialect; ROW says what it takes. Attributes are in the attribute dictionary, as the vendor's files have them."""

    ROW: ClassVar[Tx8beRow]

    def __init__(
        self,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
    ) -> None:
        encoded = {name: _encoded(value) for name, value in (attributes or {}).items()}
        super().__init__(operands, result_types, regions=regions, attributes=encoded)

    def __getitem__(self, name: str) -> Any:
        """An attribute as a value of Python, its default where it is not there."""
        property_ = self.ROW.properties.get(name) or COMMON[name]
        value = self.attributes.get(name)
        if value is None:
            return None if property_.default is NO_DEFAULT else property_.default
        return decoded(value, property_.kind)

    def operand_named(self, name: str) -> SSAValue | None:
        """An operand by its name in the table; None where `tx8be.None` stands for it, or nothing."""
        index = [word.rstrip(SUFFIXES) for word in self.ROW.operands].index(name)
        value = self.operands[index] if index < len(self.operands) else None
        return None if value is None or isinstance(value.type, NoneType) else value

    def verify_(self) -> None:
        _verify_values(self, "operand", self.ROW.operands, [value.type for value in self.operands])
        _verify_values(self, "result", self.ROW.results, [value.type for value in self.results])
        for name, property_ in {**COMMON, **self.ROW.properties}.items():
            _verify_attribute(self, name, property_)
        if self.ROW.num_regions >= 0 and len(self.regions) != self.ROW.num_regions:
            raise VerifyException(f"{self.name} has {len(self.regions)} regions, and should have {self.ROW.num_regions}")
        if (check := CHECKS.get(self.ROW.name)) is not None:
            check(self)


def _encoded(value: Any) -> Attribute:
    match value:
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return i64_attr(value)
        case float():
            return FloatAttr(value, f32)
        case str():
            return StringAttr(value)
        case tuple() | list():
            return DenseArrayBase.from_list(i32, cast(Sequence[int], value))
        case _:
            return value


def decoded(value: Attribute, kind: type) -> Any:
    """An attribute as a value of that kind; VerifyException where it has another one."""
    match value:
        case IntegerAttr() if kind is bool and isinstance(value.type, IntegerType) and value.type.width.data == 1:
            return bool(value.value.data)
        case IntegerAttr() if kind is int:
            return value.value.data
        case FloatAttr() if kind is float:
            return value.value.data
        case StringAttr() if kind is str:
            return value.data
        case DenseArrayBase() if kind is list and isinstance(value.elt_type, IntegerType):
            return tuple(int(number) for number in cast("DenseArrayBase[IntegerType]", value).get_values())
        case _ if kind not in (bool, int, float, str, list) and isinstance(value, kind):
            return value
        case _:
            raise VerifyException(f"{value} is no {getattr(kind, 'name', kind.__name__)}")


def _verify_attribute(op: Tx8beOp, name: str, property_: Property) -> None:
    value = op.attributes.get(name)
    if value is None:
        if property_.default is NO_DEFAULT:
            raise VerifyException(f"{op.name} has no attribute {name}")
        return
    try:
        decoded(value, property_.kind)
    except VerifyException as error:
        raise VerifyException(f"{name} of {op.name}: {error}") from None


def _verify_values(op: Tx8beOp, what: str, names: Sequence[str], types: Sequence[Attribute]) -> None:
    """Are there as many operands or results as the table names, and of its types?"""
    if any(name.endswith("*") for name in names):
        return
    least = sum(not name.endswith("?") for name in names)
    if not least <= len(types) <= len(names):
        raise VerifyException(f"{op.name} has {len(types)} {what}s, and should have {', '.join(names) or 'none'}")
    for name, type_ in zip(names, types, strict=False):
        if isinstance(type_, NoneType) and not name.endswith("?") and op.ROW.name != "None":
            raise VerifyException(f"{what} {name} of {op.name} is none")
        if not isinstance(type_, TensorType | TupleType | NoneType | TokenType):
            raise VerifyException(f"{what} {name} of {op.name} is {type_}, no tensor")


def _declare(row: Tx8beRow) -> type[Tx8beOp]:
    members: dict[str, object] = {
        "name": f"tx8be.{row.name}",
        "__doc__": f"`tx8be.{row.name}`.",
        "__module__": __name__,
        "ROW": row,
    }
    members["__annotations__"] = {"ROW": ClassVar[Tx8beRow]}
    if row.name == "Return":
        members["traits"] = traits_def(IsTerminator())
    return irdl_op_definition(type(f"{row.name}Op", (Tx8beOp,), members))


OPS: Mapping[str, type[Tx8beOp]] = {name: _declare(row) for name, row in ROWS.items()}
"""Op classes by name without the dialect."""

Tx8be = Dialect("tx8be", list(OPS.values()), [*ATTRIBUTES, TokenType])
