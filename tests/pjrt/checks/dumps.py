"""XLA_FLAGS that say what to dump, and the same as options of one compilation."""

import os
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

FOLDER = Path(re.search(r"--xla_dump_to=(\S+)", os.environ["XLA_FLAGS"])[1])


def names(folder):
    return [path.name for path in folder.iterdir()]


def check_flags_act_on_the_device():
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.abs(x) + 1)(np.float32(-2)), 3)
    found = [name for name in names(FOLDER) if "lambda" in name]
    stages = [re.search(r"before-([\w-]+)", name)[1] for name in sorted(found)]
    assert stages == ["plan-fusions", "group-fusions", "place-fusions", "emit-fusions"], found


def check_modules_of_the_same_name_have_files_of_their_own():
    before = len(names(FOLDER))
    for factor in range(3):
        jax.jit(lambda x, factor=factor: x * factor)(np.float32(2))
    assert len(names(FOLDER)) == before + 3 * 4


def check_logs_of_the_emitters_that_flags_name():
    assert not [name for name in names(FOLDER) if name.endswith(".log")]
    np.testing.assert_array_equal(jax.jit(jnp.sort)(np.array([3, 1, 2], np.float32)), [1, 2, 3])
    assert [name for name in names(FOLDER) if name.endswith(".mlir-passes.log")]


def check_an_option_of_the_compilation_wins():
    lowered = jax.jit(lambda x: jnp.sin(x)).lower(np.float32(1))
    for turn in range(6):  # jaxlib's option objects once were read after they had been freed
        folder = FOLDER / str(turn)
        compiled = lowered.compile({"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": "vectorize"})
        np.testing.assert_allclose(compiled(np.float32(1)), np.sin(1), rtol=1e-6)
        assert [name for name in names(folder) if "before-vectorize" in name]


def check_logs_of_kernels_are_asked_for_by_emitter():
    lowered = jax.jit(lambda x: jnp.cos(x)).lower(np.float32(1))
    for pattern, is_there in (("loop", True), ("mlir-fusion", True), ("sort", False), ("triton", False)):
        folder = FOLDER / f"emitter {pattern}"
        lowered.compile({"xla_dump_to": str(folder), "xla_dump_emitter_re": pattern})
        assert is_there is any(name.endswith(".mlir-passes.log") for name in names(folder)), (pattern, names(folder))


def check_a_switch_is_true_or_false():
    lowered = jax.jit(lambda x: x + 1).lower(np.float32(1))
    with pytest.raises(Exception, match="option verify should be true or false, got 'maybe'"):
        lowered.compile({"verify": "maybe"})


def check_the_precision_of_products_can_be_asked_for():
    x = np.random.default_rng(0).normal(size=(16, 64)).astype(np.float32)
    lowered = jax.jit(lambda x: x @ x.T).lower(x)
    exact = x.astype(np.float64) @ x.T.astype(np.float64)
    low, high = (
        np.abs(np.asarray(lowered.compile({"matmul_precision": name})(x)) - exact).max() for name in ("default", "highest")
    )
    assert 0 < high < 1e-4 < low


def check_passes_can_be_left_out():
    lowered = jax.jit(lambda x: lax.neg(lax.neg(x))).lower(np.ones((4, 4), np.float32))
    options = {}, {"xla_disable_all_hlo_passes": True}, {"hlo_passes": False}
    few, many, same = (lowered.compile(given).cost_analysis()["cycles"] for given in options)
    assert few < many == same
