"""Chains of row reductions in one kernel, against float64: modes give the same bits, and levels nearly the same answers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.levels import RUNS, each_run

Array = Any


@dataclass(frozen=True)
class Case:
    """A function of arrays, their shapes and dtype, and the emitters of the kernels it becomes."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    emitters: tuple[str, ...] = ("row",)
    dtype: Any = np.float32

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(1)
        return [rng.uniform(0.1, 2, shape).astype(self.dtype) for shape in self.shapes]


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    centered = x - mean
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def statistics(x: Array) -> tuple[Array, Array, Array]:
    mean, largest = x.sum(1), x.max(1)
    return (x - mean[:, None]) / largest[:, None], mean, largest


def batch_norm(x: Array, scale: Array) -> Array:
    mean = x.mean((0, 2))
    variance = ((x - mean[:, None]) ** 2).mean((0, 2))
    return (x - mean[:, None]) * jax.lax.rsqrt(variance[:, None] + 1e-5) * scale[:, None]


def residual(x: Array, y: Array, scale: Array) -> tuple[Array, Array]:
    total = x + y
    return total, total * jax.lax.rsqrt((total * total).mean(-1, keepdims=True) + 1e-5) * scale


def causal(x: Array) -> Array:
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(x.shape[-2:], bool)), x, -1e9))


def centered(x: Array) -> Array:
    return x - x.astype(np.float32).mean(-1, keepdims=True).astype(x.dtype)


CASES = {
    "inner": Case(jax.nn.softmax, ((37, 129),)),
    "whole chunks, ragged rows": Case(jax.nn.softmax, ((130, 256),)),
    "outer": Case(partial(jax.nn.softmax, axis=0), ((77, 130),)),
    "between": Case(partial(jax.nn.softmax, axis=1), ((5, 33, 70),)),
    "around": Case(batch_norm, ((4, 6, 35), (6,))),
    "two dimensions": Case(partial(jax.nn.softmax, axis=(0, 2)), ((5, 33, 7),)),
    "bf16": Case(jax.nn.softmax, ((64, 256),), dtype=ml_dtypes.bfloat16),
    "odd rows of 16 bits added up in 32": Case(centered, ((37, 163),), dtype=ml_dtypes.bfloat16),
    "f16 layer norm": Case(layer_norm, ((64, 100), (100,), (100,)), dtype=np.float16),
    "layer norm": Case(layer_norm, ((50, 64), (64,), (64,))),
    "outputs per row": Case(statistics, ((50, 64),)),
    "output of a residual": Case(residual, ((33, 64), (33, 64), (64,))),
    "integers": Case(lambda x: x - x.sum(1, keepdims=True) // x.max(1, keepdims=True), ((33, 50),), dtype=np.int32),
    "mask": Case(causal, ((3, 64, 64),)),
    "rows of a transpose": Case(lambda x: jax.nn.softmax(x.T), ((70, 90),)),
    "rows and columns": Case(lambda x: x - x.sum(0) + x.sum(1, keepdims=True), ((70, 90),), ("reduction", "row")),
    "too long": Case(jax.nn.softmax, ((32, 100000),), ("reduction", "loop") * 2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rows(case: Case):
    arrays = case.arrays()
    lowered = jax.jit(case.function).lower(*arrays)
    executable = compile_source(lowered, Options(explain=True))
    emitters = tuple(line.split(": ")[1].split()[0] for line in executable.explanation if " emitter, hero" in line)
    if case.emitters[0] == "row":
        assert emitters == case.emitters
    else:
        assert sorted(emitters) == sorted(case.emitters)
    found = {mode: Emulator(executable.chip, mode).run(executable.program, arrays) for mode in ("fast", "strict", "definition")}
    for other in found.values():
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found["fast"], other, strict=True))
    runs = [list(found["fast"])]
    if case.emitters[0] == "row":
        runs += each_run(partial(load_source, lowered), Options(), arrays, [run for run in RUNS if run.level < Level.PROGRAM])
    with jax.enable_x64(True):
        is_float = np.dtype(case.dtype) != np.int32
        exact = jax.tree.leaves(case.function(*(a.astype(np.float64) if is_float else a for a in arrays)))
    eps = float(ml_dtypes.finfo(case.dtype).eps) if is_float else 0
    for results in runs:
        for actual, wanted in zip(results, exact, strict=True):
            wanted = np.asarray(wanted, np.float64)
            assert np.max(np.abs(np.asarray(actual, np.float64) - wanted)) <= 16 * eps * max(1.0, np.max(np.abs(wanted)))


def test_softmax_moves_what_its_roofline_moves():
    """Read once, written once: within 5 % of the time that takes alone."""
    executable = compile_source(jax.jit(jax.nn.softmax).lower(jax.ShapeDtypeStruct((4096, 1024), np.float32)))
    analysis = executable.cost_analysis()
    assert analysis["bytes accessed"] == 2 * 4096 * 1024 * 4
    assert analysis["cycles"] <= 1.05 * 2 * 4096 * 1024 * 4 / executable.chip.ddr_bytes_per_cycle


def test_what_all_steps_read_alike_is_loaded_once():
    """Scale and shift of a layer norm: one row each per tile, not per step."""
    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((4096, 1024), (1024,), (1024,))]
    executable = compile_source(jax.jit(layer_norm).lower(*shapes))
    tiles = executable.chip.tiles
    assert executable.cost_analysis()["bytes accessed"] == 4 * (2 * 4096 * 1024 + 2 * tiles * 1024)


def test_few_rows_between_products_are_one_tiles() -> None:
    """As the products are: nobody meets."""

    def dense_norm_dense(x: Array, w: Array, scale: Array) -> Array:
        return layer_norm(x @ w, scale, scale) @ w

    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((32, 32), (32, 32), (32,))]
    assert "KC_barrier" not in compile_source(jax.jit(dense_norm_dense).lower(*shapes)).as_text(Level.PROGRAM)


def test_rows_that_batches_read_are_shared() -> None:
    """The batches are several tiles', which meet anyway."""

    def attention(q: Array, k: Array, v: Array) -> Array:
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k)), v)

    executable = compile_source(jax.jit(attention).lower(*[jax.ShapeDtypeStruct((4, 16, 16), np.float32)] * 3))
    assert sum(bool(tile["CT"].instructions) for tile in executable.report.tiles) > 4
