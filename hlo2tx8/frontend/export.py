"""StableHLO text of an xDSL module: for round trips, for XLA:CPU as a second opinion, for jaxlib's own passes.

Fusions are called functions, groups are spread out, layouts are dropped (values are logical arrays), `hlo.bitcast` is
a transpose, a reshape and a transpose, and `hlo.copy` nothing.
"""

import math
import re
import string
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import (
    BitcastOp,
    CopyOp,
    ElementsAttr,
    FusionOp,
    GroupOp,
    LiteralAttr,
    OpaqueAttr,
    StructAttr,
    minor_to_major,
    name_of,
    origin,
)
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.literals import literal_to_text
from hlo2tx8.frontend.types import type_to_text
from hlo2tx8.hlo.signature import VALUE

_ENUMS = {
    "comparison_direction": "comparison_direction",
    "compare_type": "comparison_type",
    "precision_config": "precision",
    "fft_type": "fft_type",
    "rng_algorithm": "rng_algorithm",
    "rng_distribution": "rng_distribution",
    "transpose_a": "transpose",
}
"""MLIR's word for the enum behind each attribute that is one."""

_PLAIN = frozenset(string.ascii_letters + string.digits + string.punctuation + " ") - {'"', "\\"}
_FUSION_CALL = re.compile(r"\bcall\(([^)]*)\), to_apply=(%?fusion\.[\w.]+)")
_RETURNS = ("stablehlo.return", "func.return")


def to_mlir_text(module: ModuleOp, *, is_located: bool = False) -> str:
    """The module as StableHLO text in generic form; `is_located`: with the places that its ops come from."""
    return _Exporter(is_located).module(module)


def to_hlo_text(module: ModuleOp) -> str:
    """The module as HLO text, its fusions too; names and layouts are lost."""
    text = shim.mlir_to_hlo_text(to_mlir_text(module))
    return _FUSION_CALL.sub(r"fusion(\1), kind=kLoop, calls=\2", text)


