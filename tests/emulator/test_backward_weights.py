"""Gradients of a convolution's weights: one instruction per image, the same bits at every level."""

from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_programs import check_text

import hlo2tx8
from hlo2tx8.options import Level

MNEMONIC = "NE_conv_backward_weight"
NHWC = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True)
class Case:
    """A convolution of images [n, h, w, c] by kernels [ky, kx, c, o]."""

    image: tuple[int, int, int, int]
    kernel: tuple[int, int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    dtype: Any = np.float32
    precision: str = "default"
    bound: float = 2.0**-9


CASES = {
    "plain": Case((3, 6, 7, 8), (3, 3, 16)),
    "strides, few channels": Case((2, 9, 8, 3), (3, 3, 6), (2, 3)),
    "dilated, one image": Case((1, 9, 8, 24), (2, 3, 5), (1, 1), (2, 1)),
    "blocks of channels and filters": Case((1, 4, 5, 80), (3, 3, 128)),
    "a block and a half of filters": Case((2, 4, 5, 4), (2, 2, 96), (2, 1)),
    "bf16": Case((2, 6, 7, 8), (3, 3, 12), dtype=ml_dtypes.bfloat16, bound=2.0**-7),
    "as precise as f32": Case((2, 6, 7, 8), (3, 3, 16), precision="highest", bound=2.0**-21),
}


def text_of(case: Case) -> tuple[str, list[np.ndarray], np.ndarray]:
    """The module, its inputs, and the gradient from products in float64."""
    rng = np.random.default_rng(5)
    *kernel, filters = case.kernel

    def convolved(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, case.stride, "SAME", rhs_dilation=case.dilation, dimension_numbers=NHWC)

    x = rng.normal(size=case.image).astype(case.dtype)
    k = np.zeros((*kernel, case.image[-1], filters), case.dtype)
    cotangent = rng.normal(size=jax.eval_shape(convolved, x, k).shape).astype(case.dtype)

    def gradient(x: Any, g: Any) -> Any:
        return jax.vjp(lambda k: convolved(x, k), k.astype(x.dtype))[1](g)[0]

    with jax.default_matmul_precision(case.precision):
        text = jax.jit(gradient).trace(x, cotangent).lower(lowering_platforms=("cpu",)).as_text()
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        wanted = jax.jit(gradient)(x.astype(np.float64), cotangent.astype(np.float64))
    return text, [x, cotangent], np.asarray(wanted)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_weights(name: str) -> None:
    case = CASES[name]
    text, inputs, wanted = text_of(case)
    assert MNEMONIC in hlo2tx8.compile(text).as_text()
    found: list[np.ndarray] = []

    def keep(actual: np.ndarray, expected: np.ndarray) -> None:
        assert np.max(np.abs(actual.astype(np.float64) - expected)) <= case.bound * np.max(np.abs(expected))
        found.append(actual)

    levels = (Level.LOOPS, Level.FLAT, Level.VECTOR, Level.SCHEDULED)
    check_text(text, inputs, [wanted], levels, compare=keep)
    assert len(found) > len(levels)
    for actual in found:
        assert np.array_equal(actual.view(np.uint8), found[0].view(np.uint8))


def test_channels_that_are_not_next_to_each_other() -> None:
    """Of such an image the engine multiplies row by row."""
    text, (x, cotangent), wanted = text_of(CASES["plain"])
    text = text.replace("[f, 0, 1, b]", "[f, b, 0, 1]").replace("3x6x7x8xf32", "3x8x6x7xf32")
    executable = hlo2tx8.compile(text)
    assert MNEMONIC not in executable.as_text()
    assert "NE_gemm" in executable.as_text()
    actual = executable.run(np.moveaxis(x, -1, 1).copy(), cotangent)
    assert np.max(np.abs(actual - wanted)) <= CASES["plain"].bound * np.max(np.abs(wanted))
