"""From the dataclasses of a netlist to text that reads back equal: a line for each queue, op and instruction."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from hlo2tx8.netlist.formats import Format
from hlo2tx8.netlist.instructions import Assign, Declare, EndLoop, Execute, Instruction, Lifetime, LoopBegin
from hlo2tx8.netlist.model import FusedOp, Netlist, Op, Pad, ScheduledOp, TestConfig
from hlo2tx8.netlist.tms import Tm

PLAIN = re.compile(r"[A-Za-z_$][\w.$/-]*|[-+]?[\w.]+")
NOTHING = ("null", "None", "none", "~", "")
NOT_WRITTEN = (
    "name",
    "line",
    "instance_of",
    "overrides",
    "schedules",
    "queue_settings",
    "ops",
    "attributes",
    "tms",
    "pads",
    "unpads",
    "dram",
    "host",
)


def write_netlist(netlist: Netlist) -> str:
    """The text of a netlist as YAML, ASCII only where names are."""
    return "\n".join(_lines(netlist)) + "\n"


def _lines(netlist: Netlist) -> Iterator[str]:
    yield f"devices: {_flow(_known(netlist.devices))}"
    yield from ("", "queues:" if netlist.queues else "queues: {}")
    for queue in netlist.queues.values():
        addresses = {name: at for name in ("dram", "host") if (at := getattr(queue, name))}
        yield f"  {_word(queue.name)}: {_flow(_known(queue) | addresses)}"
    yield from ("", "graphs:" if netlist.graphs else "graphs: {}")
    for graph in netlist.graphs.values():
        yield f"  {_word(graph.name)}:"
        yield from (f"    {key}: {_flow(value)}" for key, value in _known(graph).items())
        yield from (f"    {_word(op.name)}: {_flow(_op(op))}" for op in graph.ops)
    if netlist.fused_ops:
        yield from ("", "fused_ops:")
        yield from (line for fused in netlist.fused_ops.values() for line in _fused(fused))
    yield from ("", "programs:" if netlist.programs else "programs: []")
    for program in netlist.programs:
        yield f"  - {_word(program.name)}:{'' if program.instructions else ' []'}"
        yield from (f"      - {instruction_text(instruction)}" for instruction in program.instructions)
    if netlist.test_config is not None:
        yield from ("", "test-config:", *_test(netlist.test_config))
    if netlist.performance:
        yield from ("", f"performance-check: {_flow(netlist.performance)}")


def _known(record: Any) -> dict[str, Any]:
    """Fields that are not at their defaults, by their names in the file."""
    return {
        f.metadata.get("key") or f.name: value
        for f in fields(record)
        if f.name not in NOT_WRITTEN and f.metadata and (value := getattr(record, f.name)) != f.default
    }


def _op(op: Op | ScheduledOp) -> dict[str, Any]:
    written = _known(op)
    for number, tms in op.tms.items():
        written[f"input_{number}_tms"] = tms
    if isinstance(op, Op):
        written["buf_size_mb"] = op.buf_size_mb  # which other readers want to be told
        for what, pads in (("pad", op.pads), ("unpad", op.unpads)):
            written |= {f"input_{number}_{what}": pad for number, pad in pads.items()}
        if op.forked_dram_inputs:
            written["forked_dram_inputs"] = [{queue: reader} for queue, reader in op.forked_dram_inputs]
    if op.attributes:
        by_input = ("kernel_broadcast", "kernel_broadcast_per_t")
        written["attributes"] = {
            name: {f"input_{n}": k for n, k in value.items()} if name in by_input else value
            for name, value in op.attributes.items()
        }
    return written


def _fused(fused: FusedOp) -> Iterator[str]:
    yield f"  {_word(fused.name)}:"
    yield from (f"    {key}: {_flow(value)}" for key, value in _known(fused).items())
    yield "    schedules:" if fused.schedules else "    schedules: []"
    for schedule in fused.schedules:
        yield "      -" if schedule else "      - []"
        yield from (f"        - {_word(step.name)}: {_flow(_op(step))}" for step in schedule)


def instruction_text(instruction: Instruction) -> str:
    """An instruction of a program, on one line."""
    match instruction:
        case Declare(kind, variables):
            return f"{kind}: {_flow(list(variables) if kind == 'param' else variables)}"
        case Assign(out, op, args):
            return f"varinst: {_flow([out, op, *args])}"
        case LoopBegin(count):
            return f"loop: {_flow(count)}"
        case EndLoop():
            return "endloop"
        case Lifetime(kind, queues):
            return f"{kind}: {_flow(queues)}"
        case Execute(_, settings):
            shown = _known(instruction)
            if settings:
                needed = ("prologue", "epilogue", "zero")
                shown["queue_settings"] = {
                    io: {name: getattr(s, name) for name in needed} | _known(s) for io, s in settings.items()
                }
            return f"execute: {_flow(shown)}"


def _test(test: TestConfig) -> Iterator[str]:
    if test.args:
        yield f"  test-args: {_flow(test.args)}"
    if test.inputs or test.outputs:
        yield f"  io-config: {_flow({'inputs': test.inputs, 'outputs': test.outputs})}"
    for key, config in (("comparison-config", test.comparison), ("stimulus-config", test.stimulus)):
        if config != getattr(TestConfig(), key.partition("-")[0]):
            shown = _all(config)
            if config.overrides:
                shown["overrides"] = {name: _all(override) for name, override in config.overrides.items()}
            yield f"  {key}: {_flow(shown)}"
    yield from (f"  {_word(key)}: {_flow(value)}" for key, value in test.others.items())


def _all(config: Any) -> dict[str, Any]:
    """A configuration with its type, and all else that is not at its default."""
    return {"type": config.type} | _known(config)


def _flow(value: Any) -> str:
    """A value on one line."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return _float(value)
        case int():
            return str(value)
        case str():
            return _word(value)
        case Format():
            return value.name
        case Tm():
            return _tm(value)
        case Pad():
            return _flow({"rt": value.rt, "ct": value.ct, "pad_value": value.pad_value})
        case Mapping():
            return "{" + ", ".join(f"{_word(str(key))}: {_flow(item)}" for key, item in value.items()) + "}"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return "[" + ", ".join(_flow(item) for item in value) + "]"


def _float(value: float) -> str:
    text = repr(value)
    return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(text, text)


def _tm(tm: Tm) -> str:
    match tm.name, tm.args:
        case "transpose", _:
            return tm.name
        case "broadcast", (dim, count):
            return f"{{broadcast: {{{dim}: {count}}}}}"
        case "pad", args:
            return f"{{pad: {_flow(args)}}}"
        case name, args:
            return f"{{{name}: {_flow(args[0])}}}"


def _word(text: str) -> str:
    """A name, quoted where YAML would not read it as it is."""
    if PLAIN.fullmatch(text) and text not in NOTHING:
        return text
    return '"' + re.sub(r"[^ !#-\[\]-~]", lambda found: f"\\U{ord(found[0]):08x}", text) + '"'
