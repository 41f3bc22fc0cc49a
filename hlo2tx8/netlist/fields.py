"""Records of a netlist are dataclasses whose fields say how they are read; one reader serves all of them.

A field made by `known` holds the function that turns a node of the YAML tree into its value. `read_record` takes the map, and
refuses what no field is called, what is missing, and what a field's reader refuses, naming the record and the field.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, NoReturn, TypeAlias, TypeVar

from hlo2tx8.errors import NetlistError
from hlo2tx8.netlist.tree import Items, Node, Pairs, Scalar, boolean_of, is_nothing, number_of

T = TypeVar("T")
MOST = 1 << 40
"""No count, size or address is larger."""
NUMBER = r"^[-+]?(\.inf|\.nan|inf|nan|[0-9.]+([eE][-+]?[0-9]+)?)$"
"""Numbers that some readers of YAML take for text."""


@dataclass(frozen=True)
class Place:
    """Where a value stands: the file, and in words what is being read there, as "queue q0, field entries"."""

    file: str
    what: str = ""

    def at(self, more: str) -> "Place":
        return Place(self.file, f"{self.what}, {more}" if self.what else more)

    def refuse(self, message: str, line: int) -> NoReturn:
        raise NetlistError(f"{self.what}: {message}" if self.what else message, origin=f"{self.file}:{line}")


Reader: TypeAlias = Callable[[Node, Place], T]


def means(schema: Mapping[str, Any]) -> Callable[[Reader[T]], Reader[T]]:
    """Gives a reader the JSON schema of what it takes."""

    def marked(read: Reader[T]) -> Reader[T]:
        setattr(read, "schema", schema)  # noqa: B010 (a function has no such attribute)
        return read

    return marked


def schema_of(read: Reader[Any]) -> Mapping[str, Any]:
    """The JSON schema of what a reader takes."""
    return getattr(read, "schema")  # noqa: B009


def known(read: Reader[Any], default: Any = MISSING, *, key: str = "") -> Any:
    """A dataclass field that the file may have, called as in the dataclass or `key`."""
    return field(default=default, metadata={"read": read, "key": key})


def placed() -> Any:
    """A dataclass field with the line where the record begins; not compared."""
    return field(default=0, compare=False, repr=False)


@cache
def readers_of(kind: type) -> Mapping[str, tuple[str, Reader[Any], bool]]:
    """Key in the file -> name in the dataclass, reader, whether it must be there."""
    return {
        f.metadata["key"] or f.name: (f.name, f.metadata["read"], f.default is MISSING)
        for f in fields(kind)
        if "read" in f.metadata
    }


def read_record(kind: type[T], node: Node, place: Place, what: str = "field", skip: Iterable[str] = (), **given: Any) -> T:
    """A dataclass from a map. Keys in `skip` are read by the caller; `given` are values of fields that are not in the file.

    Of a key that is there more than once the last value counts. NetlistError for an unknown key, calling it a `what`.
    """
    readers = readers_of(kind)
    for key, value in pairs_of(node, place):
        if key.text in skip:
            continue
        if key.text not in readers:
            refuse_name(key.text, (*readers, *skip), what, place, key.line)
        name, read, _ = readers[key.text]
        given[name] = read(value, place.at(f"{what} {key.text}"))
    for key, (name, _, is_needed) in readers.items():
        if is_needed and name not in given:
            place.refuse(f"has no {what} {key}", node.line)
    return kind(**given)


def refuse_name(name: str, there_are: Sequence[str], what: str, place: Place, line: int) -> NoReturn:
    """NetlistError for a name that is not known, with the one that was perhaps meant."""
    near = difflib.get_close_matches(name, there_are, n=1)
    place.refuse(f"unknown {what} {name!r}" + (f"; did you mean {near[0]}?" if near else ""), line)


def pairs_of(node: Node, place: Place) -> tuple[tuple[Scalar, Node], ...]:
    """Keys and values of a map; an empty value is an empty map."""
    if is_nothing(node):
        return ()
    return node.pairs if isinstance(node, Pairs) else place.refuse("is not a map", node.line)


def items_of(node: Node, place: Place) -> tuple[Node, ...]:
    """Items of a list; an empty value or None is an empty list."""
    if is_nothing(node):
        return ()
    return node.items if isinstance(node, Items) else place.refuse("is not a list", node.line)


def named_of(node: Node, place: Place, what: str) -> tuple[tuple[str, Node, int], ...]:
    """Names, values and lines of a map of records; a name twice is an error."""
    pairs = pairs_of(node, place)
    seen: set[str] = set()
    for key, _ in pairs:
        if key.text in seen:
            place.refuse(f"{what} {key.text} is there twice", key.line)
        seen.add(key.text)
    return tuple((key.text, value, key.line) for key, value in pairs)


@means({"type": ["string", "number", "boolean", "null"]})
def text(node: Node, place: Place) -> str:
    """Any scalar, as written."""
    return node.text if isinstance(node, Scalar) else place.refuse("is a list or a map instead of a name", node.line)


@means({"type": ["string", "number", "boolean"]})
def nonempty(node: Node, place: Place) -> str:
    """A scalar that is not empty."""
    return text(node, place) or place.refuse("is empty", node.line)


@means({"type": ["boolean", "integer"]})
def boolean(node: Node, place: Place) -> bool:
    """true or false in any case, also 0 and 1."""
    value = {"0": False, "1": True}.get(word := text(node, place), boolean_of(word))
    return place.refuse(f"{word!r} is neither true nor false", node.line) if value is None else value


@means({"type": ["number", "string"], "pattern": NUMBER})
def number(node: Node, place: Place) -> float:
    """A number."""
    value = number_of(word := text(node, place))
    return place.refuse(f"{word!r} is not a number", node.line) if value is None else float(value)


def whole(least: int = 0, most: int = MOST) -> Reader[int]:
    """An integer from `least` to `most`."""

    @means({"type": "integer", "minimum": least, "maximum": most})
    def read(node: Node, place: Place) -> int:
        value = number_of(word := text(node, place))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            place.refuse(f"{word!r} is not an integer", node.line)
        return value if least <= value <= most else place.refuse(f"{word} is not from {least} to {most}", node.line)

    return read


def choice(*words: str) -> Reader[str]:
    """One of these words."""

    @means({"enum": list(words)})
    def read(node: Node, place: Place) -> str:
        word = text(node, place)
        return word if word in words else place.refuse(f"{word!r} is none of {', '.join(words)}", node.line)

    return read


def list_of(read: Reader[T], least: int = 0) -> Reader[tuple[T, ...]]:
    """A list of values of one kind, at least so many."""

    @means({"type": "array" if least else ["array", "null"], "items": schema_of(read), "minItems": least})
    def read_list(node: Node, place: Place) -> tuple[T, ...]:
        items = items_of(node, place)
        if len(items) < least:
            place.refuse(f"has {len(items)} values instead of at least {least}", node.line)
        return tuple(read(item, place) for item in items)

    return read_list


def several(read: Reader[T], count: int) -> Reader[tuple[T, ...]]:
    """A list of exactly so many values of one kind."""

    @means({"type": "array", "items": schema_of(read), "minItems": count, "maxItems": count})
    def read_list(node: Node, place: Place) -> tuple[T, ...]:
        if len(items := items_of(node, place)) != count:
            place.refuse(f"has {len(items)} values instead of {count}", node.line)
        return tuple(read(item, place) for item in items)

    return read_list


def one_or_list(read: Reader[T]) -> Reader[T | tuple[T, ...]]:
    """A value, or a list of such values, which is not empty."""

    @means({"anyOf": [schema_of(read), {"type": "array", "items": schema_of(read), "minItems": 1}]})
    def read_either(node: Node, place: Place) -> T | tuple[T, ...]:
        return list_of(read, 1)(node, place) if isinstance(node, Items) else read(node, place)

    return read_either


def raw(node: Node, place: Place) -> Any:
    """Any tree as str, tuple and dict: parts of a file that are kept and not interpreted."""
    match node:
        case Scalar():
            return node.text
        case Items():
            return tuple(raw(item, place) for item in node.items)
        case Pairs():
            return {key.text: raw(value, place) for key, value in node.pairs}
