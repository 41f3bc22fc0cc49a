"""What a buffer holds, and the thread on which queued work gives it to them."""

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from hlo2tx8.pjrt.errors import FORKED, Code, PjrtError, code_and_message
from hlo2tx8.pjrt.interrupts import GRACE_SECONDS, Interrupts
from hlo2tx8.pjrt.native import PluginLibrary

Array = npt.NDArray[Any]
MOST_QUEUED = 64
"""Jobs; whoever launches more waits, so that what waits cannot fill the host's memory."""


class Cell:
    """An array in DDR order, an error in its place, or the job that will give one; never written twice.

    Buffers, queued jobs and copies share cells, so deleting or donating a buffer never takes a value from a job.
    """

    __slots__ = ("array", "error", "job")

    def __init__(self, array: Array | None = None, job: "Job | None" = None) -> None:
        self.array = array
        self.error: PjrtError | None = None
        self.job = job

    def value(self) -> Array:
        """The array of a cell that waits for nothing; PjrtError if its computation failed."""
        if self.error is not None:
            raise self.error
        if self.array is None:
            raise PjrtError(Code.INVALID_ARGUMENT, "the array has been deleted or donated")
        return self.array

    def wait(self) -> Array:
        """The array once it is there."""
        job = self.job
        if job is not None:
            job.finished.wait()
        return self.value()


class Job:
    """A piece of queued work; ends its native event with what the work raised, if anything.

    Long work calls what it is given now and then: that raises KeyboardInterrupt if Ctrl-C was pressed since the job was queued.
    """

    def __init__(
        self, work: Callable[[Callable[[object], None]], None], event: int, fail: Callable[[PjrtError], None] | None = None
    ) -> None:
        self.work = work
        self.num_interrupts = 0
        self.event = event
        self.fail = fail
        self.finished = threading.Event()


class Worker:
    """One thread that does jobs in order: when a job starts, everything it reads is there."""

    def __init__(self, library: PluginLibrary) -> None:
        self.library: Any = library
        self.interrupts = Interrupts(library)
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.free = threading.Semaphore(MOST_QUEUED)
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.is_forked = False
        os.register_at_fork(after_in_child=self.note_fork)

    def note_fork(self) -> None:
        """A forked process has neither this thread nor the emulator's."""
        self.is_forked = True

    def refuse_if_forked(self) -> None:
        """PjrtError in a forked process."""
        if self.is_forked:
            raise PjrtError(Code.FAILED_PRECONDITION, FORKED)

    def submit(self, job: Job) -> None:
        """Queues a job, once there is room; runs it where a job, in a host function, waits for it."""
        self.refuse_if_forked()
        job.num_interrupts = self.interrupts.count()
        if threading.current_thread() is self.thread:
            self.do(job)
            return
        self.free.acquire()
        self.jobs.put(job)
        if self.thread is None:
            self.start()

    def start(self) -> None:
        """Starts the thread, unless there is one."""
        with self.lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self.run, name="tx8", daemon=True)
                self.thread.start()

    def run(self) -> None:
        """The thread's loop."""
        while (job := self.jobs.get()) is not None:
            self.do(job)
            self.free.release()

    def do(self, job: Job) -> None:
        """Runs one job and ends its event."""
        code, message = Code.OK, ""

        def check(_: object) -> None:
            self.interrupts.check(job.num_interrupts, GRACE_SECONDS)

        try:
            check(None)
            job.work(check)
        except BaseException as error:
            code, message = code_and_message(error)
            if job.fail is not None:
                job.fail(PjrtError(code, message))
        job.finished.set()
        self.end(job.event, code, message)

    def end(self, event: int, code: Code, message: str) -> None:
        """Ends an event and lets go of it."""
        data = message.encode()
        self.library.event_set(event, code, data, len(data))
        self.library.event_release(event)

    def stop(self) -> None:
        """Ends the thread after its current job."""
        thread = self.thread
        if thread is not None:
            self.jobs.put(None)
            thread.join(1.0)
