"""The JSON schema of a netlist, for editors: what its dataclasses and tables say of fields, op types, attributes and formats.

It says less than the reader: rules between fields, and names that refer to others, are not in it.
"""

from collections.abc import Mapping
from typing import Any

from hlo2tx8.netlist.config import Comparison, Stimulus
from hlo2tx8.netlist.fields import list_of, nonempty, readers_of, schema_of
from hlo2tx8.netlist.instructions import ARGUMENTS, WORDS, Execute, Setting, value, variable
from hlo2tx8.netlist.model import DeviceSection, FusedOp, NetGraph, Op, Pad, Queue, ScheduledOp
from hlo2tx8.netlist.ops import ATTRIBUTES, IN_FUSED, IN_SCHEDULES, KINDS, SPLICE, OpKind
from hlo2tx8.netlist.tms import read_tms

Schema = Mapping[str, Any]


def netlist_schema() -> dict[str, Any]:
    """The schema as JSON values."""
    graph = record(NetGraph)
    configs = {"comparison-config": _config(Comparison), "stimulus-config": _config(Stimulus)}
    sections = {
        "devices": record(DeviceSection),
        "queues": named(record(Queue)),
        "graphs": named({**graph, "additionalProperties": {"$ref": "#/$defs/op"}}),
        "fused_ops": named(_fused()),
        "programs": list_of_all({"type": "object", "additionalProperties": list_of_all(_instruction())}),
        "test-config": {"type": ["object", "null"], "properties": configs},
        "performance-check": {"type": ["object", "null"]},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "TT-BUDA netlist",
        "type": "object",
        "required": ["devices", "queues", "graphs", "programs"],
        "properties": sections,
        "$defs": {"op": _op(Op, KINDS)},
    }


def named(each: Schema) -> dict[str, Any]:
    """A map of names to records."""
    return {"type": ["object", "null"], "additionalProperties": each}


def list_of_all(each: Schema) -> dict[str, Any]:
    """A list, which may be empty."""
    return {"type": ["array", "null"], "items": each}


def record(kind: type) -> dict[str, Any]:
    """The fields of a dataclass, and no others."""
    readers = readers_of(kind)
    return {
        "type": "object",
        "properties": {key: schema_of(read) for key, (_, read, _) in readers.items()},
        "required": [key for key, (_, _, is_needed) in readers.items() if is_needed],
        "additionalProperties": False,
    }


def _config(kind: type) -> dict[str, Any]:
    one = record(kind)
    return {**one, "properties": {**one["properties"], "overrides": named(one)}}


def _op(kind: type, kinds: Mapping[str, OpKind]) -> dict[str, Any]:
    """An op of a graph or of a schedule, whose type says which attributes it has."""
    one = record(kind)
    of_inputs = {r"^input_\d+_tms$": schema_of(read_tms)} | ({r"^input_\d+_(un)?pad$": record(Pad)} if kind is Op else {})
    by_type = [
        {
            "if": {"properties": {"type": {"const": name}}},
            "then": {"properties": {"attributes": _attributes(row, is_scheduled=kind is ScheduledOp)}},
        }
        for name, row in kinds.items()
    ]
    properties = {**one["properties"], "type": {"enum": list(kinds)}, "attributes": {"type": ["object", "null"]}}
    return {
        **one,
        "properties": properties,
        "patternProperties": of_inputs,
        "allOf": by_type,
    }


def _attributes(row: OpKind, *, is_scheduled: bool) -> dict[str, Any]:
    allowed = IN_SCHEDULES if is_scheduled else row.attributes
    splices = {r"^input[0-7]$": schema_of(SPLICE)} if row.name == "splice" else {}
    return {
        "type": ["object", "null"],
        "properties": {name: schema_of(ATTRIBUTES[name]) for name in allowed},
        "patternProperties": splices,
        "required": [] if is_scheduled else list(row.needs),
        "additionalProperties": False,
    }


def _fused() -> dict[str, Any]:
    one, step = record(FusedOp), {"type": "object", "maxProperties": 1, "additionalProperties": _op(ScheduledOp, IN_FUSED)}
    schedules = list_of_all(list_of_all(step))
    return {**one, "properties": {**one["properties"], "schedules": schedules}, "required": [*one["required"], "schedules"]}


def _instruction() -> dict[str, Any]:
    """One of a program: a word, or a map of its name to what it takes."""
    names = schema_of(list_of(variable))
    variables = {"anyOf": [names, {"type": "object", "additionalProperties": {"type": ["integer", "boolean"]}}]}
    execute, queues = record(Execute), schema_of(list_of(nonempty))
    settings = {"queue_settings": named(record(Setting))}
    takes = {
        "var": variables,
        "staticvar": variables,
        "param": names,
        "varinst": {"type": "array", "prefixItems": [schema_of(variable), {"enum": list(ARGUMENTS)}], "items": schema_of(value)},
        "loop": schema_of(value),
        "allocate_queue": queues,
        "deallocate_queue": queues,
        "execute": {**execute, "properties": {**execute["properties"], **settings}},
        **dict.fromkeys(WORDS, True),
    }
    return {"anyOf": [{"enum": list(WORDS)}, {"type": "object", "properties": takes, "additionalProperties": False}]}
