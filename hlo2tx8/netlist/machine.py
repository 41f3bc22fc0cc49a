"""Programs run: variables, loops, executions of graphs on the tensors in queues and rams."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, runtime_checkable

from hlo2tx8.errors import NetlistRunError
from hlo2tx8.netlist.epochs import Epoch, Made, Segment, epochs_of
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.instructions import Assign, Declare, EndLoop, Execute, Lifetime, LoopBegin, Program, Setting, Value
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.queues import Io, Pointers, make_ios
from hlo2tx8.netlist.tensors import Tensor


class Backend(Protocol):
    """What computes the ops of a graph."""

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment; see `compute`."""
        ...


@runtime_checkable
class SeveralAtOnce(Backend, Protocol):
    """A backend that takes several inputs of an execution at once."""

    def inputs_at_once(self, epoch: Epoch) -> int:
        """How many of an epoch, a part of its input_count; 1 unless it is streaming."""
        ...

    def run_several(self, segment: Segment, sources: Sequence[Mapping[str, Tensor]]) -> list[Made]:
        """So many inputs of the only segment of an epoch."""
        ...


@dataclass(frozen=True)
class LoopTurns:
    """A loop that runs: the number of its first instruction, how often it runs, and how many turns are left with this one."""

    begin: int
    count: int
    left: int


@dataclass
class ProgramRun:
    """A program that runs: the number of the instruction that is next, its variables, and the loops that it is in."""

    program: Program
    at: int = 0
    values: dict[str, int] = field(default_factory=dict[str, int])
    static: set[str] = field(default_factory=set[str])
    loops: list[LoopTurns] = field(default_factory=list[LoopTurns])


