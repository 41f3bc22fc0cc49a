"""HLO text and protos through jaxlib's parser, in a child process: that parser aborts on some that are malformed.

One child stays warm for the process that asked. It is started at the first use, restarted after it died or took too
long, and killed at exit.
"""

import os
import re
import selectors
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO

from hlo2tx8.errors import ParseError
from hlo2tx8.frontend import shim
from hlo2tx8.protobuf import fields, messages

TIME_LIMIT_SECONDS = 60.0
ENTRY_COMPUTATION_NAME = 2
"""The field of HloModuleProto that neither HloProto nor HloSnapshot has."""
_PLACE = re.compile(r"was parsing (\d+):(\d+): error: ([^\n]*)")
_ABORT = re.compile(r"(?:Check failed|F\d{4}|FATAL)[^\n]*")
_BLAMED = re.compile(r'error: "([^"]*)": (.*)')
_RESHAPED = re.compile(r"shape: (\S+) operand: (\S+)")
_SOURCE = re.compile(r"^[FE]\d{4} \S+\s+\d+ \S+:\d+\] ")
_COUNTS = {"mhlo.num_replicas": "replica_count", "mhlo.num_partitions": "num_partitions"}
_STABLE = re.compile(r"(\btopk\([^\n]*?),[ ]*is_stable=(?:true|false)")
"""What jaxlib's parser does not know of topk yet; that of equal elements the first comes first, is so here anyway."""
_MODULE = re.compile(r"^\s*HloModule\b", re.MULTILINE)


def num_devices(text: str) -> dict[str, int]:
    """The attributes that an MLIR module has for the numbers of replicas and partitions that the header of HLO text names."""
    header = next((line for line in text.splitlines() if _MODULE.match(line)), "")
    found = ((name, re.search(rf"\b{word}=(\d+)", header)) for name, word in _COUNTS.items())
    return {name: int(match[1]) for name, match in found if match is not None}


def parse_hlo(source: str | bytes, name: str = "<text>") -> bytes:
    """StableHLO bytecode of HLO text or of a serialised HloModuleProto, HloProto or HloSnapshot.

    ParseError with `name:line:column` where the parser tells the place.
    """
    if isinstance(source, str):
        refuse_several(source, name)
        if "{" in source and _MODULE.search(source) is None:
            source = f"HloModule module {source}"  # on the first line, so that the others stay
        source = _STABLE.sub(r"\1", source)
    else:
        source = _module_proto(source, name)
    return _parser_of(os.getpid()).parse(source, name)


def _module_proto(data: bytes, name: str) -> bytes:
    """The HloModuleProto in a proto: itself, or the first field of an HloProto, or of that of an HloSnapshot."""
    try:
        while all(number != ENTRY_COMPUTATION_NAME for number, _ in fields(data)):
            (data,) = messages(data, 1)
    except ValueError:
        raise ParseError("E1003", f"{name}: neither text, MLIR bytecode nor an HLO proto") from None
    return data


def refuse_several(text: str, name: str) -> None:
    """ParseError if the text holds more than one module."""
    found = list(_MODULE.finditer(text))
    if len(found) > 1:
        message = f"{_place(text, found[1].end() - len('HloModule'), name)}: a second module begins here"
        raise ParseError("E1003", message, hint="one HloModule per file")


def _place(text: str, position: int, name: str) -> str:
    line = text.count("\n", 0, position) + 1
    return f"{name}:{line}:{position - text.rfind(chr(10), 0, position)}"


