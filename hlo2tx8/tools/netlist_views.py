"""What the prompt of `hlo2tx8 netlist debug` shows: programs, variables, queues, tensors, ops, and how backends differ."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from hlo2tx8.netlist.debug import Debugger, Taken
from hlo2tx8.netlist.machine import Backend, ProgramRun
from hlo2tx8.netlist.model import NetGraph
from hlo2tx8.netlist.queues import Io
from hlo2tx8.netlist.show import map_of, program_lines
from hlo2tx8.netlist.tensors import Tensor, to_plain
from hlo2tx8.tools.command_lines import Lines, number_of, refuse_words, words_of, wrong
from hlo2tx8.tools.table import Table

SHOWN, WIDEST = 8, 120
"""Rows and columns of a tensor that are printed, and characters of an instruction."""


class Views(Lines):
    """Commands that change nothing. `backends` makes two that compute all ops: that of the run, and the other one."""

    def __init__(self, debugger: Debugger, backends: Callable[[], tuple[Backend, Backend]]) -> None:
        super().__init__()
        self.debugger = debugger
        self.backends = cache(backends)

    def do_list(self, arg: str) -> None:
        """list: the program, with the instruction that is next and the loops that it is in."""
        refuse_words(arg)
        call = self._call()
        print(f"program {call.program.name}")
        for number, (text, i) in enumerate(zip(program_lines(call.program), call.program.instructions, strict=True)):
            print(f"{'->' if number == call.at else '  '} {i.line:5}  {_short(text)}")
        for loop in call.loops:
            print(f"turn {loop.count - loop.left + 1} of {loop.count} from line {call.program.instructions[loop.begin - 1].line}")

    def do_vars(self, arg: str) -> None:
        """vars [$NAME]: variables of the program, its parameters, and static ones of all programs."""
        machine, call = self.debugger.machine, self.debugger.call
        values = dict(call.values) if call else {}
        if arg:
            name = "$" + arg.lstrip("$")
            if name not in values:
                wrong(f"there is no variable {name}")
            values = {name: values[name]}
        for name, value in values.items():
            print(f"{name} = {value}{' (static)' if call and name in call.static else ''}")
        if not arg:
            print("".join(f"parameter {name} = {value}\n" for name, value in machine.params.items()), end="")
            print("".join(f"program {p}: static {name} = {value}\n" for (p, name), value in machine.statics.items()), end="")

    def do_queues(self, arg: str) -> None:
        """queues [NAME]: pointers, how many entries are there, and settings of the last execution."""
        ios = self.debugger.machine.ios
        rows = [_state(io) for io in ([self._io(arg)] if arg else ios.values())]
        self._print(("name", "type", ">entries", ">there", ">read", ">local", ">write", "last settings"), rows)

    def do_tensor(self, arg: str) -> None:
        """tensor NAME [ENTRY [T,ROW,COLUMN]]: what kind of numbers an entry of a queue, from the oldest on, or a slot of a ram has.
        With a place, 8 by 8 elements from there on are printed. Without an entry, all of them.
        """
        name, *rest = words_of(arg, 1, 3, "tensor NAME [ENTRY [T,ROW,COLUMN]]")
        io = self._io(name)
        held = io.left()
        numbers = [number_of(rest[0])] if rest else range(len(held))
        for number in numbers:
            if number >= len(held) or held[number] is None:
                wrong(f"{io.queue.type} {name}: nothing is in {number}; {sum(found is not None for found in held)} are there")
        found = [(f"{name}[{n}]", tensor) for n in numbers if (tensor := held[n]) is not None]
        self._tensors([(label, replace(tensor, data=to_plain(tensor.data, io.queue))) for label, tensor in found], rest[1:])

    def do_ops(self, arg: str) -> None:
        """ops [GRAPH]: the cores of each op, its blocking and formats."""
        for graph in [self._graph(arg)] if arg else self.debugger.machine.netlist.graphs.values():
            print(map_of(graph), end="")

    def do_result(self, arg: str) -> None:
        """result OP [INPUT [T,ROW,COLUMN]]: what an op made of an input of the last execution, from 0 on, else of the last one.
        Elements are in whole tiles of 32x32.
        """
        name, *rest = words_of(arg, 1, 3, "result OP [INPUT [T,ROW,COLUMN]]")
        for taken in self._taken(rest[:1]):
            if any(op.name == name for op in taken.segment.ops):
                made = taken.results(self.backends()[0])[name]
                self._tensors([(name, made)], rest[1:])
                return
        wrong(f"op {name}: is not of the last execution")

    def do_diff(self, arg: str) -> None:
        """diff [INPUT]: op by op what golden and the chip make of an input of the last execution, and which differs first."""
        rest = words_of(arg, 0, 1, "diff [INPUT]")
        self._taken(rest)
        own, other = self.backends()
        found = list(self.debugger.differences(number_of(rest[0]) if rest else -1, own, other))
        rows = [
            (
                *(each.op.name, each.op.type, f"{each.verdict.agreeing} of {each.verdict.tiles}", f"{each.verdict.least_pct:.1%}"),
                *(f"{each.verdict.least_pcc:.6f}", f"{each.verdict.largest_difference:.3g}"),
            )
            for each in found
        ]
        self._print(("op", "type", ">tiles agree", ">close", ">correlation", ">difference"), rows)
        first = next((d.op.name for d in found if not d.verdict.agrees), None)
        print(f"op {first} is the first that differs" if first else "no op differs")

    def _taken(self, given: Sequence[str]) -> list[Taken]:
        number = number_of(given[0]) if given else -1
        try:
            found = self.debugger.taken(number)
        except IndexError:
            wrong(f"the last execution had no input {number}, or failed before it")
        return found if found else wrong("nothing was executed yet")

    def begin(self) -> None:
        """Where the run is."""
        call = self.debugger.call
        if call is None:
            print("the run has ended in an error" if self.debugger.failure else "all programs have ended")
            return
        instruction = call.program.instructions[call.at]
        print(f"{call.program.name}:{instruction.line}: {_short(program_lines(call.program)[call.at].strip())}")

    def _call(self) -> ProgramRun:
        return self.debugger.call or wrong("all programs have ended")

    def _io(self, name: str) -> Io:
        ios = self.debugger.machine.ios
        return ios[name] if name in ios else wrong(f"there is no queue or ram {name!r}; `queues` lists them")

    def _graph(self, name: str) -> NetGraph:
        graphs = self.debugger.machine.netlist.graphs
        return graphs[name] if name in graphs else wrong(f"there is no graph {name!r} but {', '.join(graphs)}")

    def _line(self, text: str) -> int:
        line = number_of(text, 1)
        lines = sorted({i.line for program in self.debugger.machine.netlist.programs for i in program.instructions})
        if line not in lines:
            near = next((other for other in lines if other > line), lines[-1] if lines else 0)
            wrong(f"no instruction is in line {line}; one is in line {near}")
        return line

    def _tensors(self, tensors: Sequence[tuple[str, Tensor]], place: Sequence[str]) -> None:
        rows = [(label, str(list(tensor.data.shape)), tensor.format.name, *_statistics(tensor)) for label, tensor in tensors]
        self._print(("tensor", "shape", "format", ">least", ">mean", ">most", ">deviation", ">zeros", ">not finite"), rows)
        for _, tensor in tensors if place else ():
            at = [number_of(part) for part in place[0].split(",")]
            if len(at) != 3 or any(a >= size for a, size in zip(at, tensor.data.shape, strict=False)):
                wrong(f"{place[0]!r} is no place t,row,column in {list(tensor.data.shape)}")
            part = tensor.data[at[0], at[1] : at[1] + SHOWN, at[2] : at[2] + SHOWN]
            print("\n".join(" ".join(f"{value:12.6g}" for value in row) for row in part.tolist()))

    def _print(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        print(Table(header, rows).text(is_terminal=False), end="")


def _state(io: Io) -> tuple[str, ...]:
    queue = io.queue
    held = sum(tensor is not None for tensor in io.left()) if queue.is_ram else io.occupancy
    changed = ", ".join(f"{name} {int(value)}" for name, value in vars(io.current).items() if value) if io.was_executed else "none"
    local = "" if queue.is_ram else str(io.local)
    return queue.name, queue.type, str(queue.entries), str(held), str(io.read), local, str(io.write), changed


def _statistics(tensor: Tensor) -> tuple[str, ...]:
    data = np.asarray(tensor.data, np.float64)
    real = data[np.isfinite(data)]
    found = (real.min(), real.mean(), real.max(), real.std()) if real.size else ()
    numbers = [f"{value:.6g}" for value in found] or ["none"] * 4
    return (*numbers, f"{(data == 0).mean():.1%}", str(data.size - real.size))


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 2] + ".."
