"""Many threads and many calls: no deadlock, no wrong result, no growth."""

import gc
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

SECONDS = 3
CALLS = 5000


def check_eight_threads():
    functions = [jax.jit(lambda x, k=k: jnp.maximum(x * k, 1) + k) for k in range(4)]
    shared = [jnp.arange(8, dtype=jnp.float32)]
    wrong: list[object] = []
    end = time.monotonic() + SECONDS
    interval = sys.getswitchinterval()

    def hammer(seed):
        turn = seed
        while time.monotonic() < end and not wrong:
            k = turn % len(functions)
            size = 8 if turn % 7 else 70_000
            x = np.full(size, turn % 100, np.float32)
            y = functions[k](x)
            shared[0] = y
            expected = np.maximum(x * k, 1) + k
            try:
                np.testing.assert_array_equal(np.asarray(y), expected)
                str(shared[0].format)
                np.asarray(shared[0])
            except BaseException as error:
                wrong.append(error)
            turn += 1

    threads = [threading.Thread(target=hammer, args=(i,), daemon=True) for i in range(8)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 30)
    finally:
        sys.setswitchinterval(interval)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    assert not wrong, wrong


def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def check_calls_leave_nothing_behind():
    f = jax.jit(lambda x, y: (x + y, x - y))
    x = jnp.arange(64, dtype=jnp.float32)

    def calls():
        for _ in range(CALLS):
            y, _ = f(x, x)
        np.asarray(y)

    calls()
    calls()
    before = resident_bytes()
    calls()
    assert resident_bytes() - before < 200 * CALLS
