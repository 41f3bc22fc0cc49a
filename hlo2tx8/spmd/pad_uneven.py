"""`pad_uneven`: arrays whose shardings do not divide them become larger, so that every chip has a part of the same size.

%a: 10x8 over 4 chips    ⟶    %a: 12x8, of which each chip has three rows; the last two are padding

What is in the padding is anything, but zeros in results. Ops hand padding on along factors of their sharding rules; a product or
sum over a padded dimension gets zeros there; any other op that would read padding gets the array without it.
"""
# pyright: basic

from collections.abc import Sequence
from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.frontend.attributes import AttributeReader
from hlo2tx8.spmd.device_mesh import mesh_name, meshes_of, sharding_of
from hlo2tx8.spmd.mlir_rule import rule_of
from hlo2tx8.spmd.mlir_values import SHARDING, as_stablehlo, inserting_after, is_tensor
from hlo2tx8.spmd.partitioner import CONDITIONAL, HINTS, MANUAL, WHILE
from hlo2tx8.spmd.sharding_rule import ADD, DimFactors, OpShardingRule

Shape = tuple[int, ...]
SUMS = ("stablehlo.dot_general", "stablehlo.reduce")
WHOLE = (MANUAL, WHILE, *CONDITIONAL)


def pad_uneven(module: Any, function: Any) -> None:
    """Changes a function, without calls, in place; its arguments and results get the sizes that are divided evenly."""
    _Padder(module).function(function)


