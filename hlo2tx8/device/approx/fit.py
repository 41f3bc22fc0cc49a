"""Compute every constant of the transcendental programs to 60 digits and write `coefficients.py`.

    python -m hlo2tx8.device.approx.fit            # rewrite (needs mpmath, a test dependency)
    python -m hlo2tx8.device.approx.fit --check    # exit 1 when the committed file differs

Polynomials are Chebyshev interpolants of the stated remainder, lowest power first, rounded to the format they are used in.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TARGET = Path(__file__).with_name("coefficients.py")
POW_FIRST, POW_LAST = 90, 182  # pow's table holds c = index / 128 for m in [0.703, 1.422)


def _mpmath() -> Any:
    """mpmath, which has no types; needed to fit coefficients again, not to use them."""
    return importlib.import_module("mpmath")


def _hex(value: Any, bits: int) -> str:
    return float(np.float32(float(value)) if bits == 32 else float(value)).hex()


def _split(value: Any, high_bits: int, low_bits: int = 53) -> tuple[str, str]:
    """(high, low): `high` holds the first `high_bits` bits of `value`, `low` the rest rounded to `low_bits`."""
    mp = _mpmath()

    _, exponent = mp.frexp(value)
    unit = mp.mpf(2) ** (int(exponent) - high_bits)
    high = mp.nint(value / unit) * unit
    return _hex(high, 64), _hex(value - high, 32 if low_bits == 24 else 64)


def _fit(function: Callable[[Any], Any], low: float, high: float, terms: int, bits: int) -> tuple[str, ...]:
    """Coefficients, lowest power first, of `function` (any removable singularity at 0 stepped over) on [low, high]."""
    mp = _mpmath()

    def guarded(x: Any) -> Any:
        return function(x if abs(x) > mp.mpf("1e-30") else mp.mpf("1e-30"))

    coefficients = mp.chebyfit(guarded, [mp.mpf(low), mp.mpf(high)], terms)
    return tuple(_hex(c, bits) for c in reversed(coefficients))


def _polynomials() -> dict[str, tuple[str, ...]]:
    mp = _mpmath()

    def log_rest(z: Any) -> Any:  # log((1+s)/(1-s)) = 2s + s R(s^2)
        s = mp.sqrt(z)
        return (2 * mp.atanh(s) - 2 * s) / s / z

    def odd(function: Callable[[Any], Any]) -> Callable[[Any], Any]:  # f(x) = x + x z P(z), z = x^2
        return lambda z: (function(mp.sqrt(z)) - mp.sqrt(z)) / mp.sqrt(z) / z

    ln2 = float(mp.log(2))
    half = ln2 / 2 * 1.001
    quarter_ln2_squared = float((mp.log(2) / 4) ** 2) * 1.004
    s2 = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2) * 1.001
    quarter = float((mp.pi / 4) ** 2) * 1.001
    over, under = _tanh_rational(3, 2, "3.8")
    return {
        "TANH_OVER_BF16": over,
        "TANH_UNDER_BF16": under,
        "TANH_F32": _fit(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, quarter_ln2_squared, 3, 32),
        "EXP_F32": _fit(lambda r: (mp.exp(r) - 1 - r) / r**2, -half, half, 5, 32),
        "LOG_F32": _fit(log_rest, 0, s2, 3, 32),
        "EXP": _fit(lambda r: (mp.exp(r) - 1 - r) / r**2, -half, half, 11, 64),
        "EXP2": _fit(lambda r: (mp.power(2, r) - 1) / r, -0.5005, 0.5005, 13, 64),
        "LOG": _fit(log_rest, 0, s2, 8, 64),
        "LOG_SHORT": _fit(lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3, -0.0086, 0.0086, 7, 64),
        "ATAN": _fit(odd(mp.atan), 0, 0.1717, 13, 64),
        "SIN": _fit(odd(mp.sin), 0, quarter, 7, 64),
        "COS": _fit(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, quarter, 7, 64),
        "CBRT": _fit(mp.cbrt, 1, 8, 7, 64),
    }


def _pow_table() -> tuple[list[str], list[str], list[str]]:
    """(1/c to 9 bits, high and low part of -log of that) for c = POW_FIRST/128 .. POW_LAST/128; c = 1 exactly near 1."""
    mp = _mpmath()

    inverse: list[str] = []
    high: list[str] = []
    low: list[str] = []
    for index in range(POW_FIRST, POW_LAST + 1):
        rounded = mp.nint(mp.mpf(128) / index * 256) / 256
        log_c = -mp.log(rounded)
        inverse.append(_hex(rounded, 64))
        high.append(_hex(log_c, 64))
        low.append(_hex(log_c - mp.mpf(float(log_c)), 64))
    return inverse, high, low


def _tanh_rational(numerator: int, denominator: int, limit: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(P, Q), f32, of tanh(x) = x P(x^2) / Q(x^2) on [-limit, limit], interpolated at Chebyshev points."""
    mp = _mpmath()

    num = numerator + denominator + 1
    matrix, right = mp.matrix(num, num), mp.matrix(num, 1)
    for row in range(num):
        x = mp.mpf(limit) * mp.cos((2 * row + 1) * mp.pi / (4 * num))
        value = mp.tanh(x) / x
        for power in range(numerator + 1):
            matrix[row, power] = x ** (2 * power)
        for power in range(1, denominator + 1):
            matrix[row, numerator + power] = -value * x ** (2 * power)
        right[row] = value
    solution = mp.lu_solve(matrix, right)
    over = [solution[i] for i in range(numerator + 1)]
    under = [mp.mpf(1), *(solution[numerator + i] for i in range(1, denominator + 1))]
    return tuple(_hex(v, 32) for v in over), tuple(_hex(v, 32) for v in under)


