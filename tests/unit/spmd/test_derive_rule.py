"""Sharding rules: which factors ops have, and that shards of the operands give shards of the results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from hlo2tx8.hlo.lookup import all_specs, spec_of
from hlo2tx8.hlo.ops.convolution import ConvNumbers
from hlo2tx8.hlo.ops.dot import DotNumbers
from hlo2tx8.hlo.ops.gather import GatherNumbers
from hlo2tx8.hlo.spec import Array, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import dtype
from hlo2tx8.spmd.derive_rule import derive_rule
from hlo2tx8.spmd.sharding_rule import ADD, DimFactors, OpShardingRule

F32, I32 = dtype("float32"), dtype("int32")
Evaluate = Callable[[dict[str, Any], Sequence[TensorLike], list[Array]], Sequence[Array]]


@dataclass(frozen=True)
class ScatterNumbers:
    """The fields of #stablehlo.scatter."""

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0


@dataclass(frozen=True)
class Case:
    """An op on shapes, and its rule; operands from `index_operands` on hold indices in 0..`bound` - 1."""

    op: str
    operands: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    rule: str
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    reduction: str = ""
    index_operands: tuple[int, ...] = ()
    bound: int = 1


def conv(**changes: Any) -> dict[str, Any]:
    """Attributes of a convolution of NHWC with HWIO, 3x3 windows, rows and columns padded by one."""
    plain = {"dimension_numbers": ConvNumbers(), "padding": np.array([[1, 1], [1, 1]])}
    return plain | {"feature_group_count": 1, "batch_group_count": 1} | changes


