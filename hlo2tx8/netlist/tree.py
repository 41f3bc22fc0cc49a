"""YAML text as a tree that knows its lines: scalars stay text, lists and maps keep their order and their duplicate keys."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from hlo2tx8.errors import NetlistError

DEEPEST = 64
QUOTES = "'\"|>"
MOST_NODES = 4_000_000
"""Of the written-out tree: an alias counts as what it stands for."""
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_WHOLE = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|\d+)$")
_WORDS = {"inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True)
class Scalar:
    """A word, a number or text, as it is written; quoted text is never a boolean, a number or nothing."""

    text: str
    line: int
    is_quoted: bool = False
    size: int = 1


@dataclass(frozen=True)
class Items:
    """A list. `size` is how many nodes it has, itself and those of its items."""

    items: tuple["Node", ...]
    line: int
    size: int


@dataclass(frozen=True)
class Pairs:
    """A map, with every key as often as the file has it."""

    pairs: tuple[tuple[Scalar, "Node"], ...]
    line: int
    size: int


Node: TypeAlias = Scalar | Items | Pairs


@dataclass
class _Open:
    """A list or map whose end has not come."""

    is_map: bool
    line: int
    label: str | None
    nodes: list[Node]


def parse_tree(text: str | bytes, name: str) -> Node:
    """The one document of the text; NetlistError with name and line where it is not YAML, too deep or too large."""
    labelled: dict[str, Node] = {}
    top = _Open(False, 1, None, [])
    stack = [top]
    try:
        for event in _events(text):
            line = int(event.start_mark.line) + 1
            match event:
                case yaml.ScalarEvent():
                    node: Node = Scalar(event.value, line, event.style in tuple(QUOTES))
                    label = event.anchor
                case yaml.AliasEvent():
                    if event.anchor not in labelled:
                        raise NetlistError(f"*{event.anchor} stands for nothing before it", origin=f"{name}:{line}")
                    node, label = labelled[event.anchor], None
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    if len(stack) > DEEPEST:
                        raise NetlistError(f"lists and maps are more than {DEEPEST} deep", origin=f"{name}:{line}")
                    stack.append(_Open(isinstance(event, yaml.MappingStartEvent), line, event.anchor, []))
                    continue
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    done = stack.pop()
                    node, label = _closed(done, name), done.label
                case _:
                    continue
            if node.size > MOST_NODES:
                raise NetlistError(f"more than {MOST_NODES} values", origin=f"{name}:{line}")
            if label is not None:
                labelled[label] = node
            stack[-1].nodes.append(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise NetlistError(f"not YAML: {getattr(error, 'problem', None) or error}", origin=f"{name}:{line}") from None
    if len(top.nodes) != 1:
        raise NetlistError(f"{len(top.nodes)} YAML documents instead of one", origin=name)
    return top.nodes[0]


def _events(text: str | bytes) -> Iterator[Any]:
    yield from yaml.parse(text, LOADER)  # pyright: ignore


def _closed(done: _Open, name: str) -> Node:
    size = 1 + sum(node.size for node in done.nodes)
    if not done.is_map:
        return Items(tuple(done.nodes), done.line, size)
    pairs: list[tuple[Scalar, Node]] = []
    for key, value in zip(done.nodes[::2], done.nodes[1::2], strict=True):
        if not isinstance(key, Scalar):
            raise NetlistError("a key is a list or a map", origin=f"{name}:{key.line}")
        if key.text != "<<" or key.is_quoted:
            pairs.append((key, value))
            continue
        for other in value.items if isinstance(value, Items) else (value,):
            if not isinstance(other, Pairs):
                raise NetlistError("<< merges maps only", origin=f"{name}:{key.line}")
            own = {key.text for key, _ in done_keys(done)}
            pairs += [pair for pair in other.pairs if pair[0].text not in own]
    return Pairs(tuple(pairs), done.line, size)


def done_keys(done: _Open) -> list[tuple[Scalar, Node]]:
    """The pairs of a map that is read so far."""
    return [(key, value) for key, value in zip(done.nodes[::2], done.nodes[1::2], strict=True) if isinstance(key, Scalar)]


def boolean_of(text: str) -> bool | None:
    """True or false in any case; None for other text."""
    return {"true": True, "false": False}.get(text.lower())


def number_of(text: str) -> int | float | None:
    """A number as netlists write it: 12, 0x3000, 1e-3, -.5, .inf, .nan; None for other text."""
    if _WHOLE.match(text):
        return int(text, 16) if "x" in text.lower() else (int(text) if len(text) < 40 else None)
    if _NUMBER.match(text):
        return float(text)
    sign, word = (-1.0 if text.startswith("-") else 1.0), text.lstrip("+-").lstrip(".").lower()
    return sign * _WORDS[word] if word in _WORDS and len(text) - len(word) <= 2 and text.lower() != word else None


def is_nothing(node: Node) -> bool:
    """Whether a value is empty: nothing written, null, ~, or None."""
    return isinstance(node, Scalar) and not node.is_quoted and node.text in ("", "~", "null", "None", "none")
