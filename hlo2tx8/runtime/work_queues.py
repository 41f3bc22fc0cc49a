"""Work queues of sessions: in which order, and on which threads, the tasks of requests are done.

    SingleStream              one stream: transfers and launches, one after the other
    OneComputeTwoTransfers    streams for launches, for arrays to the device and for results from it, which meet at markers only
    ExternalQueue             the caller's executor; the tasks of one run stay in order

The tasks of one run, with what it waits for of the last run of the same context (whose memory it has):

    h2d       WAIT computed'    H2D ...    RECORD loaded
    compute   WAIT loaded       WAIT stored'    D2D ...    COMPUTE    RECORD computed
    d2h       WAIT computed     D2H ...    RECORD stored

All of them are put into their streams in one go, so a wait is for a marker that stands before it: no two streams can wait for each
other. A marker is recorded also where the run has failed; its other tasks are left out then.
"""

import os
import queue
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from hlo2tx8.errors import SessionError
from hlo2tx8.runtime.tasks import Job


class WorkQueue(ABC):
    """The base of work queues: `streams` are the names of its streams, by the streams that tasks ask for."""

    streams: Mapping[str, str]

    def __init__(self) -> None:
        self._process = os.getpid()
        self._is_closed = False

    def submit(self, jobs: Sequence[Job]) -> None:
        """Puts the jobs of one run, which are in an order that needs no streams, into their streams; SessionError if the queue is
        closed, or this process was forked from the one with its threads.
        """
        if os.getpid() != self._process:
            raise SessionError("a forked process has none of the queue's threads", hint="make the session in the new process")
        self._put(jobs)

    def close(self) -> None:
        """Takes no more tasks; those that it has are done."""
        self._is_closed = True

    @property
    def is_own_thread(self) -> bool:
        """Is this one of the queue's threads, in which waiting for a run would be for ever?"""
        return False

    @abstractmethod
    def _put(self, jobs: Sequence[Job]) -> None:
        """Puts the jobs into their streams, in this order."""


class _Stream:
    """A thread that does jobs in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        """Adds a job; the first one starts the thread."""
        self.jobs.put(job)
        if self.thread is None:
            self.thread = threading.Thread(target=_do_all, args=(self.jobs,), name=f"tx8 {self.name}", daemon=True)
            self.thread.start()


def _do_all(jobs: "queue.SimpleQueue[Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job.do()
        del job  # or the arrays of the last run would live until the next one


def _end_all(streams: Sequence[_Stream]) -> None:
    for stream in streams:
        stream.jobs.put(None)


class _Threads(WorkQueue):
    """A thread for each stream, which end with the queue."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._streams = {name: _Stream(name) for name in dict.fromkeys(self.streams.values())}
        self._end_streams = weakref.finalize(self, _end_all, tuple(self._streams.values()))

    @property
    def is_own_thread(self) -> bool:
        """As of WorkQueue."""
        return any(stream.thread is threading.current_thread() for stream in self._streams.values())

    def close(self) -> None:
        """As of WorkQueue."""
        with self._lock:
            super().close()
            self._end_streams()

    def _put(self, jobs: Sequence[Job]) -> None:
        with self._lock:  # a run goes into all streams before the next one does
            if self._is_closed:
                raise SessionError("the work queue is closed")
            for job in jobs:
                self._streams[job.task.stream].put(job)


class SingleStream(_Threads):
    """All tasks in the order in which they came, on one thread."""

    streams = {"h2d": "stream", "compute": "stream", "d2h": "stream"}  # noqa: RUF012


class OneComputeTwoTransfers(_Threads):
    """Launches in order on one thread, arrays to the device on a second, results from it on a third: they overlap."""

    streams = {"h2d": "h2d", "compute": "compute", "d2h": "d2h"}  # noqa: RUF012


class Executor(Protocol):
    """As of concurrent.futures: calls a function some time, in a thread of its own or at once."""

    def submit(self, fn: Callable[[], object], /) -> Future[Any]:
        """Promises to call `fn`."""
        ...


class ExternalQueue(WorkQueue):
    """The caller's executor, which stays the caller's. Runs of one context follow each other in one of its calls, each with its
    tasks in order; those of other contexts are in the executor's hands.
    """

    streams = {"h2d": "external", "compute": "external", "d2h": "external"}  # noqa: RUF012

    def __init__(self, executor: Executor) -> None:
        super().__init__()
        self.executor = executor
        self._waiting: dict[int, deque[Sequence[Job]]] = {}
        self._held = threading.Lock()

    def _put(self, jobs: Sequence[Job]) -> None:
        request = jobs[0].task.request
        if self._is_closed:
            raise SessionError("the work queue is closed")
        with self._held:
            if request in self._waiting:
                self._waiting[request].append(jobs)
                return
            self._waiting[request] = deque([jobs])

        try:
            self.executor.submit(partial(self._do, request)).add_done_callback(partial(self._ended, request))
        except Exception as error:  # of an executor that was shut down, or whatever the caller's own raises
            self._give_up(request, f"the session's executor takes no run: {error}")

    def _do(self, request: int) -> None:
        """All runs of a context that wait."""
        while (taken := self._take(request)) is not None:
            for job in taken:
                job.do()

    def _ended(self, request: int, future: Future[Any]) -> None:
        if future.cancelled():
            self._give_up(request, "the session's executor has dropped the run")

    def _take(self, request: int) -> Sequence[Job] | None:
        """The next run of a context; None if there is none, and then the next one starts a call of its own."""
        with self._held:
            waiting = self._waiting[request]
            if not waiting:
                del self._waiting[request]
                return None
            return waiting.popleft()

    def _give_up(self, request: int, why: str) -> None:
        while (taken := self._take(request)) is not None:
            for job in taken:
                job.submission.fail(SessionError(why))
                job.do()
