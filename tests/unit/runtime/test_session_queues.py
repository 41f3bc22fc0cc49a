"""Work queues of sessions: what overlaps, what waits, faults, cancelling, the caller's own executor."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import DeviceError, SessionError
from hlo2tx8.options import Options
from hlo2tx8.runtime.allocators import Arena
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.task_trace import TaskTrace
from hlo2tx8.runtime.tasks import Task, TaskKind
from hlo2tx8.runtime.work_queues import ExternalQueue, OneComputeTwoTransfers, SingleStream, WorkQueue
from tests.unit.runtime.session_data import X, Y


def test_transfers_overlap_with_launches_only_where_there_are_streams_for_them(queue: WorkQueue, executable: Executable):
    """The first request's launch waits for the second one's transfer, which a single stream does not begin before it ends."""
    loading = threading.Event()
    seen: list[bool] = []

    class Waits:
        def before(self, task: Task) -> None:
            if task.kind is TaskKind.H2D and task.request == requests[1].number:
                loading.set()
            if task.kind is TaskKind.COMPUTE and task.request == requests[0].number:
                seen.append(loading.wait(0.2 if isinstance(queue, SingleStream) else 10))

        def after(self, task: Task, error: BaseException | None) -> None:
            pass

    session, trace = hlo2tx8.Session(queue=queue), TaskTrace()
    session.load(executable)
    for listener in (trace, Waits()):
        session.add_listener(listener)
    requests = [session.new_request_context() for _ in range(2)]
    for request in requests:
        for offset, array in enumerate((X, Y)):
            request.bind_arg(offset, array, space="host")
        request.finish_io_binding()
    for request in requests:
        request.run()
    for request in requests:
        request.sync(30)
    assert seen == [not isinstance(queue, SingleStream)]
    events = [e for e in trace.content()["traceEvents"] if e["pid"] == 2 and e["ph"] == "X"]  # type: ignore[attr-defined]
    moves, launches = ([e for e in events if e["cat"] == kind] for kind in ("h2d", "compute"))
    overlaps = [m for m in moves for c in launches if min(m["ts"] + m["dur"], c["ts"] + c["dur"]) - max(m["ts"], c["ts"]) > 1e-5]
    assert bool(overlaps) is isinstance(queue, OneComputeTwoTransfers)


@pytest.mark.parametrize("slow", [TaskKind.H2D, TaskKind.COMPUTE, TaskKind.D2H], ids=lambda kind: kind.value)
def test_runs_of_a_context_wait_for_each_others_memory(slow: TaskKind, queue: WorkQueue, executable: Executable):
    """One kind of task takes its time, the input changes once it was moved, and each run gives what was moved for it."""
    x, out, seen = X.copy(), np.empty_like(X), list[np.ndarray]()

    class Slow:
        def before(self, task: Task) -> None:
            if task.kind is slow:
                time.sleep(0.02)

        def after(self, task: Task, error: BaseException | None) -> None:
            if task.kind is TaskKind.H2D:
                x[...] += 1
            if task.kind is TaskKind.D2H:
                seen.append(out.copy())

    session = hlo2tx8.Session(queue=queue)
    session.load(executable)
    session.add_listener(Slow())
    request = session.new_request_context()
    request.bind_arg(1, Y)
    for offset, array in ((0, x), (2, out)):
        request.bind_arg(offset, array, space="host")
    request.finish_io_binding()
    for _ in range(4):
        request.run()
    request.sync(30)
    np.testing.assert_array_equal(seen, [X + turn + Y for turn in range(4)])


def test_a_context_dropped_with_runs_under_way_leaves_nothing_behind(queue: WorkQueue, executable: Executable):
    arena = Arena()
    session = hlo2tx8.Session(allocator=arena, queue=queue)
    session.load(executable)
    futures: list[Future[list[np.ndarray]]] = []
    for _ in range(20):
        request = session.new_request_context()
        request.bind_args([X, Y])
        request.finish_io_binding()
        futures.append(request.run())
        del request
    for future in futures:
        np.testing.assert_array_equal(future.result(30)[0], X + Y)
    futures.clear()
    del future
    last = session.new_request_context()  # the queue's threads have let go of the runs before
    last.finish_io_binding()
    last.run()
    last.sync(30)
    del last
    queue.close()
    for _ in range(200):
        gc.collect()
        if not arena.statistics.in_use_bytes:
            break
        threading.Event().wait(0.01)
    assert arena.statistics.in_use_bytes == 0
    assert arena.statistics.num_reused > 0


def test_faults_come_out_of_futures_and_sync_and_later_runs_go_on(queue: WorkQueue):
    loop = """HloModule turns
      step { a = s32[] parameter(0)
        o = s32[] constant(1)
        ROOT n = s32[] subtract(a, o) }
      more { b = s32[] parameter(0)
        z = s32[] constant(0)
        ROOT c = pred[] compare(b, z), direction=NE }
      ENTRY main { x = s32[] parameter(0)
        ROOT w = s32[] while(x), condition=more, body=step }"""
    session = hlo2tx8.Session(Options(max_steps=100))
    session.load(loop)
    request, x = session.new_request_context(queue), np.array(1000, np.int32)
    request.bind_arg(0, x, space="host")
    request.finish_io_binding()
    failed = request.run()
    assert isinstance(failed.exception(30), DeviceError)
    with pytest.raises(DeviceError):
        request.sync()
    request.sync()
    x[...] = 3
    assert request.run().result(30)[0] == 0


def test_runs_can_be_awaited_and_cancelled(session: hlo2tx8.Session, executable: Executable):
    request = session.new_request_context()
    request.bind_args([X, Y])
    request.finish_io_binding()
    np.testing.assert_array_equal(asyncio.run(request.run_async())[1], X * Y)
    held, started = threading.Event(), threading.Event()

    class Holds:
        def before(self, task: Task) -> None:
            if task.kind is TaskKind.COMPUTE:
                started.set()
                held.wait(10)

        def after(self, task: Task, error: BaseException | None) -> None:
            pass

    session.add_listener(Holds())
    request = session.new_request_context()
    request.finish_io_binding()
    first, second, third = (request.run() for _ in range(3))
    assert started.wait(10)
    assert second.cancel()
    with pytest.raises(TimeoutError):
        request.sync(0.01)
    held.set()
    request.sync(30)
    assert first.done() and third.done() and second.cancelled()


def test_a_forked_process_is_told_to_make_its_own_session(session: hlo2tx8.Session, monkeypatch: pytest.MonkeyPatch):
    request = session.new_request_context()
    request.finish_io_binding()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(SessionError, match="a forked process has none of the queue's threads"):
        request.run()


def test_an_executor_may_run_at_once_and_futures_may_queue_more(executable: Executable):
    class Inline:
        def submit(self, fn: Callable[[], object], /) -> "Future[object]":
            future: Future[object] = Future()
            future.set_result(fn())
            return future

    session = hlo2tx8.Session(queue=ExternalQueue(Inline()))
    session.load(executable)
    request = session.new_request_context()
    request.bind_args([X, Y])
    request.finish_io_binding()
    left = [5]

    def again(_: object) -> None:
        left[0] -= 1
        if left[0]:
            request.run().add_done_callback(again)

    request.run().add_done_callback(again)
    request.sync(30)
    assert left == [0]
    np.testing.assert_array_equal(request.get_arg(2), X + Y)


def test_sync_on_the_queues_own_thread_is_refused(session: hlo2tx8.Session):
    request = session.new_request_context()
    request.finish_io_binding()
    found: list[BaseException | None] = []

    class Syncs:
        def before(self, task: Task) -> None:
            request.run()
            request.sync()

        def after(self, task: Task, error: BaseException | None) -> None:
            found.append(error)

    session.add_listener(Syncs())
    other = session.new_request_context()
    other.finish_io_binding()
    with pytest.raises(SessionError, match="would wait for itself"):
        other.run().result(30)


def test_an_executor_that_drops_runs_fails_them(executable: Executable):
    pool = ThreadPoolExecutor(1)
    held = threading.Event()
    pool.submit(held.wait)
    session = hlo2tx8.Session(queue=ExternalQueue(pool))
    session.load(executable)
    request = session.new_request_context()
    request.finish_io_binding()
    dropped = [request.run() for _ in range(2)]
    pool.shutdown(wait=False, cancel_futures=True)
    held.set()
    for future in dropped:
        with pytest.raises(SessionError, match="dropped the run"):
            future.result(30)
    with pytest.raises(SessionError, match="takes no run"):
        request.run().result(30)
