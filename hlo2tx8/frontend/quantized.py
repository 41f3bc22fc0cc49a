"""Quantised types become integers of their storage type, and what is computed with them becomes arithmetic.

StableHLO's pass, which its interpreter runs, expands arithmetic on types that it knows (signed integers for f32); all else is
done here, by the specification's text:

    what moves elements       on stored integers, between two stablehlo.bitcast_convert
    arithmetic                uniform_dequantize of operands, on floats, uniform_quantize of results
    uniform_quantize          convert(round_nearest_even(clamp(low, x / scale + zero_point, high))), in the expressed type
    uniform_dequantize        convert(x - zero_point) * scale
"""
# pyright: basic

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo2tx8.errors import CompileError, UnsupportedError, UnsupportedOp
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.locations import LocationReader
from hlo2tx8.frontend.quantized_type import MARK, QuantizedType, expressed_text, quantized_types, storage_text

EXPAND = "builtin.module(func.func(stablehlo-legalize-quant-to-math))"
ONE_TYPE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("concatenate", "slice", "dynamic_slice", "dynamic_update_slice", "real_dynamic_slice", "reverse"),
        *("gather", "dynamic_gather", "pad", "dynamic_pad", "broadcast", "select", "maximum", "minimum"),
        *("all_gather", "all_to_all", "collective_permute", "collective_broadcast"),
    )
)
"""Ops that move elements, and are as well done on stored integers where all of them stand for numbers in the same way."""
MOVES = ONE_TYPE | frozenset(
    (
        *("func.func", "func.return", "func.call"),
        *(
            f"stablehlo.{name}"
            for name in (
                *("return", "constant", "bitcast_convert", "broadcast_in_dim", "dynamic_broadcast_in_dim", "reshape"),
                *("dynamic_reshape", "transpose", "get_dimension_size", "set_dimension_size", "optimization_barrier"),
                *("while", "if", "case", "composite", "custom_call"),
                *("map", "reduce", "reduce_window", "select_and_scatter", "scatter", "sort", "all_reduce", "reduce_scatter"),
            )
        ),
    )
)
"""Ops that move elements or carry them into regions: they are as well done on stored integers."""
ARITHMETIC = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "atan2", "batch_norm_grad", "batch_norm_inference", "batch_norm_training", "cbrt", "ceil", "cholesky"),
        *("clamp", "compare", "convolution", "cosine", "divide", "dot", "dot_general", "exponential", "exponential_minus_one"),
        *("floor", "log", "log_plus_one", "logistic", "multiply", "negate", "power", "reduce_precision", "remainder"),
        *("round_nearest_afz", "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "subtract", "tan", "tanh"),
        *("triangular_solve", "uniform_quantize", "uniform_dequantize"),
    )
)
"""Ops that compute with the numbers that stored integers stand for, and that StableHLO's pass knows."""
IN_FLOATS = frozenset(f"stablehlo.{name}" for name in ("maximum", "minimum", "is_finite", "iota"))
"""Such ops that the pass does not do, or not where operands are quantised differently."""


