"""ONNX models as files hold them: bytes to protos, tensors to arrays, also those whose elements are in files beside the model."""

# pyright: basic

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo2tx8.errors import Hlo2tx8Error, InputError, ParseError
from hlo2tx8.frontend.onnx.conversion import dtype_of
from hlo2tx8.frontend.onnx.package import onnx_module
from hlo2tx8.frontend.onnx.table import Refused
from hlo2tx8.frontend.traced import first_line

EXTERNAL = 1


@dataclass(frozen=True)
class ModelFile:
    """A ModelProto, what it is called in messages, and the folder that its external data are in; None where it has none."""

    model: Any
    name: str
    folder: Path | None = None

    @classmethod
    def of(cls, source: Any, name: str = "<onnx>", folder: Path | None = None) -> "ModelFile":
        """A model of its bytes, or of a proto; ParseError if the bytes are none."""
        if isinstance(source, str):
            raise ParseError("E1003", f"{name}: no ONNX model but text")
        package = onnx_module()
        if not isinstance(source, bytes):
            return cls(source, name, folder)
        try:
            model = package.load_model_from_string(source)
        except Exception as error:  # protobuf's implementations have different ones
            raise ParseError("E1003", f"{name}: no ONNX model: {first_line(error)}") from None
        if not model.HasField("graph") or not model.opset_import:
            raise ParseError("E1003", f"{name}: no ONNX model: it has no {'opset' if model.HasField('graph') else 'graph'}")
        return cls(model, name, folder)

    def array(self, tensor: Any) -> np.ndarray[Any, Any]:
        """The elements of a tensor; Refused for strings, ParseError where they do not fit its dims, InputError for external data
        that cannot be read.
        """
        dtype = dtype_of(tensor.data_type)
        try:
            if tensor.data_location == EXTERNAL:
                return self._external(tensor, dtype)
            return np.asarray(onnx_module("numpy_helper").to_array(tensor), dtype)
        except (Hlo2tx8Error, Refused):
            raise
        except Exception as error:
            raise ParseError("E1003", f"{self.name}: tensor {tensor.name!r}: {first_line(error)}") from None

    def dense(self, sparse: Any) -> np.ndarray[Any, Any]:
        """The elements of a sparse tensor, those that it does not have as 0."""
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        found = np.zeros(tuple(sparse.dims), values.dtype)
        places = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), found.shape)
        found.reshape(-1)[places] = values
        return found

    def _external(self, tensor: Any, dtype: Any) -> np.ndarray[Any, Any]:
        """Elements in another file, which must be in the model's folder or one inside of it."""
        where = {entry.key: entry.value for entry in tensor.external_data}
        location = where.get("location", "")
        if self.folder is None:
            raise InputError("E1004", f"{self.name}: elements of {tensor.name!r} are in {location}; give the path of the model")
        root = self.folder.resolve()
        path = (root / location).resolve()
        if not location or Path(location).is_absolute() or not path.is_relative_to(root):
            raise InputError("E1004", f"{self.name}: elements of {tensor.name!r} are not in the model's folder: {location!r}")
        count = math.prod(tensor.dims)
        bits = dtype_bits(dtype)
        offset, size = int(where.get("offset", 0)), -(-count * bits // 8)
        if min(offset, count, *tensor.dims, 0) < 0 or int(where.get("length", size)) < size:
            raise ParseError("E1003", f"{self.name}: tensor {tensor.name!r}: {where} holds fewer than {size} bytes")
        try:
            raw = np.fromfile(path, np.uint8, size, offset=offset)
        except OSError as error:
            raise InputError("E1004", f"{path}: {error.strerror}") from None
        if raw.size != size:
            raise ParseError("E1003", f"{path}: has no {size} bytes from {offset} on, for {tensor.name!r}")
        if bits < 8:
            tensor.raw_data = raw.tobytes()
            tensor.data_location = 0
            return np.asarray(onnx_module("numpy_helper").to_array(tensor), dtype)
        return raw.view(np.dtype(dtype).newbyteorder("<") if dtype.kind in "iuf" else dtype).reshape(tuple(tensor.dims))


def dtype_bits(dtype: Any) -> int:
    """How many bits an element has in a file."""
    name = dtype.name
    if "float4" in name:
        return 4
    return int(name[-1]) if name in ("int2", "uint2", "int4", "uint4") else dtype.itemsize * 8
