"""From jaxlib's MLIR bindings to our xDSL ops, op by op, without text in between.

`mhlo.fusion` becomes `hlo.fusion`, `mhlo.bitcast` and `mhlo.copy` become `hlo.bitcast` and `hlo.copy`, other mhlo ops
their chlo namesakes. Layouts become encodings of tensor types. An op no dialect here has becomes `hlo.unknown`.
"""

import gc
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.dialects.hlo import BitcastOp, CopyOp, FusionOp, UnknownOp, decode_attribute
from hlo2tx8.dialects.hlo_form import HloForm
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.errors import CapacityError, CompileError
from hlo2tx8.frontend.attributes import AttributeReader
from hlo2tx8.frontend.coarse import COARSE, coarse_fusion
from hlo2tx8.frontend.inlined_size import functions_that_stay
from hlo2tx8.frontend.layouts import (
    CARRIERS,
    call_row_major,
    carry_layouts,
    copy_results,
    laid_out,
    parameter_layouts,
    size_bits,
)
from hlo2tx8.frontend.locations import LocationReader
from hlo2tx8.frontend.types import Layout, layout_of, with_layout
from hlo2tx8.hlo.module import NO_INLINE
from hlo2tx8.hlo.placement import FRONTEND
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.ir import text_attr

_DROPPED = ("xla_shape", "source_layout", "output_operand_aliasing")
_CONSTANTS = ("stablehlo.constant", "chlo.constant", "arith.constant")
MOST_AROUND = 96
"""Operations with regions around one: passes recurse into them, and a program's loops and branches are nested as deep."""
_ALIASES, _ALIASING = "mhlo.input_output_alias", "tf.aliasing_output"
_MODULE_ATTRIBUTES = ("mhlo.num_partitions", "mhlo.num_replicas")

_CLASSES: dict[str, type[HloForm]] = {
    **{f"mhlo.{name}": op for name, op in chlo.OPS.items()},
    "mhlo.return": stablehlo.ReturnOp,
    "mhlo.topk": chlo.OPS["top_k"],
    "arith.constant": stablehlo.ConstantOp,
    **{f"stablehlo.{name}": op for name, op in stablehlo.OPS.items()},
    **{f"chlo.{name}": op for name, op in chlo.OPS.items()},
}
"""The op class for an op's name in MLIR."""


