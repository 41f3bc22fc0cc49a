"""Convolutions of images with holes: exact for small integers, whatever windows and holes are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.options import Options

# image without batch and channels, window, steps between its points, padding per side
CASES = {
    "as wide as a step": ((5, 6), (2, 2), (2, 2), ((1, 1), (1, 1))),
    "3x3, same": ((4, 7), (3, 3), (2, 2), ((2, 1), (2, 1))),
    "3x3, other side": ((4, 7), (3, 3), (2, 2), ((1, 2), (1, 2))),
    "along one dimension": ((4, 5), (3, 2), (1, 3), ((1, 1), (0, 2))),
    "windows smaller than steps": ((5, 4), (2, 1), (4, 3), ((3, 0), (0, 2))),
    "an odd number of results": ((5, 5), (4, 3), (2, 2), ((1, 1), (2, 0))),
    "cut at both sides": ((6, 6), (3, 5), (2, 3), ((-1, -2), (-3, 0))),
    "wide padding": ((3, 2), (3, 3), (3, 2), ((7, 5), (4, 9))),
    "a line": ((9,), (4,), (2,), ((3, 1),)),
    "a volume": ((3, 4, 2), (3, 2, 2), (2, 2, 1), ((1, 1), (1, 0), (0, 1))),
}


def transposed(x: Any, w: Any, case: str, first: str = "") -> Any:
    _, window, steps, padding = CASES[case]
    places = "WHD"[: len(window)]
    last = f"N{places}C", f"{places}IO", f"N{places}C"
    dimensions = (f"NC{places}", f"{places}OI", f"{places}NC") if first else last
    return lax.conv_general_dilated(x, w, (1,) * len(window), padding, lhs_dilation=steps, dimension_numbers=dimensions)


def check(case: str, channels: tuple[int, int], dtype: Any, first: str = "", mode: str = "fast") -> None:
    image, window, *_ = CASES[case]
    rng = np.random.default_rng(3)
    last = (2, *image, channels[0]), (*window, *channels)
    shapes = ((2, channels[0], *image), (*window, channels[1], channels[0])) if first else last
    x, w = (jnp.asarray(rng.integers(-2, 3, shape), dtype) for shape in shapes)
    text = jax.jit(lambda x, w: transposed(x, w, case, first)).lower(x, w).as_text()
    executable = hlo2tx8.compile(text, Options(mode=mode))
    wanted = np.asarray(transposed(x.astype(np.float32), w.astype(np.float32), case, first)).astype(dtype)
    assert len(np.unique(wanted)) > 3
    np.testing.assert_array_equal(np.asarray(executable(x, w)), wanted)


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_xla(case: str) -> None:
    check(case, (5, 3), jnp.float32)


@pytest.mark.parametrize("case", ["as wide as a step", "3x3, same", "an odd number of results"])
def test_channels_of_whole_blocks(case: str) -> None:
    check(case, (64, 128), jnp.bfloat16, mode="strict")


@pytest.mark.parametrize("case", ["3x3, other side", "cut at both sides", "a volume"])
def test_channels_first(case: str) -> None:
    check(case, (6, 20), jnp.float16, first="channels first")


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.int32])
def test_integers(dtype: Any) -> None:
    check("3x3, same", (16, 8), dtype)
