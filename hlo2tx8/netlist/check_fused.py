"""Rules of fused ops: what dest and the intermediate buffers hold from step to step, and which ops may use them."""

import math
from collections.abc import Iterator
from typing import TypeAlias

from hlo2tx8.netlist.check_ops import dest_tiles
from hlo2tx8.netlist.checks import Examined
from hlo2tx8.netlist.model import FusedOp, Op, ScheduledOp
from hlo2tx8.netlist.ops import KINDS

MOST_BUFFERS = 8
Full: TypeAlias = dict[str, tuple[ScheduledOp, int]]
"""Buffers that hold something: by which step, in which schedule."""
TILE_BROADCASTS = ("add", "subtract", "multiply")


def check_fused(subject: Examined) -> None:
    """Every fused op with each op that uses it."""
    for op in subject.ops.values():
        if op.type != "fused_op":
            continue
        fused = subject.netlist.fused_ops[op.attributes["fused_op_id"]]
        for step, message in _problems(subject, op, fused):
            where = f"op {op.name}, fused op {fused.name}, op {step.name}" if step else f"op {op.name}, fused op {fused.name}"
            subject.add(f"{where}: {message}", step.line if step else fused.line)


def _problems(subject: Examined, op: Op, fused: FusedOp) -> Iterator[tuple[ScheduledOp | None, str]]:
    if fused.intermediates > MOST_BUFFERS:
        yield None, f"field intermediates: {fused.intermediates} are more than {MOST_BUFFERS}"
    buffers = {f"intermed{n}" for n in range(fused.intermediates)}
    names = {"dest", *buffers, *(f"input{n}" for n in range(fused.inputs))}
    full: Full = {}
    for number, schedule in enumerate(fused.schedules):
        for step in schedule:
            if unknown := [name for name in step.inputs if name not in names]:
                yield step, f"field inputs: there is no {unknown[0]}"
                return
            if step.output not in ("dest", "output", *buffers):
                yield step, f"field output: there is no {step.output}"
                return
            for message in (
                *_of_step(subject, op, step),
                *_of_product(subject, op, schedule, step, full),
                *_of_manipulations(step, full),
            ):
                yield step, message
            for message in _of_buffers(step, number, fused, full):
                yield step, message
            for name in step.pops:
                if name != "dest":
                    full.pop(name, None)
            if "dest" not in step.inputs or step.output != "dest":
                full.pop("dest", None)
            if step.output != "output":
                full[step.output] = (step, number)
    if left := [name for name in full if name != "dest"]:
        yield full[left[0]][0], f"field output: {left[0]} is never popped"
    if not fused.steps or fused.steps[-1].output != "output":
        yield (fused.steps[-1] if fused.steps else None), "field output: the last op does not write output"
    elif "dest" in full:
        yield full["dest"][0], "field output: nobody reads dest"


def _of_step(subject: Examined, op: Op, step: ScheduledOp) -> Iterator[str]:
    kind = KINDS[step.type]
    if not kind.inputs[0] <= len(step.inputs) <= (2 if kind.family == "matmul" else kind.inputs[1]):
        yield f"field inputs: {len(step.inputs)} instead of {kind.inputs[0]}"
    if (tiles := step.ublock[0] * step.ublock[1]) > (limit := dest_tiles(op, subject.arch)):
        yield f"field ublock: {tiles} tiles do not fit into dest, which holds {limit}"
    if step.output == "output" and (step.mblock, step.ublock) != (op.mblock, op.ublock):
        yield f"field mblock: {list(step.mblock)}, ublock {list(step.ublock)} are not those of op {op.name}"
    if unknown := [name for name in step.pops if name not in step.inputs]:
        yield f"field pop: {unknown[0]} is not an input"
    if "dest" in step.inputs:
        if kind.family in ("matmul", "reduce") or step.type == "maximum":
            yield f"field inputs: {step.type} does not read dest"
        if subject.arch == "grayskull" and step.inputs[1:2] == ("dest",):
            yield "field inputs: grayskull does not read dest as input 1"
    formats = [_format(op, name) for name in step.inputs]
    on_vectors = kind.family == "quant" or step.type == "maximum" or (step.type == "add" and "Int32" in formats)
    if step.output == "dest" and on_vectors:
        yield f"field output: {step.type} does not write dest"
    if op.acc_df.name == "Int32" and kind.family not in ("binary", "quant", "copy"):
        yield f"field type: no {step.type} of integers"


def _format(op: Op, name: str) -> str:
    """Of an input, dest or an intermediate buffer."""
    number = int(name.removeprefix("input")) if name.startswith("input") else -1
    if number >= 0:
        return op.in_df[number].name if number < len(op.in_df) else ""
    return (op.acc_df if name == "dest" else op.intermed_df).name


def _rows_of_input(subject: Examined, op: Op, name: str) -> tuple[int, int] | None:
    """mblock and ublock rows of an input of the fused op; None if it has manipulations, or is none."""
    number = int(name.removeprefix("input")) if name.startswith("input") else -1
    if not 0 <= number < len(op.inputs) or any(tm.args[0] not in "cz" for tm in op.tms.get(number, ()) if tm.args):
        return None
    source = subject.source(op.inputs[number])
    return (source.mblock[0], source.ublock[0]) if source is not None and source.grid_size[0] == 1 else None


