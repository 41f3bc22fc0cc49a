"""Sums of finite numbers are rounded by the host, and have the bits of the definition for all."""

import platform

import numpy as np
import pytest

from hlo2tx8.device.arithmetic.rounding_mode import TOWARD_ZERO, can_round_toward_zero
from hlo2tx8.device.definition import ne_rules
from hlo2tx8.device.formats import Format

KINDS = ("normal", "zeros", "integers", "powers", "far apart", "small", "large", "tiny", "huge", "infinite", "any bits")
FINITE = KINDS[:8]


def drawn(kind: str, shape: tuple[int, int], fmt: Format, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=shape)
    spread = 2.0 ** rng.integers(-12, 13, shape)
    match kind:
        case "zeros":
            x = np.where(x < 0, rng.choice([0.0, -0.0], shape), x)
        case "integers":
            x = np.round(x * 4)
        case "powers":
            x = np.copysign(spread, x)
        case "far apart":
            x = x * spread
        case "small" | "large" | "tiny" | "huge":
            x = x * 2.0 ** {"small": -6, "large": 6, "tiny": -70, "huge": 66}[kind]
        case "infinite":
            x.flat[::17], x.flat[5::19] = np.inf, np.nan
        case "any bits":
            return rng.integers(0, 256, (*shape, fmt.bytes), np.uint8).view(fmt.numpy_dtype)[..., 0]
    with np.errstate(all="ignore"):
        return x.astype(fmt.numpy_dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmt", [Format.BF16, Format.FP16, Format.TF32])
def test_sums_have_the_bits_of_the_definition(fmt: Format, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    cases: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for rows, depth, columns in ((1, 1, 1), (3, 16, 5), (9, 50, 70), (70, 40, 9)):
        psum = drawn(kind if rows > 3 else "normal", (rows, columns), Format.FP32, rng)
        cases.append((drawn(kind, (rows, depth), fmt, rng), drawn(kind, (columns, depth), fmt, rng), psum))
    used: list[str] = []
    for name in ("_chain_on_host", "_halves_on_host"):
        chain = getattr(ne_rules, name)
        monkeypatch.setattr(ne_rules, name, lambda *given, chain=chain: (used.append(kind), chain(*given))[1])
    with np.errstate(all="ignore"):
        found = [ne_rules.accumulate(*case, fmt) for case in cases]
        monkeypatch.setattr(ne_rules, "can_round_toward_zero", lambda: False)
        expected = [ne_rules.accumulate(*case, fmt) for case in cases]
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]
    assert bool(used) or kind not in FINITE or not can_round_toward_zero()


def test_processors_whose_modes_are_known_round_toward_zero() -> None:
    assert can_round_toward_zero() == (platform.machine() in TOWARD_ZERO)


def test_what_is_too_small_to_be_seen_rounds_toward_zero_all_the_same() -> None:
    """1 - 2^-60 is less than 1, though FP64 does not have it."""
    left, right = np.array([[1.0, -(2.0**-30)]], np.float32), np.array([[1.0, 2.0**-30], [-1.0, -(2.0**-30)]], np.float32)
    below = np.nextafter(np.float32(1), np.float32(0))
    assert ne_rules.accumulate(left, right, None, Format.TF32).tolist() == [[below, -below]]
    assert ne_rules.accumulate(left[:, ::-1], right[:, ::-1], None, Format.TF32).tolist() == [[below, -below]]
