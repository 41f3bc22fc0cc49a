"""From jaxlib's MLIR bindings to our xDSL ops, op by op, without text in between.

`mhlo.fusion` becomes `hlo.fusion`, `mhlo.bitcast` and `mhlo.copy` become `hlo.bitcast` and `hlo.copy`, other mhlo ops their chlo
namesakes. Layouts become encodings of tensor types. An op no dialect here has becomes `hlo.unknown`.
"""

import gc
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.dialects.hlo import BitcastOp, CopyOp, FusionOp, StructAttr, UnknownOp
from hlo2tx8.dialects.struct_text import parse_struct
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.literals import literal_of
from hlo2tx8.frontend.types import type_from_text, with_layout

_ENUM = re.compile(r"#(?:stablehlo|chlo|mhlo)<\w+ (\w+)>$")
_STRUCT = re.compile(r"#(?:stablehlo|chlo|mhlo)\.\w+<")
_LOCATION_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"')
_LOCATION_FILE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_DROPPED = ("xla_shape", "result_layout", "operandSegmentSizes", "output_operand_aliasing", "resultSegmentSizes")
# mhlo ops with a chlo or stablehlo meaning.
_MHLO_AS_STABLEHLO = ("return",)


def walk_module(module: Any) -> ModuleOp:
    """The xDSL module of an MLIR module."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return _Walker().module(module)
    finally:
        if enabled:
            gc.enable()


@dataclass
class _Walker:
    values: dict[Any, SSAValue] = field(default_factory=dict[Any, SSAValue])
    types: dict[Any, Attribute] = field(default_factory=dict[Any, Attribute])
    attributes: dict[Any, Attribute] = field(default_factory=dict[Any, Attribute])
    locations: dict[Any, str] = field(default_factory=dict[Any, str])
    layouts: Sequence[tuple[int, ...] | None] = ()

    def module(self, module: Any) -> ModuleOp:
        self.ir = shim.ir()
        attributes = module.operation.attributes
        self.layouts = _entry_layouts(attributes)
        ops = [self.function(o) for o in module.body.operations if o.operation.name == "func.func"]
        name = attributes["sym_name"].value if "sym_name" in attributes else None
        return ModuleOp(ops, sym_name=StringAttr(name) if name else None)

    def function(self, op: Any) -> func.FuncOp:
        name = op.operation.attributes["sym_name"].value
        region = Region()
        layouts = self.layouts if name == "main" else ()
        for block in op.operation.regions[0].blocks:
            region.add_block(self.block(block, layouts))
        first = region.blocks.first
        inputs = [a.type for a in first.args] if first is not None else []
        last = first.last_op if first is not None else None
        outputs = [o.type for o in last.operands] if last is not None else []
        visibility = op.operation.attributes
        private = "sym_visibility" in visibility and visibility["sym_visibility"].value == "private"
        return func.FuncOp(name, FunctionType.from_lists(inputs, outputs), region, visibility="private" if private else None)

    def block(self, block: Any, layouts: Sequence[tuple[int, ...] | None] = (), types: Sequence[Attribute] = ()) -> Block:
        """A block; `types` overrides the types of its arguments."""
        arguments = list(block.arguments)
        own = list(types) or [self.type(a.type) for a in arguments]
        for i, layout in enumerate(layouts[: len(own)]):
            own[i] = with_layout(own[i], layout)
        new = Block(arg_types=own)
        self.values.update(zip(arguments, new.args, strict=True))
        for op in block.operations:
            new.add_op(self.operation(op.operation))
        return new

    def operation(self, op: Any) -> Operation:
        name = op.name
        operands = [self.values[o] for o in op.operands]
        attributes, layout = self.op_attributes(op, name)
        results = [with_layout(self.type(r.type), layout) for r in op.results]
        new = self.make(op, name, operands, results, attributes)
        location = self.location(op.location)
        if location:
            new.attributes["loc"] = StringAttr(location)
        self.values.update(zip(op.results, new.results, strict=True))
        return new

    def make(
        self, op: Any, name: str, operands: list[SSAValue], results: list[Attribute], attributes: dict[str, Attribute]
    ) -> Operation:
        dialect, _, short = name.partition(".")
        if name == "mhlo.fusion":
            types = [o.type for o in operands]
            body = Region([self.block(b, types=types) for b in op.regions[0].blocks])
            kind = attributes.get("fusion_kind")
            fusion_name = _fusion_name(self.location(op.location))
            return FusionOp(operands, results, kind.data if isinstance(kind, StringAttr) else "kLoop", body, fusion_name)
        regions = [Region([self.block(b) for b in r.blocks]) for r in op.regions]
        match name:
            case "func.return":
                return func.ReturnOp(*operands)
            case "func.call":
                callee = attributes["callee"]
                assert isinstance(callee, SymbolRefAttr)
                return func.CallOp(callee, operands, results)
            case "mhlo.bitcast":
                return BitcastOp(operands=[operands], result_types=[results])
            case "mhlo.copy":
                return CopyOp(operands=[operands], result_types=[results])
            case _:
                pass
        if dialect == "mhlo":
            dialect = "chlo" if short in chlo.OPS and short not in stablehlo.OPS else "stablehlo"
        table = {"stablehlo": stablehlo.OPS, "chlo": chlo.OPS}.get(dialect, {})
        kind = table.get(short)
        if kind is None:
            return UnknownOp(operands=[operands], result_types=[results], properties={"op_name": StringAttr(name)})
        allowed = {n: a for n, a in attributes.items() if n in kind.ATTRIBUTES}
        extra = {n: a for n, a in attributes.items() if n not in allowed}
        new = kind(operands, results, allowed, regions)
        new.attributes.update(extra)
        return new

    # -------------------------------------------------------------------------------------------- attributes

    def op_attributes(self, op: Any, name: str) -> tuple[dict[str, Attribute], tuple[int, ...] | None]:
        if name.endswith(".constant"):
            return {"value": self.constant(op)}, None
        result: dict[str, Attribute] = {}
        layout: tuple[int, ...] | None = None
        for key in op.attributes:
            key = key.name if hasattr(key, "name") else key
            value = op.attributes[key]
            if key == "result_layout":
                layout = tuple(int(v) for v in value)
            if key not in _DROPPED:
                result[key] = self.attribute(value)
        return result, layout

    def constant(self, op: Any) -> Attribute:
        type_ = cast(TensorType[Attribute], self.type(op.results[0].type))
        try:
            value = op.attributes["value"]
        except Exception:  # the bindings have no class for complex elements
            text = op.get_asm()
            return literal_of(None, type_, text[text.index("dense") :])
        return literal_of(value, type_)

    def attribute(self, value: Any) -> Attribute:
        known = self.attributes.get(value)
        if known is None:
            known = self.attributes[value] = self.new_attribute(value)
        return known

    def new_attribute(self, value: Any) -> Attribute:
        ir = self.ir
        match value:
            case ir.BoolAttr():
                return IntegerAttr(int(value.value), i1)
            case ir.IntegerAttr():
                return IntegerAttr(value.value, type_from_text(str(value.type)))  # pyright: ignore
            case ir.FloatAttr():
                return FloatAttr(value.value, f32 if str(value.type) == "f32" else f64)
            case ir.StringAttr():
                return StringAttr(value.value)
            case ir.FlatSymbolRefAttr():
                return SymbolRefAttr(value.value)
            case ir.DenseI64ArrayAttr():
                return DenseArrayBase.from_list(i64, list(value))
            case ir.DenseBoolArrayAttr():
                return DenseArrayBase.from_list(i1, [int(v) for v in value])
            case ir.ArrayAttr():
                return ArrayAttr([self.attribute(v) for v in value])
            case ir.DictAttr():
                return DictionaryAttr({n.name: self.attribute(n.attr) for n in value})
            case ir.UnitAttr():
                return UnitAttr()
            case ir.DenseIntElementsAttr() | ir.DenseFPElementsAttr():
                type_ = cast(TensorType[Attribute], type_from_text(str(value.type)))
                return literal_of(value, type_)
            case _:
                return self.structured(str(value))

    @staticmethod
    def structured(text: str) -> Attribute:
        enum = _ENUM.match(text)
        if enum is not None:
            return StringAttr(enum.group(1))
        if _STRUCT.match(text):
            return StructAttr(parse_struct(text))
        return StringAttr(text)

    def type(self, type_: Any) -> Attribute:
        known = self.types.get(type_)
        if known is None:
            known = self.types[type_] = type_from_text(str(type_))
        return known

    def location(self, location: Any) -> str:
        known = self.locations.get(location)
        if known is None:
            known = self.locations[location] = _location_text(str(location))
        return known


def _location_text(text: str) -> str:
    """`file:line:column name` of an MLIR location."""
    if text == "loc(unknown)":
        return ""
    file = _LOCATION_FILE.search(text)
    name = next((n for n in _LOCATION_NAME.findall(text)), "")
    where = f"{file.group(1)}:{file.group(2)}:{file.group(3)}" if file else ""
    if file and name == file.group(1):
        inner = re.search(r'"([^"]*)"\(', text)
        name = inner.group(1) if inner else ""
    return f"{where} {name}".strip()


def _fusion_name(location: str) -> str:
    return location.rsplit(" ", maxsplit=1)[-1] if location else ""


def _entry_layouts(attributes: Any) -> list[tuple[int, ...] | None]:
    """Layouts of the entry computation's parameters, as HLO text gives them."""
    key = "mhlo.xla_entry_computation_parameter_layouts"
    if key not in attributes:
        return []
    layouts: list[tuple[int, ...] | None] = []
    for value in attributes[key]:
        try:
            layouts.append(tuple(int(v) for v in value))
        except TypeError:
            layouts.append(None)
    return layouts
