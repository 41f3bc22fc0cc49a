"""Protobuf messages without their descriptions, read and written field by field."""

import struct
from collections.abc import Iterator


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: an int, or the bytes of a string, message or packed list; ValueError if malformed."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise ValueError("a protobuf field ends after its message")
                yield key >> 3, data[at : at + size]
                at += size
            case 1 | 5:
                size = 8 if key & 7 == 1 else 4
                yield key >> 3, data[at : at + size]
                at += size
            case _:
                raise ValueError(f"no protobuf wire type {key & 7}")


def integers(data: bytes, number: int) -> tuple[int, ...]:
    """A repeated int64 field, packed or not."""
    found: list[int] = []
    for field, value in fields(data):
        if field != number:
            continue
        if isinstance(value, int):
            found.append(_signed(value))
            continue
        at = 0
        while at < len(value):
            item, at = _varint(value, at)
            found.append(_signed(item))
    return tuple(found)


def messages(data: bytes, number: int) -> tuple[bytes, ...]:
    """A repeated message field."""
    return tuple(value for field, value in fields(data) if field == number and isinstance(value, bytes))


def message(number: int, value: int | float | str | bytes) -> bytes:
    """A field: an int64, a double, a string, or a message that was written so."""
    match value:
        case int():
            return _written(number << 3) + _written(value % (1 << 64))
        case float():
            return _written(number << 3 | 1) + struct.pack("<d", value)
        case _:
            data = value.encode() if isinstance(value, str) else value
            return _written(number << 3 | 2) + _written(len(data)) + data


def _written(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a protobuf number does not end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
