"""Bounds that are carried through a module: results computed by other roundings are within them, what is exact has none."""

import numpy as np
import pytest

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.error_bounds import evaluate_with_bounds

Array = np.ndarray


def bounds_of(body: str, *arrays: Array, is_xla: bool = False) -> list[Array]:
    """The bounds of the outputs of an entry computation; the results are the evaluator's."""
    module = load_source(f"HloModule m\n{body}", format="hlo")
    found, bounds = evaluate_with_bounds(module, *arrays, is_xla=is_xla)
    for one, other in zip(found, evaluate(module, *arrays), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    return bounds


ADDS = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
MAX = "max {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] maximum(a, b)\n}\n"


def test_moves_and_integers_are_exact() -> None:
    (bound,) = bounds_of(
        "ENTRY e {\n x = s32[4] parameter(0)\n y = s32[4] add(x, x)\n ROOT z = s32[4] reverse(y), dimensions={0}\n}",
        np.arange(4, dtype=np.int32),
    )
    assert not bound.any()


def test_cancellation_makes_a_bound_that_is_large_only_where_it_happens() -> None:
    text = "ENTRY e {\n x = f32[2] parameter(0)\n y = f32[2] exponential(x)\n z = f32[2] log(y)\n ROOT d = f32[2] subtract(x, z)\n}"
    (bound,) = bounds_of(text, np.array([8.0, 1e-3], np.float32))
    assert 2.0**-21 < bound[0] < 2.0**-17
    assert bound[1] < 2.0**-19


def test_a_comparison_that_may_go_either_way_leaves_what_it_selects_open() -> None:
    text = (
        "ENTRY e {\n x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n"
        " s = f32[2] sine(x)\n c = pred[2] compare(s, y), direction=LT\n"
        " ROOT r = f32[2] select(c, x, y)\n}"
    )
    x = np.array([0.5, 0.5], np.float32)
    y = np.array([np.sin(np.float64(0.5)), 0.0], np.float32)
    (bound,) = bounds_of(text, x, y)
    assert bound[0] == pytest.approx(float(x[0] - y[0]), rel=1e-5)
    assert bound[1] == 0


def test_sums_in_any_order_are_within_the_bound() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 999)).astype(np.float32)
    text = ADDS + (
        "ENTRY e {\n x = f32[64,999] parameter(0)\n"
        " z = f32[] constant(0)\n ROOT r = f32[64] reduce(x, z), dimensions={1}, to_apply=add\n}"
    )
    (bound,) = bounds_of(text, x)
    exact = x.astype(np.float64).sum(1)
    one_by_one = np.zeros(64, np.float32)
    for column in x.T:
        one_by_one = one_by_one + column
    assert (np.abs(one_by_one - exact) < bound).all()
    assert bound.max() < 0.02


def test_a_maximum_is_off_by_no_more_than_its_operands() -> None:
    text = MAX + (
        "ENTRY e {\n x = f32[3,4] parameter(0)\n y = f32[3,4] tanh(x)\n z = f32[] constant(-inf)\n"
        " ROOT r = f32[3] reduce(y, z), dimensions={1}, to_apply=max\n}"
    )
    (bound,) = bounds_of(text, np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    assert (bound > 0).all()
    assert bound.max() <= 4 * 2.0**-24


def test_products_know_the_format_that_multiplies() -> None:
    text = (
        "ENTRY e {\n a = DTYPE[8,16] parameter(0)\n"
        " b = DTYPE[16,4] parameter(1)\n ROOT r = DTYPE[8,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    ones = [np.ones((8, 16)), np.ones((16, 4))]
    single = bounds_of(text.replace("DTYPE", "f32"), *(o.astype(np.float32) for o in ones))[0]
    double = bounds_of(text.replace("DTYPE", "f64"), *ones)[0]
    assert 16 * 2.0**-10 < single.max() < 16 * 2.0**-6
    assert 0 < double.max() < 1e-13


def test_a_loop_whose_condition_is_uncertain_gives_nothing_that_is_known() -> None:
    text = (
        "body {\n p = (f32[], s32[]) parameter(0)\n"
        " x = f32[] get-tuple-element(p), index=0\n i = s32[] get-tuple-element(p), index=1\n"
        " one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[] sine(x)\n ROOT t = (f32[], s32[]) tuple(y, j)\n}\n"
        "cond {\n p = (f32[], s32[]) parameter(0)\n"
        " x = f32[] get-tuple-element(p), index=0\n i = s32[] get-tuple-element(p), index=1\n"
        " LIMIT\n}\n"
        "ENTRY e {\n x = f32[] parameter(0)\n z = s32[] constant(0)\n t = (f32[], s32[]) tuple(x, z)\n"
        " ROOT w = (f32[], s32[]) while(t), condition=cond, body=body\n}"
    )
    counted = text.replace("LIMIT", "n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT")
    measured = text.replace(
        "LIMIT", f"n = f32[] constant({float(np.sin(np.float32(1)))!r})\n ROOT c = pred[] compare(x, n), direction=GT"
    )
    x = np.float32(1).reshape(())
    known, count = bounds_of(counted, x)
    assert 0 < known < 1e-6
    assert count == 0
    assert all(np.isinf(bound) for bound in bounds_of(measured, x))


def test_subnormals_may_be_flushed_by_xla_alone() -> None:
    text = "ENTRY e {\n x = f32[1] parameter(0)\n ROOT y = f32[1] add(x, x)\n}"
    x = np.array([1e-42], np.float32)
    assert bounds_of(text, x)[0] < 1e-43
    assert bounds_of(text, x, is_xla=True)[0] >= np.finfo(np.float32).smallest_normal


def test_products_of_factors_below_the_range_of_bf16_may_be_lost() -> None:
    text = (
        "ENTRY e {\n a = f32[1,8] parameter(0)\n b = f32[8,1] parameter(1)\n"
        " ROOT r = f32[1,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,high}\n}"
    )
    a, b = np.full((1, 8), 1e-43, np.float32), np.full((8, 1), 4.0, np.float32)
    (bound,) = bounds_of(text, a, b)
    assert bound[0, 0] > 8 * 4e-43
