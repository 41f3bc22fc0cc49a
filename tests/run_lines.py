"""Runs the RUN lines of a test in this process: the same commands and the same FileCheck, without a second for each start.

    RUN: [not] COMMAND [2>&1] [| COMMAND ...] [| filecheck ARGS]        COMMAND: %hlo2tx8 ARGS or %opt ARGS

A test passes if all of its commands end with 0 (`not`: with anything else) and FileCheck finds what it looks for. A line of
another form is left to a shell: `run_test` raises OtherFormError.
"""

import contextlib
import io
import re
import shlex
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

MAINS = {"%hlo2tx8": "hlo2tx8.tools.main", "%opt": "hlo2tx8.tools.opt"}
"""The module with the `main` of each command."""

_RUN = re.compile(r"RUN:\s*(.*)")


class OtherFormError(Exception):
    """A RUN line that only a shell understands."""


@dataclass(frozen=True)
class RunLine:
    """Commands, each reading what the one before it printed; `is_not`: the last one is expected to fail; `with_errors`: what it
    writes to stderr counts as printed; `check`: FileCheck's arguments, None without."""

    text: str
    commands: tuple[tuple[str, ...], ...]
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
    parts = [[str(path) if word == "%s" else word for word in shlex.split(part)] for part in text.split(" | ")]
    check = tuple(parts.pop()[1:]) if parts[-1][:1] == ["filecheck"] else None
    is_not, with_errors = parts[0][:1] == ["not"], parts[-1][-1:] == ["2>&1"]
    parts[-1] = parts[-1][: len(parts[-1]) - with_errors]
    parts[0] = parts[0][is_not:]
    is_known = all(words and words[0] in MAINS for words in parts)
    if not is_known or any(set(word) & set("|<>;&$`") or word.startswith("%") for words in parts for word in words[1:]):
        raise OtherFormError(text)
    return RunLine(text, tuple(map(tuple, parts)), is_not, with_errors, check)


def run_test(path: Path) -> Failure | None:
    """Run a test up to its first failure; OtherFormError before anything runs if a line has another form."""
    lines = tuple(run_lines(path))
    if not lines:
        raise OtherFormError(f"{path} has no RUN line")
    return next((failure for line in lines if (failure := run_line(line)) is not None), None)


def run_line(line: RunLine) -> Failure | None:
    """Run the commands and FileCheck on what they print; None if all are content."""
    given, errors, status = "", "", 0
    for command in line.commands:
        status, given, errors = run_command(command, given)
    if (status == 0) == line.is_not:
        return Failure(line, f"exit code {status}", given + errors)
    if line.check is None:
        return None
    if line.with_errors:
        given += errors
    complaint = file_check(line.check, given)
    if complaint is None:
        return None
    return Failure(line, "FileCheck failed", f"{complaint}\n--- given\n{given}\n--- errors\n{errors}")


def run_command(command: Sequence[str], given: str = "") -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command with `given` as its stdin; an exception is exit code 1 with its traceback."""
    main = getattr(import_module(MAINS[command[0]]), "main")  # noqa: B009  (of a module found by name)
    output, errors, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = main(list(command[1:]))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        errors.write(traceback.format_exc())
        status = 1
    finally:
        sys.stdin = stdin
    return status, output.getvalue(), errors.getvalue()


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
