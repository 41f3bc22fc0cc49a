"""Random programs on four chips, with arrays cut at random: the answers are those of jax's cpu.

With JAX_PJRT_CLIENT_CREATE_OPTIONS=chips:4, `python tests/pjrt/run_checks.py tests/pjrt/checks/shardings.py FIRST=100` runs others.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

FIRST, COUNT = 0, 8
MESH = Mesh(np.array(jax.devices("tx8")).reshape(2, 2), ("a", "b"))
SIZES = (1, 2, 3, 4, 6, 8)
Step = Callable[[Any, Any], Any]
"""Of two arrays of one shape."""


def spec(r: random.Random, shape: tuple[int, ...], is_even: bool = True) -> P:
    """Some axes of the mesh for some dimensions, in any order."""
    axes = r.sample(["a", "b"], 2)
    found: list[tuple[str, ...] | None] = []
    for size in shape:
        mine: tuple[str, ...] = ()
        while axes and r.random() < 0.5 and not (is_even and size % 2 ** (len(mine) + 1)):
            mine = (*mine, axes.pop())
        found.append(mine or None)
    return P(*found)


def steps(r: random.Random, shape: tuple[int, ...]) -> list[Step]:
    """Operations on arrays of that shape."""
    d, rank = r.randrange(len(shape)), len(shape)
    order, picked = r.sample(range(rank), rank), np.array([r.randrange(shape[d]) for _ in range(4)], np.int32)
    rows = np.array([r.randrange(shape[0]) for _ in range(4)], np.int32)
    low, half = r.randrange(shape[d]), max(1, shape[d] // 2)
    cut = NamedSharding(MESH, spec(r, shape, is_even=False))
    axes = tuple(i for i in range(rank) if r.random() < 0.6)
    return [
        lambda x, y: jnp.sin(x) + y,
        lambda x, y: x.transpose(order) * 2,
        lambda x, y: x.reshape(-1, shape[-1]) if rank > 1 else x.reshape(1, -1),
        lambda x, y: x.sum(axes),
        lambda x, y: jnp.maximum(x, y).max(axes),
        lambda x, y: jnp.tensordot(x, y, ((d,), (d,))),
        lambda x, y: jnp.concatenate([x, y * 3], d),
        lambda x, y: lax.slice_in_dim(x, low, shape[d], 1, d),
        lambda x, y: lax.rev(x, (d,)) - y,
        lambda x, y: jnp.sort(x, d),
        lambda x, y: jnp.cumsum(x, d),
        lambda x, y: jnp.take(x, picked, d),
        lambda x, y: y.at[rows].add(jnp.broadcast_to(x[:1], (4, *shape[1:]))),
        lambda x, y: jnp.zeros(shape).at[rows].add(x[rows]),
        lambda x, y: lax.dynamic_update_slice_in_dim(y, lax.slice_in_dim(x, 0, half, 1, d), low, d),
        lambda x, y: lax.fori_loop(0, 3, lambda i, z: z * 0.3 + y + z.sum() * 0.01, x),
        lambda x, y: lax.cond(x.sum() > 0, lambda: x - y, lambda: x * y.max()),
        lambda x, y: x + lax.broadcasted_iota(jnp.float32, shape, d),
        lambda x, y: lax.with_sharding_constraint(x, cut) if isinstance(x, jax.core.Tracer) else x,
    ]


def program(r: random.Random, shape: tuple[int, ...]) -> Callable[..., list[Any]]:
    """Five steps, each of two of the arrays that are there by then."""
    shapes, chosen = [shape, shape], list[tuple[Step, int, int]]()
    for _ in range(5):
        i = r.choice([n for n, s in enumerate(shapes) if s and len(s) < 4])
        j = r.choice([n for n, s in enumerate(shapes) if s == shapes[i]])
        step = r.choice(steps(r, shapes[i]))
        shapes.append(jax.eval_shape(step, *[jax.ShapeDtypeStruct(shapes[i], jnp.float32)] * 2).shape)
        chosen.append((step, i, j))

    def work(x: Any, y: Any) -> list[Any]:
        values = [x, y]
        for step, i, j in chosen:
            values.append(step(values[i], values[j]))
        return values[2:]

    return work


def compare(seed: int) -> None:
    """One program on all chips and on cpu."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    shape = tuple(r.choice(SIZES) for _ in range(r.randint(1, 3)))
    work = program(r, shape)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    with jax.default_matmul_precision("highest"):
        found = jax.jit(work)(*(jax.device_put(x, NamedSharding(MESH, spec(r, shape))) for x in arrays))
        with jax.default_device(jax.devices("cpu")[0]):
            expected = work(*map(jnp.asarray, arrays))
    for number, (result, value) in enumerate(zip(found, expected, strict=True)):
        close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4 * max(1, np.abs(value).max(initial=0)))
        for shard in result.addressable_shards:
            close(shard.data, np.asarray(value)[shard.index], err_msg=f"seed {seed}, step {number}")


def check_random_programs():
    for seed in range(FIRST, FIRST + COUNT):
        compare(seed)
