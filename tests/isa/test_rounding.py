"""Every rounding of CT instructions, against exact arithmetic, and by definition and core alike."""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from native_cases import REGION_BYTES, edges, make_fields, run_both

from hlo2tx8.device.arithmetic.float_rules import next_after, widen
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Instruction
from hlo2tx8.device.isa.base import refusal
from hlo2tx8.device.isa.ct_arith import CtAddVV, CtDivVV, CtMulVV, CtRecip, CtSqrt, CtSquare, CtSubVV
from hlo2tx8.device.isa.ct_pool import CtPoolForm
from hlo2tx8.device.isa.ct_reduce import CtReduce, CtReduceAvg, ReduceDim
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.isa.forms import CT_FLOATS, CtV, CtVS, CtVuV, CtVuVLoop, CtVV

BITS = 200
Exact = Callable[[Fraction, Fraction], Fraction]


def root(x: Fraction, _: Fraction) -> Fraction:
    """Cut to so many bits that no number of a format lies between."""
    return Fraction(isqrt(x.numerator * x.denominator << 2 * BITS), x.denominator << BITS) if x > 0 else Fraction(0)


CASES: tuple[tuple[type[Instruction], Exact], ...] = (
    (CtAddVV, lambda x, y: x + y),
    (CtSubVV, lambda x, y: x - y),
    (CtMulVV, lambda x, y: x * y),
    (CtDivVV, lambda x, y: x / y),
    (CtRecip, lambda x, _: 1 / x),
    (CtSquare, lambda x, _: x * x),
    (CtSqrt, root),
)


