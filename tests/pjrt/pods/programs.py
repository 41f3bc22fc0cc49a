"""A process of a pod, or all in one on cpu: `programs.py PLATFORM NUMBER COUNT PORT FOLDER` writes its parts of the results."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, shard_map
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

PLATFORM, NUMBER, COUNT, PORT, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
CHIPS = 2 * COUNT
IS_POD = PLATFORM == "tx8"

jax.config.update("jax_platforms", PLATFORM)
if IS_POD:
    jax.config.update("jax_pjrt_client_create_options", "chips:2")
    jax.distributed.initialize(f"127.0.0.1:{PORT}", COUNT, NUMBER)
else:
    jax.config.update("jax_num_cpu_devices", CHIPS)
LINE = jax.make_mesh((CHIPS,), ("x",), axis_types=(AxisType.Auto,))
TABLE = jax.make_mesh((CHIPS // 2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
RNG = np.random.default_rng(0)


def placed(array, mesh, *spec):
    return jax.device_put(np.asarray(array, np.float32), NamedSharding(mesh, P(*spec)))


def collectives(x):
    ring = [(i, (i + 1) % CHIPS) for i in range(CHIPS)]
    every = lax.all_gather(x, "x", tiled=True)
    return (
        lax.psum(x, "x") + lax.axis_index("x"),
        lax.ppermute(x, "x", ring),
        lax.all_to_all(every, "x", 0, 1, tiled=True),
        lax.psum_scatter(every, "x", tiled=True),
        lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, lax.pmax(s[1], "x") - s[1]), (0, x))[1],
    )


def training_step(weights, x, y):
    def loss(weights):
        hidden = jnp.maximum(x @ weights[0], 0)
        return ((hidden @ weights[1] - y) ** 2).mean()

    value, slopes = jax.value_and_grad(loss)(weights)
    return value, [w - 0.1 * slope for w, slope in zip(weights, slopes, strict=True)]


def results():
    x = np.arange(CHIPS * CHIPS * 3).reshape(CHIPS * CHIPS, 3)
    yield from jax.jit(shard_map(collectives, mesh=LINE, in_specs=P("x"), out_specs=P("x"), check_vma=False))(placed(x, LINE, "x"))
    weights, batch, wanted = (
        [RNG.standard_normal((4, 8)), RNG.standard_normal((8, 2))],
        RNG.standard_normal((8, 4)),
        np.ones((8, 2)),
    )
    with jax.default_matmul_precision("highest"):
        for data, first, second in ((("data", "model"), (), ()), (("data",), (None, "model"), ("model",))):
            state = [placed(weights[0], TABLE, *first), placed(weights[1], TABLE, *second)]
            rows = [placed(a, TABLE, data) for a in (batch, wanted)]
            for _ in range(2):
                value, state = jax.jit(training_step)(state, *rows)
            yield from (value, *state)


def check_pod():
    """What jax knows of the processes."""
    assert (jax.process_index(), jax.process_count(), jax.device_count(), jax.local_device_count()) == (NUMBER, COUNT, CHIPS, 2)
    assert [d.id for d in jax.devices()] == list(range(CHIPS))
    assert [d.process_index for d in jax.devices()] == [i // 2 for i in range(CHIPS)]
    assert [d.id for d in jax.local_devices()] == [2 * NUMBER, 2 * NUMBER + 1]
    multihost_utils.sync_global_devices("here")
    np.testing.assert_array_equal(multihost_utils.process_allgather(np.array([NUMBER, 7])), [[n, 7] for n in range(COUNT)])
    np.testing.assert_array_equal(multihost_utils.broadcast_one_to_all(np.array([NUMBER + 3])), [3])
    parts = [jax.device_put(np.full(2, d.id), d) for d in jax.local_devices()]
    whole = jax.make_array_from_single_device_arrays((CHIPS * 2,), NamedSharding(LINE, P("x")), parts)
    assert [int(shard.data[0]) for shard in whole.addressable_shards] == [2 * NUMBER, 2 * NUMBER + 1]
    assert not whole.is_fully_addressable
    np.testing.assert_array_equal(multihost_utils.process_allgather(whole, tiled=True), np.repeat(np.arange(CHIPS), 2))
    with pytest.raises(RuntimeError, match="non-addressable"):
        np.asarray(whole)
    alone = jax.jit(lambda x: x * 2)(jnp.arange(3))  # on a chip of this process alone
    assert alone.tolist() == [0, 2, 4]


found = {}
for n, result in enumerate(results()):
    for shard in result.addressable_shards:
        found[f"{n} {shard.device.id}"] = np.asarray(shard.data)
np.savez(f"{FOLDER}/{PLATFORM}{NUMBER}.npz", **found)
if IS_POD:
    check_pod()
