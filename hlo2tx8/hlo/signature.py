"""The arrays that a module takes and returns: names, shapes, dtypes, and the check of a caller's arrays."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import prod
from operator import attrgetter
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute

from hlo2tx8.dialects.layout import is_row_major, minor_to_major
from hlo2tx8.errors import CapacityError, InputError
from hlo2tx8.hlo.module import find_main
from hlo2tx8.hlo.types import numpy_dtype

Array = npt.NDArray[Any]
SIGNATURE = "hlo.signature"
"""Attribute of @main: the type it had before the arrays it takes and gives were taken apart."""
VALUE = "hlo.value"
"""Attribute of an argument of @main: the numbers it must be, because shapes were made from them."""
PREFIX = {"float": "f", "bfloat": "bf", "int": "s", "uint": "u", "bool": "pred", "complex": "c"}
ONLY_NUMPY = frozenset({np.ndarray})
DTYPE_OF, SHAPE_OF, IS_CONTIGUOUS = attrgetter("dtype"), attrgetter("shape"), attrgetter("flags.c_contiguous")
NUMBERS = (bool, int, float, complex)
"""Python's types of numbers, each of which holds those before it."""
NARROWED = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
"""What jax makes of dtypes of 64 bits where it has not been told to keep them."""


@cache
def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of that numpy or ml_dtypes name."""
    return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True)
class Port:
    """One input or output: `bf16[6,512,4096]` is shape (6, 512, 4096) of dtype name "bfloat16".

    `layout` is minor to major, () for row major. Callers pass and get arrays in logical order; in DDR the elements are in the
    layout's order. In the compiler a complex array is an array of pairs of floats, [..., 2]. `value` are the only elements, in row
    major order, that an input may have: the program's shapes depend on them.
    """

    shape: tuple[int, ...]
    dtype: str
    name: str = ""
    layout: tuple[int, ...] = ()
    value: tuple[int | float, ...] | None = None

    @property
    def size_bytes(self) -> int:
        """The size in DDR."""
        return prod(self.shape) * dtype_of(self.dtype).itemsize

    def to_device(self, array: Array) -> Array:
        """The elements in the order they have in DDR, in an array of the logical shape."""
        if not self.layout:
            return array
        return np.ascontiguousarray(np.transpose(array, self.layout[::-1])).reshape(self.shape)

    def from_device(self, array: Array) -> Array:
        """The inverse of `to_device`."""
        array = self.put_together(array)
        if not self.layout:
            return array
        order = self.layout[::-1]
        physical = array.reshape([self.shape[dim] for dim in order])
        return np.ascontiguousarray(np.transpose(physical, np.argsort(order)))

    def taken_apart(self, array: Array) -> Array:
        """A complex array as pairs of floats, [..., 2]; any other array unchanged."""
        if array.dtype.kind != "c":
            return array
        part = np.dtype(f"float{4 * array.dtype.itemsize}")
        return np.ascontiguousarray(array).reshape(-1).view(part).reshape(*array.shape, 2)

    def put_together(self, array: Array) -> Array:
        """The inverse of `taken_apart`."""
        dtype = dtype_of(self.dtype)
        if dtype.kind != "c" or array.dtype == dtype:
            return array
        return np.ascontiguousarray(array).reshape(-1).view(dtype).reshape(self.shape)

    def __str__(self) -> str:
        return f"{short_dtype(self.dtype)}[{','.join(map(str, self.shape))}]"


def short_dtype(name: str) -> str:
    """HLO's word for a dtype name: float32 → f32, int8 → s8, bool → pred, float8_e4m3fn → f8e4m3fn."""
    stem = name.rstrip("0123456789")
    if stem in PREFIX and "_" not in name:
        return PREFIX[stem] + name[len(stem) :]
    return name.replace("float", "f", 1).replace("_", "")


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of @main in order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def check(self, arrays: Sequence[object], *, is_narrowing: bool = False) -> tuple[Array, ...]:
        """The arrays as numpy arrays in C order; InputError on a wrong count, shape or dtype.

        Python's numbers become the input's dtype. is_narrowing: so do arrays of 64 bits where it has 32, as in jax.
        """
        if len(arrays) != len(self.inputs):
            wanted = ", ".join(map(str, self.inputs))
            raise InputError("E1004", f"takes {len(self.inputs)} inputs ({wanted}), got {len(arrays)}")
        checked = cast("tuple[Array, ...]", tuple(arrays))
        if not self._fit(checked):
            checked = tuple(
                _checked(index, port, array, is_narrowing)
                for index, (array, port) in enumerate(zip(arrays, self.inputs, strict=True))
            )
        for index, value in self._bound:
            if tuple(checked[index].ravel()) != value:
                raise InputError("E1004", f"input {index} should be {list(value)}, which shapes depend on, got {checked[index]}")
        return checked

    @cached_property
    def _bound(self) -> tuple[tuple[int, tuple[int | float, ...]], ...]:
        return tuple((index, port.value) for index, port in enumerate(self.inputs) if port.value is not None)

    def _fit(self, arrays: Sequence[Any]) -> bool:
        """Are all of them what `check` gives? Asked of all together, of which there may be hundreds, for each run."""
        if not set(map(type, arrays)) <= ONLY_NUMPY:
            return False
        shapes, dtypes = self._wanted
        if list(map(DTYPE_OF, arrays)) != dtypes or list(map(SHAPE_OF, arrays)) != shapes:
            return False
        return all(map(IS_CONTIGUOUS, arrays))

    @cached_property
    def _wanted(self) -> tuple[list[tuple[int, ...]], list[np.dtype[Any]]]:
        return [port.shape for port in self.inputs], [dtype_of(port.dtype) for port in self.inputs]

    @cached_property
    def is_plain(self) -> bool:
        """True if all arrays have the same bytes in DDR as in the caller's memory: row major, and not complex."""
        return not any(port.layout or dtype_of(port.dtype).kind == "c" for port in (*self.inputs, *self.outputs))

    def check_capacity(self, ddr_bytes: int) -> None:
        """CapacityError where one array, or all of them together, exceed the DDR."""
        ports = (*self.inputs, *self.outputs)
        for port in ports:
            if port.size_bytes > ddr_bytes:
                raise CapacityError("E1005", f"{port} needs {port.size_bytes:,} bytes, the chip's DDR holds {ddr_bytes:,}")
        total = sum(port.size_bytes for port in ports)
        if total > ddr_bytes:
            raise CapacityError("E1005", f"inputs and outputs need {total:,} bytes, the chip's DDR holds {ddr_bytes:,}")