def expand_quantized(module: Any, locations: LocationReader) -> None:
    """Changes an MLIR module in place: no quantised type is left; UnsupportedError naming the ops that cannot be expanded."""
    expander = _Expander(locations, shim.ir())
    with module.context:
        for function in module.body.operations:
            expander.collect(function.operation)
        for op in expander.found:
            expander.expand(op)
    if expander.refused:
        raise UnsupportedError(expander.refused)
    if not expander.found:
        return
    for cast in reversed(list(expander.casts)):
        if not any(True for _ in cast.results[0].uses):
            cast.erase()
    try:
        shim.run_pipeline(module, EXPAND)
    except shim.mlir_error() as error:
        raise CompileError("E1001", f"quantised types that cannot be expanded: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The first line of a failing pass that says what is wrong."""
    lines = [line for line in str(error).splitlines() if "error:" in line]
    return lines[0].partition("error:")[2].strip() if lines else str(error)


@dataclass
class _Expander:
    locations: LocationReader
    ir: Any
    found: list[Any] = field(default_factory=list)
    casts: dict[Any, None] = field(default_factory=dict)
    refused: list[UnsupportedOp] = field(default_factory=list)
    known: dict[Any, tuple[QuantizedType, ...]] = field(default_factory=dict)

    def quantized(self, type_: Any) -> tuple[QuantizedType, ...]:
        """The quantised types in a type."""
        if type_ not in self.known:
            text = str(type_)
            self.known[type_] = quantized_types(text) if MARK in text else ()
        return self.known[type_]

    def collect(self, op: Any) -> None:
        """Appends the ops that have to do with quantised types, outer ones first."""
        arguments = [a for region in op.regions for block in region for a in block.arguments]
        types = [value.type for value in (*op.operands, *op.results, *arguments)]
        types += [op.attributes["function_type"].value] if op.name == "func.func" else []
        try:
            kinds = [self.quantized(type_) for type_ in types]
            if any(kinds):
                self.found.append(op)
            for region in op.regions:
                for block in region:
                    for inner in block.operations:
                        self.collect(inner.operation)
        except ValueError as error:
            self.refuse(op, f"the type {error}")

    def refuse(self, op: Any, reason: str) -> None:
        self.refused.append(UnsupportedOp(op.name, (self.locations.text(op.location, ""),), reason))

    def expand(self, op: Any) -> None:
        """Rewrites one op, whose operands are rewritten already."""
        kinds = [kind for value in (*op.operands, *op.results) for kind in self.quantized(value.type)]
        is_uniform = all(kind == kinds[0] for kind in kinds)
        if op.name in MOVES and (is_uniform or op.name not in ONE_TYPE):
            self.on_storage(op)
        elif op.name in ARITHMETIC and all(kind.is_of_pass for kind in kinds) and len({kind.axis for kind in kinds} - {None}) < 2:
            return
        elif op.name == "stablehlo.uniform_quantize":
            self.quantize(op)
        elif op.name == "stablehlo.uniform_dequantize":
            self.dequantize(op)
        elif op.name in IN_FLOATS or op.name in ARITHMETIC:
            self.on_floats(op)
        elif op.name in ONE_TYPE:
            self.refuse(op, "its operands and results are quantised differently")
        else:
            self.refuse(op, "it cannot be expanded for quantised types")

    def on_storage(self, op: Any) -> None:
        """The op on stored integers, bits reinterpreted before and after it; a function's signature, too."""
        for number, operand in enumerate(op.operands):
            if self.quantized(operand.type):
                op.operands[number] = self.stored(operand, op)
        for result in op.results:
            if self.quantized(result.type):
                self.restored(result, self.ir.InsertionPoint.after(op))
        for block in [block for region in op.regions for block in region]:
            for argument in block.arguments:
                if self.quantized(argument.type):
                    self.restored(argument, self.ir.InsertionPoint.at_block_begin(block))
        if op.name == "func.func":
            op.attributes["function_type"] = self.ir.TypeAttr.get(
                self.type(storage_text(str(op.attributes["function_type"].value)))
            )

    def stored(self, value: Any, before: Any) -> Any:
        """The stored integers of a quantised value, in front of an op."""
        type_ = self.type(storage_text(str(value.type)))
        owner = value.owner
        if not isinstance(owner, self.ir.Block) and owner.operation in self.casts:
            value = owner.operation.operands[0]
        return value if value.type == type_ else self.emit("bitcast_convert", [value], type_, before)

    def restored(self, value: Any, place: Any) -> None:
        """Makes a value one of stored integers, and gives its users the quantised value."""
        type_ = value.type
        is_constant = not isinstance(value.owner, self.ir.Block) and value.owner.name == "stablehlo.constant"
        value.set_type(value.owner.attributes["value"].type if is_constant else self.type(storage_text(str(type_))))
        with place:
            cast = self.operation("bitcast_convert", [value], type_, self.ir.Location.unknown(type_.context))
        self.casts[cast] = None
        value.replace_all_uses_except(cast.results[0], [cast])

    def on_floats(self, op: Any) -> None:
        """The op on expressed values."""
        for number, operand in enumerate(op.operands):
            if self.quantized(operand.type):
                self.dequantize_operand(op, number)
        for result in op.results:
            if self.quantized(result.type):
                type_ = result.type
                result.set_type(self.type(expressed_text(str(type_))))
                with self.ir.InsertionPoint.after(op):
                    quantize = self.operation("uniform_quantize", [result], type_, op.location)
                result.replace_all_uses_except(quantize.results[0], [quantize])
                self.expand(quantize)

    def dequantize_operand(self, op: Any, number: int) -> None:
        """What the operand stands for in its place."""
        operand = op.operands[number]
        value = self.emit("uniform_dequantize", [operand], self.type(expressed_text(str(operand.type))), op)
        op.operands[number] = value
        self.expand(value.owner.operation)

    def quantize(self, op: Any) -> None:
        """The expansion of uniform_quantize, in the expressed type; of another quantised value, of what it stands for."""
        (kind,) = self.quantized(op.results[0].type)
        value = op.operands[0]
        if self.quantized(value.type):
            self.dequantize_operand(op, 0)
            value = op.operands[0]
            wanted = self.type(expressed_text(str(op.results[0].type)))
            value = op.operands[0] = value if value.type == wanted else self.emit("convert", [value], wanted, op)
            if kind.is_of_pass:
                return
        type_ = value.type
        shape = storage_text(str(op.results[0].type))
        value = self.emit("divide", [value, self.spread(kind, kind.scales, type_, op)], type_, op)
        value = self.emit("add", [value, self.spread(kind, kind.zero_points, type_, op)], type_, op)
        low, high = (self.spread(kind, [bound] * len(kind.scales), type_, op) for bound in (kind.low, kind.high))
        value = self.emit("clamp", [low, value, high], type_, op)
        value = self.emit("round_nearest_even", [value], type_, op)
        value = self.emit("convert", [value], self.type(shape), op)
        cast = self.emit("bitcast_convert", [value], op.results[0].type, op)
        self.casts[cast.owner.operation] = None
        op.results[0].replace_all_uses_with(cast)
        op.erase()

    def dequantize(self, op: Any) -> None:
        """The expansion of uniform_dequantize."""
        (kind,) = self.quantized(op.operands[0].type)
        type_ = op.results[0].type
        wide = self.type(str(type_).replace(f"{kind.expressed}>", f"{kind.wide}>"))
        value = self.emit("convert", [self.stored(op.operands[0], op)], wide, op)
        value = self.emit("subtract", [value, self.spread(kind, kind.zero_points, wide, op)], wide, op)
        value = self.emit("convert", [value], type_, op)
        value = self.emit("multiply", [value, self.spread(kind, kind.scales, type_, op)], type_, op)
        op.results[0].replace_all_uses_with(value)
        op.erase()

    def spread(self, kind: QuantizedType, numbers: Sequence[float], type_: Any, before: Any) -> Any:
        """A tensor of that type with a number for each place along the type's axis."""
        element = str(type_.element_type)
        words = [str(n) if element.startswith("i") else f"{n:.17e}" for n in numbers]
        one = len(set(words)) == 1
        shape = "" if one else f"{len(words)}x"
        text = f"dense<{words[0] if one else '[' + ', '.join(words) + ']'}> : tensor<{shape}{element}>"
        value = self.ir.Attribute.parse(text, type_.context)
        constant = self.emit("constant", [], value.type, before, value=value)
        dims = self.ir.DenseI64ArrayAttr.get([] if one else [kind.axis], type_.context)
        return self.emit("broadcast_in_dim", [constant], type_, before, broadcast_dimensions=dims)

    def type(self, text: str) -> Any:
        """The type of that text."""
        return self.ir.Type.parse(text, self.ir.Context.current)

    def emit(self, name: str, operands: Sequence[Any], type_: Any, before: Any, **attributes: Any) -> Any:
        """The result of a new op in front of another one."""
        with self.ir.InsertionPoint(before):
            return self.operation(name, operands, type_, before.location, attributes).results[0]

    def operation(self, name: str, operands: Sequence[Any], type_: Any, location: Any, attributes: Any = None) -> Any:
        """A new op at the current place."""
        return self.ir.Operation.create(f"stablehlo.{name}", [type_], operands, attributes or {}, loc=location)