def _rows(name: str, values: list[str], kind: str) -> list[str]:
    body = [f'    "{v}",' if kind == "str" else f"    {v}," for v in values]
    return [f"{name}: tuple[{kind}, ...] = (", *body, ")"]


def generate() -> str:
    """The text of `coefficients.py`."""
    mp = _mpmath()

    mp.mp.dps = 420
    two_over_pi = mp.floor(2 / mp.pi * mp.mpf(2) ** 1312)
    words = [int(two_over_pi / mp.mpf(2) ** (1312 - 32 * (i + 1))) & 0xFFFFFFFF for i in range(41)]
    mp.mp.dps = 120
    pi_2, ln2, log2e = mp.pi / 2, mp.log(2), 1 / mp.log(2)
    pi_1, _ = _split(pi_2, 33)
    first = mp.mpf(float.fromhex(pi_1))
    pi_mid, _ = _split(pi_2 - first, 33)
    second = mp.mpf(float.fromhex(pi_mid))
    pi_third, _ = _split(pi_2 - first - second, 33)
    pi_low = pi_2 - first - second - mp.mpf(float.fromhex(pi_third))
    ln2_high, ln2_low = _split(ln2, 42)
    ln2_low_rest = ln2 - mp.mpf(float.fromhex(ln2_high)) - mp.mpf(float.fromhex(ln2_low))
    log2e_high, log2e_low = _split(log2e, 24)
    ln2_high_f32, ln2_low_f32 = _split(ln2, 15, 24)
    scalars = {
        "LOG2E": _hex(log2e, 64),
        "LOG2E_F32": _hex(log2e, 32),
        "TWO_LOG2E_F32": _hex(2 * log2e, 32),
        "LOG2E_HIGH": log2e_high,
        "LOG2E_LOW": log2e_low,
        "LN2_HIGH": ln2_high,
        "LN2_LOW": ln2_low,
        "LN2_LOW_REST": _hex(ln2_low_rest, 64),
        "LN2_HIGH_F32": ln2_high_f32,
        "LN2_LOW_F32": ln2_low_f32,
        "HALF_LN2_F32": _hex(ln2 / 2, 32),
        "TWO_OVER_PI": _hex(2 / mp.pi, 64),
        "HALF_PI_1": pi_1,
        "HALF_PI_2": pi_mid,
        "HALF_PI_3": pi_third,
        "HALF_PI_4": _hex(pi_low, 64),
        "HALF_PI": _hex(pi_2, 64),
        "HALF_PI_LOW": _hex(pi_2 - mp.mpf(float(pi_2)), 64),
        "QUARTER_PI": _hex(pi_2 / 2, 64),
        "QUARTER_PI_LOW": _hex(pi_2 / 2 - mp.mpf(float(pi_2 / 2)), 64),
        "PI": _hex(mp.pi, 64),
        "PI_LOW": _hex(mp.pi - mp.mpf(float(mp.pi)), 64),
    }
    inverse, high, low = _pow_table()
    lines = ['"""Constants of the transcendental programs. Generated by `python -m hlo2tx8.device.approx.fit`."""', ""]
    lines += [f'{name} = float.fromhex("{value}")' for name, value in scalars.items()]
    for name, values in _polynomials().items():
        lines += [f"{name}_POLY: tuple[str, ...] = (", *(f'    "{v}",' for v in values), ")"]
    lines += [
        "# 2/pi in words of 32 bits, the binary point after the two leading zero words.",
        *_rows("TWO_OVER_PI_WORDS", [f"0x{w:08X}" for w in [0, 0, *words]], "int"),
    ]
    lines += [f"POW_FIRST = {POW_FIRST}"]
    lines += [*_rows("POW_INVERSE", inverse, "str"), *_rows("POW_LOG_HIGH", high, "str"), *_rows("POW_LOG_LOW", low, "str")]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Writes `coefficients.py` again and returns the exit code, 0."""
    text = generate()
    if "--check" in arguments:
        return 0 if TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
