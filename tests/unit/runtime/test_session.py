"""Sessions: bound arguments, runs on every queue, shared weights, batches; and what they refuse."""

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import DeviceError, InputError, SessionError
from hlo2tx8.options import Mode, Options
from hlo2tx8.runtime.allocators import Arena, CallerAllocator
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.task_trace import TaskTrace
from hlo2tx8.runtime.tasks import Task, TaskKind
from hlo2tx8.runtime.work_queues import ExternalQueue, OneComputeTwoTransfers, SingleStream, WorkQueue

SUM = """HloModule sum
ENTRY main {
  x = f32[3,5] parameter(0)
  y = f32[3,5] parameter(1)
  s = f32[3,5] add(x, y)
  p = f32[3,5] multiply(x, y)
  ROOT r = (f32[3,5], f32[3,5]) tuple(s, p)
}
"""
IN_PLACE = """
func.func @main(%cache: tensor<64x32xf32> {tf.aliasing_output = 0 : i32}, %new: tensor<1x32xf32>, %i: tensor<i32>)
    -> tensor<64x32xf32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %cache, %new, %i, %z
    : (tensor<64x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}
"""
LAYOUTS = """HloModule layouts, entry_computation_layout={(f32[3,5]{0,1}, c64[4]{0})->(f32[5,3]{0,1}, c64[4]{0})}
ENTRY main {
  x = f32[3,5]{0,1} parameter(0)
  c = c64[4]{0} parameter(1)
  t = f32[5,3]{0,1} transpose(x), dimensions={1,0}
  d = c64[4]{0} add(c, c)
  ROOT r = (f32[5,3]{0,1}, c64[4]{0}) tuple(t, d)
}
"""
X = np.arange(15, dtype=np.float32).reshape(3, 5)
Y = np.full((3, 5), 0.5, np.float32)
QUEUES: dict[str, Callable[[], WorkQueue]] = {
    "single": SingleStream,
    "1c2t": OneComputeTwoTransfers,
    "external": lambda: ExternalQueue(ThreadPoolExecutor(4)),
}


@pytest.fixture(scope="module")
def executable() -> Executable:
    compiled = hlo2tx8.compile(SUM)
    assert isinstance(compiled, Executable)
    return compiled


@pytest.fixture
def session(executable: Executable) -> Iterator[hlo2tx8.Session]:
    with hlo2tx8.Session() as made:
        made.load(executable)
        yield made


@pytest.fixture(params=QUEUES)
def queue(request: pytest.FixtureRequest) -> Iterator[WorkQueue]:
    made = QUEUES[request.param]()
    yield made
    made.close()


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_arguments_say_what_a_program_takes_and_gives(session: hlo2tx8.Session):
    assert session.models == ("sum",)
    assert [(a.offset, a.name, a.shape, a.dtype, a.space, a.alias_offset) for a in session.inputs()] == [
        (0, "input0", (3, 5), "float32", "ddr", None),
        (1, "input1", (3, 5), "float32", "ddr", None),
    ]
    assert [(a.offset, a.name) for a in session.outputs()] == [(2, "output0"), (3, "output1")]
    assert session.weights() == ()


def test_bound_arrays_are_the_programs_own_and_the_rest_is_allocated_once(session: hlo2tx8.Session):
    request, total = session.new_request_context(), np.empty_like(X)
    request.bind_args([X, Y, total])
    request.finish_io_binding()
    product = request.get_arg(3)
    assert [address(request.get_arg(i)) for i in range(3)] == [address(X), address(Y), address(total)]
    for _ in range(3):
        request.run()
    request.sync()
    request.finish_io_binding()
    assert address(request.get_arg(3)) == address(product)
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(product, X * Y)


@pytest.mark.parametrize("mode", ["fast", "strict", "definition"])
def test_every_queue_and_space_gives_what_the_executable_gives(mode: Mode, queue: WorkQueue, executable: Executable):
    session = hlo2tx8.Session(Options(mode=mode))
    session.load(SUM)
    for space in ("ddr", "host"):
        request = session.new_request_context(queue)
        mirrored, out = (
            np.asfortranarray(X) if space == "host" else X,
            np.zeros((5, 3), np.float32).T if space == "host" else np.zeros_like(X),
        )
        for offset, array in enumerate((mirrored, Y, out)):
            request.bind_arg(offset, array, space=space)
        request.finish_io_binding()
        results = request.run().result(30)
        assert results[0] is out
        for found, wanted in zip(results, executable.execute(X, Y), strict=True):
            assert found.tobytes() == wanted.tobytes()