@dataclass
class _Exporter:
    is_located: bool = False
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    functions: list[str] = field(default_factory=list[str])
    counter: int = 0

    def module(self, module: ModuleOp) -> str:
        for op in module.body.block.ops:
            if isinstance(op, func.FuncOp):
                self.functions.append(self.function_of(op))
        name = f"@{module.sym_name.data} " if module.sym_name is not None else ""
        attributes = ", ".join(f"{key} = {self.attribute(key, value)}" for key, value in module.attributes.items())
        head = f"module {name}attributes {{{attributes}}}" if attributes else f"module {name}"
        return f"{head} {{\n" + "\n".join(self.functions) + "\n}\n"

    def function_of(self, op: func.FuncOp) -> str:
        visibility = f"{op.sym_visibility.data} " if op.sym_visibility is not None else ""
        if not op.body.blocks:
            return f"  func.func {visibility}@{op.sym_name.data}{type_to_text(op.function_type)}"
        arguments = [self.dictionary(a) for a in op.arg_attrs] if op.arg_attrs is not None else ()
        results = [self.dictionary(a) for a in op.res_attrs] if op.res_attrs is not None else ()
        return self.function(op.sym_name.data, visibility, op.body.block, arguments, results)

    def fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def function(self, name: str, visibility: str, block: Block, arguments: Sequence[str] = (), results: Sequence[str] = ()) -> str:
        last = block.last_op
        assert last is not None
        ins = [f"{self.name(a)}: {type_to_text(a.type)}" for a in block.args]
        outs = [type_to_text(o.type) for o in last.operands]
        head = f"{_join(ins, arguments)}) -> ({_join(outs, results)}"
        lines = self.lines(block, "    ", terminator="func.return")
        return f"  func.func {visibility}@{name}({head}) {{\n{lines}\n  }}"

    def name(self, value: SSAValue) -> str:
        if value not in self.names:
            self.names[value] = self.fresh()
        return self.names[value]

    def lines(self, block: Block, indent: str, terminator: str = "") -> str:
        return "\n".join(line for op in block.ops for line in self.operation(op, indent, terminator))

    def operation(self, op: Operation, indent: str, terminator: str) -> list[str]:
        match op:
            case CopyOp():
                self.names[op.results[0]] = self.name(op.operands[0])
                return []
            case BitcastOp():
                return [indent + line for line in self.bitcast(op)]
            case FusionOp():
                name = f"fusion.{len(self.functions)}"
                self.functions.append(self.function(name, "private ", op.body.block))
                return [indent + self.generic("func.call", op, f"callee = @{name}", "")]
            case GroupOp():
                return self.group(op, indent)
            case _:
                pass
        name = terminator if terminator and op.name in _RETURNS else name_of(op)
        pairs = [
            f"{key} = {self.value_of(op, key, value, name.partition('.')[0])}"
            for key, value in (*op.properties.items(), *op.attributes.items())
            if key not in ("loc", "op_name")
        ]
        regions = ", ".join(self.region(r.blocks, indent) for r in op.regions)
        return [indent + self.generic(name, op, ", ".join(pairs), f" ({regions})" if regions else "")]

    def group(self, op: GroupOp, indent: str) -> list[str]:
        """The fusions of a group, in its place."""
        body = op.body.block
        if body.args:
            self.names.update({a: self.name(o) for a, o in zip(body.args, op.operands, strict=True)})
        lines = [line for inner in body.ops if inner.name not in _RETURNS for line in self.operation(inner, indent, "")]
        last = body.last_op
        assert last is not None
        self.names.update({r: self.name(o) for r, o in zip(op.results, last.operands, strict=True)})
        return lines

    def bitcast(self, op: BitcastOp) -> list[str]:
        """Operand to its order in memory, reshape, and back from the result's order in memory."""
        source = cast("TensorType[Attribute]", op.operands[0].type)
        target = cast("TensorType[Attribute]", op.results[0].type)
        if type_to_text(source.get_element_type()) != type_to_text(target.get_element_type()):
            raise CompileError("E1002", "no StableHLO text for a bitcast between element types")
        outer, inner = tuple(reversed(minor_to_major(source))), tuple(reversed(minor_to_major(target)))
        element = target.get_element_type()
        stored = type_to_text(TensorType(element, [source.get_shape()[d] for d in outer]))
        shaped = type_to_text(TensorType(element, [target.get_shape()[d] for d in inner]))
        back = [inner.index(d) for d in range(len(inner))]
        first, second, value = self.fresh(), self.fresh(), self.name(op.operands[0])
        return [
            f"{first} = {_transpose(value, outer)} : ({type_to_text(source)}) -> {stored}",
            f'{second} = "stablehlo.reshape"({first}) : ({stored}) -> {shaped}',
            f"{self.name(op.results[0])} = {_transpose(second, back)} : ({shaped}) -> {type_to_text(target)}",
        ]

    def region(self, blocks: Sequence[Block], indent: str) -> str:
        (block,) = blocks
        arguments = ", ".join(f"{self.name(a)}: {type_to_text(a.type)}" for a in block.args)
        head = f"^bb0({arguments}):\n" if block.args else ""
        return f"{{\n{head}{self.lines(block, indent + '  ')}\n{indent}}}"

    def generic(self, name: str, op: Operation, attributes: str, regions: str) -> str:
        results = ", ".join(self.name(r) for r in op.results)
        operands = ", ".join(self.name(o) for o in op.operands)
        ins = ", ".join(type_to_text(o.type) for o in op.operands)
        outs = ", ".join(type_to_text(r.type) for r in op.results)
        head = f"{results} = " if results else ""
        body = f" {{{attributes}}}" if attributes else ""
        return f'{head}"{name}"({operands}){regions}{body} : ({ins}) -> ({outs}){self.place(op)}'

    def place(self, op: Operation) -> str:
        file, line, column = [*origin(op).rsplit(":", 2), "", ""][:3]
        return f" loc({_quoted(file)}:{line}:{column})" if self.is_located and line.isdigit() and column.isdigit() else ""

    def value_of(self, op: Operation, key: str, value: Attribute, dialect: str) -> str:
        if isinstance(value, LiteralAttr) and op.results:
            return literal_to_text(value, op.results[0].type)
        return self.attribute(key, value, dialect)

    def dictionary(self, value: DictionaryAttr) -> str:
        words = [f"{k} = {self.attribute(k, v)}" for k, v in value.data.items() if k != VALUE]
        return f"{{{', '.join(words)}}}" if words else ""

    def attribute(self, key: str, value: Attribute, dialect: str = "stablehlo") -> str:
        match value:
            case LiteralAttr():
                raise CompileError("E1002", f"no StableHLO text for the literal {key}")
            case ElementsAttr():
                return literal_to_text(value.value, value.type)
            case StructAttr():
                return value.data.text
            case OpaqueAttr():
                return value.data
            case DenseArrayBase():
                return _dense_array(value)
            case IntegerAttr():
                if isinstance(value.type, IntegerType) and value.type.width.data == 1:
                    return "true" if value.value.data else "false"
                return f"{value.value.data} : {type_to_text(value.type)}"
            case FloatAttr():
                return f"{_float(value.value.data, value.type)} : {type_to_text(value.type)}"
            case StringAttr():
                kind = _ENUMS.get(key)
                return f"#{dialect}<{kind} {value.data}>" if kind else _quoted(value.data)
            case ArrayAttr():
                return "[" + ", ".join(self.attribute(key, v, dialect) for v in value.data) + "]"
            case DictionaryAttr():
                return self.dictionary(value) or "{}"
            case SymbolRefAttr():
                return f"@{value.string_value()}"
            case UnitAttr():
                return "unit"
            case _:
                raise CompileError("E1002", f"no StableHLO text for attribute {key}")


def _join(parts: Sequence[str], attributes: Sequence[str]) -> str:
    """`a {attributes of a}, b {attributes of b}`."""
    if not attributes:
        return ", ".join(parts)
    return ", ".join(f"{part} {more}".rstrip() for part, more in zip(parts, attributes, strict=True))


def _transpose(value: str, permutation: Sequence[int]) -> str:
    dims = ", ".join(map(str, permutation))
    return f'"stablehlo.transpose"({value}) {{permutation = array<i64{": " if dims else ""}{dims}>}}'


def _dense_array(value: DenseArrayBase) -> str:
    numbers = cast("DenseArrayBase[IntegerType]", value)
    is_bool = numbers.elt_type.width.data == 1
    parts = [("true" if v else "false") if is_bool else str(v) for v in numbers.get_values()]
    element = type_to_text(numbers.elt_type)
    return f"array<{element}: {', '.join(parts)}>" if parts else f"array<{element}>"


def _float(number: float, type_: Attribute) -> str:
    """Decimal, or the bits where there is none."""
    if math.isfinite(number):
        text = repr(number)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    for code, own in (("e", builtin.f16), ("f", builtin.f32), ("d", builtin.f64)):
        if type_ == own:
            return f"0x{struct.pack('>' + code, number).hex().upper()}"
    if type_ == builtin.bf16:
        return f"0x{struct.pack('>f', number).hex().upper()[:4]}"
    raise CompileError("E1002", f"no StableHLO text for {number} of type {type_}")


def _quoted(text: str) -> str:
    """MLIR's string: other bytes than plain ASCII as two hexadecimal digits."""
    return '"' + "".join(c if c in _PLAIN else "".join(f"\\{b:02X}" for b in c.encode()) for c in text) + '"'
