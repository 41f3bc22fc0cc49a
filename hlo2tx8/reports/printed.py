"""Text of IR as `str` prints it, in less time."""

import re
from io import StringIO

from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

ESCAPED = re.compile(r'[\\"]|[^ -~]')


class TextPrinter(Printer):
    """Prints each attribute once and copies its text from then on, and a string at once instead of byte by byte."""

    def __init__(self) -> None:
        super().__init__(stream=StringIO())
        self._pieces: list[str] = []
        self._known: dict[int, tuple[Attribute, str]] = {}  # by identity: hashing an attribute takes as long as printing it

    def text(self) -> str:
        """All that was printed."""
        return "".join(self._pieces)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            depth = self._indent if indent is None else indent
            text = text.replace("\n", "\n" + " " * (depth * self.indent_num_spaces))
        self._pieces.append(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        self.print_string("\n", indent=indent)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        self._pieces.append(f'"{ESCAPED.sub(_escape, bytestring.decode("latin-1"))}"')

    def print_attribute(self, attribute: Attribute) -> None:
        found = self._known.get(id(attribute))
        if found is not None:
            self._pieces.append(found[1])
            return
        begin = len(self._pieces)
        super().print_attribute(attribute)
        text = "".join(self._pieces[begin:])
        if "\n" not in text:  # else it is indented as its place is
            self._known[id(attribute)] = attribute, text


def _escape(found: re.Match[str]) -> str:
    return "\\\\" if found[0] == "\\" else f"\\{ord(found[0]):02X}"


def text_of(op: Operation) -> str:
    """The text of an operation with all that it holds."""
    printer = TextPrinter()
    printer.print_op(op)
    return printer.text()
