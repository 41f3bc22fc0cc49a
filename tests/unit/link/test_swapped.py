"""States of loops that have two places: turns read one and write the other; what cannot be so is copied."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.device.isa.encoding import decode_records, number_of
from hlo2tx8.device.isa.kc_control import KcEnd, KcLoop, KcMod
from hlo2tx8.device.isa.lsu import Wdma
from hlo2tx8.link.views import LAST_REGISTER
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable

RNG = np.random.default_rng(6)
X, W = RNG.normal(size=(24, 96)).astype(np.float32), (RNG.normal(size=(96, 96)) / 20).astype(np.float32)


def even(x: Any, w: Any) -> Any:
    """The last turn writes the first place."""
    return lax.fori_loop(0, 4, lambda i, x: jnp.tanh(x @ w), x)


def odd(x: Any, w: Any) -> Any:
    """The last turn writes the second place."""
    return lax.fori_loop(0, 5, lambda i, x: jnp.tanh(x @ w), x)


def rows(x: Any, w: Any) -> Any:
    """Each state is also a row of a result."""

    def turn(h: Any, _: None) -> Any:
        new = jnp.tanh(h @ w + x)
        return new, new

    return lax.scan(turn, x, None, 3)


def crossed(x: Any, w: Any) -> Any:
    """Two states, each made of the other."""
    return lax.fori_loop(0, 5, lambda i, s: (jnp.tanh(s[1] @ w), jnp.tanh(s[0] @ w.T)), (x, x + 1))


def read_again(x: Any, w: Any) -> Any:
    """The next state is read in the turn that makes it."""

    def turn(_: Any, s: Any) -> Any:
        new = jnp.tanh(s[0] @ w)
        return new, s[1] + new @ w.T

    return lax.fori_loop(0, 5, turn, (x, x))


def shifted(x: Any, w: Any) -> Any:
    """A state is what another one was."""
    return lax.fori_loop(0, 5, lambda i, s: (jnp.tanh(s[0] @ w) + s[1], s[0]), (x, x + 1))


def inside(x: Any, w: Any) -> Any:
    """A loop in a loop."""
    return lax.fori_loop(0, 3, lambda i, x: jnp.tanh(lax.fori_loop(0, 3, lambda j, x: jnp.tanh(x @ w), x) @ w.T), x)


def conditional(x: Any, w: Any) -> Any:
    """A branch in a loop."""
    return lax.fori_loop(0, 5, lambda i, x: lax.cond(i % 2 == 0, lambda x: jnp.tanh(x @ w), lambda x: x * 2, x), x)


def until(x: Any, w: Any) -> Any:
    """A number of turns that is not known."""
    return lax.while_loop(lambda s: jnp.sum(s * s) > 1, lambda s: jnp.tanh(s @ w), x)


def elementwise(x: Any, w: Any) -> Any:
    """A state that is written over itself."""
    return lax.scan(lambda x, row: (x * 0.5 + row, row), x, jnp.stack([x, x + 1, x * 2]))[0] + w[:24]


SWAPPED = (even, odd, rows, crossed, read_again)
CASES: Sequence[Callable[..., Any]] = (*SWAPPED, shifted, inside, conditional, until, elementwise)


def compiled(function: Callable[..., Any]) -> Executable:
    return hlo2tx8.compile(jax.jit(function).lower(X, W).as_text(), Options(mode="strict", matmul_precision="highest"))


@pytest.mark.parametrize("function", CASES)
def test_answers(function: Callable[..., Any]):
    expected = jax.tree.leaves(jax.jit(function)(X, W))
    for found, reference in zip(compiled(function).execute(X, W), expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function", [*SWAPPED, elementwise])
def test_the_loop_has_no_copies(function: Callable[..., Any]):
    program = compiled(function).program
    records = decode_records(program.code, program.origins)
    begin = next(i for i, r in enumerate(records) if r.kind is KcLoop and r.fields["hi"] in (3, 4, 5) and r.fields["lo"] == 0)
    end = next(i for i, r in enumerate(records) if i > begin and r.kind is KcEnd)
    turn = records[begin:end]
    is_swapped = any(r.kind is KcMod and number_of(r.fields["rd"]) == LAST_REGISTER for r in turn)
    assert is_swapped is (function is not elementwise)
    assert "copy" not in [launch.name for launch in program.launches if begin < launch.first < end]
    assert any(r.kind is Wdma for r in turn)