@dataclass
class Machine:
    """A netlist, expanded over its devices, with its queues; `params` are the parameters' values by name, as "$p_x".

    `max_steps` is how many turns of loops there may be.
    """

    netlist: Netlist
    backend: Backend
    params: Mapping[str, int]
    max_steps: int | None = None
    turns: int = 0
    ios: dict[str, Io] = field(init=False)
    statics: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    sums: dict[str, Array] = field(default_factory=dict[str, Array])
    bound: dict[str, tuple[str, Setting]] = field(default_factory=dict[str, tuple[str, Setting]])
    waiting: dict[int, dict[str, dict[str, Pointers]]] = field(default_factory=dict[int, dict[str, dict[str, Pointers]]])

    def __post_init__(self) -> None:
        programs = self.netlist.programs
        named = {name for program in programs for i in program.instructions if isinstance(i, Lifetime) for name in i.queues}
        self.ios = make_ios(self.netlist.queues, frozenset(named))
        self.epochs = {graph.name: epoch for epoch in epochs_of(self.netlist) for graph in epoch.graphs}

    def run(self) -> None:
        """All programs once, in the file's order. NetlistRunError where one cannot go on."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[ProgramRun]:
        """The same by instructions: the program that runs, before each of them, which is done when the next one is asked for."""
        for program in self.netlist.programs:
            call = ProgramRun(program)
            while call.at < len(program.instructions):
                yield call
                self._do(call)
                self.statics |= {(program.name, name): call.values[name] for name in call.static}

    def _do(self, call: ProgramRun) -> None:
        """The next instruction."""
        program, values, loops = call.program, call.values, call.loops
        instruction = program.instructions[call.at]
        call.at += 1
        match instruction:
            case Declare("param", variables):
                values |= {name: self.params.get(name, 1) for name in variables}
            case Declare(kind, variables):
                values |= {name: int(value) for name, value in variables.items()}
                if kind == "staticvar":
                    call.static |= set(variables)
                    values |= {name: self.statics[key] for name in variables if (key := (program.name, name)) in self.statics}
            case Assign(out, op, args):
                values[out] = _assigned(op, values.get(out, 0), [_value(arg, values, program) for arg in args], program)
                self._propagate(program, out, values[out])
            case LoopBegin(count):
                turns = _value(count, values, program)
                if turns < 1:
                    raise NetlistRunError(f"program {program.name}: loop of {turns} turns")
                loops.append(LoopTurns(call.at, turns, turns))
            case EndLoop():
                loop = loops.pop()
                self.turns += 1
                if loop.left > 1 and self.turns == self.max_steps:
                    raise NetlistRunError(f"program {program.name}: stopped after {self.turns} turns of loops")
                if loop.left > 1:
                    loops.append(replace(loop, left=loop.left - 1))
                    call.at = loop.begin
            case Lifetime(kind, queues):
                for name in queues if kind == "allocate_queue" else ():
                    self.ios[name].reset()
            case Execute():
                self._execute(program, instruction, values)

    def _propagate(self, program: Program, name: str, value: int) -> None:
        """Pointers of the last execution stay bound to their variables."""
        for io_name, (owner, setting) in self.bound.items():
            io = self.ios[io_name]
            if owner != program.name or not io.was_executed:
                continue
            if setting.rd_ptr_global == name:
                io.move(value) if not io.queue.is_ram else setattr(io, "read", value % io.wrap)
            if setting.rd_ptr_local == name:
                io.local = value % io.wrap
            if setting.wr_ptr_global == name and not setting.read_only:
                io.write = value % io.wrap

    def _execute(self, program: Program, execute: Execute, values: Mapping[str, int]) -> None:
        where = f"program {program.name}, graph {execute.graph_name}"
        epoch = self.epochs[execute.graph_name]
        waiting = self.waiting.setdefault(id(epoch), {})
        if execute.graph_name in waiting:
            raise NetlistRunError(f"{where}: is executed again before all graphs of its temporal epoch were")
        settings = {name: _pointers(setting, values, program) for name, setting in execute.queue_settings.items()}
        self.bound |= {name: (program.name, setting) for name, setting in execute.queue_settings.items()}
        waiting[execute.graph_name] = settings
        if len(waiting) < len(epoch.graphs):
            return
        merged = {name: pointers for part in waiting.values() for name, pointers in part.items()}
        waiting.clear()
        try:
            self._run_epoch(epoch, merged)
        except NetlistRunError as error:
            raise NetlistRunError(f"{where}: {error.message}") from None

    def _run_epoch(self, epoch: Epoch, settings: Mapping[str, Pointers]) -> None:
        for name in dict.fromkeys((*epoch.reads, *sorted(epoch.writes))):
            if name not in settings:
                self.ios[name].current = Pointers()
        for name, pointers in settings.items():
            if pointers.zero and not pointers.prologue:
                raise NetlistRunError(f"settings of {name}: zero without prologue")
            self.ios[name].begin(pointers)
        count = epoch.graphs[0].input_count
        several = self.backend.inputs_at_once(epoch) if isinstance(self.backend, SeveralAtOnce) else 1
        for _ in range(count // several):
            if several > 1:
                self._run_several(epoch, several, [name for name in settings if name not in epoch.reads])
                continue
            self._run_input(epoch)
            for name in dict.fromkeys((*epoch.reads, *settings)):
                self.ios[name].next_input(name in epoch.reads)
        for name in settings:
            self.ios[name].end()

    def _run_several(self, epoch: Epoch, count: int, written: Sequence[str]) -> None:
        """So many inputs of a streaming epoch: all are read, then what is made of them is pushed. `written` have settings."""
        assert isinstance(self.backend, SeveralAtOnce)
        (segment,) = epoch.segments
        sources: list[dict[str, Tensor]] = []
        for _ in range(count):
            sources.append({name: self.ios[name].get() for name in segment.sources})
            for name in epoch.reads:
                self.ios[name].next_input(True)
        for made in self.backend.run_several(segment, sources):
            for name, tensor in made.pushed.items():
                self.ios[name].is_zeroed = False
                self.ios[name].push(tensor)
            for name in written:
                self.ios[name].next_input(False)

    def _run_input(self, epoch: Epoch) -> None:
        held: dict[str, Tensor] = {name: self.ios[name].get() for name in epoch.reads if self.ios[name].queue.is_ram}
        for segment in epoch.segments:
            held |= {name: self.ios[name].get() for name in segment.reads if name not in held}
            feeds = {op.name: [self.ios[queue.name] for queue in segment.feeds.get(op.name, ())] for op in segment.ops}
            sums = [op.name for op in segment.ops if op.gradient_op and not any(io.is_zeroed for io in feeds[op.name])]
            before = {name: self.sums[name] for name in sums if name in self.sums}
            made = self.backend.run(segment, {name: held[name] for name in segment.sources}, before)
            held |= made.left
            self.sums |= made.sums
            for io in (io for op in segment.ops for io in feeds[op.name]):
                io.is_zeroed = False
                io.push(made.pushed[io.queue.name])


def _value(value: Value, values: Mapping[str, int], program: Program) -> int:
    if not isinstance(value, str):
        return int(value)
    if value not in values:
        raise NetlistRunError(f"program {program.name}: there is no variable {value}")
    return values[value]


def _assigned(op: str, old: int, args: list[int], program: Program) -> int:
    match op:
        case "set":
            return args[0]
        case "add":
            return args[0] + args[1]
        case "mul":
            return args[0] * args[1]
        case "inc":
            return old + args[0]
        case _:
            if args[1] < 1:
                raise NetlistRunError(f"program {program.name}: incwrap modulo {args[1]}")
            return (old + args[0]) % args[1]


def _pointers(setting: Setting, values: Mapping[str, int], program: Program) -> Pointers:
    given: dict[str, Any] = {}
    for f in fields(Pointers):
        if (value := getattr(setting, f.name)) is not None:
            found = _value(value, values, program)
            given[f.name] = bool(found) if isinstance(f.default, bool) else found
    if setting.rd_ptr_autoinc is None and given.get("global_rdptr_autoinc"):
        given["rd_ptr_autoinc"] = given["global_rdptr_autoinc"]
    return Pointers(**given)
