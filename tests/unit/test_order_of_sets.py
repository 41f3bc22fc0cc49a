"""The same program for the same source, whatever order Python's sets of values and operations have."""

import jax
import jax.numpy as jnp
import pytest
from xdsl.ir import BlockArgument, Operation, OpResult

import hlo2tx8


def _normalized(x: jax.Array, y: jax.Array, scale: jax.Array) -> tuple[jax.Array, ...]:
    """A sum normalized by rows, with what a training step keeps of it: results of several sizes, in one kernel."""
    total = x + y
    mean = total.astype(jnp.float32).mean(-1, keepdims=True)
    factor = jax.lax.rsqrt(((total - mean) ** 2).astype(jnp.float32).mean(-1, keepdims=True) + 1e-5)
    return ((total - mean) * factor).astype(total.dtype) * scale, total, factor[:, 0], mean[:, 0]


def test_a_program_does_not_depend_on_the_order_of_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their hash is the address where a value lies; here one made of it that differs each time."""
    given = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((128, 512), (128, 512), (512,))]
    source = jax.jit(_normalized).lower(*given).as_text()
    found: set[str] = set()
    for seed in range(5):
        for kind in (OpResult, BlockArgument, Operation):
            monkeypatch.setattr(kind, "__hash__", lambda self, seed=seed: hash((seed, id(self))))
        found.add(hlo2tx8.compile(source).as_text("scheduled"))
    assert len(found) == 1
