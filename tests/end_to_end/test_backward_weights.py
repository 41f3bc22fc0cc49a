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


PRODUCTS = (
    ("[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]", (2, 4, 5, 8), (2, 4, 5, 16), (1, 1, 8, 16)),
    ("[b, f, 0, 1]x[o, i, 0, 1]->[f, 0, 1, b]", (8, 2, 4, 5), (16, 2, 4, 5), (16, 1, 1, 8)),
    ("[f, 0, 1, b]x[0, 1, i, o]->[0, 1, b, f]", (2, 4, 5, 8), (4, 5, 2, 16), (1, 1, 8, 16)),
)


@pytest.mark.parametrize("case", PRODUCTS)
def test_windows_as_large_as_the_image(case: tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]) -> None:
    """One sum over features and places where both operands have these in one order: a gemm."""
    numbers, image, kernel, result = case
    rng = np.random.default_rng(6)
    x, k = rng.normal(size=image).astype(np.float32), rng.normal(size=kernel).astype(np.float32)
    types = ["x".join(map(str, shape)) + "xf32" for shape in (image, kernel, result)]
    text = f"""func.func @main(%x: tensor<{types[0]}>, %k: tensor<{types[1]}>) -> tensor<{types[2]}> {{
      %0 = stablehlo.convolution(%x, %k) dim_numbers = {numbers}, window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<{types[2]}>
      return %0 : tensor<{types[2]}>
    }}"""
    summed = {"[f": "nhwc", "[b": "cnhw"}[numbers[:2]], {"[i": "nhwo", "[o": "onhw", "[0": "hwno"}[numbers.split("]x")[1][:2]]
    wanted = np.einsum(f"{summed[0]},{summed[1]}->co", x.astype(np.float64), k)
    wanted = (wanted.T if result[0] == 16 else wanted).reshape(result)
    executable = hlo2tx8.compile(text)
    if summed[1] != "hwno":
        assert executable.as_text().count("NE_gemm") == 1
    assert np.max(np.abs(executable.run(x, k) - wanted)) <= 2.0**-9 * np.max(np.abs(wanted))