def test_layouts_and_complex_numbers(queue: WorkQueue):
    session = hlo2tx8.Session()
    session.load(LAYOUTS)
    assert [a.space for a in (*session.inputs(), *session.outputs())] == ["host", "ddr", "host", "ddr"]
    request, c = session.new_request_context(queue), (np.arange(4) + 1j).astype(np.complex64)
    request.bind_args([X, c])
    request.finish_io_binding()
    transposed, double = request.run().result(30)
    np.testing.assert_array_equal(transposed, X.T)
    np.testing.assert_array_equal(double, 2 * c)


@pytest.mark.parametrize("is_in_place", [True, False])
@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_an_output_takes_over_an_input_in_its_memory_or_a_copy(is_in_place: bool, mode: Mode):
    session, trace = hlo2tx8.Session(Options(mode=mode)), TaskTrace()
    session.add_listener(trace)
    session.load(IN_PLACE)
    assert [a.alias_offset for a in session.outputs()] == [0]
    cache, wanted = np.ones((64, 32), np.float32), np.ones((64, 32), np.float32)
    request, row = session.new_request_context(), np.full((1, 32), 7, np.float32)
    request.bind_args([cache, row, np.array(5, np.int32), cache if is_in_place else None])
    request.finish_io_binding()
    request.run()
    request.sync()
    wanted[5] = 7
    np.testing.assert_array_equal(request.get_arg(3), wanted)
    assert bool(cache[5, 0] == 7) is is_in_place
    kinds = [event.get("cat") for event in trace.content()["traceEvents"]]  # type: ignore[attr-defined]
    assert ("d2d" in kinds) is not is_in_place


def test_no_output_takes_the_memory_of_a_weight():
    session, cache = hlo2tx8.Session(), np.ones((64, 32), np.float32)
    session.load(IN_PLACE)
    session.bind_weight(0, cache)
    request = session.new_request_context()
    request.bind_args([None, np.full((1, 32), 7, np.float32), np.array(5, np.int32), cache])
    with pytest.raises(InputError, match=r"output0 .* shares memory with input input0"):
        request.finish_io_binding()
    request.bind_arg(3, np.empty_like(cache))
    request.finish_io_binding()
    assert request.run().result(30)[0][5, 0] == 7
    assert cache.min() == cache.max() == 1


def test_weights_are_there_once(tmp_path: Path):
    table = np.arange(4096, dtype=np.float32).reshape(64, 64)
    compiled = hlo2tx8.compile(lambda x: jnp.dot(x, table), args=(np.zeros((2, 64), np.float32),))
    session = hlo2tx8.Session()
    session.load(compiled)
    (weight,) = session.weights()
    assert weight.shape == (64, 64)
    assert session.weight(0).tobytes() == table.tobytes()
    assert address(session.weight(0)) == address(session.weight(0))
    with pytest.raises(ValueError, match="read-only"):
        session.weight(0)[0] = 1
    session.load(SUM)
    session.bind_weight(1, Y, model="sum")
    first, second = (session.new_request_context(model="sum") for _ in range(2))
    assert address(first.get_arg(1)) == address(second.get_arg(1)) == address(Y)
    with pytest.raises(SessionError, match="is a weight of the session"):
        first.bind_arg(1, X)
    first.bind_arg(0, X)
    first.finish_io_binding()
    np.testing.assert_array_equal(first.run().result(30)[0], X + Y)