BATCHED = DotNumbers((0,), (0,), (2,), (1,))
ROWS = GatherNumbers((2,), (0,), (), (), (0,), 2)
ROW_UPDATES = ScatterNumbers((1,), (0,), (), (), (0,), 1)
CASES = {
    "elementwise": Case("stablehlo.add", ((4, 6), (4, 6)), (4, 6), "([i, j], [i, j])->([i, j]) {i=4, j=6}"),
    "a scalar beside": Case("stablehlo.select", ((), (4,), (4,)), (4,), "([], [i], [i])->([i]) {i=4}"),
    "transpose": Case("stablehlo.transpose", ((4, 6),), (6, 4), "([j, i])->([i, j]) {i=6, j=4}", {"permutation": (1, 0)}),
    "broadcast": Case(
        "stablehlo.broadcast_in_dim", ((1, 6),), (4, 6, 2), "([_, j])->([i, j, k]) {i=4, j=6, k=2}",
        {"broadcast_dimensions": (0, 1)},
    ),
    "joined dimensions": Case("stablehlo.reshape", ((8, 4, 3),), (32, 3), "([i, _, j])->([i, j]) {i=8, j=3}"),
    "split dimensions": Case("stablehlo.reshape", ((32, 3),), (8, 4, 3), "([i, j])->([i, _, j]) {i=8, j=3}"),
    "other dimensions": Case("stablehlo.reshape", ((6, 4),), (8, 3), "([i, _])->([i, _]) {i=2}"),
    "flat": Case("stablehlo.reshape", ((24,),), (4, 6), "([i])->([i, _]) {i=4}"),
    "no dimensions": Case("stablehlo.reshape", ((5, 7),), (7, 5), "([_, _])->([_, _]) {}"),
    "slice of some": Case(
        "stablehlo.slice", ((8, 6),), (4, 6), "([_, i])->([_, i]) {i=6}",
        {"start_indices": (2, 0), "limit_indices": (6, 6), "strides": (1, 1)},
    ),
    "every second": Case(
        "stablehlo.slice", ((8, 6),), (4, 6), "([i, j])->([i, j]) {i=4, j=6}",
        {"start_indices": (1, 0), "limit_indices": (8, 6), "strides": (2, 1)},
    ),
    "reverse": Case("stablehlo.reverse", ((4, 6),), (4, 6), "([_, i])->([_, i]) {i=6}", {"dimensions": (0,)}),
    "pad": Case(
        "stablehlo.pad", ((4, 6), ()), (5, 6), "([_, i], [])->([_, i]) {i=6}",
        {"edge_padding_low": (1, 0), "edge_padding_high": (0, 0), "interior_padding": (0, 0)},
    ),
    "concatenate": Case("stablehlo.concatenate", ((4, 6), (2, 6)), (6, 6), "([_, i], [_, i])->([_, i]) {i=6}", {"dimension": 0}),
    "iota": Case("stablehlo.iota", (), (4, 6), "()->([_, i]) {i=6}", {"iota_dimension": 0}),
    "product": Case(
        "stablehlo.dot_general", ((2, 4, 8), (2, 8, 6)), (2, 4, 6),
        "([i, j, l], [i, l, k])->([i, j, k]) {i=2, j=4, k=6, l=8} reduction={l}", {"dot_dimension_numbers": BATCHED},
    ),
    "convolution": Case(
        "stablehlo.convolution", ((4, 5, 5, 6), (3, 3, 6, 8)), (4, 5, 5, 8),
        "([i, _, _, k], [_, _, k, j])->([i, _, _, j]) {i=4, j=8, k=6} reduction={k}", conv(),
    ),
    "convolution in groups": Case(
        "stablehlo.convolution", ((4, 5, 5, 6), (3, 3, 3, 8)), (4, 5, 5, 8), "([i, _, _, _], [_, _, _, _])->([i, _, _, _]) {i=4}",
        conv(feature_group_count=2),
    ),
    "convolution in groups of the batch": Case(
        "stablehlo.convolution", ((4, 5, 5, 6), (3, 3, 6, 8)), (2, 5, 5, 8),
        "([_, _, _, i], [_, _, i, _])->([_, _, _, _]) {i=6} reduction={i}", conv(batch_group_count=2),
    ),
    "dynamic_slice": Case(
        "stablehlo.dynamic_slice", ((8, 6), (), ()), (2, 6), "([_, i], [], [])->([_, i]) {i=6}", {"slice_sizes": (2, 6)},
        index_operands=(1, 2), bound=7,
    ),
    "dynamic_update_slice": Case(
        "stablehlo.dynamic_update_slice", ((8, 6), (2, 6), (), ()), (8, 6), "([_, i], [_, i], [], [])->([_, i]) {i=6}",
        index_operands=(2, 3), bound=7,
    ),
    "rows": Case(
        "stablehlo.gather", ((5, 6), (2, 4, 1)), (2, 4, 6), "([_, k], [i, j, _])->([i, j, k]) {i=2, j=4, k=6}",
        {"dimension_numbers": ROWS, "slice_sizes": (1, 6)}, index_operands=(1,), bound=5,
    ),
    "windows of a batch": Case(
        "stablehlo.gather", ((4, 5, 6), (4, 2)), (4, 2, 6), "([i, _, j], [i, _])->([i, _, j]) {i=4, j=6}",
        {"dimension_numbers": GatherNumbers((1, 2), (), (0,), (0,), (1, 2), 1), "slice_sizes": (1, 2, 6)},
        index_operands=(1,), bound=4,
    ),
    "rows put": Case(
        "stablehlo.scatter", ((5, 6), (4, 1), (4, 6)), (5, 6), "([_, i], [_, _], [_, i])->([_, i]) {i=6}",
        {"scatter_dimension_numbers": ROW_UPDATES}, index_operands=(1,), bound=5,
    ),
    "rows added": Case(
        "stablehlo.scatter", ((5, 6), (4, 1), (4, 6)), (5, 6), "([_, j], [i, _], [i, j])->([_, j]) {i=4, j=6} reduction={i}",
        {"scatter_dimension_numbers": ROW_UPDATES}, ADD, (1,), 5,
    ),
    "sort": Case("stablehlo.sort", ((4, 6),), (4, 6), "([_, i])->([_, i]) {i=6}", {"dimension": 0}),
    "sum": Case("stablehlo.reduce", ((4, 6), ()), (6,), "([j, i], [])->([i]) {i=6, j=4} reduction={j}", {"dimensions": (0,)}, ADD),
    "unknown reduction": Case("stablehlo.reduce", ((4, 6), ()), (6,), "([_, i], [])->([i]) {i=6}", {"dimensions": (0,)}),
    "windows": Case(
        "stablehlo.reduce_window", ((4, 6), ()), (4, 3), "([i, _], [])->([i, _]) {i=4}",
        {"window_dimensions": (1, 2), "window_strides": (1, 2)},
    ),
    "fft": Case("stablehlo.fft", ((4, 6),), (4, 6), "([i, _])->([i, _]) {i=4}", {"fft_type": "FFT", "fft_length": (6,)}),
    "cholesky": Case("stablehlo.cholesky", ((4, 2, 2),), (4, 2, 2), "([i, _, _])->([i, _, _]) {i=4}", {"lower": True}),
}  # fmt: skip


def adds(*arguments: Array) -> list[Array]:
    return [np.asarray(arguments[0] + arguments[1])]


def puts(*arguments: Array) -> list[Array]:
    return [np.asarray(arguments[-1])]


def less(*arguments: Array) -> list[Array]:
    return [np.asarray(arguments[0] < arguments[1])]


def evaluate(spec: OpSpec, reduction: str, attributes: dict[str, Any], results: Sequence[TensorLike], arrays: list[Array]) -> Any:
    """The op's reference; regions add, put or compare."""
    if spec.name == "stablehlo.reduce":
        return [arrays[0].sum(attributes["dimensions"]) + arrays[1]]
    if spec.body_reference is None or (spec.reference is not None and not reduction):
        return spec.evaluate(attributes, results, *arrays)
    bodies: dict[str, Any] = {
        "stablehlo.sort": less,
        "stablehlo.reduce_window": adds,
        "stablehlo.scatter": adds if reduction else puts,
    }
    adds.only_adds = True  # pyright: ignore[reportFunctionMemberAccess]
    return spec.body_reference(attributes, tuple(results), [bodies[spec.name]], *arrays)


