"""`hlo2tx8 netlist debug FILE`: step through programs, see queues, pointers, variables and tensors, and which op differs first.

Commands come from a prompt, from a file (`--commands`) or from stdin; there the first that is wrong ends it with exit code 1.
"""

import re
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hlo2tx8.errors import UnsupportedError
from hlo2tx8.netlist.debug import Break, Debugger, Recorder
from hlo2tx8.netlist.epochs import Golden
from hlo2tx8.netlist.golden import machine_of, rules_of
from hlo2tx8.netlist.instructions import Execute, Instruction
from hlo2tx8.netlist.machine import Backend, ProgramRun
from hlo2tx8.options import Options
from hlo2tx8.tools.command_lines import number_of, refuse_words, wrong
from hlo2tx8.tools.netlist_input import (
    UNSUPPORTED,
    add_arch,
    add_chip_flags,
    add_host_flags,
    chip_for,
    inputs_of,
    params_of,
    read_for,
)
from hlo2tx8.tools.netlist_views import Views


def add_debug_parser(commands: Any) -> None:
    """The subcommand."""
    parser = commands.add_parser("debug", help="step through a netlist's programs and see queues, variables and tensors")
    parser.set_defaults(function=debug_file)
    parser.add_argument("file", type=Path, help=".yaml netlist, or folder of `netlist compile`")
    add_arch(parser)
    parser.add_argument("--on", choices=("golden", "tx8"), help="what runs it (golden; tx8 for a folder)")
    add_chip_flags(parser)
    add_host_flags(parser)
    parser.add_argument("--commands", type=Path, help="file with a command a line (a prompt, or stdin)")


def debug_file(args: Any) -> int:
    """Do what is asked for at the prompt; 1 if a command of a file was wrong, 3 if ops are not supported."""
    lines = args.commands.read_text().splitlines() if args.commands else None
    if (args.on or ("tx8" if args.file.is_dir() else "golden")) == "golden":
        netlist, arch = read_for(args)
        backend: Backend = Golden(rules_of(netlist, arch))
    else:
        try:
            netlist, backend = chip_for(args, Options(chip=args.chip))
        except UnsupportedError as error:
            print(error, file=sys.stderr)
            return UNSUPPORTED

    def backends() -> tuple[Backend, Backend]:
        from hlo2tx8.netlist.tx8 import Tx8

        rules, options = backend.rules, backend.options if isinstance(backend, Tx8) else Options(chip=args.chip)
        pair = Golden(rules), Tx8(rules, options, args.placement)
        return pair if isinstance(backend, Golden) else (pair[1], pair[0])

    recorder = Recorder(backend)
    machine = machine_of(netlist, recorder, inputs_of(args), params_of(args), args.max_steps)
    prompt = Prompt(Debugger(machine, recorder), backends)
    if lines is None and sys.stdin.isatty():
        return prompt.ask()
    return prompt.follow(lines if lines is not None else sys.stdin)


class Prompt(Views):
    """The commands that go on with a run, and those of `Views`."""

    prompt = "(netlist) "
    _is_stopped = False

    def do_step(self, arg: str) -> None:
        """step [N]: do the next instruction, or the next N."""
        left = number_of(arg or "1", 1)

        def is_done(_: Instruction, __: ProgramRun | None) -> bool:
            nonlocal left
            left -= 1
            return not left

        self._go(is_done)

    def do_execute(self, arg: str) -> None:
        """execute: go on until a graph was executed."""
        refuse_words(arg)
        self._go(lambda done, _: isinstance(done, Execute))

    def do_until(self, arg: str) -> None:
        """until LINE | end: go on until a line of the file is next, or until the program has ended."""
        if arg == "end":
            program = self.debugger.call and self.debugger.call.program
            self._go(lambda _, call: call is None or call.program is not program)
        else:
            line = self._line(arg)
            self._go(lambda _, call: call is not None and call.program.instructions[call.at].line == line)

    def do_continue(self, arg: str) -> None:
        """continue: go on until a breakpoint or until all programs have ended."""
        refuse_words(arg)
        self._go(lambda done, call: False)

    def _go(self, is_there: Callable[[Instruction, ProgramRun | None], bool]) -> None:
        if self.debugger.call is None:
            wrong("all programs have ended" if not self.debugger.failure else "the run has ended in an error")
        with self._interrupts():
            if why := self.debugger.go(is_there, lambda: self._is_stopped):
                print(why)
        self.begin()

    @contextmanager
    def _interrupts(self) -> Generator[None]:
        """At a prompt the first interrupt stops a run before its next instruction, and the second one at once."""
        if not self.is_asked:
            yield
            return

        def stop(*_: object) -> None:
            self._is_stopped = True
            signal.signal(signal.SIGINT, signal.default_int_handler)

        before, self._is_stopped = signal.signal(signal.SIGINT, stop), False
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def do_break(self, arg: str) -> None:
        """break [LINE | graph NAME | $VARIABLE == N]: stop there; list breakpoints.
        A variable may also be !=, <, <=, > or >= a number: it stops when that becomes true.
        """
        breaks = self.debugger.breaks
        if arg.startswith("$"):
            found = re.fullmatch(r"(\$\S+?)\s*(==|!=|<=|>=|<|>)\s*(-?\d+)", arg) or wrong(f"{arg!r} is not $variable == 3")
            breaks.append(Break(variable=found[1], relation=found[2], value=int(found[3])))
        elif arg.startswith("graph "):
            breaks.append(Break(graph=self._graph(arg.split(maxsplit=1)[1]).name))
        elif arg:
            breaks.append(Break(line=self._line(arg)))
        for number, one in enumerate(breaks, 1):
            print(f"{number}: {one}")

    def do_forget(self, arg: str) -> None:
        """forget [N]: remove a breakpoint, or all of them."""
        if arg:
            number = number_of(arg, 1)
            if number > len(self.debugger.breaks):
                wrong(f"there is no breakpoint {number}")
            del self.debugger.breaks[number - 1]
        else:
            self.debugger.breaks.clear()

    def do_quit(self, arg: str) -> bool:
        """quit: end."""
        refuse_words(arg)
        return True
