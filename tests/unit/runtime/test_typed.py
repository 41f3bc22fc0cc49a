"""Values of JSON documents are of the types that the dataclasses they become have, or are refused with their place."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

import pytest

from hlo2tx8.runtime.typed import typed


class Color(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Whole:
    color: Color
    pairs: tuple[Pair, ...]
    word: Literal["a", "b"] = "a"
    size: int | None = None
    by_name: Mapping[str, float] | None = None


def test_everything_at_once():
    given = {"color": "red", "pairs": [[1, "x"], [2, "y"]], "word": "b", "size": None, "by_name": {"z": 1}}
    assert typed(Whole, given, "w") == Whole(Color.RED, (Pair(1, "x"), Pair(2, "y")), "b", None, {"z": 1.0})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"color": "blue"}, "'blue' is not a valid Color"),
        ({"pairs": [[1, 2]]}, r"w.pairs\[0\].right is '2', not str"),
        ({"pairs": [[1]]}, r"w.pairs\[0\] is .*, not Pair"),
        ({"pairs": {}}, "w.pairs is '{}', not tuple"),
        ({"word": "c"}, "w.word is 'c', not"),
        ({"size": True}, "w.size is 'True', not int"),
        ({"size": 1.0}, "w.size is '1.0', not int"),
        ({"by_name": {"z": "1"}}, "w.by_name.z is '1', not float"),
        ({"extra": 1}, "w: extra is unknown"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        typed(Whole, {"color": "red", "pairs": []} | changed, "w")


def test_a_missing_field():
    with pytest.raises(ValueError, match="w: pairs is missing"):
        typed(Whole, {"color": "red"}, "w")
