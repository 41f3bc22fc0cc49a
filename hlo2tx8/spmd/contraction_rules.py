"""Rules of operations that combine elements, or pick them."""
# pyright: basic

from collections.abc import Callable
from typing import Any

from hlo2tx8.frontend import shim
from hlo2tx8.spmd.sharding_rule import ADD, Dims, Rule, Shapes, alike, integer, integers, splat_of


def _dot_general(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    left = rule.factors(operands[0])
    right: Dims = [None] * len(operands[1])
    pairs = [
        *zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True),
        *zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True),
    ]
    for a, b in pairs:
        right[b] = left[a]
    right = [rule.factor(size) if f is None else f for f, size in zip(right, operands[1], strict=True)]
    batch = [left[d] for d in numbers.lhs_batching_dimensions]
    rule.combined = [f for d in numbers.lhs_contracting_dimensions if (f := left[d]) is not None]
    taken = {*batch, *rule.combined}
    rule.operands = [left, right]
    rule.results = [batch + [f for f in (*left, *right) if f not in taken]]
    rule.combiner = ADD


def _reduce(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """Dimensions that are reduced can be cut where there is one operand, and its start does not count."""
    count = len(results)
    along = integers(op, "dimensions")
    dims = rule.factors(operands[0])
    combiner = _combiner(op)
    if count > 1 or not combiner or not _is_neutral(op.operands[1], combiner):
        dims = [None if d in along else f for d, f in enumerate(dims)]
    rule.operands = [*(dims for _ in range(count)), *([] for _ in range(count))]
    rule.results = [[f for d, f in enumerate(dims) if d not in along] for _ in range(count)]
    rule.combined = [f for d, f in enumerate(dims) if d in along and f is not None]
    rule.combiner = combiner


def _combiner(op: Any) -> str:
    """The operation that an op's region is, on its two arguments; empty if it is another."""
    block = op.regions[0].blocks[0]
    inner = list(block.operations)
    if len(inner) != 2 or len(inner[0].operands) != 2 or {*inner[0].operands} != {*block.arguments}:
        return ""
    return inner[0].operation.name if inner[0].operation.name in _NEUTRAL else ""


_NEUTRAL: dict[str, Callable[[float], bool] | None] = {
    ADD: lambda value: value == 0,
    "stablehlo.multiply": lambda value: value == 1,
    **dict.fromkeys(("stablehlo.maximum", "stablehlo.minimum", "stablehlo.and", "stablehlo.or"), None),
}
"""What a reduction may start with, if every device is to start with it; None if anything."""


def _is_neutral(start: Any, combiner: str) -> bool:
    ir = shim.ir()
    test = _NEUTRAL[combiner]
    if test is None:
        return True
    if isinstance(start.owner, ir.Block) or start.owner.name != "stablehlo.constant":
        return False
    splat = splat_of(start.owner)
    return isinstance(splat, (ir.FloatAttr, ir.IntegerAttr, ir.BoolAttr)) and test(splat.value)


def _gather(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """What is taken whole of the operand, and what is taken for each index alike."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = integers(op, "slice_sizes")
    own = [d for d in range(len(operands[0])) if d not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    result: Dims = [None] * len(results[0])
    rule.attributes = {"slice_sizes": [None] * len(sizes)}
    for d, into in zip(own, numbers.offset_dims, strict=True):
        if sizes[d] == operands[0][d]:
            result[into] = rule.operands[0][d] = rule.attributes["slice_sizes"][d] = rule.factor(sizes[d])
    places = [d for d in range(len(result)) if d not in numbers.offset_dims]
    of_indices = [d for d in range(len(operands[1])) if d != numbers.index_vector_dim]
    for d, into in zip(of_indices, places, strict=True):
        result[into] = rule.operands[1][d] = rule.factor(operands[1][d])
    for a, b in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        rule.operands[0][a] = rule.operands[1][b]
    rule.results = [result]


def _scatter(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """Windows that have all of a dimension; updates too, if they are added up."""
    from jaxlib.mlir.dialects import stablehlo

    if len(results) > 1:
        return
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    updates: Dims = [None] * len(operands[2])
    own = [d for d in range(len(operands[0])) if d not in (*numbers.inserted_window_dims, *numbers.input_batching_dims)]
    for d, of in zip(own, numbers.update_window_dims, strict=True):
        if operands[0][d] == operands[2][of]:
            updates[of] = rule.operands[0][d] = rule.factor(operands[0][d])
    places = [d for d in range(len(updates)) if d not in numbers.update_window_dims]
    of_indices = [d for d in range(len(operands[1])) if d != numbers.index_vector_dim]
    is_sum = _combiner(op) == ADD
    for d, of in zip(of_indices, places, strict=True):
        if d in numbers.scatter_indices_batching_dims:
            updates[of] = rule.operands[1][d] = rule.factor(operands[1][d])
        elif is_sum:
            updates[of] = rule.operands[1][d] = rule.factor(operands[1][d])
            rule.combined.append(rule.sizes.__len__() - 1)
    for a, b in zip(numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        rule.operands[0][a] = rule.operands[1][b]
    rule.operands[2] = updates
    rule.results = [rule.operands[0]]
    if is_sum:
        rule.combiner, rule.summed_onto = ADD, 0


def _convolution(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """The batch, and features where there is one group of them."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    if integer(op, "batch_group_count") != 1:
        return
    batch = rule.factor(operands[0][numbers.input_batch_dimension])
    rule.operands[0][numbers.input_batch_dimension] = rule.results[0][numbers.output_batch_dimension] = batch
    if integer(op, "feature_group_count") != 1:
        return
    into = rule.factor(operands[1][numbers.kernel_output_feature_dimension])
    rule.operands[1][numbers.kernel_output_feature_dimension] = rule.results[0][numbers.output_feature_dimension] = into
    of = rule.factor(operands[0][numbers.input_feature_dimension])
    rule.operands[0][numbers.input_feature_dimension] = rule.operands[1][numbers.kernel_input_feature_dimension] = of
    rule.combined, rule.combiner = [of], ADD


def _reduce_window(op: Any, rule: Rule, operands: Shapes, results: Shapes) -> None:
    """Dimensions along which windows have one element, and all are there."""
    if len(results) > 1:
        return
    windows = integers(op, "window_dimensions")
    moved = {d for name in ("window_strides", "base_dilations") for d, n in enumerate(integers(op, name)) if n != 1}
    padded = {i // 2 for i, n in enumerate(_flat(op, "padding")) if n}
    wholes = {d for d, size in enumerate(windows) if size != 1} | moved | padded
    alike(op, rule, operands, results, wholes)


def _flat(op: Any, name: str) -> list[int]:
    return [int(i) for i in shim.ir().DenseIntElementsAttr(op.attributes[name])] if name in op.attributes else []


RULES: dict[str, Callable[[Any, Rule, Shapes, Shapes], None]] = {
    "dot_general": _dot_general,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "convolution": _convolution,
    "reduce_window": _reduce_window,
}
