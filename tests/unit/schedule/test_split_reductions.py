"""Pass split-reductions: long reductions to few results become two, with the same answers."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.types import dtype
from hlo2tx8.passes import split_reductions
from hlo2tx8.passes.split_reductions import SplitReductionsPass

Dims = tuple[int, ...]


def text(shape: Dims, dims: Dims, element: str, combiner: str) -> str:
    full = f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"
    kept = f"tensor<{''.join(f'{n}x' for i, n in enumerate(shape) if i not in dims)}{element}>"
    return f"""func.func @main(%x: {full}, %i: tensor<{element}>) -> {kept} {{
      %r = stablehlo.reduce(%x init: %i) applies stablehlo.{combiner} across dimensions = {list(dims)}
        : ({full}, tensor<{element}>) -> {kept}
      return %r : {kept}
    }}"""


def split(source: str) -> ModuleOp:
    module = load(source)
    SplitReductionsPass().apply(Context(), module)
    module.verify()
    return module


def num_reduces(module: ModuleOp) -> int:
    return sum(op.name == "stablehlo.reduce" for op in module.walk())


CASES: list[tuple[Dims, Dims]] = [
    ((1000,), (0,)),
    ((997,), (0,)),  # a prime: padded
    ((100, 10), (0, 1)),
    ((200, 5), (0,)),
    ((3, 7, 49), (1, 2)),
    ((5, 2, 6, 30, 2), (0, 2, 3)),
    ((2, 500), (1,)),
]


@pytest.mark.parametrize(("shape", "dims"), CASES)
@pytest.mark.parametrize(
    ("element", "combiner"),
    [("i32", "add"), ("i32", "multiply"), ("i32", "xor"), ("i32", "and"), ("f32", "maximum"), ("bf16", "add"), ("f64", "minimum")],
)
def test_two_reductions_give_the_same(
    shape: Dims, dims: Dims, element: str, combiner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_reductions, "LEAST_KERNELS", 0)
    check_same(shape, dims, element, combiner)


def check_same(shape: Dims, dims: Dims, element: str, combiner: str) -> None:
    source = text(shape, dims, element, combiner)
    module = split(source)
    assert num_reduces(module) == 2
    kind = dtype({"i32": "int32", "f32": "float32", "bf16": "bfloat16", "f64": "float64"}[element])
    x = np.random.default_rng(0).integers(1, 9, shape).astype(kind)
    init = np.asarray(3).astype(kind)
    (expected,), (actual,) = evaluate(load(source), x, init), evaluate(module, x, init)
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("shape", "dims", "count"),
    [
        ((1 << 20,), (0,), 2),
        ((1 << 10,), (0,), 1),  # small
        ((64, 1 << 14), (1,), 1),  # rows enough for all tiles
        ((4, 1 << 18), (1,), 2),
        ((1 << 14, 64), (0,), 2),  # four lines of results
        ((1 << 12, 1024), (0,), 1),
        ((1 << 14, 1, 64), (1,), 1),  # nothing to split
    ],
)
def test_what_is_split(shape: Dims, dims: Dims, count: int) -> None:
    assert num_reduces(split(text(shape, dims, "f32", "add"))) == count


def test_all_tiles_work_on_a_long_sum() -> None:
    source = text((1 << 20,), (0,), "f32", "add")
    assert hlo2tx8.compile(source).report.cycles < 1.25 * (4 << 20) / 204.8


@pytest.mark.parametrize(
    ("shape", "dims", "count"),
    [
        ((1, 8, 8, 4, 2), (1, 2, 4), 2),  # the sums of groups of channels of an image
        ((40, 3, 5), (0, 2), 2),
        ((3, 3, 5), (0, 2), 1),  # few turns
        ((40, 3, 64), (0, 2), 1),  # a vector of elements each
        ((40, 3, 5), (1, 2), 1),  # neighbours
        ((40, 3, 5), (0, 1), 1),  # lanes stay
    ],
)
def test_what_goes_first(shape: Dims, dims: Dims, count: int) -> None:
    assert num_reduces(split(text(shape, dims, "f32", "add"))) == count


@pytest.mark.parametrize(("element", "combiner"), [("i32", "multiply"), ("bf16", "add"), ("f32", "maximum")])
@pytest.mark.parametrize(
    ("shape", "dims"), [((1, 8, 8, 4, 2), (1, 2, 4)), ((2, 40, 3, 1, 5), (1, 4)), ((4, 2, 5, 3, 3), (0, 2, 4))]
)
def test_what_goes_first_gives_the_same(shape: Dims, dims: Dims, element: str, combiner: str) -> None:
    check_same(shape, dims, element, combiner)
