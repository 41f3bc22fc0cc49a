"""Conditions and loops of torch: graphs inside of a graph."""

# pyright: basic

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from hlo2tx8.frontend.traced import Lost, Refused


def _results(tracer: Any, graph: Any, inputs: Any) -> tuple[Any, ...]:
    from hlo2tx8.frontend.torch.graph import LOST

    found = tuple(tracer.graph(graph, inputs))
    if any(value is LOST for value in found):
        raise Lost
    return found


def _cond(tracer: Any, predicate: Any, on_true: Any, on_false: Any, operands: Any = ()) -> Any:
    branches = [lambda *xs, g=g: _results(tracer, g, xs) for g in (on_true, on_false)]
    if isinstance(predicate, bool):
        return branches[not predicate](*operands)
    return lax.cond(predicate.reshape(()), *branches, *operands)


def _while_loop(tracer: Any, condition: Any, body: Any, carried: Any, more: Any = ()) -> Any:
    if any(isinstance(value, (int, float)) for value in carried):
        raise Refused("a number that is carried through a loop is no array")
    return lax.while_loop(
        lambda c: jnp.reshape(_results(tracer, condition, (*c, *more))[0], ()),
        lambda c: tuple(r.astype(x.dtype) for r, x in zip(_results(tracer, body, (*c, *more)), c, strict=True)),
        tuple(carried),
    )


def _scan(tracer: Any, body: Any, first: Any, rows: Any, more: Any = ()) -> Any:
    def turn(carried: Any, given: Any) -> Any:
        found = _results(tracer, body, (*carried, *given, *more))
        return found[: len(first)], found[len(first) :]

    last, collected = lax.scan(turn, tuple(first), tuple(rows))
    return (*last, *collected)


def _with_effects(tracer: Any, token: Any, target: Any, *inputs: Any, **_: Any) -> Any:
    """Of ops with effects, checks of what is computed are left out."""
    from hlo2tx8.frontend.torch.graph import CHECKS, name_of

    if not CHECKS.match(name_of(target)):
        raise Refused(f"{name_of(target)} has effects")
    return token, None


def _inlined(tracer: Any, _: Any, graph: Any, *inputs: Any, **__: Any) -> Any:
    return _results(tracer, graph, inputs)


CONTROL: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "with_effects": _with_effects,
    "wrap_with_set_grad_enabled": _inlined,
    "wrap_with_autocast": lambda tracer, device, dtype, enabled, cache, graph, *inputs: _results(tracer, graph, inputs),
    "invoke_subgraph": lambda tracer, graph, name, *inputs: _results(tracer, graph, inputs),
}
"""By name of the op; each takes the tracer and the node's arguments, graphs as modules."""
