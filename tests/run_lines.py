"""Runs the RUN lines of a test in this process: the same commands and the same FileCheck, without a second for each start.

    RUN: [not] %hlo2tx8 ARGS | %opt ARGS    [2>&1]    [| filecheck ARGS]

A test passes if all of its commands end with 0 (`not`: with anything else) and FileCheck finds what it looks for. A line of
another form is left to a shell: `run_test` raises OtherFormError.
"""

import contextlib
import io
import re
import shlex
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

_RUN = re.compile(r"RUN:\s*(.*)")


class OtherFormError(Exception):
    """A RUN line that only a shell understands."""


@dataclass(frozen=True)
class RunLine:
    """One command: `program` with `arguments` is expected to fail if `is_not`; `check` are FileCheck's arguments, None without."""

    text: str
    program: str
    arguments: tuple[str, ...]
    is_not: bool
    with_errors: bool
    check: tuple[str, ...] | None


@dataclass(frozen=True)
class Failure:
    """A RUN line that failed, why, and what it printed."""

    line: RunLine
    reason: str
    output: str

    def __str__(self) -> str:
        return f"RUN: {self.line.text}\n{self.reason}\n{self.output}"


def run_lines(path: Path) -> Iterator[RunLine]:
    """The RUN lines of a test; OtherFormError at the first that is none of ours."""
    for line in path.read_text().splitlines():
        if (match := _RUN.search(line)) is not None:
            yield parse(match[1].strip(), path)


def parse(text: str, path: Path) -> RunLine:
    """A RUN line, with %s as the path; OtherFormError if it is not of the form above."""
    command, bar, check = text.partition(" | ")
    words = [str(path) if word == "%s" else word for word in shlex.split(command)]
    is_not, with_errors = words[:1] == ["not"], words[-1:] == ["2>&1"]
    words = words[is_not : len(words) - with_errors]
    checked = [str(path) if word == "%s" else word for word in shlex.split(check)]
    known = words[:1] in (["%hlo2tx8"], ["%opt"]) and (not bar or checked[:1] == ["filecheck"])
    if not known or any(set(word) & set("|<>;&$`") or word.startswith("%") for word in (*words[1:], *checked)):
        raise OtherFormError(text)
    return RunLine(text, words[0], tuple(words[1:]), is_not, with_errors, tuple(checked[1:]) if bar else None)


def run_test(path: Path) -> Failure | None:
    """Run a test up to its first failure; OtherFormError before anything runs if a line has another form."""
    lines = tuple(run_lines(path))
    if not lines:
        raise OtherFormError(f"{path} has no RUN line")
    return next((failure for line in lines if (failure := run_line(line)) is not None), None)


def run_line(line: RunLine) -> Failure | None:
    """Run one command and FileCheck on what it prints; None if both are content."""
    status, output, errors = run_command(line.program, line.arguments)
    if (status == 0) == line.is_not:
        return Failure(line, f"exit code {status}", output + errors)
    if line.check is None:
        return None
    given = output + errors if line.with_errors else output
    complaint = file_check(line.check, given)
    if complaint is None:
        return None
    return Failure(line, "FileCheck failed", f"{complaint}\n--- given\n{given}\n--- errors\n{errors}")


def run_command(program: str, arguments: Sequence[str]) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `%hlo2tx8` or `%opt`; an exception is exit code 1 with its traceback."""
    main = _main_of(program)
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = main(list(arguments))
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Exception:
            traceback.print_exc()
            status = 1
    return status, output.getvalue(), errors.getvalue()


def _main_of(program: str) -> Callable[[Sequence[str]], int]:
    if program == "%opt":
        from hlo2tx8.tools.opt import main
    else:
        from hlo2tx8.tools.main import main
    return main


def file_check(arguments: Sequence[str], text: str) -> str | None:
    """FileCheck's complaint about a text, or None."""
    options = parse_argv_options(["filecheck", *arguments])
    complaint = io.StringIO()
    with contextlib.redirect_stdout(complaint), contextlib.redirect_stderr(complaint):
        try:
            status = Matcher(options, FInput("<stdin>", text), Parser.from_opts(options)).run()
        except SystemExit as end:
            status = end.code
    return complaint.getvalue() if status else None
