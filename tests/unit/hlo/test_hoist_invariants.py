"""Pass hoist-invariants: loops give what they gave, and do less."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from xdsl.ir import Operation

from hlo2tx8.compiler.driver import load_source, lower_module
from hlo2tx8.hlo import evaluate
from hlo2tx8.options import Level, Options

X = np.arange(1, 20, dtype=np.float32)


def sum_each_turn(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, total: total + jnp.sum(x) + i, jnp.float32(0))


def nested(x: Any) -> Any:
    def inner(_: Any, total: Any) -> Any:
        return total + jnp.dot(x, x) * 2 + jnp.sum(x * total)

    return lax.while_loop(lambda c: c < 1e6, lambda c: lax.fori_loop(0, 3, inner, c), jnp.float32(1))


def no_turn(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < x[0] - 1, lambda c: (c[0] + jnp.sum(x), jnp.max(x)), (x[0], x[1]))


def loops_of(op: Operation) -> list[Operation]:
    return [inner for inner in op.walk() if inner.name == "stablehlo.while"]


def fused(function: Callable[..., Any], *arguments: Any) -> Any:
    module = load_source(function, args=arguments)
    return lower_module(module, Options(until=Level.FUSED, verify=True)).module


@pytest.mark.parametrize("function", [sum_each_turn, nested, no_turn], ids=lambda f: f.__name__)
def test_values(function: Callable[..., Any]) -> None:
    expected = np.asarray(jax.jit(function)(X)) if function is not no_turn else jax.jit(function)(X)
    found = evaluate(fused(function, X), X)
    for actual, reference in zip(found, jax.tree.leaves(expected), strict=True):
        assert np.allclose(actual, reference, rtol=1e-6)


def test_a_sum_of_the_same_elements_is_before_the_loop() -> None:
    (loop,) = loops_of(fused(sum_each_turn, X))
    assert not [op for op in loop.walk() if op.name == "stablehlo.reduce"]


def test_the_inner_loop_hands_it_on_to_the_outer_one() -> None:
    module = fused(nested, X)
    assert len(loops_of(module)) == 2
    for loop in loops_of(module):
        assert not [op for op in loop.walk() if op.name == "stablehlo.dot_general"]
        assert [op for op in loop.walk() if op.name == "stablehlo.reduce"]


def test_what_changes_stays() -> None:
    (loop,) = loops_of(fused(lambda x: lax.fori_loop(0, 5, lambda i, y: y + jnp.sum(y * x), x), X))
    assert [op for op in loop.walk() if op.name == "stablehlo.reduce"]
