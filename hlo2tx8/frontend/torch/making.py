"""Ops that make arrays of numbers."""

# pyright: basic

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.torch.table import AtenCall, Rows


def _filled(call: AtenCall, shape: Any, value: Any) -> Any:
    return jnp.full(tuple(shape), value, call.dtype)


def _arange(call: AtenCall, *given: Any) -> Any:
    """Ends before `end`, which the number of elements that torch computes says too; integers step by the whole part of a step."""
    numbers = [n for n in given if isinstance(n, (int, float)) and not isinstance(n, bool)]
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    count = max(0, math.ceil((end - start) / step))
    is_whole = jnp.issubdtype(call.dtype, jnp.integer) or not any(isinstance(n, float) for n in (start, step))
    wide = np.int64 if is_whole else np.float64
    return lax.iota(wide, count) * wide(step) + wide(start)


def _linspace(call: AtenCall, start: Any, end: Any, steps: int, *_: Any) -> Any:
    """Counted from both ends, so that the last element is the end; integers are cut off."""
    kind = np.float64 if call.dtype in (np.float64, np.int64, np.int32) else np.float32
    if jnp.issubdtype(call.dtype, jnp.complexfloating):
        kind = call.dtype
    start, end = (jnp.asarray(v).astype(kind) for v in (start, end))
    if steps < 2:
        return jnp.broadcast_to(start, (steps,))
    step = (end - start) / (steps - 1)
    k = lax.iota(np.float64 if kind == np.float64 else np.float32, steps)
    return jnp.where(k < steps // 2, start + step * k, end - step * (steps - 1 - k))


def _logspace(call: AtenCall, start: Any, end: Any, steps: int, base: float = 10.0, *_: Any) -> Any:
    places = _linspace(call, start, end, steps)
    places = jnp.trunc(places) if jnp.issubdtype(call.dtype, jnp.integer) else places
    return jnp.power(jnp.asarray(base, places.dtype), places)


def _eye(call: AtenCall, rows: int, columns: Any = None, *_: Any) -> Any:
    return jnp.eye(rows, columns if type(columns) is int else rows, dtype=call.dtype)


def _triangle_places(is_lower: bool) -> Any:
    def apply(call: AtenCall, rows: int, columns: int, offset: int = 0, *_: Any) -> Any:
        found = (np.tril_indices if is_lower else np.triu_indices)(rows, offset, columns)
        return jnp.asarray(np.stack(found), call.dtype)

    return apply


ROWS: Rows = {
    "full": lambda call, shape, value, *_: _filled(call, shape, value),
    "full_like": lambda call, x, value, *_: _filled(call, x.shape, value),
    "new_full": lambda call, _, shape, value, *__: _filled(call, shape, value),
    "fill": lambda call, x, value: jnp.broadcast_to(jnp.asarray(value, call.dtype), x.shape),
    "scalar_tensor": lambda call, value, *_: jnp.asarray(value, call.dtype),
    **{
        f"{kind}{name}": lambda call, shape, *_, v=value: _filled(call, getattr(shape, "shape", shape), v)
        for kind, value in (("zeros", 0), ("ones", 1), ("empty", 0))
        for name in ("", "_like")
    },
    **{
        f"new_{kind}": lambda call, _, shape, *__, v=value: _filled(call, shape, v)
        for kind, value in (("zeros", 0), ("ones", 1), ("empty", 0), ("empty_strided", 0))
    },
    "empty_strided": lambda call, shape, *_: _filled(call, shape, 0),
    "empty_permuted": lambda call, shape, *_: _filled(call, shape, 0),
    "arange": _arange,
    "prims::iota": lambda call, count, start, step, *_: lax.iota(np.int64, count) * step + start,
    "linspace": _linspace,
    "logspace": _logspace,
    "eye": _eye,
    "tril_indices": _triangle_places(True),
    "triu_indices": _triangle_places(False),
}
