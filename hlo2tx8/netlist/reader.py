"""From the text of a netlist to its dataclasses. What is unknown is refused, with file, line, op or queue, and field."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from hlo2tx8.errors import NetlistError
from hlo2tx8.netlist.config import Comparison, Stimulus, TestConfig
from hlo2tx8.netlist.fields import Place, items_of, list_of, named_of, nonempty, pairs_of, raw, read_record, refuse_name, text
from hlo2tx8.netlist.instructions import Program, read_program
from hlo2tx8.netlist.model import DeviceSection, FusedOp, NetGraph, Netlist, Op, Pad, Queue, ScheduledOp
from hlo2tx8.netlist.ops import IN_FUSED, KINDS, OpKind, read_attributes
from hlo2tx8.netlist.tms import Tm, read_tms
from hlo2tx8.netlist.tree import Node, Pairs, is_nothing, parse_tree

SECTIONS = ("devices", "queues", "graphs", "programs")
OF_INPUT = re.compile(r"input_(\d{1,4})_(tms|pad|unpad)")
Config = TypeVar("Config", Stimulus, Comparison)


def read_file(path: Path) -> Netlist:
    """The netlist of a file; NetlistError, or OSError where it cannot be read."""
    return read_netlist(path.read_bytes(), str(path))


def read_netlist(source: str | bytes, file: str) -> Netlist:
    """The netlist of a text that comes from `file`; NetlistError for the first thing that is wrong."""
    top = parse_tree(source, file)
    place = Place(file)
    sections = {key.text: value for key, value in pairs_of(top, place)}
    for section in SECTIONS:
        if section not in sections:
            raise NetlistError(f"has no section {section}", origin=file)
    queues = {key: _read_queue(key, node, place, line) for key, node, line in named_of(sections["queues"], place, "queue")}
    graphs = {key: _read_graph(key, node, place, line) for key, node, line in named_of(sections["graphs"], place, "graph")}
    fused = named_of(sections["fused_ops"], place, "fused op") if "fused_ops" in sections else ()
    return Netlist(
        devices=read_record(DeviceSection, sections["devices"], place.at("devices")),
        queues=queues,
        graphs=graphs,
        programs=_read_programs(sections["programs"], place),
        fused_ops={key: _read_fused(key, node, place, line) for key, node, line in fused},
        test_config=_read_test(sections["test-config"], place.at("test-config")) if "test-config" in sections else None,
        performance=_map(sections["performance-check"], place) if "performance-check" in sections else {},
        file=file,
    )


def _map(node: Node, place: Place) -> dict[str, Any]:
    return {key.text: raw(value, place) for key, value in pairs_of(node, place)}


def _read_queue(key: str, node: Node, place: Place, line: int) -> Queue:
    return read_record(Queue, node, place.at(f"queue {key}"), name=key, line=line)


def _read_graph(key: str, node: Node, place: Place, line: int) -> NetGraph:
    place = place.at(f"graph {key}")
    pairs = pairs_of(node, place)
    own = Pairs(tuple(pair for pair in pairs if pair[0].text in ("target_device", "input_count")), line, 1)
    others = Pairs(tuple(pair for pair in pairs if pair not in own.pairs), line, 1)
    ops = tuple(_read_op(name, value, place, at) for name, value, at in named_of(others, place, "op"))
    return read_record(NetGraph, own, place, name=key, ops=ops, line=line)


def _read_op(key: str, node: Node, place: Place, line: int) -> Op:
    place = place.at(f"op {key}")
    if not isinstance(node, Pairs):
        place.refuse("is not a map of fields", line)
    kind = _kind_of(node, KINDS, place, line)
    tms, pads = _of_inputs(node, place)
    attributes = read_attributes(_last(node, "attributes") or Pairs((), line, 1), kind, place)
    given: dict[str, Any] = {
        "name": key,
        "line": line,
        "attributes": attributes,
        "tms": tms,
        "pads": pads["pad"],
        "unpads": pads["unpad"],
    }
    op = read_record(Op, node, place, skip=_read_elsewhere(node), **given)
    for what, by_number in (("tms", tms), *pads.items()):
        if unknown := [n for n in by_number if n >= len(op.inputs)]:
            place.refuse(f"field input_{unknown[0]}_{what}: the op has {len(op.inputs)} inputs", line)
    return op


def _read_elsewhere(node: Pairs) -> tuple[str, ...]:
    return ("attributes", *(key.text for key, _ in node.pairs if OF_INPUT.fullmatch(key.text)))


def _last(node: Pairs, key: str) -> Node | None:
    return next((value for other, value in reversed(node.pairs) if other.text == key), None)


def _kind_of(node: Pairs, kinds: Mapping[str, OpKind], place: Place, line: int) -> OpKind:
    if (node_of_type := _last(node, "type")) is None:
        place.refuse("has no field type", line)
    if (word := nonempty(node_of_type, place)) not in kinds:
        refuse_name(word, tuple(kinds), "op type", place, node_of_type.line)
    return kinds[word]


def _of_inputs(node: Pairs, place: Place) -> tuple[dict[int, tuple[Tm, ...]], dict[str, dict[int, Pad]]]:
    """Manipulations, pads and unpads by number of the input. Lists of manipulations of one input add up."""
    tms: dict[int, tuple[Tm, ...]] = {}
    pads: dict[str, dict[int, Pad]] = {"pad": {}, "unpad": {}}
    for key, value in node.pairs:
        if match := OF_INPUT.fullmatch(key.text):
            number, at = int(match[1]), place.at(f"field {key.text}")
            if match[2] == "tms":
                tms[number] = (*tms.get(number, ()), *read_tms(value, at))
            else:
                pads[match[2]][number] = read_record(Pad, value, at)
    return {number: list for number, list in tms.items() if list}, pads


def _read_fused(key: str, node: Node, place: Place, line: int) -> FusedOp:
    place = place.at(f"fused op {key}")
    if not isinstance(node, Pairs) or (schedules := _last(node, "schedules")) is None:
        place.refuse("has no field schedules", line)
    read = tuple(
        tuple(_read_step(step, place.at(f"schedule {number}")) for step in items_of(schedule, place.at(f"schedule {number}")))
        for number, schedule in enumerate(items_of(schedules, place))
    )
    return read_record(FusedOp, node, place, skip=("schedules",), name=key, schedules=read, line=line)


def _read_step(node: Node, place: Place) -> ScheduledOp:
    pairs = named_of(node, place, "op")
    if len(pairs) != 1:
        place.refuse("an op of a schedule is a map of its name to its fields", node.line)
    key, fields, line = pairs[0]
    place = place.at(f"op {key}")
    if not isinstance(fields, Pairs):
        place.refuse("is not a map of fields", line)
    kind = _kind_of(fields, IN_FUSED, place, line)
    tms, pads = _of_inputs(fields, place)
    if pads["pad"] or pads["unpad"]:
        place.refuse("ops of a schedule have no pads", line)
    attributes = read_attributes(_last(fields, "attributes") or Pairs((), line, 1), kind, place, scheduled=True)
    return read_record(
        ScheduledOp, fields, place, skip=_read_elsewhere(fields), name=key, attributes=attributes, tms=tms, line=line
    )


def _read_programs(node: Node, place: Place) -> tuple[Program, ...]:
    programs: list[Program] = []
    for item in items_of(node, place.at("programs")):
        for key, value, line in named_of(item, place.at("programs"), "program"):
            if any(program.name == key for program in programs):
                place.refuse(f"program {key} is there twice", line)
            programs.append(read_program(key, value, place, line))
    return tuple(programs)


def _read_test(node: Node, place: Place) -> TestConfig:
    given: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, value in pairs_of(node, place):
        at = place.at(key.text)
        match key.text:
            case "test-args":
                given["args"] = {name.text: text(arg, at.at(name.text)) for name, arg in pairs_of(value, at)}
            case "io-config":
                lists = {name.text: list_of(text)(names, at) for name, names in pairs_of(value, at)}
                given |= {side: lists[side] for side in ("inputs", "outputs") if side in lists}
            case "comparison-config" if not is_nothing(value):
                given["comparison"] = _read_config(Comparison, value, at)
            case "stimulus-config" if not is_nothing(value):
                given["stimulus"] = _read_config(Stimulus, value, at)
            case _:
                others[key.text] = raw(value, at)
    return TestConfig(**given, others=others)


def _read_config(kind: type[Config], node: Node, place: Place) -> Config:
    if not isinstance(node, Pairs):
        place.refuse("is not a map", node.line)
    overrides = _last(node, "overrides")
    pairs = pairs_of(overrides, place) if overrides is not None else ()
    named = {key.text: read_record(kind, value, place.at(f"override {key.text}")) for key, value in pairs}
    return read_record(kind, node, place, skip=("overrides",), overrides=named)
