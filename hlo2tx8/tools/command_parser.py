"""The parser of the command line: whole names of flags only, and one line with a hint for a mistake."""

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

NO_VALUE = re.compile(r"argument (--\w+)\S*: ignored explicit argument (.*)")
UNKNOWN = re.compile(r"unrecognized arguments: (--[^\s=]+)")


class CommandParser(argparse.ArgumentParser):
    """argparse's parser without abbreviations, which would change their meaning when a flag is added.

    A mistake is one line and a hint on stderr, exit code 2. What it finds has `given`: the names of all flags that are not at their
    defaults. `others` are the parsers of the other commands.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **kwargs)
        self.others: Sequence[CommandParser] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        if not hasattr(found, "given"):  # a command's parser runs within the one of all commands, and comes first
            found.given = frozenset(name for name, value in vars(found).items() if value != self.get_default(name))
        return found, rest

    def error(self, message: str) -> NoReturn:
        end_with_hint(self, message, self.others)


def end_with_hint(parser: argparse.ArgumentParser, message: str, others: Sequence[argparse.ArgumentParser] = ()) -> NoReturn:
    """Ends the process with a line for a parser's message and a hint; `others` may have the flag that this parser does not know."""
    hint = f"{parser.prog} --help lists what there is"
    if found := NO_VALUE.match(message):
        message, hint = f"{found[1]} is a switch and cannot be {found[2]}", f"{found[1]}, {found[1]}=true or {found[1]}=false"
    elif found := UNKNOWN.match(message):
        if near := difflib.get_close_matches(found[1], _flags(parser), n=2):
            hint = f"did you mean {', '.join(near)}?"
        if whose := [other.prog for other in others if found[1] in _flags(other)]:
            hint = f"{found[1]} is a flag of {', '.join(whose)}"
    print(f"error E1004: {message}\n  hint: {hint}", file=sys.stderr)
    sys.exit(2)


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return list(dict.fromkeys(re.findall(r"--[\w-]+", parser.format_help())))
