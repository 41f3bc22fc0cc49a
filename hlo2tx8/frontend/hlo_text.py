"""HLO text through jaxlib's parser, in a child process: that parser aborts on some malformed text.

One child stays warm for the process that asked; it is started at the first use, restarted after it died, and ends with its
parent because its standard input closes.
"""

import os
import re
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from threading import Lock

from hlo2tx8.errors import ParseError

TIME_LIMIT_SECONDS = 60.0
_PLACE = re.compile(r"was parsing (\d+):(\d+): error: ([^\n]*)")
_ABORT = re.compile(r"(?:Check failed|F\d{4}|FATAL)[^\n]*")
_CHILD = "from hlo2tx8.frontend.hlo_text import serve; serve()"


def serve() -> None:
    """The child: length-prefixed texts in, status byte and length-prefixed protos or messages out."""
    from hlo2tx8.frontend import shim

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(4):
        text = source.read(struct.unpack("<I", header)[0]).decode()
        try:
            status, reply = 0, shim.hlo_text_to_proto(text)
        except Exception as error:  # every parser error is an answer, not an end
            status, reply = 1, str(error).encode()
        sink.write(struct.pack("<BI", status, len(reply)) + reply)
        sink.flush()


@dataclass
class HloTextParser:
    """Parses HLO text in a warm child process."""

    child: subprocess.Popen[bytes] | None = None
    lock: Lock = field(default_factory=Lock)

    def parse(self, text: str, name: str) -> bytes:
        """The serialized HLO module of a text; ParseError with `name:line:column`."""
        refuse_elided(text, name)
        with self.lock:
            return self._parse(text, name)

    def _parse(self, text: str, name: str) -> bytes:
        child = self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        data = text.encode()
        try:
            child.stdin.write(struct.pack("<I", len(data)) + data)
            child.stdin.flush()
            head = child.stdout.read(5)
        except BrokenPipeError:
            head = b""
        if len(head) < 5:
            raise self._died(child, name)
        status, size = struct.unpack("<BI", head)
        reply = child.stdout.read(size)
        if status == 0:
            return reply
        raise _parse_error(reply.decode(errors="replace"), name)

    def _running(self) -> subprocess.Popen[bytes]:
        if self.child is None or self.child.poll() is not None:
            environment = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="2")
            self.child = subprocess.Popen(
                [sys.executable, "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
        return self.child

    def _died(self, child: subprocess.Popen[bytes], name: str) -> ParseError:
        self.child = None
        _, stderr = child.communicate(timeout=TIME_LIMIT_SECONDS)
        message = _ABORT.search(stderr.decode(errors="replace"))
        detail = message.group(0) if message else f"the parser ended with status {child.returncode}"
        return ParseError("E1003", f"{name}: malformed HLO: {detail}", hint="check shapes against operands")


def refuse_elided(text: str, name: str) -> None:
    """`constant({...})` stands for elements the text does not have."""
    for number, line in enumerate(text.splitlines(), start=1):
        column = line.find("constant({...})")
        if column >= 0:
            message = f"{name}:{number}:{column + 1}: the elements of this constant were left out of the text"
            raise ParseError("E1003", message, hint="print the module with all constants")


def _parse_error(message: str, name: str) -> ParseError:
    place = _PLACE.search(message)
    if place is not None:
        line, column, detail = place.groups()
        return ParseError("E1003", f"{name}:{line}:{column}: {detail}")
    first = next((line for line in message.splitlines() if line.strip()), "malformed HLO")
    return ParseError("E1003", f"{name}: {first}")


_PARSER = HloTextParser()


def parse_hlo_text(text: str, name: str = "<text>") -> bytes:
    """The serialized HLO module of a text, parsed in the warm child of this process."""
    return _PARSER.parse(text, name)