class _Padder:
    def __init__(self, module: Any) -> None:
        self.reader = AttributeReader(module)
        self.meshes = meshes_of(module)
        self.own: dict[Any, Shape] = {}
        """The shapes without padding of values that have some."""
        self.made: dict[tuple[Any, Shape, Shape], Any] = {}

    def function(self, function: Any) -> None:
        ir = shim.ir()
        block = function.regions[0].blocks[0]
        *body, last = [op.operation for op in block.operations]
        for argument, entry in zip(block.arguments, self.entries(function, "arg_attrs", block.arguments), strict=True):
            self.widen(argument, self.divided(entry.get(SHARDING), self.shape(argument)))
        for op in body:
            self.op(as_stablehlo(op))
        for number, entry in enumerate(self.entries(function, "res_attrs", last.operands)):
            value = last.operands[number]
            wanted = self.divided(entry.get(SHARDING), self.shape(value))
            padded = tuple(d for d, (n, m) in enumerate(zip(self.shape(value), wanted, strict=True)) if n != m)
            last.operands[number] = self.brought(value, wanted, padded)
        types = [a.type for a in block.arguments], [v.type for v in last.operands]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))

    def entries(self, function: Any, name: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        if name not in function.attributes:
            return [{} for _ in values]
        return [{each.name: each.attr for each in entry} for entry in function.attributes[name]]

    def shape(self, value: Any) -> Shape:
        """The shape without padding."""
        return self.own.get(value) or (tuple(value.type.shape) if is_tensor(value.type) else ())

    def divided(self, attribute: Any, shape: Shape) -> Shape:
        """The shape that a sharding divides evenly."""
        mesh = None if attribute is None else self.meshes[mesh_name(attribute)]
        if mesh is None or not mesh.axes or not shape:
            return shape
        counts = [mesh.size(axes) for axes in sharding_of(attribute, mesh).dims]
        return tuple(-(-n // count) * count for n, count in zip(shape, counts, strict=True))

    def widen(self, value: Any, shape: Shape) -> None:
        """Gives an argument or result a padded shape."""
        own = self.shape(value)
        if shape != own:
            self.own[value] = own
            value.set_type(shim.ir().RankedTensorType.get(shape, value.type.element_type))

    def op(self, op: Any) -> None:
        for region in op.regions:
            self.crop_captured(region)
        if op.name in HINTS and "sharding" in op.attributes:
            wanted = self.divided(op.attributes["sharding"], self.shape(op.operands[0]))
            op.operands[0] = self.brought(op.operands[0], wanted)
            self.widen(op.results[0], wanted)
            return
        hints = self.hints(op)
        if not any(value in self.own for value in op.operands) and all(h in (None, self.shape(r)) for h, r in hints):
            return
        if op.name in WHOLE or op.name.startswith("sdy."):
            for number, value in enumerate(op.operands):
                op.operands[number] = self.brought(value, self.shape(value))
            return
        rule = rule_of(op, [self.shape(value) for value in op.operands], self.reader)
        sizes = self.sizes(op, rule, [hint for hint, _ in hints])

        def padded(dims: DimFactors, value: Any) -> Shape:
            pairs = zip(dims, self.shape(value), strict=True)
            return tuple(n if f is None else sizes.get(f, n) for f, n in pairs)

        results = [padded(dims, result) for dims, result in zip(rule.results, op.results, strict=True)]
        for number, dims in enumerate(rule.operands):
            value = op.operands[number]
            wanted = padded(dims, value)
            summed = tuple(d for d, f in enumerate(dims) if f in rule.reduction_factors and wanted[d] != self.shape(value)[d])
            op.operands[number] = self.brought(value, wanted, summed)
        for result, shape in zip(op.results, results, strict=True):
            self.widen(result, shape)

    def sizes(self, op: Any, rule: OpShardingRule, hints: Sequence[Shape | None]) -> dict[int, int]:
        """The padded sizes of the factors that may be padded."""
        is_sum = op.name in SUMS and rule.reduction == ADD and rule.accumulated_operand is None
        fixed = {f for dims in rule.size_attributes.values() for f in dims}
        fixed |= set() if is_sum else {*rule.reduction_factors}
        arrays = [*zip(rule.operands, op.operands, strict=True), *zip(rule.results, op.results, strict=True)]
        found: dict[int, int] = {}
        for (dims, value), hint in zip(arrays, [*(None for _ in op.operands), *hints], strict=True):
            own = self.shape(value)
            fixed |= {f for f, n in zip(dims, own, strict=True) if f is not None and n != rule.factor_sizes[f]}
            for f, n in zip(dims, hint or (tuple(value.type.shape) if value in self.own else own), strict=True):
                if f is not None:
                    found[f] = max(found.get(f, 0), n)
        return {f: n for f, n in found.items() if f not in fixed}

    def hints(self, op: Any) -> list[tuple[Shape | None, Any]]:
        """The padded shape that each result is wanted in, None where nothing is said."""
        from jaxlib.mlir.dialects import sdy

        if SHARDING not in op.attributes:
            return [(None, result) for result in op.results]
        found = list(sdy.TensorShardingPerValueAttr(op.attributes[SHARDING]).shardings)
        return [(self.divided(each, self.shape(result)), result) for each, result in zip(found, op.results, strict=True)]

    def crop_captured(self, region: Any) -> None:
        for block in region.blocks:
            for inner in [o.operation for o in block.operations]:
                for number, value in enumerate(inner.operands):
                    inner.operands[number] = self.brought(value, self.shape(value))
                for nested in inner.regions:
                    self.crop_captured(nested)

    def brought(self, value: Any, wanted: Shape, zeroed: Shape = ()) -> Any:
        """The value with another padding; zeros are in that of the dimensions `zeroed`."""
        if not is_tensor(value.type):
            return value
        own, now = self.shape(value), tuple(value.type.shape)
        if now == wanted and not (value in self.own and zeroed):
            return value
        key = value, wanted, zeroed
        if key not in self.made:
            with inserting_after(value):
                made = _zeroed(value, own, zeroed) if now == wanted else _padded(_cropped(value, own), wanted)
            self.made[key] = made
            if wanted != own:
                self.own[made] = own
        return self.made[key]


def _cropped(value: Any, shape: Shape) -> Any:
    ir = shim.ir()
    if tuple(value.type.shape) == shape:
        return value
    numbers = {"start_indices": [0] * len(shape), "limit_indices": shape, "strides": [1] * len(shape)}
    attributes = {key: ir.DenseI64ArrayAttr.get([*each]) for key, each in numbers.items()}
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return ir.Operation.create("stablehlo.slice", [type_], [value], attributes).results[0]


def _padded(value: Any, shape: Shape) -> Any:
    ir = shim.ir()
    more = [n - m for n, m in zip(shape, value.type.shape, strict=True)]
    if not any(more):
        return value
    zeros = [0] * len(shape)
    numbers = {"edge_padding_low": zeros, "edge_padding_high": more, "interior_padding": zeros}
    attributes = {key: ir.DenseI64ArrayAttr.get(each) for key, each in numbers.items()}
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    zero = _constant(value.type.element_type, "")
    return ir.Operation.create("stablehlo.pad", [type_], [value, zero], attributes).results[0]


def _zeroed(value: Any, own: Shape, dims: Shape) -> Any:
    ir = shim.ir()
    shape, element = list(value.type.shape), value.type.element_type
    scalar = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
    for dim in dims:
        s32 = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(32))
        where = ir.Operation.create(
            "stablehlo.iota", [s32], [], {"iota_dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
        )
        end = ir.Operation.create("stablehlo.broadcast_in_dim", [s32], [_constant(s32.element_type, str(own[dim]))], scalar)
        pred = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(1))
        direction = {"comparison_direction": ir.Attribute.parse("#stablehlo<comparison_direction LT>")}
        is_own = ir.Operation.create("stablehlo.compare", [pred], [where.results[0], end.results[0]], direction)
        zeros = ir.Operation.create("stablehlo.broadcast_in_dim", [value.type], [_constant(element, "")], scalar)
        value = ir.Operation.create("stablehlo.select", [value.type], [is_own.results[0], value, zeros.results[0]]).results[0]
    return value


def _constant(element: Any, text: str) -> Any:
    """A scalar; zero for an empty text."""
    ir = shim.ir()
    type_ = ir.RankedTensorType.get([], element)
    if not text:
        is_complex, is_integer = isinstance(element, ir.ComplexType), isinstance(element, ir.IntegerType)
        text = "(0.0,0.0)" if is_complex else "0" if is_integer else "0.0"
        text = "false" if str(element) == "i1" else text
    value = ir.Attribute.parse(f"dense<{text}> : {type_}")
    return ir.Operation.create("stablehlo.constant", [type_], [], {"value": value}).results[0]