def _of_product(subject: Examined, op: Op, schedule: tuple[ScheduledOp, ...], step: ScheduledOp, full: Full) -> Iterator[str]:
    """Rules of matmul and reduce."""
    family = KINDS[step.type].family
    if family not in ("matmul", "reduce"):
        return
    if step is not schedule[-1]:
        yield f"{step.type} is not the last op of its schedule"
    first, second = (*step.inputs, "")[:2]
    steps, tiles = step.attributes.get("m_k", 1), step.attributes.get("u_kt", 1)
    if steps > 1 and family == "matmul" and not step.output.startswith("intermed"):
        yield f"field output: {step.output} of a matmul with m_k {steps}, which needs an intermed"
    if family == "matmul" and steps > 1 and second and not second.startswith("input"):
        yield f"field inputs: input 1 of a matmul with m_k {steps} is {second} instead of an input of the fused op"
    if family == "matmul" and steps > 1 and step.output in step.inputs:
        yield f"field output: a matmul with m_k {steps} reads {step.output} itself"
    if family == "matmul" and second and (blocks := _rows_of_input(subject, op, second)) not in (None, (steps, tiles)):
        yield f"attributes m_k {steps} and u_kt {tiles} are not the mblock and ublock rows {blocks} of {second}"
    if first in full:
        made = full[first][0]
        factors = [tm.args[1] for tm in step.tms.get(0, ()) if tm.name == "broadcast" and tm.args[0] == "c"]
        columns = math.prod((made.mblock[1], made.ublock[1], *factors))
        fits = steps * tiles == columns if factors else (steps, tiles) == (made.mblock[1], made.ublock[1])
        if family == "matmul" and not fits:
            yield f"attributes m_k {steps} and u_kt {tiles} are not the {columns} tile columns of {first}, as it is blocked"
        dim = "rc".find(step.attributes.get("dim", "")) if family == "reduce" else -1
        if (
            dim >= 0
            and "m_k" in step.attributes
            and len(step.attributes["dim"]) == 1
            and (steps, tiles) != (made.mblock[dim], made.ublock[dim])
        ):
            yield f"attributes m_k {steps} and u_kt {tiles} are not the blocks of {first}"


def _of_manipulations(step: ScheduledOp, full: Full) -> Iterator[str]:
    for number, tms in step.tms.items():
        field = f"field input_{number}_tms"
        if number >= len(step.inputs):
            yield f"{field}: there is no input {number}"
            return
        source = step.inputs[number]
        dims = {tm.args[0] for tm in tms if tm.name == "broadcast"}
        if source == "dest":
            yield f"{field}: dest has no manipulations"
        for tm in tms:
            if tm.name == "tile_broadcast":
                if number != 1 or step.type not in TILE_BROADCASTS:
                    yield f"{field}: tile_broadcast is for input 1 of {', '.join(TILE_BROADCASTS)}"
            elif tm.name != "broadcast" or tm.args[0] == "z":
                yield f"{field}: {tm} in a fused op"
            elif not source.startswith("intermed"):
                yield f"{field}: broadcast of {source} instead of an intermed"
        if dims == {"r", "c"}:
            yield f"{field}: broadcast r and c of one input"
        if KINDS[step.type].family == "matmul" and ("r" in dims or ("c" in dims and number != 0)):
            yield f"{field}: broadcast of that input of a matmul"
        if source in full:
            made = full[source][0]
            for dim in sorted(dims & {"r", "c"}):
                at = "rc".index(dim)
                if KINDS[step.type].family != "matmul" and (made.mblock[at], made.ublock[at]) != (1, 1):
                    yield f"{field}: broadcast {dim} of {source} with mblock {list(made.mblock)}, ublock {list(made.ublock)}"
                elif dim == "r" and step.mblock[0] != 1 and made.mblock[1] != 1:
                    yield f"{field}: broadcast r of {source} with mblock {list(made.mblock)} to mblock {list(step.mblock)}"


def _of_buffers(step: ScheduledOp, number: int, fused: FusedOp, full: Full) -> Iterator[str]:
    """Is what is read full, and what is written empty?"""
    if "dest" in full and "dest" not in step.inputs:
        yield "field inputs: dest, which the op before writes, is not read"
    for name in dict.fromkeys(step.inputs):
        if name.startswith("input"):
            continue
        if name not in full:
            yield f"field inputs: {name} holds nothing"
        elif name != "dest" and full[name][1] != number:
            made, ends = full[name][0], fused.schedules[full[name][1]][-1]
            products = ("matmul", "reduce")
            if made.mblock != (1, 1) and KINDS[ends.type].family in products and KINDS[made.type].family not in products:
                yield f"field inputs: {name} is of an earlier schedule, from {made.type} with mblock {list(made.mblock)}"
    if step.output in full and step.output != "dest" and step.output not in step.pops:
        yield f"field output: {step.output} is full, a pop is missing"
