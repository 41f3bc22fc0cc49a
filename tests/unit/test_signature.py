import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.errors import CapacityError, InputError
from hlo2tx8.hlo.signature import Port, Signature, short_dtype

SIGNATURE = Signature((Port((2, 3), "bfloat16"), Port((), "int32")), (Port((2, 3), "float32"),))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("bfloat16", "bf16"),
        ("float32", "f32"),
        ("int8", "s8"),
        ("uint64", "u64"),
        ("bool", "pred"),
        ("complex64", "c64"),
        ("float8_e4m3fn", "f8e4m3fn"),
        ("int4", "s4"),
    ],
)
def test_dtypes_have_hlo_names(name: str, short: str):
    assert short_dtype(name) == short


def test_right_inputs_pass_in_c_order():
    x = np.zeros((3, 2), ml_dtypes.bfloat16).T
    a, b = SIGNATURE.check([x, np.int32(4)])
    assert a.flags.c_contiguous
    assert b.shape == ()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], r"takes 2 inputs \(bf16\[2,3\], s32\[\]\), got 0"),
        ([np.zeros((2, 3)), np.int32(1)], r"input 0 should be bf16\[2,3\], got f64\[2,3\]"),
        (
            [np.zeros((2, 3), ml_dtypes.bfloat16), np.zeros(1, np.int32)],
            r"input 1 should be s32\[\], got s32\[1\]",
        ),
    ],
)
def test_wrong_inputs_are_one_clear_line(arrays: list[object], message: str):
    with pytest.raises(InputError, match=message) as caught:
        SIGNATURE.check(arrays)
    assert "\n" not in str(caught.value)


def test_layouts_are_the_devices_business():
    port = Port((2, 3), "int32", layout=(0, 1))
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    there = port.to_device(array)
    assert there.tobytes() == array.T.tobytes()
    assert there.shape == (2, 3)
    assert np.array_equal(port.from_device(there), array)


def test_what_exceeds_ddr_is_refused():
    with pytest.raises(CapacityError, match=r"f32\[17179869185\] needs 68,719,476,740 bytes"):
        Signature((Port((2**34 + 1,), "float32"),), ()).check_capacity(2**36)
    halves = Signature((Port((2**35,), "uint8"),) * 3, ())
    with pytest.raises(CapacityError, match="inputs and outputs need"):
        halves.check_capacity(2**36)
