"""A process that answers tasks, a line of JSON each, and its other end.

    TaskProcess(["-m", "hlo2tx8.sweep.measure"]) ── a line ──▶ serve(measure) ──▶ a line, {"lost": "..."} if the function raised
                                                          dies, or is over the limit ──▶ `lost` says so, and the next task gets
                                                          a process of its own

What is sent is text; nothing is pickled, and a process runs what its own command names.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, cast

STARTUP_SECONDS = 60.0
TASKS_PER_PROCESS = 400
"""Then a new one: what leaks in one stays small."""
TAIL_BYTES = 2000
QUICK_SECONDS = 0.5
PIPE_BYTES = 60_000
"""What a pipe takes without a reader."""
MORE = "more_seconds"
"""A key of an answer behind which another one for the same task follows, within so many seconds."""
ENDS = "ends"
"""A key of an answer behind which its process ends, because it may be in any state."""


def serve(function: Callable[[Any], object]) -> None:
    """Answer each line of standard input, a task, with what the function returns of it, or an iterator yields, until the input or
    the parent ends.

    What libraries print goes to stderr. An error becomes {"lost": its type and text}.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin:
        try:
            found = function(json.loads(line))
            for answer in cast(Iterator[object], found) if isinstance(found, Iterator) else (found,):
                _write(answers, answer)
        except Exception as error:
            _write(answers, {"lost": f"{type(error).__name__}: {error}"})


def _write(answers: IO[str], answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, also in the middle of a task."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


@dataclass(frozen=True)
class Answered:
    """The answers to a task, and if the last one never came why: how its process died, or for how long it said nothing. Not
    `is_last`, there is more to come.
    """

    answers: tuple[Any, ...]
    lost: str = ""
    seconds: float = 0.0
    is_last: bool = True


class TaskProcess:
    """A process that is started when there is a task, and again when it has died. `arguments` are those of Python; `processor` is
    where it runs, anywhere if None.
    """

    def __init__(self, arguments: Sequence[str], processor: int | None = None) -> None:
        self.arguments, self.processor = arguments, processor
        self.process: subprocess.Popen[bytes] | None = None
        self.errors: IO[bytes] | None = None
        self.given = 0
        self.unread = b""
        self.ahead: str | None = None
        self.seconds = math.inf
        self.has_ended = False

    @property
    def is_quick(self) -> bool:
        """The last task took so little that a process which waits for the next one loses a part of its time."""
        return self.seconds < QUICK_SECONDS

    def ask(
        self, task: str, limit: float = 0.0, hear: Callable[[Answered], None] = lambda _: None, following: str | None = None
    ) -> Answered:
        """The answers to a task, the first within `limit` seconds (0: any time); `hear` is given those that more follow behind.
        `following` is the task of the next call: the process has it when it has answered this one.
        """
        started = time.monotonic()
        if self.ahead != task and (self.ahead is not None or self.given >= TASKS_PER_PROCESS):
            self._stop()
        seconds = limit + (0.0 if self.process else STARTUP_SECONDS)
        answers: list[Any] = []
        lost = ""
        try:
            process = self.process or self._start()
            if self.ahead is None:
                self._give(process, task)
            self.ahead = None
            if following is not None and self.given < TASKS_PER_PROCESS and len(task) + len(following) < PIPE_BYTES:
                self._give(process, following)
                self.ahead = following
            while True:
                answers.append(json.loads(self._line(seconds if limit else None)))
                if not answers[-1].get(MORE):
                    break
                seconds = answers[-1][MORE]
                hear(Answered(tuple(answers), is_last=False))
            if answers[-1].get(ENDS):
                self._stop()
        except TimeoutError:
            self._stop()
            lost = f"no answer within {seconds if answers else limit:g} s"
        except (OSError, ValueError):
            lost = self._stop() or "ended"
        self.seconds = time.monotonic() - started
        return Answered(tuple(answers), lost, round(self.seconds, 3))

    def _give(self, process: subprocess.Popen[bytes], task: str) -> None:
        assert process.stdin is not None
        self.given += 1
        process.stdin.write(task.encode() + b"\n")
        process.stdin.flush()

    def end(self) -> None:
        """Kill the process and its children; whoever waits for an answer is told that it died, and none is started again."""
        self.has_ended = True
        if self.process is not None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        """A new process in a group of its own, so that its children end with it."""
        if self.has_ended:
            raise OSError
        self.errors, self.given, self.unread, self.ahead = tempfile.TemporaryFile(), 0, b"", None  # noqa: SIM115  (lives as long as the process)
        command, pipe = [sys.executable, *self.arguments], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.errors, start_new_session=True)
        if self.processor is not None:
            with suppress(OSError):
                os.sched_setaffinity(self.process.pid, {self.processor})
        return self.process

    def _line(self, seconds: float | None) -> bytes:
        """The next line, ValueError at the end."""
        assert self.process is not None and self.process.stdout is not None
        file, ends = self.process.stdout.fileno(), None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self.unread:
            left = None if ends is None else max(ends - time.monotonic(), 0.0)
            if not select.select([file], [], [], left)[0]:
                raise TimeoutError
            if not (data := os.read(file, 1 << 16)):
                raise ValueError
            self.unread += data
        line, _, self.unread = self.unread.partition(b"\n")
        return line

    def _stop(self) -> str:
        """Kill it and its children; what it died of, with the last of what it said on stderr."""
        process, errors = self.process, self.errors
        if process is None or errors is None:
            return ""
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)  # one that is dying of itself
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - TAIL_BYTES))
        tail = errors.read().decode(errors="replace").strip()
        for stream in (process.stdin, process.stdout, errors):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self.process, self.ahead = None, None
        died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"{died}: {tail}" if tail else died
