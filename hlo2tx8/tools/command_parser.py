"""The parser of the command line: whole names of flags only, and one line with a hint for a mistake."""

import argparse
import difflib
import re
import sys
from typing import Any, NoReturn

NO_VALUE = re.compile(r"argument (--\w+)\S*: ignored explicit argument (.*)")
UNKNOWN = re.compile(r"unrecognized arguments: (--[^\s=]+)")


class CommandParser(argparse.ArgumentParser):
    """argparse's parser without abbreviations, which would change their meaning when a flag is added.

    A mistake is one line and a hint on stderr, exit code 2.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        hint = f"{self.prog} --help lists what there is"
        if found := NO_VALUE.match(message):
            message, hint = f"{found[1]} is a switch and cannot be {found[2]}", f"{found[1]}, {found[1]}=true or {found[1]}=false"
        elif (found := UNKNOWN.match(message)) and (near := self._names_like(found[1])):
            hint = f"did you mean {', '.join(near)}?"
        print(f"error E1004: {message}\n  hint: {hint}", file=sys.stderr)
        sys.exit(2)

    def _names_like(self, flag: str) -> list[str]:
        """Flags whose names are nearly that."""
        names = re.findall(r"--\w+", self.format_help())
        return difflib.get_close_matches(flag, dict.fromkeys(names), n=2)