@dataclass
class Child:
    """A running parser process, whose stderr goes to a file."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @staticmethod
    def start(program: Sequence[str] = (shim.__file__,), folder: Path | None = None) -> "Child":
        """Start a new child. `-P` keeps the script's folder, in which there is a types.py, off its module path, where
        `folder` is.
        """
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the child)
        environment = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="2")
        if folder is not None:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-P", *program]
        pipe = subprocess.PIPE
        return Child(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment), errors)

    def ask(self, source: str | bytes, seconds: float) -> tuple[int, bytes] | None:
        """(status, reply), or None if it died; TimeoutError if there is no answer in time."""
        deadline = time.monotonic() + seconds
        data = source if isinstance(source, bytes) else source.encode()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(struct.pack("<?Q", isinstance(source, bytes), len(data)) + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        head = self._read(5, deadline)
        if head is None:
            return None
        status, size = struct.unpack("<BI", head)
        reply = self._read(size, deadline)
        return None if reply is None else (status, reply)

    def _read(self, size: int, deadline: float) -> bytes | None:
        """That many bytes, or None at the end of the stream."""
        assert self.process.stdout is not None
        pieces: list[bytes] = []
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while size:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                piece = os.read(self.process.stdout.fileno(), min(size, 1 << 20))
                if not piece:
                    return None
                pieces.append(piece)
                size -= len(piece)
        return b"".join(pieces)

    def end(self) -> str:
        """Kill the child; returns everything that it wrote to stderr."""
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")


@dataclass
class HloTextParser:
    """Parses HLO text in a warm child process, or what another child takes."""

    seconds: float = TIME_LIMIT_SECONDS
    start: Callable[[], Child] = Child.start
    child: Child | None = None
    lock: Lock = field(default_factory=Lock)
    what: str = "HLO"

    def parse(self, source: str | bytes, name: str, seconds: float | None = None) -> bytes:
        """StableHLO bytecode; ParseError if text or proto are malformed, make the parser abort, or take it more than `seconds`."""
        seconds = self.seconds if seconds is None else seconds
        text = "" if isinstance(source, bytes) else source
        with self.lock:
            child = self._running()
            try:
                answer = child.ask(source, seconds)
            except BaseException as error:
                self.child = None
                child.end()
                if not isinstance(error, TimeoutError):
                    raise
                raise ParseError("E1003", f"{name}: the parser took more than {seconds:.3g} s") from None
            if answer is None:
                self.child = None
                raise _abort_error(child.end(), text, name, self.what)
        status, reply = answer
        if status == 0:
            return reply
        raise place_error(reply.decode(errors="replace") or f"malformed {self.what}", text, name)

    def _running(self) -> Child:
        if self.child is None or self.child.process.poll() is not None:
            self.child = self.start()
            weakref.finalize(self, self.child.process.kill)
        return self.child


@cache
def _parser_of(pid: int) -> HloTextParser:
    """The parser of a process; a fork gets its own."""
    return HloTextParser()


def place_error(message: str, text: str, name: str) -> ParseError:
    """A ParseError for a message of the parser or the verifier, with the position in the text if the message tells one."""
    place = _PLACE.search(message)
    if place is not None:
        line, column, detail = place.groups()
        return ParseError("E1003", f"{name}:{line}:{column}: {detail}")
    blamed = _BLAMED.search(message)
    if blamed is not None:
        place = _place_of(blamed.group(1), text, name)
        who = f"{blamed.group(1)}: " if place == name else ""
        return ParseError("E1003", f"{place}: {who}{blamed.group(2).strip()}")
    first = next((line for line in message.splitlines() if line.strip()), "malformed HLO")
    return ParseError("E1003", f"{name}: {first}")


def _place_of(instruction: str, text: str, name: str) -> str:
    found = re.search(rf"^\s*(?:ROOT\s+)?%?({re.escape(instruction)})\s*=", text, re.MULTILINE)
    return name if found is None else _place(text, found.start(1), name)


def _abort_error(stderr: str, text: str, name: str, what: str) -> ParseError:
    """The parser aborted: what its check says, and the instruction if the message names one of the text."""
    match = _ABORT.search(stderr)
    detail = _SOURCE.sub("", match.group(0)) if match else "the parser died without a message"
    hint = "" if match else "it is damaged, or types, attributes, locations or regions are too deep inside each other"
    shapes = _RESHAPED.search(detail)
    if shapes is None:
        return ParseError("E1003", f"{name}: malformed {what}: {detail}", hint=hint)
    result, operand = shapes.groups()
    found = re.search(rf"=\s*{re.escape(result)}(\{{[\d,]*\}})?\s+reshape\(", text)
    place = name if found is None else _place(text, found.start() + 2, name)
    return ParseError("E1003", f"{place}: {operand} cannot be reshaped to {result}: {detail.split(' shape: ')[0]}")
