"""Pass expand-plus-one: every 16-bit input, and f32 of all sizes, within the declared bounds; what is small or wide is left."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from test_expand_error_functions import distance_ulp
from xdsl.context import Context

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.passes.expand_plus_one import ExpandPlusOnePass

FUNCTIONS = {"log_plus_one": np.log1p, "exponential_minus_one": np.expm1}
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def text_of(name: str, element: str, n: int) -> str:
    type_ = f"tensor<{n}x{element}>"
    return f"func.func @main(%a: {type_}) -> {type_} {{ %0 = stablehlo.{name} %a : {type_} return %0 : {type_} }}"


def found_by(text: str, x: npt.NDArray[Any], *, is_compiled: bool) -> npt.NDArray[Any]:
    if is_compiled:
        return np.asarray(hlo2tx8.compile(text).run(x))
    module = load(text)
    ExpandPlusOnePass().apply(Context(), module)
    assert "_one" not in str(module)
    return evaluate(module, x)[0]


@pytest.mark.parametrize("is_compiled", [False, True], ids=["evaluator", "program"])
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_input_of_16_bits(name: str, element: str, is_compiled: bool) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[element])
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64)).astype(DTYPES[element]).astype(np.float64)
    assert distance_ulp(found_by(text_of(name, element, len(x)), x, is_compiled=is_compiled), exact, DTYPES[element]).max() <= 1


@pytest.mark.parametrize("is_compiled", [False, True], ids=["evaluator", "program"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_single_precision_of_all_sizes(name: str, is_compiled: bool) -> None:
    rng = np.random.default_rng(0)
    edges = [0, -0.0, np.inf, -np.inf, np.nan, -1, -1.0000001, -0.99999994, 1e-45, -1e-45, 3e38, -3e38, -17.9, -18.1, -104, 88.73]
    sizes = np.exp2(rng.uniform(-40, 7, 200_000)) * rng.choice([-1, 1], 200_000)
    x = np.concatenate([sizes, rng.uniform(-1, 1, 100_000), rng.uniform(-20, 20, 100_000), edges]).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64))
        exact = np.where(np.abs(exact) > np.finfo(np.float32).max, np.copysign(np.inf, exact), exact)
    found = found_by(text_of(name, "f32", len(x)), x, is_compiled=is_compiled)
    assert distance_ulp(found, exact, np.float32).max() <= 2.5
    assert (np.signbit(found) == np.signbit(exact))[exact == 0].all()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("element", "n"), [("f64", 5000), ("f32", 100), ("bf16", 0)])
def test_what_is_wide_or_small_is_left(name: str, element: str, n: int) -> None:
    module = load(text_of(name, element, n))
    before = str(module)
    ExpandPlusOnePass().apply(Context(), module)
    assert str(module) == before