def rule_of(case: Case) -> tuple[OpShardingRule, list[TensorLike], TensorLike]:
    kinds = [I32 if i in case.index_operands else F32 for i in range(len(case.operands))]
    if case.op == "stablehlo.select":
        kinds[0] = np.dtype(bool)
    operands = [TensorLike(shape, kind) for shape, kind in zip(case.operands, kinds, strict=True)]
    result = TensorLike(case.result, np.dtype(np.complex64) if case.op == "stablehlo.fft" else F32)
    return derive_rule(spec_of(case.op), case.attributes, operands, [result], case.reduction), operands, result


@pytest.mark.parametrize("name", CASES)
def test_the_factors_of_an_op(name: str):
    case = CASES[name]
    assert str(rule_of(case)[0]) == case.rule


def part(array: Array, dims: DimFactors, factor: int, number: int, count: int) -> Array:
    """Part `number` of `count` of an array, along the dimension of a factor; all of it if it has none."""
    for d, own in enumerate(dims):
        if own == factor:
            return np.split(array, count, d)[number]
    return array


def check_shards(spec: OpSpec, case: Sample, rule: OpShardingRule, arrays: list[Array], reduction: str) -> int:
    """Compares an op on shards with the op on whole arrays, for all factors and numbers of shards; how many were compared."""
    attributes = dict(case.attributes)
    whole = evaluate(spec, reduction, attributes, case.results, arrays)
    compared = 0
    for factor, size in enumerate(rule.factor_sizes):
        for count in (n for n in range(2, size + 1) if size % n == 0):
            own = dict(attributes)
            for name, dims in rule.size_attributes.items():
                own[name] = tuple(-(-n // count) if f == factor else n for n, f in zip(own[name], dims, strict=True))
            found: list[Sequence[Array]] = []
            for number in range(count):
                shards = [part(a, dims, factor, number, count) for a, dims in zip(arrays, rule.operands, strict=True)]
                if factor in rule.reduction_factors and rule.accumulated_operand is not None and number:
                    shards[rule.accumulated_operand] = np.zeros_like(shards[rule.accumulated_operand])
                shapes = [tuple(n // count if f == factor else n for n, f in zip(r.shape, dims, strict=True))
                          for r, dims in zip(case.results, rule.results, strict=True)]  # fmt: skip
                results = [TensorLike(shape, r.dtype) for shape, r in zip(shapes, case.results, strict=True)]
                found.append(evaluate(spec, reduction, own, results, shards))
            for i, dims in enumerate(rule.results):
                parts = [np.asarray(shard[i]) for shard in found]
                together = np.concatenate(parts, dims.index(factor)) if factor in dims else sum(parts[1:], parts[0])
                np.testing.assert_allclose(np.asarray(together, complex), np.asarray(whole[i], complex), rtol=1e-5, atol=1e-5)
                compared += 1
    return compared


def arrays_of(operands: Sequence[TensorLike], index_operands: tuple[int, ...], bound: int) -> list[Array]:
    random = np.random.default_rng(0)
    found: list[Array] = []
    for i, tensor in enumerate(operands):
        values = random.integers(0, bound, tensor.shape) if i in index_operands else random.integers(1, 4, tensor.shape)
        found.append(np.asarray(values).astype(tensor.dtype))
    return found


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "{}" not in case.rule and name != "unknown reduction"])
def test_shards_of_operands_give_shards_of_results(name: str):
    case = CASES[name]
    rule, operands, result = rule_of(case)
    arrays = arrays_of(operands, case.index_operands, case.bound)
    if case.op == "stablehlo.cholesky":
        arrays[0] = arrays[0] + 4 * np.eye(2, dtype=np.float32)
    if case.op == "stablehlo.reduce":
        arrays[1] = np.zeros_like(arrays[1])
    sample = Sample(tuple(operands), (result,), case.attributes)
    assert check_shards(spec_of(case.op), sample, rule, arrays, case.reduction)


WITH_SAMPLES = [spec for spec in all_specs() if spec.reference is not None and tuple(spec.samples())]


@pytest.mark.parametrize("spec", WITH_SAMPLES, ids=lambda spec: spec.name)
def test_shards_of_every_op_that_has_samples(spec: OpSpec):
    """Of shapes of all kinds: with prime sizes a shard is one element."""
    kinds: set[tuple[tuple[int, ...], ...]] = set()
    for sample in spec.samples():
        shapes = tuple(t.shape for t in sample.operands)
        if shapes in kinds or spec.name.startswith("hlo.") or spec.name == "stablehlo.rng_bit_generator":
            continue
        kinds.add(shapes)
        rule = derive_rule(spec, sample.attributes, sample.operands, sample.results)
        bound = max(1, min((n for t in sample.operands for n in t.shape), default=1) - 1)
        check_shards(spec, sample, rule, arrays_of(sample.operands, sample.index_operands, bound), "")
