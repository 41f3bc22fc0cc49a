"""Named arrays of any dtype in a .safetensors file; dtypes that safetensors does not know are stored as bytes (U8) and named in the
metadata.

Reading checks every size against the file; nothing in the file is ever executed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save

from hlo2tx8.errors import ContainerError, writing
from hlo2tx8.hlo.signature import dtype_of

Array = npt.NDArray[Any]

NAMES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}


def encode_tensors(arrays: Mapping[str, Array]) -> bytes:
    """The file's bytes; dtypes outside NAMES are stored as U8 and named in the metadata."""
    tensors: dict[str, Array] = {}
    others: dict[str, str] = {}
    for name, array in arrays.items():
        dense = np.ascontiguousarray(array).reshape(array.shape)
        if array.dtype.name in NAMES:
            tensors[name] = dense
            continue
        others[name] = f"{array.dtype.name} {','.join(map(str, array.shape))}"
        tensors[name] = np.frombuffer(dense.tobytes(), np.uint8)
    return save(tensors, metadata=others or None)


def decode_tensors(data: bytes, what: str = "tensors") -> dict[str, Array]:
    """The arrays in a file's bytes; ContainerError where it is not one or sizes disagree."""
    api: Any = safetensors
    try:
        entries = api.deserialize(data)
        header_size = int.from_bytes(data[:8], "little")
        others: dict[str, str] = json.loads(data[8 : 8 + header_size]).get("__metadata__") or {}
        return {name: _array(name, entry, others) for name, entry in entries}
    except (api.SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ContainerError("E1007", f"{what} cannot be read: {error}") from error


def _array(name: str, entry: Any, others: Mapping[str, str]) -> Array:
    by_code = {code: dtype for dtype, code in NAMES.items()}
    dtype, shape = by_code[entry["dtype"]], tuple(entry["shape"])
    if name in others:
        dtype, _, dims = others[name].partition(" ")
        shape = tuple(int(d) for d in dims.split(",") if d)
    return np.frombuffer(bytes(entry["data"]), dtype_of(dtype)).reshape(shape)


def write_tensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a .safetensors file; InputError if it cannot be written."""
    with writing(path):
        path.write_bytes(encode_tensors(arrays))


def read_tensors(path: Path) -> dict[str, Array]:
    """Read a .safetensors file."""
    if not path.is_file():
        raise ContainerError("E1007", f"no file {path}")
    return decode_tensors(path.read_bytes(), str(path))
