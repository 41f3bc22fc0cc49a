"""jax's key-value store, by the functions that PJRT_Client_Create is given."""

import ctypes
from typing import Any

from hlo2tx8.errors import PodError
from hlo2tx8.pjrt.abi import argument_struct
from hlo2tx8.pjrt.jax_side import is_distributed
from hlo2tx8.pjrt.native import PluginLibrary

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Fields = list[tuple[str, Any]]
HEAD: Fields = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]
KEY: Fields = [("key", ctypes.c_void_p), ("key_size", ctypes.c_size_t)]
ERROR: Fields = [("callback_error", ctypes.c_void_p), ("user_arg", ctypes.c_void_p)]


class GetArgs(ctypes.Structure):
    """PJRT_KeyValueGetCallback_Args."""

    _fields_ = (
        *HEAD,
        *KEY,
        ("timeout_in_ms", ctypes.c_int),
        *ERROR,
        ("value", ctypes.c_void_p),
        ("value_size", ctypes.c_size_t),
        ("deleter", ctypes.c_void_p),
    )


class PutArgs(ctypes.Structure):
    """PJRT_KeyValuePutCallback_Args."""

    _fields_ = (*HEAD, *KEY, ("value", ctypes.c_void_p), ("value_size", ctypes.c_size_t), *ERROR)


class JaxKeyValues:
    """The store of `jax.distributed`; calls wait without the GIL."""

    def __init__(self, library: PluginLibrary, args: Any) -> None:
        """`args`: those of PJRT_Client_Create."""
        if not is_distributed():  # the functions are anything then
            raise PodError(
                "several processes need a key-value store", hint="jax.distributed.initialize before the first use of jax"
            )
        self.library: Any = library
        self.getter, self.get_argument = FUNCTION(args.kv_get), args.kv_get_arg
        self.putter, self.put_argument = FUNCTION(args.kv_put), args.kv_put_arg
        self.make_error = ctypes.c_void_p(library.address("tx8_error"))

    def put(self, key: str, value: str) -> None:
        """Writes a value; PodError if the store refuses."""
        name, data = (ctypes.create_string_buffer(text.encode()) for text in (key, value))
        args = PutArgs(
            ctypes.sizeof(PutArgs), None, *_place(name), *_place(data), ctypes.addressof(self.make_error), self.put_argument
        )
        if self.is_refused(self.putter(ctypes.addressof(args))):
            raise PodError(f"the key-value store of jax.distributed does not take {key}")

    def get(self, key: str, seconds: float) -> str | None:
        """The value, None if it is not there in that time."""
        name, wait = ctypes.create_string_buffer(key.encode()), max(1, round(seconds * 1000))
        tail = ctypes.addressof(self.make_error), self.get_argument, None, 0, None
        args = GetArgs(ctypes.sizeof(GetArgs), None, *_place(name), wait, *tail)
        if self.is_refused(self.getter(ctypes.addressof(args))):
            return None
        value = ctypes.string_at(args.value, args.value_size).decode()
        if args.deleter:
            DELETER(args.deleter)(args.value)
        return value

    def is_refused(self, error: int | None) -> bool:
        """Is there an error? It is freed."""
        if error:
            self.library.plain.Error_Destroy(ctypes.byref(argument_struct("Error_Destroy")(error=error)))
        return bool(error)


def _place(text: Any) -> tuple[int, int]:
    return ctypes.addressof(text), len(text) - 1
