"""What ByteIR's coarse ops compute, in jax, by name; keywords are the attributes of `byteir_attrs`. Those that are not here, such
as rng_uniform, non_zero and flash_attn_*, are refused as unknown custom calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def softmax(x: Any, *, axis: int = -1) -> Any:
    """exp(x - max) / sum."""
    import jax

    return jax.nn.softmax(x, axis=axis)


def log_softmax(x: Any, *, axis: int = -1) -> Any:
    """x - max - log(sum(exp(x - max)))."""
    import jax

    return jax.nn.log_softmax(x, axis=axis)


def gelu(x: Any, *, approximate: str = "erf") -> Any:
    """x / 2 (1 + erf(x / √2)), or with tanh where `approximate` says so."""
    import jax

    if approximate not in ("erf", "none", "tanh"):
        raise ValueError(f"no GELU {approximate!r}")
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def erf(x: Any) -> Any:
    """The error function."""
    import jax

    return jax.lax.erf(x)


def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    axis: Sequence[int] = (-1,),
    epsilon: float = 1e-5,
    eps_outside_sqrt: bool = False,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias along some dimensions."""
    import jax.numpy as jnp

    axes = _axes(axis)
    wide = x.astype(jnp.float32) if x.dtype.itemsize < 4 else x
    off = wide - wide.mean(axes, keepdims=True)
    variance = (off * off).mean(axes, keepdims=True)
    y = off / (jnp.sqrt(variance) + epsilon if eps_outside_sqrt else jnp.sqrt(variance + epsilon))
    y = y.astype(x.dtype) * (1 if weight is None else weight)
    return y if bias is None else y + bias


def l2_norm(x: Any, *, axis: Sequence[int] = (-1,), epsilon: float = 1e-12, eps_outside_sqrt: bool = False) -> Any:
    """x / max(sqrt(sum of squares), epsilon), or x / sqrt(sum of squares + epsilon) where epsilon is inside."""
    import jax.numpy as jnp

    total = (x * x).sum(_axes(axis), keepdims=True)
    return x / (jnp.maximum(jnp.sqrt(total), epsilon) if eps_outside_sqrt else jnp.sqrt(total + epsilon))


def arg_max(x: Any, *, axis: int = -1, keep_dims: bool = False, select_last_index: bool = False) -> Any:
    """The place of the largest element along a dimension, the first one of several."""
    return _place(x, axis, keep_dims, select_last_index, "argmax")


def arg_min(x: Any, *, axis: int = -1, keep_dims: bool = False, select_last_index: bool = False) -> Any:
    """The place of the smallest element."""
    return _place(x, axis, keep_dims, select_last_index, "argmin")


def top_k(x: Any, *, k: int, axis: Sequence[int] = (-1,), sorted: bool = True) -> Any:
    """The k largest elements along the last dimension, in order, and their places."""
    import jax

    if _axes(axis) not in ((-1,), (x.ndim - 1,)):
        raise ValueError("the k largest elements are of the last dimension")
    return jax.lax.top_k(x, k)


def one_hot(indices: Any, *, depth: int, axis: int = -1, on_value: float = 1, off_value: float = 0) -> Any:
    """`on_value` at the place that each index says, `off_value` elsewhere."""
    import jax
    import jax.numpy as jnp

    return jnp.where(jax.nn.one_hot(indices, depth, axis=axis, dtype=bool), on_value, off_value)


def addn(*arrays: Any) -> Any:
    """The sum of the operands."""
    return sum(arrays[1:], arrays[0])


def _axes(axis: int | Sequence[int]) -> tuple[int, ...]:
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _place(x: Any, axis: int, keep_dims: bool, is_last: bool, which: str) -> Any:
    import jax.numpy as jnp

    found = getattr(jnp, which)(jnp.flip(x, axis) if is_last else x, axis, keepdims=keep_dims)
    return x.shape[axis] - 1 - found if is_last else found


FORMULAS: Mapping[str, Callable[..., Any]] = {
    f.__name__: f for f in (softmax, log_softmax, gelu, erf, layer_norm, l2_norm, arg_max, arg_min, top_k, one_hot, addn)
}
