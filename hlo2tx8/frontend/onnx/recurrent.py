"""RNN, GRU and LSTM: a loop over time, forward, backward or both; of a batch, elements may end before others."""

# pyright: basic

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax, nn

from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused

DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "affine": lambda x, alpha=1.0, beta=0.0: alpha * x + beta,
    "elu": lambda x, alpha=1.0, beta=0.0: nn.elu(x, alpha),
    "hardsigmoid": lambda x, alpha=0.2, beta=0.5: jnp.clip(alpha * x + beta, 0, 1),
    "leakyrelu": lambda x, alpha=0.01, beta=0.0: jnp.where(x < 0, alpha * x, x),
    "relu": lambda x, alpha=0.0, beta=0.0: jnp.maximum(x, 0),
    "scaledtanh": lambda x, alpha=1.0, beta=1.0: alpha * jnp.tanh(beta * x),
    "sigmoid": lambda x, alpha=0.0, beta=0.0: nn.sigmoid(x),
    "softplus": lambda x, alpha=0.0, beta=0.0: nn.softplus(x),
    "softsign": lambda x, alpha=0.0, beta=0.0: nn.soft_sign(x),
    "tanh": lambda x, alpha=0.0, beta=0.0: jnp.tanh(x),
    "thresholdedrelu": lambda x, alpha=1.0, beta=0.0: jnp.where(x > alpha, x, 0),
}
Step = Callable[..., tuple[Any, ...]]


def _activations(call: NodeCall, directions: int) -> list[Callable[[Any], Any]]:
    """The functions of all directions, one after another."""
    names = call["activations"] or DEFAULTS[call.op] * directions
    alphas, betas = list(call["activation_alpha"] or ()), list(call["activation_beta"] or ())
    clip, found = call["clip"], []
    for name in names:
        function = ACTIVATIONS.get(name.lower())
        if function is None:
            raise Refused(f"there is no activation {name!r}")
        given: dict[str, float] = {}
        if name.lower() in ("affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu") and alphas:
            given["alpha"] = alphas.pop(0)
        if name.lower() in ("affine", "hardsigmoid", "scaledtanh") and betas:
            given["beta"] = betas.pop(0)
        function = partial(function, **given)
        found.append(function if clip is None else partial(_bounded, function, clip))
    return found


def _bounded(function: Callable[[Any], Any], clip: float, x: Any) -> Any:
    return function(jnp.clip(x, -clip, clip))


def _rnn(call: NodeCall, f: Sequence[Any], r: Any, b: Any, _: Any) -> Step:
    """h' = f(x w + h r + b)."""
    total = b[0] + b[1]
    return lambda x, h: (f[0](x + h @ r.T + total),)


def _gru(call: NodeCall, f: Sequence[Any], r: Any, b: Any, _: Any) -> Step:
    """h' = (1 - z) n + z h; gates z, r, n in that order."""
    rows, size = r.reshape(3, -1, r.shape[-1]), r.shape[-1]
    wb, rb = b.reshape(2, 3, size)

    def step(x: Any, h: Any) -> tuple[Any, ...]:
        xz, xr, xn = (part + bias for part, bias in zip(jnp.split(x, 3, -1), wb, strict=True))
        z = f[0](xz + h @ rows[0].T + rb[0])
        gate = f[0](xr + h @ rows[1].T + rb[1])
        if call["linear_before_reset"]:
            n = f[1](xn + gate * (h @ rows[2].T + rb[2]))
        else:
            n = f[1](xn + (gate * h) @ rows[2].T + rb[2])
        return ((1 - z) * n + z * h,)

    return step


def _lstm(call: NodeCall, f: Sequence[Any], r: Any, b: Any, p: Any) -> Step:
    """c' = f c + i g, h' = o tanh(c'); gates i, o, f, g in that order; peepholes `p` of i, o, f."""
    size = r.shape[-1]
    pi, po, pf = jnp.zeros((3, size), r.dtype) if p is None else p.reshape(3, size)
    total = b[0] + b[1]

    def step(x: Any, h: Any, c: Any) -> tuple[Any, ...]:
        i, o, forget, g = jnp.split(x + h @ r.T + total, 4, -1)
        i = f[0](i + pi * c)
        forget = 1 - i if call["input_forget"] else f[0](forget + pf * c)
        c = forget * c + i * f[1](g)
        return f[0](o + po * c) * f[2](c), c

    return step


def _over_time(make: Callable[..., Step], num_states: int) -> Callable[..., Any]:
    """A row of a function that makes a step of the recurrence from weights."""

    def apply(call: NodeCall, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *rest: Any) -> Any:
        states = [*rest[:num_states], *[None] * (num_states - len(rest))]
        peepholes = rest[num_states] if len(rest) > num_states else None
        directions, size = r.shape[0], r.shape[-1]
        if call["layout"]:
            x = jnp.swapaxes(x, 0, 1)
            states = [None if s is None else jnp.swapaxes(s, 0, 1) for s in states]
        times, batch = x.shape[:2]
        functions = _activations(call, directions)
        per_direction = len(functions) // directions
        b = jnp.zeros((directions, 2 * w.shape[1]), x.dtype) if b is None else b
        outputs: list[Any] = []
        for d in range(directions):
            own = functions[d * per_direction : (d + 1) * per_direction]
            step = make(call, own, r[d], b[d].reshape(2, -1), None if peepholes is None else peepholes[d])
            first = tuple(jnp.zeros((batch, size), x.dtype) if s is None else s[d] for s in states)
            is_backward = d == 1 or call["direction"] == "reverse"
            outputs.append(_direction(step, x @ w[d].T, first, lengths, is_backward, times))
        whole = jnp.stack([rows for rows, _ in outputs], 1)
        last = [jnp.stack([found[k] for _, found in outputs]) for k in range(num_states)]
        if call["layout"]:
            whole, last = jnp.transpose(whole, (2, 0, 1, 3)), [jnp.swapaxes(s, 0, 1) for s in last]
        return (whole, *last)

    return apply


def _direction(step: Step, x: Any, first: tuple[Any, ...], lengths: Any, is_backward: bool, times: int) -> tuple[Any, Any]:
    """[times, batch, size] of states, 0 behind an element's end, and the last of each element."""

    def turn(carried: Any, given: Any) -> Any:
        row, time = given
        found = step(row, *carried)
        if lengths is None:
            return found, found[0]
        inside = (time < lengths)[:, None]
        kept = tuple(jnp.where(inside, new, old) for new, old in zip(found, carried, strict=True))
        return kept, jnp.where(inside, found[0], jnp.zeros_like(found[0]))

    last, rows = lax.scan(turn, first, (x, jnp.arange(times, dtype=jnp.int32)), reverse=is_backward)
    return rows, last


ROWS: dict[str, OpRow] = {
    "GRU": OpRow(_over_time(_gru, 1)),
    "LSTM": OpRow(_over_time(_lstm, 2)),
    "RNN": OpRow(_over_time(_rnn, 1)),
}