def walk_module(module: Any, locations: LocationReader | None = None, *, inline: bool = False) -> ModuleOp:
    """The xDSL module of an MLIR module; CompileError where a type or constant cannot be held.

    `inline` puts the bodies of called functions in place of the calls, but for those that would make the module too large;
    functions nobody names any more go.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return _Walker(AttributeReader(module), locations or LocationReader(), inline).module(module)
    finally:
        if enabled:
            gc.enable()


@dataclass
class _Walker:
    reader: AttributeReader
    locations: LocationReader
    is_inlining: bool
    values: dict[Any, SSAValue] = field(default_factory=dict[Any, SSAValue])
    callable: dict[str, Any] = field(default_factory=dict[str, Any])
    staying: frozenset[str] = frozenset()
    is_scalar: bool = False
    active: list[str] = field(default_factory=list[str])
    num_around: int = 0
    call_site: str = ""

    def module(self, module: Any) -> ModuleOp:
        """All functions, in their order."""
        given = module.operation.attributes
        functions = {o.operation.attributes["sym_name"].value: o.operation for o in _functions(module)}
        if self.is_inlining:
            self.callable = {name: op for name, op in functions.items() if len(op.regions[0].blocks) == 1}
            self.staying = functions_that_stay(functions, self.callable, self.locations)
        roots = [name for name, op in functions.items() if not (self.is_inlining and _is_private(op)) or name == "main"]
        done: dict[str, Operation] = {}
        while waiting := [name for name in functions if name not in done and (name in roots or name in self.reader.symbols)]:
            done[waiting[0]] = self.function(functions[waiting[0]], given)
        ops = [done[name] for name in functions if name in done]
        kept = {key: self.reader.read(given[key]) for key in _MODULE_ATTRIBUTES if key in given}
        name = given["sym_name"].value if "sym_name" in given else None
        return ModuleOp(ops, kept, sym_name=StringAttr(name) if name else None)

    def function(self, op: Any, module_attributes: Any) -> func.FuncOp:
        """One function; @main has the layouts that the module promises for its entry."""
        given = op.attributes
        name: str = given["sym_name"].value
        is_main = name == "main"
        region = Region()
        for block in op.regions[0].blocks:
            region.add_block(self.block(block, parameter_layouts(module_attributes) if is_main else ()))
        last = region.blocks[-1].last_op if region.blocks else None
        if isinstance(last, func.ReturnOp):
            if is_main or name in self.staying:
                last = copy_results(last, module_attributes if is_main else None)
            type_ = FunctionType.from_lists([a.type for a in region.blocks[0].args], [o.type for o in last.operands])
        else:
            type_ = cast(FunctionType, self.reader.type(given["function_type"].value))
        visibility = given["sym_visibility"].value if "sym_visibility" in given else None
        new = func.FuncOp(name, type_, region, visibility)
        for key in ("arg_attrs", "res_attrs"):
            if key in given:
                new.properties[key] = cast(ArrayAttr[DictionaryAttr], self.reader.read(given[key]))
        if name in self.staying:
            new.attributes[NO_INLINE] = UnitAttr()
        if is_main and _ALIASES in module_attributes:
            aliases = decode_attribute(self.reader.read(module_attributes[_ALIASES]))
            new.properties["arg_attrs"] = _with_aliasing(new, [decode_attribute(alias) for alias in aliases])
        return new

    def block(self, block: Any, layouts: Sequence[Layout] = ()) -> Block:
        """A block with all its ops; `layouts` are those of the first arguments."""
        arguments = list(block.arguments)
        types = [self.reader.type(a.type) for a in arguments]
        for i, layout in enumerate(layouts[: len(types)]):
            types[i] = with_layout(types[i], layout)
        new = Block(arg_types=types)
        self.values.update(zip(arguments, new.args, strict=True))
        ops: list[Operation] = []
        for op in block.operations:
            self.add(op.operation, ops)
        new.add_ops(ops)
        return new

    def add(self, op: Any, ops: list[Operation]) -> None:
        """Appends the op, or the body of the function it calls."""
        if self.is_inlining and op.name == "func.call":
            name: str = op.attributes["callee"].value
            if name in self.active:
                circle = " calls ".join(f"@{each}" for each in (*self.active[self.active.index(name) :], name))
                raise CompileError("E1002", f"recursion: {circle}", origin=self.locations.text(op.location, self.call_site))
            if name in self.callable and (self.is_scalar or name not in self.staying):
                if COARSE in op.attributes and not self.is_scalar:
                    self.add_coarse(op, name, ops)
                else:
                    self.add_body(op, name, ops)
                return
        new = self.operation(op)
        if not (self.is_inlining and isinstance(new, func.CallOp)):
            ops.append(new)
            return
        parts, results = call_row_major(new)
        ops += parts
        self.values.update(zip(op.results, results, strict=True))

    def add_coarse(self, call: Any, name: str, ops: list[Operation]) -> None:
        """Appends a fusion of the callee's ops, which the call of a composite became."""
        operands = [self.values[operand] for operand in call.operands]
        body = Block(arg_types=[value.type for value in operands])
        self.values.update(zip(call.operands, body.args, strict=True))
        inside: list[Operation] = []
        self.add_body(call, name, inside)
        body.add_ops([*inside, ReturnOp([self.values[result] for result in call.results])])
        self.values.update(zip(call.operands, operands, strict=True))
        said = cast(DictionaryAttr, self.reader.read(call.attributes[COARSE]))
        fusion = coarse_fusion(cast(StringAttr, said.data["name"]).data, said.data["attributes"], operands, Region(body))
        if location := self.locations.text(call.location, self.call_site):
            fusion.attributes["loc"] = StringAttr(location)
        ops.append(fusion)
        self.values.update(zip(call.results, fusion.results, strict=True))

    def add_body(self, call: Any, name: str, ops: list[Operation]) -> None:
        """Appends the callee's ops; the call's results are what it returns."""
        (block,) = self.callable[name].regions[0].blocks
        values, outer_site = self.values, self.call_site
        self.call_site = self.locations.parts_of(call.location)[1] or outer_site
        self.active.append(name)
        values.update({argument: values[o] for argument, o in zip(block.arguments, call.operands, strict=True)})
        for op in block.operations:
            inner = op.operation
            if inner.name != "func.return":
                self.add(inner, ops)
                continue
            values.update({result: values[o] for result, o in zip(call.results, inner.operands, strict=True)})
        self.active.pop()
        self.call_site = outer_site

    def operation(self, op: Any) -> Operation:
        """One op with its regions."""
        name: str = op.name
        values, reader = self.values, self.reader
        operands = [values[o] for o in op.operands]
        own_results = list(op.results)
        results = [reader.type(r.type) for r in own_results]
        attributes: dict[str, Attribute] = {}
        for key in op.attributes.keys() if name not in _CONSTANTS else self.constant(op, attributes):
            if key == "result_layout":
                results = [laid_out(result, op.attributes[key]) for result in results]
            elif key not in _DROPPED:
                attributes[key] = reader.read(op.attributes[key])
        new = self.make(op, name, operands, results, attributes)
        location = self.locations.text(op.location, self.call_site)
        if location:
            new.attributes["loc"] = text_attr(location)
        values.update(zip(own_results, new.results, strict=True))
        return new

    def constant(self, op: Any, attributes: dict[str, Attribute]) -> list[str]:
        """Read the value of a constant; returns the names of the attributes that are still to be read."""
        attributes["value"] = self.reader.literal(op)
        return [key for key in op.attributes.keys() if key != "value"]  # noqa: SIM118

    def make(
        self, op: Any, name: str, operands: list[SSAValue], results: list[Attribute], attributes: dict[str, Attribute]
    ) -> Operation:
        """The xDSL op of that name."""
        class_ = _CLASSES.get(name)
        if class_ is None:
            return self.make_other(op, name, operands, results, attributes)
        if name == "mhlo.topk" and attributes.get("largest", IntegerAttr(1, 1)) != IntegerAttr(1, 1):
            call = stablehlo.OPS["custom_call"](operands, results, {"call_target_name": StringAttr(name)})
            call.attributes["mhlo.attributes"] = DictionaryAttr(attributes)
            return call
        if name == "mhlo.topk":
            attributes.pop("largest", None)
        regions = self.regions(op, operands if name == "stablehlo.while" else ())
        if name in CARRIERS:
            results = carry_layouts(name, operands, results, regions, attributes)
        properties = {n: a for n, a in attributes.items() if n in class_.ATTRIBUTES}
        new = class_(operands, results, properties, regions)
        if len(properties) < len(attributes):
            new.attributes.update({n: a for n, a in attributes.items() if n not in properties})
        return new

    def make_other(
        self, op: Any, name: str, operands: list[SSAValue], results: list[Attribute], attributes: dict[str, Attribute]
    ) -> Operation:
        """An op that is neither stablehlo nor chlo."""
        match name:
            case "func.return":
                return func.ReturnOp(*operands)
            case "func.call":
                call = func.CallOp(cast(SymbolRefAttr, attributes["callee"]), operands, results)
                call.attributes |= {key: value for key, value in attributes.items() if key == FRONTEND}
                return call
            case "mhlo.bitcast":
                self.check_bitcast(op, operands[0].type, results[0])
                return BitcastOp(operands=[operands], result_types=[results])
            case "mhlo.copy":
                return CopyOp(operands=[operands], result_types=[results])
            case "mhlo.fusion":
                regions = self.regions(op, operands)
                results = carry_layouts(name, operands, results, regions, attributes)
                kind = attributes.get("fusion_kind")
                kind_name = kind.data if isinstance(kind, StringAttr) else "kLoop"
                fusion_name = re.sub(r"[^\w.\-]", "_", self.locations.parts_of(op.location)[0])
                return FusionOp(operands, results, kind_name, regions[0], fusion_name)
            case _:
                new = UnknownOp(
                    operands=[operands],
                    result_types=[results],
                    properties={"op_name": StringAttr(name)},
                    regions=[self.regions(op)],
                )
                new.attributes.update(attributes)
                return new

    def check_bitcast(self, op: Any, source: Attribute, target: Attribute) -> None:
        """CompileError unless both tensors have the same size; neither jaxlib's parser nor its verifier checks that."""
        sizes = [size_bits(type_) for type_ in (source, target)]
        if sizes[0] != sizes[1]:
            message = f"a bitcast of {sizes[0]} bits to {sizes[1]} bits"
            raise CompileError("E1003", message, origin=self.locations.text(op.location, self.call_site))

    def regions(self, op: Any, arguments: Sequence[SSAValue] = ()) -> list[Region]:
        """The op's regions; their block arguments have the layouts of `arguments`."""
        layouts = [layout_of(value.type) for value in arguments]
        if op.regions and self.num_around == MOST_AROUND:
            message = f"operations are more than {MOST_AROUND} deep inside each other"
            raise CapacityError("E1005", message, origin=self.locations.text(op.location, self.call_site))
        self.num_around += 1
        outside, self.is_scalar = self.is_scalar, self.is_scalar or op.name not in CONTROL
        found = [Region([self.block(block, layouts) for block in region.blocks]) for region in op.regions]
        self.num_around -= 1
        self.is_scalar = outside
        return found


def _with_aliasing(main: func.FuncOp, aliases: Sequence[Mapping[str, Any]]) -> ArrayAttr[DictionaryAttr]:
    """@main's attributes of arguments, with the output that each may take over as `input_output_alias` of an HLO module says."""
    count = len(main.function_type.inputs)
    given = main.arg_attrs.data if main.arg_attrs is not None else (DictionaryAttr({}),) * count
    found = [dict(entry.data) for entry in given]
    for alias in aliases:
        parameter = alias["alias"]["parameter_number"]
        output = alias["output_index"] or (0,)
        if not alias["alias"]["parameter_index"] and len(output) == 1 and parameter < count:
            found[parameter][_ALIASING] = IntegerAttr(output[0], i32)
    return ArrayAttr([DictionaryAttr(entry) for entry in found])


def _functions(module: Any) -> list[Any]:
    return [op for op in module.body.operations if op.operation.name == "func.func"]


def _is_private(op: Any) -> bool:
    return "sym_visibility" in op.attributes and op.attributes["sym_visibility"].value == "private"
