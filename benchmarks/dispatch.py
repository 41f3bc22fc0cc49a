"""A call of a warmed trivial jit function on tx8 and on cpu: `JAX_PLATFORMS=tx8,cpu python -m benchmarks.dispatch`.

Processor time of the whole process, so that other programs on the host do not count; the least of several rounds.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.measure import pin, table

CALLS, ROUNDS = 2000, 9


def seconds_per_call(work: Callable[[], Any]) -> float:
    """Processor seconds of one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(CALLS):
            work()
        best = min(best, (time.process_time() - started) / CALLS)
    return best


def measure(platform: str) -> dict[str, float]:
    """Microseconds by kind of call."""
    import jax
    import numpy as np

    device = jax.devices(platform)[0]
    increment = jax.jit(lambda x: x + 1)
    many = jax.jit(lambda *xs: [x + 1 for x in xs])
    host = np.zeros(4, np.float32)
    x = jax.device_put(host, device)
    xs = [x] * 10
    works: dict[str, Callable[[], Any]] = {
        "jit(x + 1), waited for": lambda: increment(x).block_until_ready(),
        "np.asarray(jit(x + 1))": lambda: np.asarray(increment(x)),
        "10 arguments, 10 results": lambda: jax.block_until_ready(many(*xs)),
        "device_put of 4 floats": lambda: jax.device_put(host, device),
    }
    for work in works.values():
        for _ in range(10):
            work()
    return {name: 1e6 * seconds_per_call(work) for name, work in works.items()}


def main() -> None:
    import hlo2tx8.pjrt

    hlo2tx8.pjrt.initialize()
    pin()
    cpu, tx8 = measure("cpu"), measure("tx8")
    rows = [(name, cpu[name], tx8[name], tx8[name] - cpu[name]) for name in cpu]
    print(table(("us per call", "cpu", "tx8", "more"), rows))


if __name__ == "__main__":
    main()
