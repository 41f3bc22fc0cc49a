"""Many threads and many calls: no deadlock, no wrong result, no growth."""

import contextlib
import gc
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def check_runs_that_are_limited_end():
    endless = jax.jit(lambda x: jax.lax.while_loop(lambda s: s[0] <= s[0], lambda s: s + s, x)).lower(np.ones(4, np.float32))
    for option, message in (
        ({"max_steps": 1000}, "more than 1000 turns of loops"),
        ({"timeout": 0.3}, "still running after 0.3 s"),
    ):
        with pytest.raises(Exception, match=message):
            jax.block_until_ready(endless.compile(option)(np.ones(4, np.float32)))


def check_loops_of_the_host_are_limited_too():
    def turn(state):
        jax.debug.callback(lambda value: None, state[0])
        return state + state

    lowered = jax.jit(lambda x: jax.lax.while_loop(lambda s: s[0] <= s[0], turn, x)).lower(np.ones(4, np.float32))
    with pytest.raises(Exception, match="more than 100 turns of loops"):
        jax.block_until_ready(lowered.compile({"max_steps": 100})(np.ones(4, np.float32)))
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # the token of the callback's has the same error
        jax.effects_barrier()
