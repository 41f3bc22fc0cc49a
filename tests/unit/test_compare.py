import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.hlo.types import epsilon
from hlo2tx8.tools.compare import compare, describe_difference, differences, named

Array = np.ndarray


def exact(*arrays: Array) -> list[Array]:
    return [np.zeros(a.shape) for a in arrays]


def within(limit: float, *arrays: Array) -> list[Array]:
    return [np.full(a.shape, limit) for a in arrays]


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
    assert not compare([a], [a], exact(a))
    (wrong,) = compare([a], [b], exact(a))
    assert (wrong.count, wrong.elements[0].index) == (1, (2,))


def test_exact_comparison_tells_zeros_apart_and_joins_nans():
    a = np.array([0.0, np.nan, np.inf], np.float32)
    assert not compare([a], [a.copy()], exact(a))
    (wrong,) = compare([a], [np.array([-0.0, np.nan, np.inf], np.float32)], exact(a))
    assert wrong.elements[0].index == (0,)
    assert not compare([a], [np.array([-0.0, np.nan, np.inf], np.float32)], within(1e-300, a))


def test_one_nan_or_wrong_infinity_never_passes():
    good = np.array([1.0, 2.0], np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        broken = np.array([1.0, bad], np.float32)
        assert compare([broken], [good], within(1e9, good))
        assert compare([good], [broken], within(1e9, good))
        assert compare([good], [broken], named([broken], 1e9, 1e9))


def test_each_element_has_a_bound_of_its_own():
    e = np.array([1.0, 1e-3], np.float32)
    a = e + np.float32(1e-6)
    assert not compare([a], [e], [np.array([1e-5, 1e-5])])
    (wrong,) = compare([a], [e], [np.array([1e-5, 1e-7])])
    assert [element.index for element in wrong.elements] == [(1,)]


def test_nothing_is_said_of_elements_of_which_nothing_is_known():
    e = np.array([1.0, np.inf, 3.0], np.float32)
    a = np.array([5.0, np.nan, 3.0], np.float32)
    unknown = np.array([np.inf, np.inf, 0.0])
    assert not compare([a], [e], [unknown])
    assert "of 2 elements rounding decides" in describe_difference([a], [e], [unknown])


def test_a_mismatch_shows_the_worst_elements_with_what_they_were_allowed():
    e = np.arange(1.0, 10.0, dtype=np.float32)
    a = e.copy()
    a[2], a[7] = 3.5, 8.0625
    a[5] = np.nan
    (wrong,) = compare([a], [e], within(1e-3, e))
    assert [element.index for element in wrong.elements] == [(5,), (2,), (7,)]
    text = str(wrong).splitlines()
    assert text[0].endswith("3 of 9 elements (33.3 %), worst at [5]: got nan, expected 6.0, difference inf, allowed 0.001")
    assert text[1].strip() == "next at [2]: got 3.5, expected 3.0, difference 0.5, allowed 0.001"
    assert len(str(compare([a + 1], [e], exact(e))[0]).splitlines()) == 5


def test_named_bounds_pass_when_either_holds():
    e, a = np.array([100.0]), np.array([100.05])
    assert not compare([a], [e], named([e], 1e-3, 1e-3))
    assert compare([a], [e], named([e], 1e-3, 1e-4))
    assert "worst at [0]: got 100.05" in str(compare([a], [e], named([e], 0.0, None))[0])
    assert not compare([np.array([-0.0])], [np.array([0.0])], named([np.array([0.0])], 0.0, None))


def test_shape_or_dtype_differences_are_mismatches():
    assert compare([np.zeros(2)], [np.zeros(3)], within(9.0, np.zeros(3)))
    (wrong,) = compare([np.zeros(2)], [np.zeros(2, np.float32)], within(9.0, np.zeros(2)))
    assert "instead of" in str(wrong)


def test_scalars_and_empty_arrays():
    assert not compare([np.zeros((0, 3))], [np.zeros((0, 3))], exact(np.zeros((0, 3))))
    one, two = (np.float32(x).reshape(()) for x in (1, 2))
    (wrong,) = compare([one], [two], exact(one))
    assert wrong.elements[0].index == ()


def test_an_infinite_part_of_a_complex_number_does_not_hide_the_other():
    e = np.array([1 + 1j, complex(2, np.inf)], np.complex64)
    near = np.array([1 + 1j, complex(2 + 2e-7, np.inf)], np.complex64)
    assert not compare([near], [e], within(1e-6, e))
    assert compare([near], [e], within(1e-8, e))
    for bad in (complex(2, -np.inf), complex(3, np.inf), complex(np.inf, np.inf), complex(2, np.nan)):
        assert compare([np.array([1 + 1j, bad], np.complex64)], [e], within(1e-6, e))


def test_differences_of_zeros_with_other_signs_are_tiny_and_of_nans_none():
    a, b = np.array([0.0, np.nan, 1.0], np.float32), np.array([-0.0, np.nan, 1.0], np.float32)
    found = differences(a, b)
    assert 0 < found[0] < 1e-300
    assert list(found[1:]) == [0, 0]
