"""Pass split-statistics: variances, and reductions of one tensor, are made of parts, with the same answers."""

from math import prod

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.types import dtype
from hlo2tx8.options import Options
from hlo2tx8.passes.split_statistics import SplitStatisticsPass

Dims = tuple[int, ...]


def text(shape: Dims, dims: Dims, init: float = 0.0, difference: str = "%x, %b", element: str = "f32") -> str:
    """The sum of x over dims, and that of squared differences from its half (the mean would hide what is added wrongly)."""
    kept = [i for i in range(len(shape)) if i not in dims]
    full, row = (f"tensor<{''.join(f'{shape[i]}x' for i in some)}{element}>" for some in (range(len(shape)), kept))
    return f"""func.func @main(%x: {full}) -> ({row}, {row}) {{
      %i = stablehlo.constant dense<{init}> : tensor<{element}>
      %half = stablehlo.constant dense<{0.5 / max(1, prod(shape[d] for d in dims)):e}> : {row}
      %s = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = {list(dims)}
        : ({full}, tensor<{element}>) -> {row}
      %m = stablehlo.multiply %s, %half : {row}
      %b = stablehlo.broadcast_in_dim %m, dims = {kept} : ({row}) -> {full}
      %d = stablehlo.subtract {difference} : {full}
      %e = stablehlo.multiply %d, %d : {full}
      %q = stablehlo.reduce(%e init: %i) applies stablehlo.add across dimensions = {list(dims)}
        : ({full}, tensor<{element}>) -> {row}
      return %s, %q : {row}, {row}
    }}"""


def split(source: str) -> ModuleOp:
    module = load(source)
    SplitStatisticsPass().apply(Context(), module)
    module.verify()
    return module


def num_reduces(module: ModuleOp) -> int:
    return sum(op.name == "stablehlo.reduce" for op in module.walk())


SPLIT: list[tuple[Dims, Dims, int]] = [
    ((6400, 16), (0,), 8),  # parts, those of each tile, and all
    ((16007, 16), (0,), 13),  # a prime: what is left over is one more part
    ((6400, 20), (0,), 8),
    ((5000, 1000), (0,), 13),  # columns of a part are a step
    ((200_000,), (0,), 8),
    ((2, 10_000, 8), (1,), 8),
    ((100, 80, 16), (0, 1), 8),
    ((2, 100, 70, 8), (1, 2), 8),
    ((200, 3, 500), (0, 2), 5),  # rows in memory, and then over images
    ((4, 1, 40_000), (1, 2), 8),
    ((2, 800, 16, 4), (1, 3), 8),  # groups of channels: short runs of a row, and lines of all channels
]


@pytest.mark.parametrize(("shape", "dims", "count"), SPLIT)
@pytest.mark.parametrize(("init", "difference"), [(0.0, "%x, %b"), (3.0, "%b, %x")])
def test_parts_give_the_same(shape: Dims, dims: Dims, count: int, init: float, difference: str) -> None:
    source = text(shape, dims, init, difference)
    module = split(source)
    assert num_reduces(module) == count
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) + np.float32(3)
    for expected, actual in zip(evaluate(load(source), x), evaluate(module, x), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-6)


def test_nothing_cancels() -> None:
    source = text((1 << 18,), (0,)).replace("5e-01", "1.0")
    x = (np.random.default_rng(0).standard_normal(1 << 18) + 1000).astype(np.float32)
    (_, found), wide = evaluate(split(source), x), x.astype(np.float64)
    mean = np.float64(np.float32(wide.sum() * (0.5 / x.size)))
    np.testing.assert_allclose(found, ((wide - mean) ** 2).sum(), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((4096, 64), (1,)),  # rows of a step
        ((2048, 512), (0,)),  # columns of a step
        ((640, 16), (0,)),  # small
        ((150, 20_000), (0,)),  # parts of few lines
        ((0, 16), (0,)),
    ],
)
def test_what_is_left_alone(shape: Dims, dims: Dims) -> None:
    assert num_reduces(split(text(shape, dims))) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("multiply %d, %d", "multiply %d, %x"),  # no square
        ("subtract %x, %b", "subtract %b, %b"),
        ("multiply %s, %half", "add %s, %half"),  # the difference is from something else
        ("multiply %s, %half", "multiply %s, %s"),
    ],
)
def test_what_is_no_variance(old: str, new: str) -> None:
    assert num_reduces(split(text((6400, 16), (0,)).replace(old, new))) == 2
    assert num_reduces(split(text((6400, 16), (0,), element="f64"))) == 2


