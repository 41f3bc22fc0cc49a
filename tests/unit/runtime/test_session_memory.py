"""Memory of sessions: arenas, the caller's own functions, many contexts."""

import gc
import threading

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.runtime.allocators import Arena, CallerAllocator
from hlo2tx8.runtime.executable import Executable
from tests.unit.runtime.session_data import X, Y, address


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
