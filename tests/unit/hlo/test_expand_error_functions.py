"""Pass expand-error-functions: every 16-bit input, and f32 from the smallest to the largest result, within the declared bounds."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import scipy.special
from xdsl.context import Context

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.passes.expand_error_functions import ExpandErrorFunctionsPass

BITS = np.arange(1 << 16, dtype=np.uint16)
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def text_of(name: str, element: str, n: int) -> str:
    type_ = f"tensor<{n}x{element}>"
    return f"func.func @main(%a: {type_}) -> {type_} {{ %0 = chlo.{name} %a : {type_} -> {type_} return %0 : {type_} }}"


def distance_ulp(found: npt.NDArray[Any], exact: npt.NDArray[np.float64], kind: Any) -> npt.NDArray[np.float64]:
    """How far off in units of the last place of the exact value; NaN and infinities have to be the same."""
    info: Any = ml_dtypes.finfo(kind)
    size = np.maximum(np.abs(exact), float(info.smallest_normal))
    unit = 2.0 ** (np.floor(np.log2(size)) - info.nmant)
    same = (found.astype(np.float64) == exact) | (np.isnan(found.astype(np.float64)) & np.isnan(exact))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(found.astype(np.float64) - exact) / unit)


@pytest.mark.parametrize("is_compiled", [False, True], ids=["evaluator", "program"])
@pytest.mark.parametrize(
    ("name", "element", "bound"), [("erf", "bf16", 1.25), ("erf", "f16", 1.25), ("erfc", "bf16", 2.1), ("erfc", "f16", 2.0)]
)
def test_every_input_of_16_bits(name: str, element: str, bound: float, is_compiled: bool) -> None:
    x = BITS.view(DTYPES[element])
    exact: Any = getattr(scipy.special, name)(x.astype(np.float64))
    text = text_of(name, element, len(x))
    if is_compiled:
        found = np.asarray(hlo2tx8.compile(text).run(x))
    else:
        module = load(text)
        ExpandErrorFunctionsPass().apply(Context(), module)
        assert "chlo" not in str(module)
        found = evaluate(module, x)[0]
    assert distance_ulp(found, exact, DTYPES[element]).max() <= bound


def test_single_erfc_keeps_its_bound_where_it_is_small() -> None:
    rng = np.random.default_rng(0)
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 1e-38, 3e38, -3e38, 11, 13]
    x = np.concatenate([rng.uniform(-4, 9.19, 100_000), edges]).astype(np.float32)
    exact: Any = scipy.special.erfc(x.astype(np.float64))
    found = np.asarray(hlo2tx8.compile(text_of("erfc", "f32", len(x))).run(x))
    assert distance_ulp(found, exact, np.float32).max() <= 8


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_other_types_are_left_to_expand_chlo(name: str) -> None:
    module = load(text_of(name, "f64", 3))
    before = str(module)
    ExpandErrorFunctionsPass().apply(Context(), module)
    assert str(module) == before