def operands(fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Positive and negative numbers, large, small and near each other; no NaN, infinity or zero."""
    rng = np.random.default_rng(3)
    near = (1 + rng.integers(-50, 50, 60) * 2.0**-9).astype(np.float32)
    wide = np.exp2(rng.uniform(-12, 12, 60)).astype(np.float32) * rng.choice([-1, 1], 60)
    first = np.concatenate([near, wide]).astype(fmt.numpy_dtype)
    usual = edges(fmt).view(fmt.numpy_dtype)
    with np.errstate(all="ignore"):
        wide = usual.astype(np.float64)
    first = np.concatenate([first, usual[np.isfinite(wide) & (wide != 0)]])
    if fmt is Format.TF32:
        first = (first.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32)
        first = first[first != 0]
    return first, np.ascontiguousarray(rng.permutation(first))


def results(cls: type[Instruction], fmt: Format, rounding: Rounding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the definition gives for the operands, and these."""
    x, y = operands(fmt)
    x = np.abs(x) if cls is CtSqrt else x
    image = np.zeros(1 << 16, np.uint8)
    image[REGION_BYTES : REGION_BYTES + x.nbytes] = x.view(np.uint8)
    image[2 * REGION_BYTES : 2 * REGION_BYTES + y.nbytes] = y.view(np.uint8)
    after, core = run_both([Record(cls, make_fields(cls, x.size, {}), fmt, fmt, rounding)], image)
    assert (after == core).all()
    return after[: x.nbytes].view(x.dtype), x, y


def exact_of(value: np.generic, fmt: Format) -> Fraction | None:
    """None for an infinity."""
    wide = float(widen(np.array([value]), fmt)[0])
    return Fraction(wide) if np.isfinite(wide) else None


@pytest.mark.parametrize("fmt", CT_FLOATS, ids=lambda f: f.name)
@pytest.mark.parametrize(("cls", "exact"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_directed_results_enclose_the_exact_one(cls: type[Instruction], exact: Exact, fmt: Format):
    up, x, y = results(cls, fmt, Rounding.TOWARD_POSITIVE)
    down, *_ = results(cls, fmt, Rounding.TOWARD_NEGATIVE)
    cut, *_ = results(cls, fmt, Rounding.TOWARD_ZERO)
    nearest, *_ = results(cls, fmt, Rounding.NEAREST_EVEN)
    drawn, *_ = results(cls, fmt, Rounding.STOCHASTIC)
    inexact = 0
    for i in range(x.size):
        a, b = exact_of(x[i], fmt), exact_of(y[i], fmt)
        assert a is not None and b is not None
        value = exact(a, b)
        above, below = exact_of(up[i], fmt), exact_of(down[i], fmt)
        assert above is None or above >= value - Fraction(1, 1 << BITS - 40), i
        assert below is None or below <= value, i
        if above == below:
            assert nearest[i] == cut[i] == drawn[i] == up[i], i
            continue
        inexact += 1
        assert next_after(down[i : i + 1], up[i : i + 1], fmt)[0] == up[i], i
        assert cut[i] == (down[i] if value > 0 else up[i]), i
        assert nearest[i] in (up[i], down[i]) and drawn[i] in (up[i], down[i]), i
    assert inexact > 30 or cls is CtSquare


def test_stochastic_results_are_up_as_often_as_they_are_near():
    third = np.full(1000, 3, np.float32)
    image = np.zeros(1 << 16, np.uint8)
    image[REGION_BYTES : REGION_BYTES + third.nbytes] = third.view(np.uint8)
    after, core = run_both([Record(CtRecip, make_fields(CtRecip, 1000, {}), Format.FP32, Format.FP32, Rounding.STOCHASTIC)], image)
    assert (after == core).all()
    found = after[: third.nbytes].view(np.float32)
    low = np.nextafter(np.float32(1 / 3), np.float32(0))
    share = float(Fraction(1, 3) - Fraction(float(low))) / float(np.spacing(low))
    assert abs(np.mean(found > low) - share) < 0.05


TENSORS = [cls for cls in INSTRUCTIONS if issubclass(cls, (CtReduce, CtPoolForm))]


def fields_of(cls: type[Instruction]) -> dict[str, int]:
    """Two batches of 5 x 6 points with 70 channels, windows of 3 x 3."""
    small = {"batch": 2, "h": 5, "w": 6, "c": 70, "dim": ReduceDim.W, "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1}
    regions = {"src": 1, "index": 4}
    return {
        f.name: small.get(f.name, regions.get(f.name, 0) * REGION_BYTES * 2 if f.role.name.startswith("SPM") else 0)
        for f in cls.FIELDS
    }


@pytest.mark.parametrize("rounding", list(Rounding)[1:], ids=lambda r: r.name)
@pytest.mark.parametrize("cls", TENSORS, ids=lambda c: c.__name__)
def test_tensors_are_rounded_alike_by_definition_and_core(cls: type[Instruction], rounding: Rounding):
    for fmt in CT_FLOATS:
        for dim in ReduceDim if issubclass(cls, CtReduce) else (ReduceDim.W,):
            rng = np.random.default_rng(5)
            image = np.zeros(1 << 17, np.uint8)
            data = rng.standard_normal(REGION_BYTES * 2 // fmt.bytes, np.float32).astype(fmt.numpy_dtype)
            image[2 * REGION_BYTES : 2 * REGION_BYTES + data.nbytes] = data.view(np.uint8)
            fields = fields_of(cls) | ({"dim": dim} if issubclass(cls, CtReduce) else {})
            by_mode = [run_both([Record(cls, fields, fmt, fmt, mode)], image) for mode in (rounding, Rounding.NEAREST_EVEN)]
            (after, core), (nearest, _) = by_mode
            assert (after == core).all(), (fmt, dim)
            is_rounded = "Max" not in cls.__name__ and "Min" not in cls.__name__
            is_exact = fmt is Format.FP32 and "Avg" not in cls.__name__
            assert (after != nearest).any() or not is_rounded or is_exact, (fmt, dim)


def test_directed_averages_enclose_the_nearest():
    image = np.zeros(1 << 17, np.uint8)
    data = np.random.default_rng(6).uniform(1, 2, 8192).astype(np.float32)
    image[2 * REGION_BYTES : 2 * REGION_BYTES + data.nbytes // 2] = data[:4096].view(np.uint8)
    up, down, nearest = (
        run_both([Record(CtReduceAvg, fields_of(CtReduceAvg) | {"c": 40}, Format.FP32, Format.FP32, mode)], image)[0][
            : 2 * 5 * 64 * 4
        ]
        for mode in (Rounding.TOWARD_POSITIVE, Rounding.TOWARD_NEGATIVE, Rounding.NEAREST_EVEN)
    )
    high, low, middle = (part.view(np.float32) for part in (up, down, nearest))
    assert (low <= middle).all() and (middle <= high).all() and (low < high).any()


def test_who_takes_a_rounding():
    """Instructions of CT that compute floats; what moves bits, packs or counts them does not."""
    forms = (CtV, CtVV, CtVS, CtVuV, CtVuVLoop, CtReduce, CtPoolForm)
    for cls in (c for c in INSTRUCTIONS if c.ENGINE is Engine.CT):
        wanted = issubclass(cls, forms) and cls.FORM != "RELATION_BITS"
        assert wanted == cls.ROUNDS, cls.MNEMONIC
        if not cls.FORMATS2:
            fmt = cls.FORMATS[0]
            assert all(cls.takes(fmt, fmt, rounding) == wanted for rounding in [*Rounding][1:]), refusal(cls, fmt, fmt, Rounding(1))
