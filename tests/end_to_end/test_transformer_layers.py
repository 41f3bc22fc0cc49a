"""Layers of transformers at sizes of real ones: what is added to a product is loaded while the product before it is computed."""

from functools import partial

import jax
import numpy as np

import hlo2tx8
from benchmarks.roofline import layer
from hlo2tx8.options import Options

CHANNELS = 768
SHAPES = [(1,), (1,), (1, 3), (1, 1), (1,), (1,), (1, 4), (4,), (4, 1)]


def test_f32():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 512, CHANNELS)).astype(np.float32)
    weights = tuple(rng.normal(0, 0.04, [n * CHANNELS for n in shape]).astype(np.float32) for shape in SHAPES)
    function = jax.jit(partial(layer, size=64))
    executable = hlo2tx8.compile(function.lower(x, weights), options=Options(explain=True))
    assert any("what is added comes early" in line for line in executable.explanation)
    found = np.asarray(executable.run(x, weights))
    with jax.default_matmul_precision("highest"):
        expected = np.asarray(function(x, weights))
    assert np.abs(found - expected).max() <= 4e-3 * np.abs(expected).max()
