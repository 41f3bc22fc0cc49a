"""Transcendental instructions against mpmath: within the error their functions declare, correctly rounded in 16 bits."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from hand_cases import binary, unary

from hlo2tx8.device import approx
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import INSTRUCTIONS, Instruction
from hlo2tx8.device.isa.ct_arith import CtRsqrt
from hlo2tx8.device.isa.forms import KC_FLOATS
from hlo2tx8.device.isa.kc_vector import KcVAtan2, KcVPow

MP: Any = mpmath.mp.clone()
MP.prec = 150
NUM_SAMPLES = 160
ALL = (-float("inf"), float("inf"))
POSITIVE = (0.0, float("inf"))
# Function -> (exact value, open interval of its arguments).
EXACT: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
    "log2": (lambda x: MP.log(x, 2), POSITIVE),
    "log": (MP.log, POSITIVE),
    "exp": (MP.exp, ALL),
    "exp2": (lambda x: MP.power(2, x), ALL),
    "sin": (MP.sin, ALL),
    "cos": (MP.cos, ALL),
    "tan": (MP.tan, ALL),
    "tanh": (MP.tanh, ALL),
    "logistic": (lambda x: 1 / (1 + MP.exp(-x)), ALL),
    "cbrt": (lambda x: MP.sign(x) * MP.cbrt(abs(x)), ALL),
    "expm1": (MP.expm1, ALL),
    "log1p": (MP.log1p, (-1.0, float("inf"))),
    "softplus": (lambda x: MP.log1p(MP.exp(x)), ALL),
}
FUNCTIONS = [cls for cls in INSTRUCTIONS if cls.FUNCTION and not cls.IS_LOW_PRECISION]
MANTISSA = {Format.FP16: 10, Format.BF16: 7, Format.FP32: 23, Format.TF32: 10, Format.FP64: 52}


def arguments(fmt: Format, domain: tuple[float, float], seed: int) -> np.ndarray:
    """Any bits, moderate numbers, numbers close to 1, all inside the domain."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 1 << 63, NUM_SAMPLES, dtype=np.uint64) << np.uint64(1)
    raw = (raw >> np.uint64(64 - 8 * fmt.bytes)).astype(f"u{fmt.bytes}").view(fmt.numpy_dtype)
    moderate = np.exp2(rng.uniform(-12, 6.5, NUM_SAMPLES)) * rng.choice([-1, 1], NUM_SAMPLES)
    near_one = 1 + rng.normal(size=NUM_SAMPLES // 2) * 0.01
    with np.errstate(all="ignore"):
        x = np.concatenate([raw, *(part.astype(fmt.numpy_dtype) for part in (moderate, near_one))])
        if fmt is Format.TF32:
            x = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        wide = x.astype(np.float64)
        return x[(wide > domain[0]) & (wide < domain[1])]


def error_in_ulp(actual: float, exact: Any, fmt: Format) -> float:
    """Distance in units of the last place of the exact value; results beyond the format's range must be infinite or 0."""
    info = ml_dtypes.finfo(fmt.numpy_dtype)
    mantissa = MANTISSA[fmt]
    smallest = int(np.log2(float(info.smallest_normal)))
    if abs(exact) > float(info.max):
        return 0.0 if abs(actual) >= float(info.max) and (actual > 0) == (exact > 0) else float("inf")
    exponent = MP.frexp(exact)[1] - 1 if exact else smallest
    unit = MP.ldexp(1, max(exponent, smallest) - mantissa)
    return float(abs(MP.mpf(actual) - exact) / unit)


def worst(actual: np.ndarray, exact: list[Any], fmt: Format) -> float:
    return max(error_in_ulp(a, e, fmt) for a, e in zip(actual.astype(np.float64).tolist(), exact, strict=True))


@pytest.mark.parametrize("cls", FUNCTIONS, ids=lambda c: c.MNEMONIC)
def test_functions(cls: type[Instruction]) -> None:
    f, domain = EXACT[cls.FUNCTION]
    for fmt in cls.FORMATS:
        x = arguments(fmt, domain, cls.OPCODE)
        exact = [f(MP.mpf(v)) for v in x.astype(np.float64).tolist()]
        assert worst(unary(cls, x, fmt), exact, fmt) <= approx.ulp_bound(cls.FUNCTION, fmt.name), fmt.name


def test_rsqrt() -> None:
    for fmt in CtRsqrt.FORMATS:
        x = arguments(fmt, POSITIVE, 3)
        exact = [1 / MP.sqrt(MP.mpf(v)) for v in x.astype(np.float64).tolist()]
        assert worst(unary(CtRsqrt, x, fmt), exact, fmt) <= 0.5001


@pytest.mark.parametrize("fmt", KC_FLOATS, ids=lambda f: f.name)
def test_functions_of_two_operands(fmt: Format) -> None:
    y, x = (arguments(fmt, (-1e30, 1e30), seed) for seed in (1, 2))
    size = min(x.size, y.size)
    y, x = y[:size], x[:size]
    pairs = list(zip(y.astype(np.float64).tolist(), x.astype(np.float64).tolist(), strict=True))
    angles = [MP.atan2(MP.mpf(a), MP.mpf(b)) for a, b in pairs]
    assert worst(binary(KcVAtan2, y, x, fmt), angles, fmt) <= approx.ulp_bound("atan2", fmt.name)
    base = np.abs(y) + fmt.numpy_dtype.type(0.01)
    usable = (np.abs(x.astype(np.float64)) < 60) & (base.astype(np.float64) < 100)
    base, x = base[usable], x[usable]
    powers = [MP.power(MP.mpf(float(a)), MP.mpf(float(b))) for a, b in zip(base, x, strict=True)]
    assert worst(binary(KcVPow, base, x, fmt), powers, fmt) <= approx.ulp_bound("pow", fmt.name)


SPECIAL: dict[str, tuple[list[float], list[float]]] = {
    "log2": ([0, -0.0, 1, 8, float("inf"), -1], [-np.inf, -np.inf, 0, 3, np.inf, np.nan]),
    "log": ([0, -0.0, 1, float("inf"), -1], [-np.inf, -np.inf, 0, np.inf, np.nan]),
    "exp": ([0, -0.0, np.inf, -np.inf, 1e4, -1e4], [1, 1, np.inf, 0, np.inf, 0]),
    "exp2": ([0, 3, -2, np.inf, -np.inf], [1, 8, 0.25, np.inf, 0]),
    "sin": ([0, -0.0, np.inf], [0, -0.0, np.nan]),
    "cos": ([0, -np.inf], [1, np.nan]),
    "tan": ([0, -0.0, np.inf], [0, -0.0, np.nan]),
    "tanh": ([0, -0.0, np.inf, -np.inf, 100], [0, -0.0, 1, -1, 1]),
    "logistic": ([0, np.inf, -np.inf], [0.5, 1, 0]),
    "cbrt": ([0, -0.0, -8, 27, np.inf, -np.inf], [0, -0.0, -2, 3, np.inf, -np.inf]),
    "expm1": ([0, -0.0, np.inf, -np.inf], [0, -0.0, np.inf, -1]),
    "log1p": ([0, -0.0, -1, np.inf, -2], [0, -0.0, -np.inf, np.inf, np.nan]),
    "softplus": ([1e4, -1e4, np.inf, -np.inf], [1e4, 0, np.inf, 0]),
}


@pytest.mark.parametrize("cls", FUNCTIONS, ids=lambda c: c.MNEMONIC)
def test_special_values(cls: type[Instruction]) -> None:
    given, expected = SPECIAL[cls.FUNCTION]
    for fmt in cls.FORMATS:
        with np.errstate(over="ignore"):
            want = np.array([*expected, np.nan], np.float64).astype(fmt.numpy_dtype).astype(np.float64)
        actual = unary(cls, [*given, np.nan], fmt).astype(np.float64)
        np.testing.assert_array_equal(actual, want, err_msg=fmt.name)
        zeros = want == 0
        assert np.array_equal(np.signbit(actual[zeros]), np.signbit(want[zeros])), fmt.name
