import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.errors import ContainerError
from hlo2tx8.runtime.tensors import decode_tensors, encode_tensors

DTYPES = [np.bool_, np.int8, np.uint64, np.float16, np.float64, np.complex64, ml_dtypes.bfloat16]
SMALL = [ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn]


@pytest.mark.parametrize("dtype", DTYPES + SMALL, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(2, 1), (), (0, 3)])
def test_round_trip(dtype: type, shape: tuple[int, ...]):
    array = np.ones(shape, dtype)
    back = decode_tensors(encode_tensors({"x": array, "y": np.arange(3)}))["x"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, shape, array.tobytes())


@pytest.mark.parametrize("cut", [0, 4, 12, -1])
def test_damaged_files_are_refused(cut: int):
    data = encode_tensors({"x": np.ones(8, np.float32)})
    with pytest.raises(ContainerError, match="cannot be read"):
        decode_tensors(data[:cut])
