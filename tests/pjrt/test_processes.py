"""Processes of a pod under jax: what programs give is what one process of cpu gives, and who loses another process says so."""

import os
import socket
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from tests.forks import Child, Forks

SCRIPT = Path(__file__).parent / "pods" / "programs.py"
END = """
import os, signal, sys
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
number, count, port = map(int, sys.argv[1:])
jax.config.update("jax_platforms", "tx8")
jax.distributed.initialize(f"127.0.0.1:{port}", count, number)
mesh = jax.make_mesh((count,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.make_array_from_callback((count,), NamedSharding(mesh, P("x")), lambda index: np.ones(1))
f = jax.jit(lambda x: x.sum())
assert f(x) == count
"""
EXAMPLE = ["-m", "examples.pods.sine", "--steps=50", "--chips=1", "--processes=2"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(forks: Forks, arguments: list[str]) -> Child:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    environment.pop("XLA_FLAGS", None)
    return forks.start(arguments, environment)


@pytest.mark.slow  # half a minute of processor time: several processes import jax and compile
@pytest.mark.parametrize("count", [2, 4])
def test_programs_give_what_cpu_gives(count: int, tmp_path: Path, forks: Forks) -> None:
    port = str(free_port())
    places = [("cpu", 0), *(("tx8", number) for number in range(count))]
    children = [start(forks, [str(SCRIPT), platform, str(number), str(count), port, str(tmp_path)]) for platform, number in places]
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors
    expected = dict(np.load(tmp_path / "cpu0.npz"))
    found = {name: array for n in range(count) for name, array in np.load(tmp_path / f"tx8{n}.npz").items()}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.slow  # as above
@pytest.mark.parametrize(
    ("count", "end", "said"),
    [
        (3, "os.kill(os.getpid(), signal.SIGKILL)", "died or cannot be reached"),
        (2, "raise ValueError('no bread')", "has ended: ValueError: no bread"),
    ],
    ids=["killed", "by an exception"],
)
def test_a_process_that_is_gone_is_named_by_the_others(count: int, end: str, said: str, forks: Forks) -> None:
    port = str(free_port())
    script = textwrap.dedent(END) + f"if number == 1: {end}\nf(x).block_until_ready()\n"
    children = [start(forks, ["-c", script, str(number), str(count), port]) for number in range(count)]
    _, errors = children[1].communicate(timeout=120)
    assert children[1].returncode, errors
    begun = time.monotonic()
    for child in (children[0], *children[2:]):
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 1, errors
        assert f"process 1 (pid {children[1].pid}" in errors and said in errors
    assert time.monotonic() - begun < 30


@pytest.mark.slow  # as above
def test_the_example(forks: Forks) -> None:
    flags = [*EXAMPLE, f"--coordinator=127.0.0.1:{free_port()}"]
    children = [start(forks, [*flags, f"--process={number}"]) for number in range(2)]
    printed = [child.communicate(timeout=240) for child in children]
    assert [child.returncode for child in children] == [0, 0], printed
    assert "step 50: mean square 0.0" in printed[0][0] and "cycles of it on the links" in printed[0][0]


@pytest.mark.slow  # as above
def test_who_does_not_ask_for_tx8_goes_on_without(forks: Forks) -> None:
    script = """
        import jax
        jax.config.update("jax_platforms", None)
        jax.config.update("jax_pjrt_client_create_options", "num_nodes:2")  # and nobody who could tell about the other one
        assert {d.platform for d in jax.devices()} == {"cpu"}
        jax.devices("tx8")
        """
    child = start(forks, ["-c", textwrap.dedent(script)])
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 1 and "several processes need a key-value store" in errors, errors
