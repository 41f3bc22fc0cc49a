import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.tools.compare import Bounds, compare, epsilon

EXACT = Bounds()


def test_epsilon_of_every_float_format():
    assert epsilon(np.dtype(np.float32)) == 2.0**-23
    assert epsilon(np.dtype(ml_dtypes.bfloat16)) == 2.0**-7
    assert epsilon(np.dtype(ml_dtypes.float8_e4m3fn)) == 2.0**-3
    assert epsilon(np.dtype(np.complex64)) == 2.0**-23
    assert epsilon(np.dtype(np.int32)) == epsilon(np.dtype(bool)) == 0


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, ml_dtypes.int4, np.uint64])
def test_integers_agree_exactly_or_not(dtype: type):
    a = np.array([0, 1, 1], dtype)
    b = np.array([0, 1, 0], dtype)
    assert not compare([a], [a], Bounds(relative=1.0))
    (wrong,) = compare([a], [b], Bounds(relative=1.0))
    assert (wrong.count, wrong.index) == (1, (2,))


def test_exact_comparison_tells_zeros_apart_and_joins_nans():
    a = np.array([0.0, np.nan, np.inf], np.float32)
    assert not compare([a], [a.copy()], EXACT)
    (wrong,) = compare([a], [np.array([-0.0, np.nan, np.inf], np.float32)], EXACT)
    assert wrong.index == (0,)


def test_one_nan_or_wrong_infinity_never_passes():
    good = np.array([1.0, 2.0], np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        assert compare([np.array([1.0, bad], np.float32)], [good], Bounds(relative=1e9))
        assert compare([good], [np.array([1.0, bad], np.float32)], Bounds(absolute_bound=1e9))


def test_relative_bound_counts_from_the_largest_value():
    e = np.array([1.0, 1e-3], np.float32)
    a = e + np.float32(1e-6)
    assert not compare([a], [e], Bounds(relative=1e-5))
    assert compare([a], [e], Bounds(relative=1e-7))


def test_named_bounds_pass_when_either_holds():
    e, a = np.array([100.0]), np.array([100.05])
    assert not compare([a], [e], Bounds(absolute_bound=1e-3, relative_bound=1e-3))
    assert compare([a], [e], Bounds(absolute_bound=1e-3, relative_bound=1e-4))
    assert "worst at [0]: got 100.05" in str(compare([a], [e], Bounds(absolute_bound=0.0))[0])


def test_shape_or_dtype_differences_are_mismatches():
    assert compare([np.zeros(2)], [np.zeros(3)], Bounds(absolute_bound=9.0))
    assert compare([np.zeros(2)], [np.zeros(2, np.float32)], Bounds(absolute_bound=9.0))


def test_scalars_and_empty_arrays():
    assert not compare([np.zeros((0, 3))], [np.zeros((0, 3))], EXACT)
    (wrong,) = compare([np.float32(1).reshape(())], [np.float32(2).reshape(())], EXACT)
    assert wrong.index == ()


def test_an_infinite_part_of_a_complex_number_does_not_hide_the_other():
    e = np.array([1 + 1j, complex(2, np.inf)], np.complex64)
    near = np.array([1 + 1j, complex(2 + 2e-7, np.inf)], np.complex64)
    assert not compare([near], [e], Bounds(relative=1e-6))
    assert compare([near], [e], Bounds(relative=1e-8))
    for bad in (complex(2, -np.inf), complex(3, np.inf), complex(np.inf, np.inf), complex(2, np.nan)):
        assert compare([np.array([1 + 1j, bad], np.complex64)], [e], Bounds(relative=1e-6))
