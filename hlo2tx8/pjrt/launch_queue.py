"""The contents of device buffers, and the thread that runs queued launches and so fills them."""

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
"""Jobs that may wait; a caller that launches another one is held up, so that waiting arrays cannot fill the host's memory."""


class BufferContents:
    """A buffer's array, in the order of elements that it has in DDR; before that, the queued job that computes it; or its error.

    Set once. Buffers, their copies and queued jobs refer to the same object, so deleting or donating a buffer takes no array from a
    job that reads it.
    """

    __slots__ = ("array", "error", "job")

    def __init__(self, array: Array | None = None, job: "QueuedJob | None" = None) -> None:
        self.array = array
        self.error: PjrtError | None = None
        self.job = job

    def value(self) -> Array:
        """The array, of contents that no job has yet to compute; PjrtError if the computation failed or the buffer was deleted."""
        if self.error is not None:
            raise self.error
        if self.array is None:
            raise PjrtError(Code.INVALID_ARGUMENT, "the array has been deleted or donated")
        return self.array

    def wait(self) -> Array:
        """The array, after waiting for the job that computes it; PjrtError as `value`."""
        job = self.job
        if job is not None:
            job.finished.wait()
        return self.value()


class QueuedJob:
    """Work for the launch thread, and the native event that ends with it, with the error that the work raised, if any.

    `work` is called with a function that it must call now and then: that raises KeyboardInterrupt if Ctrl-C was pressed since the
    job was queued. `fail` is called with the error.
    """

    def __init__(
        self, work: Callable[[Callable[[object], None]], None], event: int, fail: Callable[[PjrtError], None] | None = None
    ) -> None:
        self.work = work
        self.num_interrupts = 0
        self.event = event
        self.fail = fail
        self.finished = threading.Event()


class LaunchThread:
    """The thread that runs jobs in the order in which they were queued, so that a job's inputs are there when it starts."""

    def __init__(self, library: PluginLibrary) -> None:
        self.library: Any = library
        self.interrupts = Interrupts(library)
        self.jobs: queue.SimpleQueue[QueuedJob | None] = queue.SimpleQueue()
        self.free = threading.Semaphore(MOST_QUEUED)
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.is_forked = self.is_working = False
        os.register_at_fork(after_in_child=self.note_fork)

    def note_fork(self) -> None:
        """A forked process has neither this thread nor the emulator's."""
        self.is_forked = True

    @property
    def is_busy(self) -> bool:
        """Is a job running or queued?"""
        return self.is_working or not self.jobs.empty()

    def refuse_if_forked(self) -> None:
        """PjrtError in a forked process."""
        if self.is_forked:
            raise PjrtError(Code.FAILED_PRECONDITION, FORKED)

    def submit(self, job: QueuedJob) -> None:
        """Queues a job, after waiting for room; on the thread itself, where a host function launches a program, runs it at once."""
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
            self.is_working = True
            self.do(job)
            self.is_working = False
            self.free.release()

    def do(self, job: QueuedJob) -> None:
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
