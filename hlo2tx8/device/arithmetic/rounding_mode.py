"""Arithmetic of the host that rounds toward zero, as the matrix engine's does."""

import ctypes
import platform
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

import numpy as np

TOWARD_ZERO = {"x86_64": 0xC00, "AMD64": 0xC00, "aarch64": 0xC00000, "arm64": 0xC00000}
"""FE_TOWARDZERO of C's fenv.h, by processor; to nearest even is 0 on all of these."""
PROBED = 64  # numbers: vector instructions and what is left over are asked


@contextmanager
def toward_zero() -> Generator[None]:
    """Inside, numpy's sums, products and conversions round toward zero, in this thread: where `can_round_toward_zero`."""
    set_mode = _setter()
    assert set_mode is not None
    set_mode(TOWARD_ZERO[platform.machine()])
    try:
        yield
    finally:
        set_mode(0)


@cache
def can_round_toward_zero() -> bool:
    """Whether this host does so: asked once, of the sums, products and conversions that numpy makes."""
    if _setter() is None:
        return False
    one, three, small = (np.full(PROBED - 1, x, np.float32) for x in (1, 3, 2.0**-40))
    third, below = one / three, np.nextafter(one, np.float32(0))
    with toward_zero():
        sums, products, converted = one - small, below * below, (one - small.astype(np.float64)).astype(np.float32)
        wide = one.astype(np.float64) - small.astype(np.float64) * 2.0**-40
    exact = np.float64(below[0]) * np.float64(below[0])
    is_toward_zero = bool((sums == below).all() and (converted == below).all() and (wide < 1).all())
    is_back = bool((one / three == third).all() and (one - small == one).all())
    return is_toward_zero and is_back and bool((products <= exact).all() and (np.nextafter(products, one) > exact).all())


@cache
def _setter() -> Callable[[int], int] | None:
    """fesetround; None where there is none."""
    if platform.machine() not in TOWARD_ZERO:
        return None
    try:
        return ctypes.CDLL(None).fesetround
    except (OSError, AttributeError, TypeError):
        return None
