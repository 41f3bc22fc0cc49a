"""Values of a JSON document as the dataclasses that they are written from, every type checked."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints


def typed(kind: Any, value: Any, place: str) -> Any:
    """The value as that type; ValueError, which says it is at `place`, if it is of another.

    Types are int, float, str, bool, None, enums by value, literals, X | None, int | float, tuple[X, ...] of lists, mappings with
    string keys, and dataclasses and named tuples of mappings, or of lists, that have their fields and no others.
    """
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is UnionType:
        return _any_of(get_args(kind), value, place)
    if origin is Literal and value in get_args(kind):
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(typed(get_args(kind)[0], each, f"{place}[{i}]") for i, each in enumerate(cast(list[Any], value)))
    if origin is Mapping and isinstance(value, dict):
        given = cast(dict[str, Any], value)
        return {key: typed(get_args(kind)[1], each, f"{place}.{key}") for key, each in given.items()}
    if isinstance(kind, type):
        return _of_class(kind, value, place)
    raise _wrong(kind, value, place)


def _any_of(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    first = next(kind for kind in kinds if kind is not NoneType)
    return typed(type(value) if type(value) in kinds else first, value, place)


def _of_class(kind: type[Any], value: Any, place: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind in (int, float, str, bool) and type(value) is kind:
        return value
    if issubclass(kind, Enum):
        return kind(value)
    if is_dataclass(kind) and isinstance(value, dict):
        return _of_fields(kind, cast(dict[str, Any], value), place)
    if isinstance(value, list) and len(hints := _hints(kind)) == len(given := cast(list[Any], value)):
        return kind(*(typed(hint, each, f"{place}.{name}") for (name, hint), each in zip(hints.items(), given, strict=True)))
    raise _wrong(kind, value, place)


def _of_fields(kind: type[Any], value: dict[str, Any], place: str) -> Any:
    hints = _hints(kind)
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if odd := sorted({*value} - {*hints} | needed - {*value}):
        raise ValueError(f"{place}: {odd[0]} is {'unknown' if odd[0] in value else 'missing'}")
    return kind(**{name: typed(hints[name], each, f"{place}.{name}") for name, each in value.items()})


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _wrong(kind: Any, value: Any, place: str) -> ValueError:
    return ValueError(f"{place} is {str(value)[:40]!r}, not {getattr(kind, '__name__', kind)}")
