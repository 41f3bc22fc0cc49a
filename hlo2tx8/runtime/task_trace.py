"""What the tasks of a session did when, in the Trace Event Format: as measured on the host, and as modelled on the device."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hlo2tx8.runtime.tasks import Marker, Task, TaskKind
from hlo2tx8.runtime.trace import write_trace

MOST_TASKS = 1 << 16
HOST, DEVICE = 1, 2
"""Processes of the trace."""


class TaskTrace:
    """A listener that keeps the last `most` tasks of the queues it hears of.

    In the modelled part each stream does its tasks one after the other from time 0 on, transfers at the rate of PCIe and launches
    in their modelled time, and waits for markers of other streams.
    """

    def __init__(self, most: int = MOST_TASKS) -> None:
        self._done: deque[tuple[Task, str, float, float, str]] = deque(maxlen=most)
        self._began: dict[Task, float] = {}
        self._start = time.perf_counter()

    def before(self, task: Task) -> None:
        """Notes when a task begins."""
        self._began[task] = time.perf_counter()

    def after(self, task: Task, error: BaseException | None) -> None:
        """Notes that it is done."""
        began = self._began.pop(task, self._start)
        thread = threading.current_thread().name
        self._done.append(
            (task, thread, began - self._start, time.perf_counter() - self._start, "" if error is None else str(error))
        )

    def content(self) -> dict[str, object]:
        """The trace as a dictionary; times are microseconds."""
        events = [*_named(HOST, "host (measured)"), *_named(DEVICE, "device (modelled)"), *self._measured(), *self._modelled()]
        return {"displayTimeUnit": "ns", "traceEvents": events}

    def write(self, path: str | Path) -> None:
        """Write the trace to a file; InputError if it cannot be written."""
        write_trace(self.content(), Path(path))

    def _measured(self) -> Iterator[dict[str, Any]]:
        for task, thread, began, ended, error in list(self._done):
            yield _slice(task, HOST, thread, began, ended, error)

    def _modelled(self) -> Iterator[dict[str, Any]]:
        now: dict[str, float] = {}
        passed: dict[Marker, float] = {}
        for task, _, _, _, error in list(self._done):  # in the order of their ends: a marker before those that wait for it
            began = now.get(task.stream, 0.0)
            ended = began + (0.0 if error else task.modelled_seconds())
            if task.marker is not None and task.kind is TaskKind.RECORD_EVENT:
                passed[task.marker] = ended
            elif task.marker is not None:
                ended = max(ended, passed.get(task.marker, 0.0))
            now[task.stream] = ended
            yield _slice(task, DEVICE, task.stream, began, ended, error)


def _named(process: int, name: str) -> Iterator[dict[str, Any]]:
    yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}}


def _slice(task: Task, process: int, thread: str, began: float, ended: float, error: str) -> dict[str, Any]:
    args: dict[str, Any] = {"request": task.request, "run": task.run}
    args |= {"bytes": task.size_bytes} if task.size_bytes else {}
    args |= {"event": task.marker.name} if task.marker is not None else {}
    args |= {"error": error} if error else {}
    event = {"name": task.name, "cat": task.kind.value, "ph": "X", "pid": process, "tid": thread, "args": args}
    return event | {"ts": round(began * 1e6, 6), "dur": round((ended - began) * 1e6, 6)}
