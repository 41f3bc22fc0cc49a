"""Commands line by line: at a prompt, or from a file or stdin, where the first that is wrong ends them."""

import cmd
import shlex
import sys
from collections.abc import Iterable
from typing import NoReturn

from hlo2tx8.errors import Hlo2tx8Error, InputError


class Lines(cmd.Cmd):
    """A method `do_x` for each command, which gives True to end; the first line of its text is what `help` lists.

    `is_asked`: lines are typed at a prompt.
    """

    is_asked = False

    def begin(self) -> None:
        """What is printed before the first prompt."""

    def ask(self) -> int:
        """At a prompt until the user quits, which an interrupt does not."""
        self.is_asked = True
        self.begin()
        while True:
            try:
                self.cmdloop()
                return 0
            except KeyboardInterrupt:
                print("\ninterrupted; `quit` ends")

    def follow(self, lines: Iterable[str]) -> int:
        """Each line is a command, # begins a remark; the exit code."""
        for number, line in enumerate(lines, 1):
            if not (text := line.partition("#")[0].strip()):
                continue
            try:
                if self.do(text):
                    return 0
            except Hlo2tx8Error as error:
                print(error, file=sys.stderr)
                print(f"line {number}: {text}", file=sys.stderr)
                return 1
        return 0

    def onecmd(self, line: str) -> bool:
        """One line at the prompt; what is wrong with it is printed."""
        try:
            return self.do(line)
        except Hlo2tx8Error as error:
            print(error)
            return False

    def do(self, line: str) -> bool:
        """One command; True to end."""
        try:
            return bool(super().onecmd(line))
        finally:
            sys.stdout.flush()

    def emptyline(self) -> bool:
        """An empty line is none."""
        return False

    def default(self, line: str) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A command that is cut short, or none."""
        if line == "EOF":
            print()
            return True
        word = line.split(maxsplit=1)[0]
        near = [name for name in self._names() if name.startswith(word)]
        if len(near) == 1:
            return self.do(near[0] + line.removeprefix(word))
        return wrong(f"{word!r} is {'short for ' + ', '.join(near) if near else 'no command; `help` lists them'}")

    def _names(self) -> list[str]:
        return [name[3:] for name in self.get_names() if name.startswith("do_")]

    def do_help(self, arg: str) -> None:
        """help [COMMAND]: what there is, or all about one command."""
        if arg and arg not in self._names():
            wrong(f"there is no command {arg!r}; `help` lists them")
        for name in [arg] if arg else self._names():
            text = getattr(self, f"do_{name}").__doc__
            print("\n".join(line.strip() for line in text.splitlines()).strip() if arg else text.splitlines()[0])
        if not arg:
            print("A command may be as short as is clear: `st`.")


def wrong(message: str) -> NoReturn:
    """InputError."""
    raise InputError("E1004", message)


def number_of(text: str, least: int = 0) -> int:
    """A number that is at least so large; InputError for anything else."""
    if not text.isdecimal() or int(text) < least:
        wrong(f"{text!r} is no number from {least} on")
    return int(text)


def refuse_words(arg: str) -> None:
    """InputError for words after a command that takes none."""
    if arg:
        wrong(f"nothing comes after the command, and {arg!r} does")


def words_of(arg: str, least: int, most: int, usage: str) -> list[str]:
    """The words after a command, so many; a word may be quoted."""
    try:
        words = shlex.split(arg)
    except ValueError as error:
        wrong(f"{arg!r}: {error}")
    return words if least <= len(words) <= most else wrong(f"it is `{usage}`")
