"""What a row of the table of ATen ops is: the function of jax that means the op.

A function takes the node as an `AtenCall` and then all arguments of the op's schema in order, defaults too, less those that say
where and how a tensor lies: arrays, Python's numbers, lists, and dtypes of numpy. Its result gets the dtype that torch gives it.
"""

# pyright: basic

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from hlo2tx8.frontend.torch.arrays import numpy_dtype
from hlo2tx8.frontend.torch.package import torch_module

Row = Callable[..., Any]
Rows = dict[str, Row]


@dataclass(frozen=True)
class AtenCall:
    """A node: its op as `add.Tensor`, dtypes and shapes of its results (None for what is no tensor), its tensors and numbers as
    torch sees them, and a function that gives a key of random numbers.
    """

    op: str
    dtypes: tuple[Any, ...]
    shapes: tuple[Any, ...]
    given: tuple[Any, ...]
    key: Callable[[], Any]

    @property
    def dtype(self) -> Any:
        """The dtype of the first result."""
        return self.dtypes[0]

    @cached_property
    def common(self) -> Any:
        """The dtype in which torch compares or combines the first two arguments."""
        return numpy_dtype(torch_module().result_type(*self.given[:2]))

    def wide(self, first: Any, *others: Any) -> Any:
        """Numbers and arrays in the dtype of the result, or in f32 where that has 16 bits or less."""
        kind = widened(self.dtype)
        return tuple(jnp.asarray(v, kind) for v in (first, *others)) if others else jnp.asarray(first, kind)


def widened(dtype: Any) -> Any:
    """f32 for floats of 16 bits and less, in which torch computes with them; any other dtype as it is."""
    return np.dtype(np.float32) if jnp.issubdtype(dtype, jnp.floating) and np.dtype(dtype).itemsize < 4 else np.dtype(dtype)


def unary(**functions: Callable[[Any], Any]) -> Rows:
    """Rows of functions of one array, computed in the dtype of the result."""
    return {name: lambda call, x, *_, f=f: f(call.wide(x)) for name, f in functions.items()}


def binary(**functions: Callable[[Any, Any], Any]) -> Rows:
    """Rows of functions of two arrays or numbers, computed in the dtype of the result."""
    return {name: lambda call, x, y, *_, f=f: f(*call.wide(x, y)) for name, f in functions.items()}


def comparing(**functions: Callable[[Any, Any], Any]) -> Rows:
    """Rows of functions of two arrays or numbers, computed in the dtype that they have in common."""
    return {
        name: lambda call, x, y, *_, f=f: f(jnp.asarray(x, call.common), jnp.asarray(y, call.common))
        for name, f in functions.items()
    }


def plain(**functions: Callable[..., Any]) -> Rows:
    """Rows of functions of the arguments and nothing else."""
    return {name: lambda _, *arguments, f=f: f(*arguments) for name, f in functions.items()}


def dims_of(dims: Any, rank: int) -> tuple[int, ...]:
    """Dimensions from 0 on; all of them for None and for an empty list."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return tuple(range(rank))
    chosen = dims if isinstance(dims, (list, tuple)) else (dims,)
    return tuple(d % max(rank, 1) for d in chosen) if rank else ()


def each(values: Any, rank: int) -> tuple[int, ...]:
    """A list that may hold one number for all dimensions."""
    found = tuple(values) if isinstance(values, (list, tuple)) else (values,)
    return found * rank if len(found) == 1 else found


def gradient(function: Callable[..., Any], inputs: tuple[Any, ...], upstream: Any) -> tuple[Any, ...]:
    """The gradients of a function's inputs for that of its result."""
    import jax

    result, pull = jax.vjp(function, *inputs)
    if isinstance(result, tuple):
        cotangents = tuple(jnp.zeros_like(r) if u is None else u.astype(r.dtype) for r, u in zip(result, upstream, strict=True))
        return pull(cotangents)
    return pull(upstream.astype(result.dtype))
