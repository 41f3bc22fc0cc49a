"""The JSON schema of netlists: samples keep it, and it refuses fields, types, attributes and formats as the reader does."""

import copy
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hlo2tx8.errors import NetlistError
from hlo2tx8.netlist.reader import read_netlist
from hlo2tx8.netlist.schema import netlist_schema

SAMPLES = sorted((Path(__file__).parents[3] / "hlo_samples" / "netlists").glob("*.yaml"))
KINDS = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None), "integer": int, "number": (int, float)}
SCHEMA = netlist_schema()


def is_of(name: str, value: Any) -> bool:
    return isinstance(value, KINDS[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


def keeps(value: Any, schema: Any) -> bool:
    """Does a value keep a schema? The words of JSON schema that this one has."""
    if schema is True or not schema:
        return True
    if "$ref" in schema:
        return keeps(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    kinds = schema.get("type", [])
    right = not kinds or any(is_of(kind, value) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    right &= "enum" not in schema or value in schema["enum"]
    right &= "const" not in schema or value == schema["const"]
    right &= "anyOf" not in schema or any(keeps(value, part) for part in schema["anyOf"])
    right &= all(keeps(value, part["then"]) for part in schema.get("allOf", ()) if keeps(value, part["if"]))
    if is_of("number", value):
        right &= schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        right &= schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        right &= all(keeps(item, part) for item, part in zip(value, first, strict=False))
        right &= all(keeps(item, schema.get("items")) for item in value[len(first) :])
    if isinstance(value, Mapping):
        right &= all(name in value for name in schema.get("required", ()))
        for name, part in value.items():
            own = schema.get("properties", {}).get(str(name))
            found = [s for pattern, s in schema.get("patternProperties", {}).items() if re.search(pattern, str(name))]
            rest = schema.get("additionalProperties", True) if own is None and not found else True
            right &= rest is not False and all(keeps(part, s) for s in (own, *found, rest))
    return bool(right)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_keep_it(path: Path):
    assert keeps(yaml.safe_load(path.read_text()), SCHEMA)


def change(*at: Any, to: Any) -> Callable[[Any], None]:
    def changed(netlist: Any) -> None:
        for name in at[:-1]:
            netlist = netlist[name]
        netlist[at[-1]] = to

    return changed


@pytest.mark.parametrize(
    "damage",
    [
        change("queues", "scores", "entires", to=4),
        change("queues", "scores", "entries", to=0),
        change("queues", "scores", "df", to="Float17"),
        change("queues", "scores", "type", to="stack"),
        change("devices", "arch", to="greyskull"),
        change("graphs", "softmax", "power", "type", to="expo"),
        change("graphs", "softmax", "power", "grid_size", to=[1]),
        change("graphs", "softmax", "power", "attributes", to={"m": 1}),
        change("graphs", "softmax", "total", "attributes", to={"m_k": 2}),
        change("graphs", "softmax", "total", "input_1_tms", to=[{"broadcast": {"x": 2}}]),
        change("programs", 0, "main", 0, to="endlop"),
        change("programs", 0, "main", 0, to={"varinst": ["$a", "sub", 1]}),
    ],
)
def test_what_the_reader_refuses_it_refuses(damage: Callable[[Any], None]):
    netlist = copy.deepcopy(yaml.safe_load((SAMPLES[0].parent / "softmax.yaml").read_text()))
    damage(netlist)
    with pytest.raises(NetlistError):
        read_netlist(yaml.safe_dump(netlist, sort_keys=False), "damaged.yaml")
    assert not keeps(netlist, SCHEMA)
