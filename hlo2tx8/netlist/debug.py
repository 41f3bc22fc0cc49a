"""A run that stops where it is told to, and what can be seen there, as what each op of the last execution made."""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.netlist.compare import Nearness, compare
from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.epochs import Made, Segment
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.instructions import Execute, Instruction
from hlo2tx8.netlist.machine import Backend, Machine, ProgramRun
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.tensors import Tensor

RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Taken:
    """What a segment was given for one input of an execution."""

    segment: Segment
    sources: Mapping[str, Tensor]
    before: Mapping[str, Array]

    def results(self, backend: Backend) -> Mapping[str, Tensor]:
        """What a backend makes of it, by op, all of them."""
        every = replace(self.segment, name=f"{self.segment.name}.every", leaves=tuple(op.name for op in self.segment.ops))
        return backend.run(every, self.sources, self.before).left


@dataclass
class Recorder:
    """A backend that remembers what segments were given in the last execution; `is_new` begins one."""

    backend: Backend
    taken: list[Taken] = field(default_factory=list[Taken])
    is_new: bool = False

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        """One input of a segment; see `compute`."""
        if self.is_new:
            self.taken, self.is_new = [], False
        self.taken.append(Taken(segment, sources, dict(before)))
        return self.backend.run(segment, sources, before)


@dataclass(frozen=True)
class Break:
    """Where a run stops: before a line or the execution of a graph, or as soon as a variable is in a relation to a number."""

    line: int = 0
    graph: str = ""
    variable: str = ""
    relation: str = "=="
    value: int = 0

    def __str__(self) -> str:
        if self.variable:
            return f"{self.variable} {self.relation} {self.value}"
        return f"graph {self.graph}" if self.graph else f"line {self.line}"

    def holds(self, call: ProgramRun) -> bool:
        """Does a program stand there?"""
        if self.variable:
            return self.variable in call.values and RELATIONS[self.relation](call.values[self.variable], self.value)
        instruction = call.program.instructions[call.at]
        if self.graph:
            return isinstance(instruction, Execute) and instruction.graph_name == self.graph
        return instruction.line == self.line


@dataclass(frozen=True)
class Difference:
    """How far what two backends make of the same sources is apart, of one op."""

    op: Op
    verdict: Nearness


@dataclass
class Debugger:
    """A machine before its first instruction, whose backend is the recorder; `call` is None when all programs have ended."""

    machine: Machine
    recorder: Recorder
    breaks: list[Break] = field(default_factory=list[Break])
    call: ProgramRun | None = field(init=False)
    failure: str = ""

    def __post_init__(self) -> None:
        self._steps: Iterator[ProgramRun] = self.machine.steps()
        self.call = next(self._steps, None)

    @property
    def next(self) -> Instruction | None:
        """The instruction that is next."""
        return self.call and self.call.program.instructions[self.call.at]

    def step(self) -> bool:
        """Do the next instruction; False if there is none. Errors of the run end it."""
        if self.call is None:
            return False
        self.recorder.is_new = isinstance(self.next, Execute)
        try:
            self.call = next(self._steps, None)
        except Hlo2tx8Error as error:
            self.call, self.failure = None, str(error)
            raise
        except BaseException:
            self.call, self.failure = None, "was interrupted within an instruction"
            raise
        return True

    def go(self, is_there: Callable[[Instruction, ProgramRun | None], bool], is_stopped: Callable[[], bool] = lambda: False) -> str:
        """Go on until `is_there` says so of what was done and where the run then is, a breakpoint, or `is_stopped`; why it stopped,
        "" if it got there or all programs have ended.
        """
        while (done := self.next) is not None:
            held = {at for at in self.breaks if at.variable and self.call and at.holds(self.call)}
            self.step()
            if is_there(done, self.call):
                return ""
            if self.call is not None and (found := next((b for b in self.breaks if b not in held and b.holds(self.call)), None)):
                return f"breakpoint {self.breaks.index(found) + 1}: {found}"
            if is_stopped():
                return "interrupted"
        return ""

    def taken(self, input: int) -> list[Taken]:
        """What the segments were given for one input of the last execution, the last one for -1. IndexError if there was none."""
        names = list(dict.fromkeys(taken.segment.name for taken in self.recorder.taken))
        by_segment = [[taken for taken in self.recorder.taken if taken.segment.name == name] for name in names]
        return [parts[input] for parts in by_segment]

    def differences(self, input: int, a: Backend, b: Backend) -> Iterator[Difference]:
        """Op by op in the order of computation, two backends on what the first one's segments were given."""
        config = (self.machine.netlist.test_config or TestConfig()).comparison
        for taken in self.taken(input):
            found, expected = taken.results(a), taken.results(b)
            for op in taken.segment.ops:
                verdict = compare(found[op.name].data[None], expected[op.name].data[None], config)
                yield Difference(op, verdict)
