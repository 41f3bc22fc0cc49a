"""The end of a process that used the device: clean, whatever is under way, and soon."""

import os
import signal
import textwrap
import time

import jax
import pytest

from tests.forks import Child, Forks

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np, os, sys, time, threading
import hlo2tx8.pjrt
hlo2tx8.pjrt.initialize()
x = jnp.arange(8, dtype=jnp.float32)
f = jax.jit(lambda x: x * 2)
def long_run():
    # the slowest emulator, many elements: minutes
    g = jax.jit(lambda x: jnp.sin(x)).lower(np.zeros(1 << 22, np.float32)).compile({"mode": "definition", "step_elements": 16})
    return g(np.zeros(1 << 22, np.float32))
"""
ENDS = {
    "with the script": "f(x)",
    "by sys.exit": "y = f(x); sys.exit(0)",
    "with a run": "y = long_run()",
    "while a thread begins to compile": """
        from hlo2tx8.pjrt.launch_queue import LaunchThread
        def stop(queue, stop=LaunchThread.stop):  # called at the end of the process
            threading.Thread(target=lowered.compile).start()
            time.sleep(0.5)
            stop(queue)
        lowered = jax.jit(lambda x: x * 3).lower(x)
        LaunchThread.stop = stop
        """,
    "with an array in a global of another module": "sys.kept = [f(x), f]",
}


def start(forks: Forks, script: str) -> Child:
    return forks.start(["-c", PRELUDE + textwrap.dedent(script)], os.environ | {"JAX_PLATFORMS": "tx8,cpu"})


@pytest.mark.parametrize("script", ENDS.values(), ids=ENDS.keys())
def test_a_process_ends_cleanly(script: str, forks: Forks):
    child = start(forks, script)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors


def interrupt(child: Child, begun: str, after: float) -> tuple[str, float]:
    """Ctrl-C `after` seconds from the line `begun`: the next line, and how many seconds later it came."""
    assert child.stdout.readline() == begun
    time.sleep(after)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    return child.stdout.readline(), time.monotonic() - sent


def test_control_c_ends_a_long_run(forks: Forks):
    child = start(
        forks,
        """
        y = long_run()
        print("running", flush=True)
        try:
            y.block_until_ready()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(f(x)[1], flush=True)  # waits for what was queued before
        try:
            y.block_until_ready()
        except jax.errors.JaxRuntimeError as error:
            print(error, flush=True)
        """,
    )
    line, seconds = interrupt(child, "running\n", after=0.5)
    rest, errors = child.communicate(timeout=60)
    assert (line, rest, child.returncode) == ("interrupted\n", "2.0\nCANCELLED: KeyboardInterrupt\n", 0), errors
    assert seconds < 1


def test_control_c_ends_a_long_compilation(forks: Forks):
    child = start(
        forks,
        """
        lowered = jax.jit(lambda x: [(x[i:] * 2).sum() for i in range(900)]).lower(np.zeros(1000, np.float32))
        print("compiling", flush=True)
        try:
            lowered.compile()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """,
    )
    line, seconds = interrupt(child, "compiling\n", after=2)
    assert line == "interrupted\n", child.communicate(timeout=60)
    assert seconds < 2
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors


def test_a_forked_process_is_told_so(forks: Forks):
    """Lowering a new program in a forked process never ends in jax 0.10.1 itself."""
    child = start(
        forks,
        """
        y = f(x)
        y.block_until_ready()
        if os.fork() == 0:
            np.testing.assert_array_equal(y, np.arange(8) * 2)
            new = (lambda: jax.jit(lambda x: x + 1)(x),) if jax.__version_info__ >= (0, 10, 2) else ()
            for use in (lambda: f(x), *new):
                try:
                    use()
                except Exception as error:
                    print(str(error).partition(";")[0], flush=True)
            os._exit(0)
        assert os.wait()[1] == 0
    """,
    )
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    assert output.count("the process was forked after it had used tx8\n") == (2 if jax.__version_info__ >= (0, 10, 2) else 1)


def test_control_c_that_is_lost_between_jaxlib_and_python_comes_again(forks: Forks):
    """ctypes drops an exception that is raised before the first line of a function that C calls."""
    child = start(
        forks,
        """
        def lose(frame, event, what):
            if event == "call" and frame.f_code.co_qualname == "Plugin.guarded.<locals>.serve":
                sys.setprofile(None)
                raise KeyboardInterrupt
        sys.setprofile(lose)
        try:
            jax.device_put(np.arange(1000.0), jax.devices("tx8")[0])
            time.sleep(10)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(f(x)[1])
        """,
    )
    output, errors = child.communicate(timeout=60)
    assert (output, child.returncode) == ("interrupted\n2.0\n", 0), errors
