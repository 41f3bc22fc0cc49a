"""Tensors of torch as numpy arrays and back, in the same memory where both have the dtype or the one can pretend to."""

# pyright: basic

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.torch.package import torch_module

VIEWED = {
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
}
"""dtypes that numpy gets from ml_dtypes, and those of the same size under which their memory is handed over."""


@cache
def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of numpy for one of torch; InputError if there is none."""
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(getattr(ml_dtypes, name) if name in VIEWED else name)
    except (AttributeError, TypeError):
        raise InputError("E1004", f"there are no arrays of {dtype}") from None


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """A tensor's elements, in its memory if it is on the host; InputError for one that has none there."""
    torch = torch_module()
    dtype = numpy_dtype(tensor.dtype)
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise InputError("E1004", f"takes dense tensors in the host's memory, got {tensor.layout} on {tensor.device}")
    plain = tensor.detach().resolve_conj().resolve_neg()
    if dtype.name in VIEWED:
        return plain.contiguous().view(getattr(torch, VIEWED[dtype.name])).numpy().view(dtype)
    return plain.numpy()


def tensor_of(array: np.ndarray[Any, Any]) -> Any:
    """An array as a tensor in the same memory."""
    torch = torch_module()
    name = array.dtype.name
    if name in VIEWED:
        return torch.from_numpy(array.view(VIEWED[name])).view(getattr(torch, name))
    return torch.from_numpy(array)