def _checked(index: int, port: Port, value: object, is_narrowing: bool) -> Array:
    array, dtype = array_of(value), dtype_of(port.dtype)
    if array.shape == port.shape and array.dtype != dtype:
        is_same = is_narrowing and NARROWED.get(array.dtype.name) == port.dtype
        if _can_be(value, dtype) if type(value) in NUMBERS else is_same:
            array = array.astype(dtype)
    if array.shape != port.shape or array.dtype != dtype:
        raise InputError("E1004", f"input {index} should be {port}, got {Port(array.shape, array.dtype.name)}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _can_be(number: object, dtype: np.dtype[Any]) -> bool:
    """Has a dtype a value for a number of Python: an integer in its range, a float for a dtype that is no integer's?"""
    name = dtype.name
    kind = next(
        rank for rank, words in enumerate((("bool",), ("int", "uint"), ("float", "bfloat"), ("complex",))) if name.startswith(words)
    )
    if NUMBERS.index(type(number)) > kind:
        return False
    if kind == 1:
        limits = ml_dtypes.iinfo(dtype)
        return isinstance(number, int) and int(limits.min) <= number <= int(limits.max)
    return True


def array_of(value: Any) -> Array:
    """What numpy makes of a value; tensors of torch also where they have gradients, or dtypes that numpy does not know."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return np.asarray(value)
    tensor: Any = value.detach().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    if not hasattr(ml_dtypes, name):
        return tensor.numpy()
    return tensor.view(torch.uint8 if tensor.element_size() == 1 else torch.int16).numpy().view(dtype_of(name))


def signature_of(module: ModuleOp) -> Signature:
    """The inputs and outputs of @main as the source has them, also after passes have changed them."""

    main = find_main(module)
    types = main.attributes.get(SIGNATURE, main.function_type)
    assert isinstance(types, FunctionType)
    inputs = tuple(map(port_of, types.inputs))
    if main.arg_attrs is not None:
        inputs = tuple(replace(port, value=_value_in(given.data)) for port, given in zip(inputs, main.arg_attrs.data, strict=True))
    return Signature(inputs, tuple(map(port_of, types.outputs)))


def _value_in(attributes: Mapping[str, Attribute]) -> tuple[int | float, ...] | None:
    value = attributes.get(VALUE)
    return tuple(cast("DenseArrayBase[IntegerType]", value).get_values()) if isinstance(value, DenseArrayBase) else None


def port_of(type_: Attribute) -> Port:
    """Shape and dtype of a tensor type; InputError for tokens, tuples and dynamic shapes."""

    if not isinstance(type_, TensorType):
        raise InputError("E1004", f"{type_} is no array")
    tensor = cast("TensorType[Attribute]", type_)
    if not tensor.has_static_shape():
        raise InputError("E1004", f"{type_} has no static shape")
    layout = () if is_row_major(tensor) else minor_to_major(tensor)
    return Port(tuple(tensor.get_shape()), numpy_dtype(tensor.get_element_type()).name, layout=layout)
