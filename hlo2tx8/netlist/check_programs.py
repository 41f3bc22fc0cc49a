"""Rules of programs: variables, loops, and the settings of queues and rams for each execution."""

from collections.abc import Iterator

from hlo2tx8.netlist.checks import Examined
from hlo2tx8.netlist.instructions import Assign, Declare, EndLoop, Execute, Lifetime, LoopBegin, Program, Setting
from hlo2tx8.netlist.model import NetGraph, Queue

NEEDED = {"queue": ("rd_ptr_local", "rd_ptr_global"), "ram": ("rd_ptr_global", "wr_ptr_global")}
FORBIDDEN = {"queue": "wr_ptr_global", "ram": "rd_ptr_local"}


def check_programs(subject: Examined) -> None:
    """Every program, and for each graph whether its queues hold its inputs."""
    for program in subject.netlist.programs:
        for message, line in _problems(subject, program):
            subject.add(f"program {program.name}: {message}", line)


def _problems(subject: Examined, program: Program) -> Iterator[tuple[str, int]]:
    known: set[str] = set()
    static: set[str] = set()
    depth = 0
    for number, instruction in enumerate(program.instructions):
        match instruction:
            case Declare(kind, variables, line):
                if kind == "param" and number:
                    yield "param is not the first instruction", line
                for name in variables:
                    if name in known:
                        yield f"{kind}: variable {name} is declared twice", line
                    if depth and name.startswith("$c_"):
                        yield f"{kind}: constant {name} is declared in a loop", line
                known |= set(variables)
                static |= set(variables) if kind == "staticvar" else set()
            case Assign(out, op, args, line):
                for arg in args:
                    if isinstance(arg, str) and arg not in known:
                        yield f"varinst: there is no variable {arg}", line
                if op in ("inc", "incwrap") and out not in known:
                    yield f"varinst: there is no variable {out}", line
                if out.startswith("$c_") and (depth or (out in static and op != "set")):
                    yield f"varinst: constant {out} is changed", line
                known.add(out)
            case LoopBegin(count, line):
                depth += 1
                if isinstance(count, str) and count not in known:
                    yield f"loop: there is no variable {count}", line
            case EndLoop(line):
                depth -= 1
                if depth < 0:
                    yield "endloop without loop", line
                    return
            case Lifetime(kind, queues, line):
                for name in queues:
                    if name not in subject.netlist.queues:
                        yield f"{kind}: there is no queue {name}", line
            case Execute():
                yield from ((message, instruction.line) for message in _execution(subject, instruction, known))
    if depth:
        yield "loop without endloop", program.line


def _execution(subject: Examined, execute: Execute, known: set[str]) -> Iterator[str]:
    graph = subject.netlist.graphs.get(execute.graph_name)
    if graph is None:
        yield f"execute: there is no graph {execute.graph_name}"
        return
    read = {queue.name: queue for queue, _ in subject.readers(graph)}
    written = {queue.name for op in graph.ops for queue in subject.fed_by.get(op.name, ())}
    for name, queue in read.items():
        if queue.is_fed_by_host and not queue.is_ram and name not in execute.queue_settings:
            yield f"execute of {graph.name}: no settings of queue {name}"
    for name, setting in execute.queue_settings.items():
        what = f"execute of {graph.name}, settings of {name}"
        if name not in subject.netlist.queues:
            yield f"{what}: there is no queue {name}"
        elif name not in read and name not in written:
            yield f"{what}: the graph neither reads nor writes it"
        else:
            queue = subject.netlist.queues[name]
            problems = (*_setting(queue, setting, known, name in written), *_length(graph, queue, setting, name in read))
            yield from (f"{what}: {message}" for message in problems)


def _setting(queue: Queue, setting: Setting, known: set[str], is_written: bool) -> Iterator[str]:
    for name in NEEDED[queue.type]:
        if getattr(setting, name) is None:
            yield f"has no setting {name}, which a {queue.type} needs"
    if getattr(setting, FORBIDDEN[queue.type]) is not None:
        yield f"setting {FORBIDDEN[queue.type]} is not for a {queue.type}"
    for name, value in vars(setting).items():
        if isinstance(value, str) and value not in known:
            yield f"setting {name}: there is no variable {value}"
        if name in ("prologue", "epilogue") and isinstance(value, str) and value.startswith("$p_"):
            yield f"setting {name}: {value} is a parameter"
    if setting.zero is True and setting.prologue is False:
        yield "setting zero: only with prologue"
    if setting.epilogue is True and is_written and not queue.is_ram:
        yield "setting epilogue: an op writes the queue"
    pops, step = setting.global_rdptr_autoinc, setting.rd_ptr_autoinc
    if isinstance(pops, int) and pops and isinstance(step, int) and not queue.is_ram and step != pops:
        yield f"setting rd_ptr_autoinc: {step} is not global_rdptr_autoinc {pops}"


def _length(graph: NetGraph, queue: Queue, setting: Setting, is_read: bool) -> Iterator[str]:
    constant = setting.prologue or setting.epilogue or setting.rd_ptr_autoinc == 0 or setting.global_rdptr_autoinc
    if is_read and not queue.is_ram and not constant and (queue.entries % graph.input_count or queue.entries < graph.input_count):
        yield f"field entries of queue {queue.name}: {queue.entries} is no multiple of input_count {graph.input_count}"
