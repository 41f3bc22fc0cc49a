"""Tasks of work queues, the runs that they belong to, and who hears of them."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from hlo2tx8.errors import SessionError


class TaskKind(Enum):
    """What a task does: moves an array to the device, from it or on it, runs a program, or records or waits for a marker."""

    H2D = "h2d"
    D2H = "d2h"
    D2D = "d2d"
    COMPUTE = "compute"
    RECORD_EVENT = "record_event"
    WAIT_EVENT = "wait_event"


@dataclass(eq=False)
class Marker:
    """A place in a stream that other streams can wait for."""

    name: str
    passed: threading.Event = field(default_factory=threading.Event)


class Listener(Protocol):
    """Hears of tasks, in the thread that does them; what it raises ends the task's run."""

    def before(self, task: "Task") -> None:
        """Called before a task."""
        ...

    def after(self, task: "Task", error: BaseException | None) -> None:
        """Called after it, with the error that it ended with."""
        ...


class Submission:
    """One run of a request: `future` gets `results` when its last task is done, or the first error of one."""

    def __init__(self, results: Sequence[Any], listeners: Sequence[Listener]) -> None:
        self.future: Future[list[Any]] = Future()
        self.results, self.listeners = list(results), listeners
        self.error: BaseException | None = None
        self.has_begun = self.is_over = False
        self.lock = threading.Lock()

    def begin(self) -> None:
        """Before any task; a run that was cancelled has none."""
        with self.lock:
            if not self.has_begun:
                self.has_begun = True
                if not self.future.set_running_or_notify_cancel():
                    self.error = SessionError("the run was cancelled")

    def fail(self, error: BaseException) -> None:
        """Keeps the first error."""
        with self.lock:
            self.error = self.error or error

    def end(self) -> None:
        """Tells the future, once."""
        self.begin()
        with self.lock:
            if self.is_over:
                return
            self.is_over = True
        if self.future.cancelled():
            return
        if self.error is None:
            self.future.set_result(self.results)
        else:
            self.future.set_exception(self.error)


@dataclass(frozen=True, eq=False)
class Task:
    """`stream` is the queue's one that does it; `name` says what for, `request` and `run` whose. `size_bytes` are moved;
    `modelled_seconds()` is what it takes on the device. `marker` is recorded or waited for.
    """

    kind: TaskKind
    stream: str
    name: str
    request: int
    run: int
    marker: Marker | None = None
    size_bytes: int = 0
    modelled_seconds: Callable[[], float] = field(default=lambda: 0.0, repr=False)


@dataclass(eq=False)
class Job:
    """A task of a run, what it does, and whether it is the run's last one."""

    task: Task
    submission: Submission
    work: Callable[[], object] | None = None
    is_last: bool = False

    def do(self) -> None:
        """Does the task in this thread, unless its run has failed; raises nothing. Waits and records also then: other streams may
        still be at work for the run.
        """
        submission, marker = self.submission, self.task.marker
        submission.begin()
        is_told = submission.error is None
        error: BaseException | None = None
        try:
            if is_told:
                for listener in submission.listeners:
                    listener.before(self.task)
            if self.work is not None and submission.error is None:
                self.work()
        except BaseException as raised:
            error = raised
            submission.fail(raised)
        if marker is not None and self.task.kind is TaskKind.WAIT_EVENT:
            marker.passed.wait()
        for listener in submission.listeners if is_told else ():
            try:
                listener.after(self.task, error)
            except BaseException as raised:
                submission.fail(raised)
        if marker is not None and self.task.kind is TaskKind.RECORD_EVENT:
            marker.passed.set()
        if self.is_last:
            submission.end()
