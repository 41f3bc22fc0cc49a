"""Python functions that programs call: jax.pure_callback, io_callback, debug.print and debug.callback."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from hlo2tx8.errors import HostError, InputError

Array = npt.NDArray[Any]
HOST_CALL_TARGET = "tx8_host_call"
"""The custom call of a host function; its backend_config is the function's name."""


class HostFunction:
    """A Python function from arrays to a tuple of arrays. It lives as long as a program that may call it refers to it."""

    def __init__(self, call: Callable[..., Sequence[Any]]) -> None:
        self.call = call


class HostFunctions:
    """Host functions by name, held weakly.

    Names are unique over all processes, so that a cached program never calls another function than it was compiled for.
    """

    def __init__(self) -> None:
        self.functions: WeakValueDictionary[str, HostFunction] = WeakValueDictionary()

    def add(self, function: HostFunction) -> str:
        """Registers a function; returns its new name."""
        name = uuid.uuid4().hex
        self.functions[name] = function
        return name

    def find(self, name: str) -> HostFunction:
        """The function of a name; HostError E1010 if it no longer exists, or was registered in another process."""
        function = self.functions.get(name)
        if function is None:
            raise HostError("E1010", "the Python function that the program calls is gone")
        return function


def call_host(
    function: HostFunction, arrays: Sequence[Array], types: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
) -> list[Array]:
    """The function's results; InputError E1004 if they don't have these shapes and dtypes. Raises what the function raises."""
    results = [np.asarray(value) for value in function.call(*arrays)]
    for number, (array, (shape, dtype)) in enumerate(zip(results, types, strict=True)):
        if array.shape != shape or array.dtype != dtype:
            raise InputError("E1004", f"a callback's result {number} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}")
    return [np.array(array, order="C") for array in results]
