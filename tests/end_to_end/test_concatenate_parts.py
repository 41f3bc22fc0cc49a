"""A concatenation is computed operand by operand: the same bits at every level, no masks; small ones in one loop."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS, each_run


def doubled(x):
    n, h, w, c = x.shape
    return jnp.broadcast_to(x[:, :, None, :, None], (n, h, 2, w, 2, c)).reshape(n, 2 * h, 2 * w, c)


CASES = {
    "channels": (lambda x, y: jnp.concatenate([doubled(jnp.abs(x)), y], -1) * 2, ((2, 8, 9, 7), (2, 16, 18, 5))),
    "rows": (lambda x, y: jnp.concatenate([y, x, -y], 0), ((37, 65), (40, 65))),
    "transposed": (lambda x, y: jnp.concatenate([x.T, y], 1), ((50, 33), (33, 41))),
    "groups": (lambda x, y: jnp.concatenate([(x.reshape(40, 4, 12) - y[:, :4, None]).reshape(40, 48), y], 1), ((40, 48), (40, 27))),
}


@pytest.mark.parametrize("case", CASES)
def test_every_level_gives_the_same_bits(case):
    function, shapes = CASES[case]
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    text = jax.jit(function).lower(*arrays).as_text()
    runs = [run for run in RUNS if run.level >= Level.FUSED]
    found = [outputs[0] for outputs in each_run(partial(load_source, text), Options(), arrays, runs)]
    for run, value in zip(runs, found, strict=True):
        np.testing.assert_array_max_ulp(value, found[-1], 0 if run.level > Level.FUSED else 1000)
    np.testing.assert_allclose(found[-1], jax.jit(function)(*arrays), rtol=1e-5, atol=1e-6)
    scheduled = hlo2tx8.compile(text).as_text(Level.SCHEDULED)
    assert "maskmove" not in scheduled
    assert "KC_V_select" not in scheduled