def test_models_come_from_files_bytes_and_modules(tmp_path: Path, executable: Executable):
    path = tmp_path / "sum.tx8x"
    executable.save(path)
    session = hlo2tx8.Session()
    names = [session.load(s, name) for s, name in ((path, "file"), (path.read_bytes(), "bytes"), (SUM, ""), (str(path), "text"))]
    assert names == ["file", "bytes", "sum", "text"]
    for name in names:
        request = session.new_request_context(model=name)
        request.bind_args([X, Y])
        request.finish_io_binding()
        np.testing.assert_array_equal(request.run().result(30)[0], X + Y)
    with pytest.raises(InputError, match="has a model file already"):
        session.load(path, "file")
    with pytest.raises(InputError, match=r"which model\?"):
        session.new_request_context()
    with pytest.raises(InputError, match="no model 'other'"):
        session.new_request_context(model="other")


WRONG: dict[str, Callable[[hlo2tx8.runtime.request_context.RequestContext], object]] = {  # type: ignore[name-defined]
    r"input input0 f32\[3,5\] is bound to f64\[3,5\]": lambda r: r.bind_arg(0, X.astype(np.float64)),
    r"is bound to f32\[5,3\]": lambda r: r.bind_arg(0, X.T),
    "has no argument 4": lambda r: r.bind_arg(4, X),
    "has no argument -1": lambda r: r.bind_arg(-1, X),
    "is no number of an argument": lambda r: r.bind_arg("x", X),
    "is bound to a list": lambda r: r.bind_arg(0, X.tolist()),
    "is bound to NoneType": lambda r: r.bind_arg(0, None),
    "not contiguous": lambda r: r.bind_arg(0, np.asfortranarray(X)),
    "cannot be written": lambda r: r.bind_arg(2, np.broadcast_to(np.float32(0), (3, 5))),
    "no space 'spm'": lambda r: r.bind_arg(0, X, space="spm"),
    "has 4 arguments, got 5": lambda r: r.bind_args([X] * 5),
    "shares memory with input input0": lambda r: (r.bind_args([X, Y, X]), r.finish_io_binding()),
    "output output1.* shares memory with output output0": lambda r: (
        r.bind_args([X, Y, e := np.empty_like(X), e]),
        r.finish_io_binding(),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_refused(message: str, session: hlo2tx8.Session):
    with pytest.raises(InputError, match=message) as raised:
        WRONG[message](session.new_request_context())
    assert raised.value.code == "E1004"


def test_calls_in_a_wrong_order_are_refused(session: hlo2tx8.Session):
    request = session.new_request_context()
    with pytest.raises(SessionError, match="before finish_io_binding") as raised:
        request.run()
    assert raised.value.code == "E1013"
    with pytest.raises(SessionError, match="bound to nothing yet"):
        request.get_arg(0)
    request.finish_io_binding()
    request.bind_arg(0, X)
    with pytest.raises(SessionError, match="before finish_io_binding"):
        request.run()
    request.finish_io_binding()
    session.close()
    with pytest.raises(SessionError, match="closed"):
        request.run()
    with pytest.raises(SessionError, match="closed"):
        session.new_request_context()
    request.sync()


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


def batch_args(batch: int) -> list[np.ndarray]:
    return [np.zeros((batch, 6), np.float32), np.zeros((6, 4), np.float32)]


@pytest.mark.parametrize("buckets", [(4, 8), ()])
def test_requests_of_any_batch(buckets: tuple[int, ...], queue: WorkQueue):
    session = hlo2tx8.Session()
    session.load_batches(lambda x, w: (jnp.tanh(x @ w), w + 1), batch_args, buckets, "mlp")
    rng = np.random.default_rng(0)
    w = rng.standard_normal((6, 4), np.float32)
    session.bind_weight(1, w)
    for batch in (3, 4, 7):
        x = rng.standard_normal((batch, 6), np.float32)
        request = session.new_request_context(queue, batch=batch)
        request.bind_arg(0, x)
        request.finish_io_binding()
        y, more = request.run().result(30)
        exact = hlo2tx8.compile(lambda x, w: jnp.tanh(x @ w), args=(x, w))(x, w)
        np.testing.assert_array_equal(y, exact)
        np.testing.assert_array_equal(more, w + 1)
        told = {3: "bucket 4, 1 rows of padding", 4: "bucket 4", 7: "bucket 8, 1 rows of padding"}
        assert request.specialization == (told[batch] if buckets else f"exactly {batch}")
    if buckets:
        with pytest.raises(InputError, match="no program for a batch of 9"):
            session.new_request_context(batch=9)
        session.bind_weight(0, np.zeros((4, 6), np.float32))
        with pytest.raises(InputError, match=r"input input0 f32\[7,6\] has a weight of f32\[4,6\]"):
            session.new_request_context(batch=7)


DYNAMIC = """
func.func @main(%x: tensor<?x3xf32>) -> (tensor<3x?xf32>, tensor<4x3xf32>) {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x3xf32>) -> tensor<3x?xf32>
  %c = stablehlo.constant dense<2.0> : tensor<4x3xf32>
  return %t, %c : tensor<3x?xf32>, tensor<4x3xf32>
}
"""


def test_padding_is_cut_where_the_batch_is_and_nowhere_else():
    session = hlo2tx8.Session()
    session.load_batches(DYNAMIC, lambda batch: (np.zeros((batch, 3), np.float32),), (4,))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    request = session.new_request_context(batch=2)
    request.bind_arg(0, x)
    request.finish_io_binding()
    transposed, constant = request.run().result(30)
    np.testing.assert_array_equal(transposed, x.T)
    assert constant.shape == (4, 3)


def test_a_batch_that_is_no_matter_of_rows_is_not_padded():
    session = hlo2tx8.Session()
    session.load_batches(lambda x: x.reshape(-1), lambda batch: (np.zeros((batch, 3), np.float32),), (4,))
    with pytest.raises(InputError, match=r"argument 1 is f32\[6\] for a batch of 2 and f32\[12\] for 4: not a matter of rows"):
        session.new_request_context(batch=2)


def test_many_contexts_in_many_threads(executable: Executable):
    arena = Arena()
    session = hlo2tx8.Session(allocator=arena)
    session.load(executable)
    wrong: list[int] = []

    def serve(number: int) -> None:
        request, x = session.new_request_context(), np.empty_like(X)
        request.bind_arg(0, x)
        request.bind_arg(1, Y)
        request.finish_io_binding()
        for turn in range(10):
            x[...] = X + 100 * number + turn
            total, product = request.run().result(60)
            if not (np.array_equal(total, x + Y) and np.array_equal(product, x * Y)):
                wrong.append(number)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert arena.statistics.num_allocated == 100


def test_an_arena_keeps_blocks_up_to_its_limits():
    arena = Arena(limit_bytes=1 << 20, kept_bytes=1 << 19)
    first = arena.allocate(300_000)
    view = first[100:].view(np.int32)
    del first
    assert arena.statistics.in_use_bytes >= 300_000
    assert address(view) % 4 == 0
    with pytest.raises(hlo2tx8.errors.CapacityError, match="do not fit an arena of 1,048,576"):  # type: ignore[attr-defined]
        arena.allocate(1 << 20)
    del view
    assert arena.statistics.in_use_bytes == 0 < arena.statistics.kept_bytes
    again = arena.allocate(299_000)
    assert arena.statistics.num_reused == 1
    assert address(again) % 64 == 0
    big = arena.allocate(600_000)
    del big, again
    assert arena.statistics.kept_bytes <= 1 << 19
    arena.trim()
    assert arena.statistics.kept_bytes == 0
    assert arena.allocate(0).size == 0


def test_memory_of_the_callers_own_functions_comes_back(executable: Executable):
    held: dict[int, np.ndarray] = {}

    def allocate(size: int) -> int:
        memory = np.zeros(size + 16, np.uint8)
        held[place := address(memory) + -address(memory) % 16] = memory
        return place

    session = hlo2tx8.Session(allocator=CallerAllocator(allocate, lambda place, _: held.pop(place)))
    session.load(executable)
    request = session.new_request_context()
    request.bind_args([X, Y])
    request.finish_io_binding()
    assert {address(request.get_arg(i)) for i in (2, 3)} == set(held)
    request.run()
    request.sync()
    session.close()
    kept = request.get_arg(2)
    del request
    for _ in range(200):
        gc.collect()
        if len(held) == 1:
            break
        threading.Event().wait(0.01)
    assert set(held) == {address(kept)}
    with pytest.raises(hlo2tx8.errors.CapacityError):  # type: ignore[attr-defined]
        CallerAllocator(lambda size: 0, lambda place, size: None).allocate(8)
