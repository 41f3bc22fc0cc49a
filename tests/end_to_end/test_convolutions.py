"""Convolutions on the matrix engine: the same bits at every level below FUSED, near float64's answer; with which instruction."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS, each_run, run_level

NDHWC = ("NDHWC", "DHWIO", "NDHWC")
BELOW_FUSED = [run for run in RUNS if run.level > Level.FUSED]
GRADIENT = ("CHWN", "IHWO", "HWNC")
NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = {
    "same": ((2, 9, 8, 4), (3, 3, 4, 8), {}, "NE_conv"),
    "strides and dilation": ((1, 17, 20, 3), (3, 2, 3, 70), {"window_strides": (2, 3), "rhs_dilation": (3, 2)}, "NE_conv"),
    "pads of one side": ((1, 5, 6, 5), (2, 3, 5, 3), {"padding": ((0, 2), (1, 0))}, "NE_conv"),
    "rows over several steps": ((1, 67, 6, 8), (3, 3, 8, 16), {}, "NE_conv"),
    "channels first": ((2, 12, 9, 7), (10, 12, 3, 3), {"dimension_numbers": NCHW}, "NE_conv"),
    "groups": ((1, 6, 6, 12), (3, 3, 4, 9), {"feature_group_count": 3}, "NE_conv"),
    "depthwise": ((2, 9, 8, 70), (3, 3, 1, 70), {"feature_group_count": 70}, "NE_depthwise"),
    "depthwise with strides": ((1, 9, 8, 24), (5, 2, 1, 24), {"feature_group_count": 24, "window_strides": (2, 1)}, "NE_depthwise"),
    "depthwise, channels first": (
        *((3, 40, 9, 7), (40, 1, 3, 2)),
        *({"feature_group_count": 40, "dimension_numbers": NCHW, "window_strides": (1, 2)}, "NE_depthwise"),
    ),
    "one row": ((2, 1, 30, 4), (1, 5, 4, 6), {}, "NE_conv"),
    "three dimensions": ((2, 4, 5, 3, 4), (2, 1, 1, 4, 6), {"dimension_numbers": NDHWC, "window_strides": (2, 1, 1)}, ""),
    "one by one": ((2, 5, 6, 20), (1, 1, 20, 9), {"window_strides": (2, 2)}, "NE_gemm"),
    "gradient of weights": (
        (2, 7, 6, 8),
        (2, 7, 6, 5),
        {"dimension_numbers": GRADIENT, "padding": ((1, 1), (1, 1))},
        "NE_conv_backward_weight",
    ),
    "of an image with holes": ((1, 5, 4, 3), (3, 3, 3, 5), {"padding": ((1, 1), (1, 1)), "lhs_dilation": (2, 2)}, "NE_conv"),
}


def lowered(case: str, dtype: Any) -> tuple[str, list[np.ndarray]]:
    x, k, options, _ = CASES[case]
    given: dict[str, Any] = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": NHWC} | options
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=shape).astype(dtype) for shape in (x, k)]
    return jax.jit(lambda x, k: lax.conv_general_dilated(x, k, **given)).lower(*arrays).as_text(), arrays


@pytest.mark.parametrize("dtype", [np.float32, jax.numpy.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_every_level_gives_the_same_bits(case: str, dtype: Any) -> None:
    text, arrays = lowered(case, dtype)
    found = [outputs[0] for outputs in each_run(partial(load_source, text), Options(), arrays, BELOW_FUSED)]
    for run, value in zip(BELOW_FUSED, found, strict=True):
        assert value.tobytes() == found[-1].tobytes(), f"{run.name} differs from strict mode"
    sides = (arrays, [np.abs(a) for a in arrays])
    exact, size = (run_level(partial(load_source, text), Options(until=Level.HLO), given)[0] for given in sides)
    bound = 2.0**-9 * np.abs(size.astype(np.float64)) + 2.0**-8 * np.abs(exact.astype(np.float64))
    assert np.all(np.abs(found[-1].astype(np.float64) - exact.astype(np.float64)) <= bound)


@pytest.mark.parametrize("case", CASES)
def test_which_instruction_convolves(case: str) -> None:
    scheduled = hlo2tx8.compile(lowered(case, np.float32)[0]).as_text(Level.SCHEDULED)
    assert CASES[case][3] in scheduled
    assert "KC_V_gather" not in scheduled


def test_full_precision_takes_six_passes() -> None:
    with jax.default_matmul_precision("highest"):
        text, arrays = lowered("same", np.float32)
    assert hlo2tx8.compile(text).as_text(Level.SCHEDULED).count("NE_conv ") == 6
    found = [outputs[0] for outputs in each_run(partial(load_source, text), Options(), arrays, BELOW_FUSED)]
    assert len({value.tobytes() for value in found}) == 1
    exact = run_level(partial(load_source, text), Options(until=Level.HLO), arrays)[0]
    assert np.max(np.abs(found[0] - exact)) <= 2.0**-21 * 36


@pytest.mark.parametrize("dtype", [np.float32, jax.numpy.bfloat16])
@pytest.mark.parametrize("order", [NHWC, NCHW], ids=["channels last", "channels first"])
def test_gradients_by_the_kernel_of_channels_that_do_not_mix(order: tuple[str, str, str], dtype: Any) -> None:
    """Sums over images and places for each channel: no product of the matrix engine, which would compute one at a time."""
    x_shape, k_shape = ((3, 9, 8, 20), (3, 2, 1, 20)) if order is NHWC else ((3, 20, 9, 8), (20, 1, 3, 2))

    def convolved(x: Any, k: Any) -> Any:
        given: dict[str, Any] = {"rhs_dilation": (1, 2), "dimension_numbers": order, "feature_group_count": 20}
        return lax.conv_general_dilated(x, k, (2, 1), ((1, 0), (2, 1)), **given)

    rng = np.random.default_rng(3)
    x, k = (rng.normal(size=shape).astype(dtype) for shape in (x_shape, k_shape))
    y = rng.normal(size=jax.eval_shape(convolved, x, k).shape).astype(dtype)
    gradient = jax.jit(lambda x, y: jax.vjp(lambda k: convolved(x, k), jax.numpy.zeros(k_shape, x.dtype))[1](y)[0])
    text = gradient.lower(x, y).as_text()
    found = [outputs[0] for outputs in each_run(partial(load_source, text), Options(), [x, y], BELOW_FUSED)]
    assert all(value.tobytes() == found[-1].tobytes() for value in found)
    assert "NE_" not in hlo2tx8.compile(text).as_text(Level.SCHEDULED)
    expected = np.asarray(gradient(*(array.astype(np.float32) for array in (x, y))))
    rounded = 2.0**-21 if dtype == np.float32 else 2.0**-8
    assert np.max(np.abs(found[-1].astype(np.float32) - expected)) <= rounded * np.max(np.abs(expected))
