"""A perceptron learns the sine on the chips of several processes, a part of the points on each chip.

In two shells: `python -m examples.pods.sine --processes=2 --process=0`, and the same with `--process=1`.
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import hlo2tx8.pjrt

HIDDEN, RATE, POINTS = 32, 0.1, 512
Parameters = dict[str, Any]


def start() -> argparse.Namespace:
    """Reads the flags and joins the pod."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0, help="the number of this one")
    parser.add_argument("--coordinator", default="127.0.0.1:9000", help="an address and port of process 0")
    parser.add_argument("--chips", type=int, default=2, help="of each process")
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    hlo2tx8.pjrt.initialize()  # jax does so itself where the package is installed
    jax.config.update("jax_platforms", "tx8")
    jax.config.update("jax_pjrt_client_create_options", f"chips:{given.chips}")
    if given.processes > 1:
        jax.distributed.initialize(given.coordinator, given.processes, given.process)
    return given


def loss(p: Parameters, x: jax.Array, y: jax.Array) -> jax.Array:
    """The mean square of what is missed."""
    hidden = jnp.tanh(x * p["w1"] + p["b1"])
    return ((hidden @ p["w2"] - y) ** 2).mean()


@jax.jit
def step(p: Parameters, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Parameters]:
    """Gradient descent; what the chips find is added up over the links."""
    missed, slope = jax.value_and_grad(loss)(p, x, y)
    return missed, jax.tree.map(lambda w, s: w - RATE * s, p, slope)


def main() -> None:
    given = start()
    mesh = jax.make_mesh((jax.device_count(),), ("points",), axis_types=(AxisType.Auto,))
    whole, parts = NamedSharding(mesh, P()), NamedSharding(mesh, P("points"))
    rng = np.random.default_rng(0)
    weights = {"w1": rng.normal(size=HIDDEN), "b1": rng.normal(size=HIDDEN), "w2": rng.normal(size=(HIDDEN, 1)) / np.sqrt(HIDDEN)}
    points = np.linspace(-np.pi, np.pi, POINTS, dtype=np.float32)[:, None]
    p = jax.device_put({name: w.astype(np.float32) for name, w in weights.items()}, whole)
    x, y = (jax.device_put(a, parts) for a in (points, np.sin(points)))
    compiled = step.lower(p, x, y).compile()
    for number in range(given.steps + 1):
        missed, p = compiled(p, x, y)
        if number % 50 == 0 and given.process == 0:
            print(f"step {number}: mean square {float(missed):.4f}", flush=True)
    if given.process == 0:
        cost: Any = compiled.cost_analysis()
        where = f"{given.processes} x {given.chips} chips"
        print(f"a step on {where}: {1e6 * cost['seconds']:.1f} us modelled, {cost['link_cycles']:.0f} cycles of it on the links")


if __name__ == "__main__":
    main()
