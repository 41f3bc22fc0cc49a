"""fft of every kind and length on the emulator against numpy: one product, mixed radix, Bluestein; several dimensions."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_programs import FAST, LEVELS, check_text

from hlo2tx8.passes.expand_fft import factor_of

RNG = np.random.default_rng(0)


def draw(*shape: int, dtype: Any = np.complex64) -> np.ndarray:
    values = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    return (values.real if np.dtype(dtype).kind == "f" else values).astype(dtype)


def near(actual: np.ndarray, expected: np.ndarray) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    size = np.max(np.abs(expected), initial=np.finfo(actual.dtype).tiny)
    assert np.max(np.abs(actual - expected), initial=0) <= 8 * np.finfo(actual.dtype).eps * size


def check_fft(name: str, x: np.ndarray, *, levels: tuple[Any, ...] = (), **options: Any) -> None:
    """What jnp.fft has against np.fft in double precision."""
    function: Callable[..., Any] = partial(getattr(jnp.fft, name), **options)
    with jax.enable_x64(True):
        text = jax.jit(function).lower(x).as_text()
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    expected = getattr(np.fft, name)(x.astype(wide), **options)
    part = x.real.dtype.itemsize
    expected = expected.astype(f"complex{16 * part}" if expected.dtype.kind == "c" else f"float{8 * part}")
    check_text(text, [x], [expected], levels, FAST, near)


@pytest.mark.parametrize("n", [1, 2, 7, 32, 60, 97, 131, 262, 1000])
def test_lengths(n: int) -> None:
    check_fft("fft", draw(2, n))


def test_lengths_take_every_way() -> None:
    assert [factor_of(n) for n in (32, 60, 97, 131, 262, 1024, 65536)] == [32, 10, 97, 1, 2, 32, 32]


@pytest.mark.parametrize(
    ("name", "x", "options"),
    [
        ("ifft", draw(2, 45), {}),
        ("rfft", draw(3, 9, dtype=np.float32), {}),
        ("rfft", draw(3, 10, dtype=np.float64), {}),
        ("irfft", draw(3, 6), {}),
        ("irfft", draw(3, 4), {"n": 7}),
        ("irfft", draw(2, 1), {"n": 1}),
        ("fftn", draw(4, 6, 5), {"axes": (0, 1, 2)}),
        ("ifft2", draw(2, 6, 5), {}),
        ("rfftn", draw(4, 6, 5, dtype=np.float32), {}),
        ("irfftn", draw(4, 6, 5), {}),
        ("fft", draw(2, 40, dtype=np.complex128), {}),
        ("fft", draw(0, 40), {}),
    ],
)
def test_kinds(name: str, x: np.ndarray, options: dict[str, Any]) -> None:
    check_fft(name, x, **options)


def test_at_every_level() -> None:
    check_fft("rfft2", draw(3, 40, dtype=np.float32), levels=LEVELS)


def test_long() -> None:
    check_fft("fft", draw(1 << 16))
