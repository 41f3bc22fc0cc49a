"""StableHLO text of an xDSL module: for round trips, for XLA:CPU as a second opinion, for jaxlib's own passes.

Fusions are called functions, layouts are dropped (values are logical arrays), `hlo.bitcast` is a reshape and `hlo.copy` nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects import func
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

from hlo2tx8.dialects.hlo import BitcastOp, CopyOp, FusionOp, LiteralAttr, StructAttr, UnknownOp
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend.literals import literal_to_text
from hlo2tx8.frontend.types import type_to_text

_ENUMS = {
    "comparison_direction": "comparison_direction",
    "compare_type": "comparison_type",
    "precision_config": "precision",
    "fft_type": "fft_type",
    "rng_algorithm": "rng_algorithm",
    "rng_distribution": "rng_distribution",
    "transpose_a": "transpose",
}
_CHLO_ENUMS = {"comparison_direction": "comparison_direction", "compare_type": "comparison_type"}


def to_mlir_text(module: ModuleOp) -> str:
    """The module as StableHLO text in generic form."""
    return _Exporter().module(module)


@dataclass
class _Exporter:
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    functions: list[str] = field(default_factory=list[str])
    counter: int = 0

    def module(self, module: ModuleOp) -> str:
        for op in module.body.block.ops:
            if isinstance(op, func.FuncOp):
                visibility = "private" if op.sym_visibility is not None else "public"
                self.functions.append(self.function(op.sym_name.data, visibility, op.body.block))
        return "module {\n" + "\n".join(self.functions) + "\n}\n"

    def fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def function(self, name: str, visibility: str, block: Block) -> str:
        last = block.last_op
        assert last is not None
        inputs = ", ".join(f"{self.name(a)}: {type_to_text(a.type)}" for a in block.args)
        outputs = ", ".join(type_to_text(o.type) for o in last.operands)
        lines = self.lines(block, "    ", terminator="func.return")
        return f"  func.func {visibility} @{name}({inputs}) -> ({outputs}) {{\n{lines}\n  }}"

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
                return [indent + self.generic("stablehlo.reshape", op, "", "")]
            case FusionOp():
                name = f"fusion.{len(self.functions)}"
                self.functions.append(self.function(name, "private", op.body.block))
                return [indent + self.generic("func.call", op, f"callee = @{name}", "")]
            case UnknownOp():
                raise CompileError("E1002", f"no StableHLO text for {op.op_name.data}")
            case _:
                pass
        name = terminator if terminator and op.name in ("stablehlo.return", "func.return") else op.name
        dialect = op.name.split(".")[0]
        pairs = [
            f"{key} = {self.attribute(key, value, op, dialect)}"
            for key, value in (*op.properties.items(), *op.attributes.items())
            if key != "loc"
        ]
        regions = ", ".join(self.region(r.blocks, indent) for r in op.regions)
        return [indent + self.generic(name, op, ", ".join(pairs), f" ({regions})" if regions else "")]

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
        return f'{head}"{name}"({operands}){regions}{body} : ({ins}) -> ({outs})'

    def attribute(self, key: str, value: Attribute, op: Operation, dialect: str) -> str:
        match value:
            case LiteralAttr():
                if key == "value":
                    return literal_to_text(value, op.results[0].type)
                shape = f"{'x'.join(str(n) for n in value.array.shape)}x" if value.array.ndim else ""
                return literal_to_text(value, _index_tensor(value, shape))
            case StructAttr():
                return value.data.text
            case DenseArrayBase():
                numbers = cast(DenseArrayBase[IntegerType], value)
                if numbers.elt_type.width.data == 1:
                    body = ", ".join("true" if v else "false" for v in numbers.get_values())
                    return f"array<i1: {body}>" if body else "array<i1>"
                body = ", ".join(str(v) for v in numbers.get_values())
                return f"array<i64: {body}>" if body else "array<i64>"
            case IntegerAttr():
                if isinstance(value.type, IntegerType) and value.type.width.data == 1:
                    return "true" if value.value.data else "false"
                return f"{value.value.data} : {type_to_text(value.type)}"
            case FloatAttr():
                return f"{value.value.data!r} : {type_to_text(value.type)}"
            case StringAttr():
                kind = _ENUMS.get(key)
                if value.data.startswith("#"):
                    return value.data
                escaped = value.data.replace("\\", "\\\\").replace('"', '\\"')
                return f"#{dialect}<{kind} {value.data}>" if kind else f'"{escaped}"'
            case ArrayAttr():
                return "[" + ", ".join(self.attribute(key, v, op, dialect) for v in value.data) + "]"
            case DictionaryAttr():
                body = ", ".join(f"{k} = {self.attribute(k, v, op, dialect)}" for k, v in value.data.items())
                return f"{{{body}}}"
            case SymbolRefAttr():
                return f"@{value.string_value()}"
            case UnitAttr():
                return "unit"
            case _:
                raise CompileError("E1002", f"no StableHLO text for attribute {key} of {op.name}")


def _index_tensor(value: LiteralAttr, shape: str) -> Attribute:
    from xdsl.dialects.builtin import i64

    return TensorType(i64, value.array.shape)
