"""Strings, tables and named values in C's form, which live as long as the Python object that owns them."""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from hlo2tx8.pjrt.abi import NamedValue

_STRING, _INT64, _INT64_LIST, _FLOAT, _BOOL = range(5)


class COwned:
    """Memory that is handed to C, and is freed together with this object."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def text(self, value: str | bytes) -> tuple[int, int]:
        """Address and size of a string, which is followed by a zero."""
        data = value.encode() if isinstance(value, str) else value
        buffer = ctypes.create_string_buffer(data, len(data) + 1)
        return self.address(buffer), len(data)

    def address(self, thing: Any) -> int:
        """The address of a ctypes object."""
        self.kept.append(thing)
        return ctypes.addressof(thing)

    def pointers(self, values: Sequence[int | None]) -> int:
        """A table of pointers."""
        return self.address((ctypes.c_void_p * max(1, len(values)))(*values))

    def sizes(self, values: Sequence[int]) -> int:
        """A table of size_t or int64."""
        return self.address((ctypes.c_int64 * max(1, len(values)))(*values))

    def texts(self, values: Sequence[str | bytes]) -> tuple[int, int]:
        """A table of strings and one of their sizes."""
        pairs = [self.text(value) for value in values]
        return self.pointers([address for address, _ in pairs]), self.sizes([size for _, size in pairs])

    def named_values(self, values: Mapping[str, object]) -> int:
        """An array of PJRT_NamedValue."""
        array = (NamedValue * max(1, len(values)))()
        for entry, (name, value) in zip(array, values.items(), strict=False):
            entry.struct_size = ctypes.sizeof(NamedValue)
            entry.name, entry.name_size = self.text(name)
            entry.type, entry.value, entry.value_size = self._value(value)
        return self.address(array)

    def _value(self, value: object) -> tuple[int, int, int]:
        match value:
            case bool():
                return _BOOL, int(value), 1
            case int():
                return _INT64, value, 1
            case float():
                return _FLOAT, int(struct.unpack("<I", struct.pack("<f", value))[0]), 1
            case str():
                address, size = self.text(value)
                return _STRING, address, size
            case list() | tuple():
                numbers: list[int] = [int(v) for v in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                return _INT64_LIST, self.sizes(numbers), len(numbers)
            case _:
                raise TypeError(f"no named value of a {type(value).__name__}")


def read_text(address: int | None, size: int) -> str:
    """A C string of that size."""
    return ctypes.string_at(address, size).decode() if address and size else ""


def read_named_values(address: int | None, count: int) -> dict[str, object]:
    """The values of an array of PJRT_NamedValue."""
    values: dict[str, object] = {}
    if not address:
        return values
    for entry in (NamedValue * count).from_address(address):
        name = read_text(entry.name, entry.name_size)
        match int(entry.type):
            case 0:
                values[name] = read_text(entry.value, entry.value_size)
            case 1:
                values[name] = int(entry.value)
            case 2:
                values[name] = list((ctypes.c_int64 * entry.value_size).from_address(entry.value)) if entry.value_size else []
            case 3:
                values[name] = struct.unpack("<f", struct.pack("<I", entry.value & 0xFFFFFFFF))[0]
            case _:
                values[name] = bool(entry.value & 0xFF)
    return values


def read_pointers(address: int | None, count: int) -> list[int]:
    """The pointers in a table."""
    return (ctypes.c_void_p * count).from_address(address)[:] if address and count else []  # type: ignore


def read_int64s(address: int | None, count: int) -> tuple[int, ...]:
    """The numbers in a table of int64."""
    return tuple((ctypes.c_int64 * count).from_address(address)) if address and count else ()