def test_a_batch_norm_reads_its_input_once() -> None:
    image, row = "tensor<16x28x28x64xf32>", "tensor<64xf32>"
    source = f"""func.func @main(%x: {image}, %a: {row}) -> ({image}, {row}, {row}) {{
      %0:3 = "stablehlo.batch_norm_training"(%x, %a, %a) {{epsilon = 0.001 : f32, feature_index = 3 : i64}}
        : ({image}, {row}, {row}) -> ({image}, {row}, {row})
      return %0#0, %0#1, %0#2 : {image}, {row}, {row}
    }}"""
    report = hlo2tx8.compile(source).report
    assert report.cycles < 1.3 * report.bound_cycles
    written = hlo2tx8.compile(source, Options(reassociate=False)).report
    assert report.cycles < 0.95 * written.cycles


def of_two(shape: Dims, dims: Dims, second: str, combiner: str = "add", element: str = "f32") -> str:
    """A sum over dims, and what a combiner makes of `second`, which reads %x, and the sum as %b."""
    kept = [i for i in range(len(shape)) if i not in dims]
    full, row = (f"tensor<{''.join(f'{shape[i]}x' for i in some)}{element}>" for some in (range(len(shape)), kept))
    return f"""func.func @main(%x: {full}, %y: {full}, %i: tensor<{element}>) -> ({row}, {row}) {{
      %s = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = {list(dims)}
        : ({full}, tensor<{element}>) -> {row}
      %b = stablehlo.broadcast_in_dim %s, dims = {kept} : ({row}) -> {full}
      %e = {second} : {full}
      %q = stablehlo.reduce(%e init: %i) applies stablehlo.{combiner} across dimensions = {list(dims)}
        : ({full}, tensor<{element}>) -> {row}
      return %s, %q : {row}, {row}
    }}"""


@pytest.mark.parametrize(("shape", "dims"), [((6400, 16), (0,)), ((16007, 16), (0,)), ((3, 70, 90, 8), (1, 2)), ((300_000,), (0,))])
@pytest.mark.parametrize(
    ("element", "combiner"),
    [("f32", "add"), ("bf16", "add"), ("f32", "maximum"), ("f16", "minimum"), ("i32", "add"), ("i32", "multiply"), ("f64", "add")],
)
def test_reductions_of_one_tensor_give_the_same(shape: Dims, dims: Dims, element: str, combiner: str) -> None:
    source = of_two(shape, dims, "stablehlo.subtract %y, %x", combiner, element)
    module = split(source)
    assert num_reduces(module) >= 4
    kinds = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i32": "int32", "f64": "float64"}
    x, y = (np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype(kinds[element])) for seed in (0, 1))
    init = np.asarray(3).astype(x.dtype)
    for expected, actual in zip(evaluate(load(source), x, y, init), evaluate(module, x, y, init), strict=True):
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "second",
    [
        "stablehlo.multiply %y, %y",  # nothing in common
        "stablehlo.add %x, %b",  # made of the sum, which has to be known before
    ],
)
def test_reductions_that_stay(second: str) -> None:
    assert num_reduces(split(of_two((6400, 16), (0,), second))) == 2


def test_mean_and_mean_of_squares_read_their_input_once() -> None:
    report = hlo2tx8.compile(of_two((1 << 15, 128), (0,), "stablehlo.multiply %x, %x")).report
    assert report.cycles < 1.2 * report.bound_cycles
