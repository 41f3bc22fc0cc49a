"""Decompositions and solvers in jax itself, from loops, masks and sums: what jax lowers its linear algebra to on tx8.

Matrices have any leading batch dimensions. Rows and columns are picked and put back under masks, so every step is elementwise
operations and sums that the chip does in parallel, and no step depends on where a run-time index lies. Conventions are LAPACK's.
"""
# pyright: basic

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Matrix = Any


def loop(count: int, body: Callable[[Any, Any], Any], state: Any) -> Any:
    """body(k, state) for k = 0, 1, ..., count - 1; k is int32."""
    if not count:
        return state  # of arrays without elements no step can be traced
    start = as_turned(lambda s: body(jnp.int32(0), s), varying_alike(state))
    return lax.fori_loop(0, count, lambda k, s: body(jnp.int32(k), s), start)


def as_turned(body: Callable[[Any], Any], state: Any) -> Any:
    """The state in the explicit shardings in which the body leaves it; the same where there are none."""

    def spec_of(leaf: Any) -> Any:
        return jax.typeof(leaf).sharding.spec

    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return state
    while True:
        leaves = jax.tree.leaves(state)
        wanted = [spec_of(leaf) for leaf in jax.tree.leaves(jax.eval_shape(body, state))]
        if wanted == [spec_of(leaf) for leaf in leaves]:
            return state
        moved = [jax.reshard(leaf, spec) for leaf, spec in zip(leaves, wanted, strict=True)]
        state = jax.tree.unflatten(jax.tree.structure(state), moved)


def varying_alike(state: Any) -> Any:
    """The same arrays; in a shard_map all of them vary over the axes that any does, as what a loop makes of them will."""
    axes = frozenset[str]().union(*(jax.typeof(leaf).mat.varying for leaf in jax.tree.leaves(state)))

    def vary(leaf: Any) -> Any:
        missing = tuple(sorted(axes - jax.typeof(leaf).mat.varying))
        return lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(vary, state)


def index(size: int) -> Any:
    return lax.iota(np.dtype(np.int32), size)


def column_of(a: Matrix, k: Any) -> Any:
    """a[..., :, k]"""
    return jnp.sum(jnp.where(index(a.shape[-1]) == k, a, 0), axis=-1)


def row_of(a: Matrix, k: Any) -> Any:
    """a[..., k, :]"""
    return jnp.sum(jnp.where((index(a.shape[-2]) == k)[:, None], a, 0), axis=-2)


def entry_of(v: Any, k: Any) -> Any:
    """v[..., k]"""
    return jnp.sum(jnp.where(index(v.shape[-1]) == k, v, 0), axis=-1)


def outer(v: Any, w: Any) -> Matrix:
    return v[..., :, None] * w[..., None, :]


def cholesky(a: Matrix) -> Matrix:
    """L with L L^H = a, lower; NaN where a is not positive definite."""
    factor, info = cholesky_with_info(a)
    return jnp.where((info == 0)[..., None, None], factor, jnp.nan)


def cholesky_with_info(a: Matrix) -> tuple[Matrix, Any]:
    """L, of which the columns before one without a positive pivot are right; that column's number from 1, int32, or 0."""
    n = a.shape[-1]
    rows = index(n)

    def body(k, state):
        rest, factor = state
        column = column_of(rest, k)
        column = jnp.where(rows >= k, column / jnp.sqrt(entry_of(column, k))[..., None], 0)
        factor = jnp.where(rows == k, column[..., :, None], factor)
        return rest - outer(column, jnp.conj(column)), factor

    _, factor = loop(n, body, (a, jnp.zeros_like(a)))
    pivots = jnp.sum(jnp.where(rows[:, None] == rows, factor, 0), axis=-1)
    return factor, first_of(jnp.logical_not(jnp.real(pivots) > 0))


def first_of(is_bad: Any) -> Any:
    """The number from 1 of the first true element of each row, int32; 0 if there is none."""
    n = is_bad.shape[-1]
    first = jnp.min(jnp.where(is_bad, index(n), n), axis=-1, initial=n).astype(jnp.int32)
    return jnp.where(first == n, 0, first + 1)


def triangular_solve(
    a: Matrix, b: Matrix, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Matrix:
    """x with op(a) x = b, or x op(a) = b where not left_side."""
    if conjugate_a:
        a = jnp.conj(a)
    if transpose_a == left_side:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    if not left_side:
        b = jnp.swapaxes(b, -1, -2)
    n = a.shape[-1]
    rows = index(n)

    def body(step, state):
        rest, x = state
        k = step if lower else n - 1 - step
        column = column_of(a, k)
        value = row_of(rest, k)
        if not unit_diagonal:
            value = value / entry_of(column, k)[..., None]
        below = jnp.where((rows > k) if lower else (rows < k), column, 0)
        return rest - outer(below, value), jnp.where((rows == k)[:, None], value[..., None, :], x)

    _, x = loop(n, body, (b, jnp.zeros_like(b)))
    return x if left_side else jnp.swapaxes(x, -1, -2)


def lu(a: Matrix) -> tuple[Matrix, Any, Any]:
    """L (unit diagonal, not stored) and U in one matrix, the row swapped with row k, the permutation of rows."""
    m, n = a.shape[-2:]
    rows, columns = index(m), index(n)
    batch = a.shape[:-2]

    def body(k, state):
        a, swaps, order = state
        column = column_of(a, k)
        size = jnp.where(rows >= k, pivot_size(column), -1)
        size = jnp.where(jnp.isnan(size), jnp.inf, size)
        best = jnp.min(jnp.where(size == jnp.max(size, -1, keepdims=True), rows, m), axis=-1).astype(jnp.int32)
        at_best, at_k = rows == best[..., None], rows == k
        row, other = jnp.sum(jnp.where(at_best[..., None], a, 0), axis=-2), row_of(a, k)
        a = jnp.where(at_best[..., None], other[..., None, :], a)
        a = jnp.where(at_k[:, None], row[..., None, :], a)
        first, second = jnp.sum(jnp.where(at_best, order, 0), -1), entry_of(order, k)
        order = jnp.where(at_k, first[..., None], jnp.where(at_best, second[..., None], order)).astype(jnp.int32)
        swaps = jnp.where(index(swaps.shape[-1]) == k, best[..., None], swaps)
        pivot = entry_of(row, k)[..., None]
        column = column_of(a, k)
        factor = jnp.where(rows > k, jnp.where(pivot == 0, column, column / jnp.where(pivot == 0, 1, pivot)), 0)
        a = jnp.where((rows > k)[:, None] & (columns == k), factor[..., None], a)
        return a - outer(factor, jnp.where(columns > k, row, 0)), swaps, order

    swaps = jnp.zeros((*batch, min(m, n)), jnp.int32)
    order = jnp.broadcast_to(rows, (*batch, m))
    return loop(min(m, n), body, (a, swaps, order))


def pivot_size(x: Any) -> Any:
    """How large a pivot is: of complex numbers LAPACK adds the sizes of both parts."""
    return jnp.abs(jnp.real(x)) + jnp.abs(jnp.imag(x)) if jnp.iscomplexobj(x) else jnp.abs(x)


def lu_pivots_to_permutation(swaps: Any, *, permutation_size: int) -> Any:
    """The permutation that swapping row k with row swaps[k], for k = 0, 1, ..., gives."""
    rows = index(permutation_size)

    def body(k, order):
        other = entry_of(swaps, k)[..., None]
        first, second = entry_of(order, k)[..., None], jnp.sum(jnp.where(rows == other, order, 0), -1, keepdims=True)
        return jnp.where(rows == k, second, jnp.where(rows == other, first, order)).astype(jnp.int32)

    order, _ = varying_alike((jnp.broadcast_to(rows, (*swaps.shape[:-1], permutation_size)), swaps))
    return loop(swaps.shape[-1], body, order)


def reflector(column: Any, k: Any) -> tuple[Any, Any, Any]:
    """v, tau, beta with (1 - conj(tau) v v^H) column = beta in row k and 0 below; v is 1 in row k and 0 above."""
    rows = index(column.shape[-1])
    head = entry_of(column, k)
    tail = jnp.sum(jnp.where(rows > k, jnp.abs(column) ** 2, 0), axis=-1)
    norm = jnp.sqrt(jnp.abs(head) ** 2 + tail)
    beta = jnp.where(jnp.real(head) >= 0, -norm, norm).astype(column.dtype)
    idle = (tail == 0) & (jnp.imag(head) == 0)
    beta = jnp.where(idle, head, beta)
    tau = jnp.where(idle, 0, (beta - head) / jnp.where(beta == 0, 1, beta))
    scale = jnp.where(idle, 1, head - beta)
    return jnp.where(rows > k, column / scale[..., None], jnp.where(rows == k, jnp.ones((), column.dtype), 0)), tau, beta


def geqrf(a: Matrix) -> tuple[Matrix, Any]:
    """R above, the Householder vectors below the diagonal (their first entry is 1); their factors."""

    def body(k, state):
        a, taus = state
        a, tau = _eliminated(a, k)
        return a, jnp.where(index(taus.shape[-1]) == k, tau[..., None], taus)

    return loop(min(a.shape[-2:]), body, (a, jnp.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)))


def _eliminated(a: Matrix, k: Any) -> tuple[Matrix, Any]:
    """A step of geqrf: the matrix after reflector k, and its factor."""
    rows, columns = index(a.shape[-2]), index(a.shape[-1])
    column = column_of(a, k)
    vector, tau, beta = reflector(column, k)
    product = jnp.sum(jnp.conj(vector)[..., :, None] * a, axis=-2)
    applied = a - outer(jnp.conj(tau)[..., None] * vector, jnp.where(columns > k, product, 0))
    kept = jnp.where(rows == k, beta[..., None], jnp.where(rows > k, vector, column))
    return jnp.where(columns == k, kept[..., None], applied), tau


def geqp3(a: Matrix, order: Any, *, use_magma: Any) -> tuple[Matrix, Any, Any]:
    """geqrf of the columns in the order of what is left of them; their numbers from 1; the factors.

    `order` is not zero where a column goes first; those keep their order.
    """
    count, n = min(a.shape[-2:]), a.shape[-1]
    rows, columns = index(a.shape[-2]), index(n)
    fixed = order != 0
    rank = jnp.sum((fixed[..., None, :] & (columns[None, :] < columns[:, None])).astype(jnp.int32), axis=-1)
    num_fixed = jnp.sum(fixed.astype(jnp.int32), axis=-1, keepdims=True)
    place = jnp.where(fixed, rank, num_fixed + columns - rank)
    choice = place[..., :, None] == columns
    a = jnp.sum(jnp.where(choice[..., None, :, :], a[..., :, :, None], 0), axis=-2)
    order = jnp.sum(jnp.where(choice, columns[:, None] + 1, 0), axis=-2).astype(order.dtype)

    def body(k, state):
        a, order, taus = state
        left = jnp.sum(jnp.where((rows >= k)[:, None], jnp.abs(a) ** 2, 0), axis=-2)
        left = jnp.where((columns < k) | ((columns > k) & (k < num_fixed)), -1, left)
        best = jnp.min(jnp.where(left == jnp.max(left, -1, keepdims=True), columns, n - 1), axis=-1).astype(jnp.int32)
        a, order = _with_swapped_columns(a, k, best), _with_swapped_columns(order[..., None, :], k, best)[..., 0, :]
        a, tau = _eliminated(a, k)
        return a, order, jnp.where(index(count) == k, tau[..., None], taus)

    return loop(count, body, (a, order, jnp.zeros((*a.shape[:-2], count), a.dtype)))


def _with_swapped_columns(a: Matrix, k: Any, best: Any) -> Matrix:
    columns = index(a.shape[-1])
    at_best = (columns == best[..., None])[..., None, :]
    first, second = column_of(a, k), jnp.sum(jnp.where(at_best, a, 0), axis=-1)
    swapped = jnp.where(columns == k, second[..., None], jnp.where(at_best, first[..., None], a))
    return swapped.astype(a.dtype)


def householder_product(a: Matrix, taus: Any) -> Matrix:
    """The first columns of the product of the reflectors that geqrf gave."""
    m, n = a.shape[-2:]
    rows = index(m)
    count = taus.shape[-1]
    start = jnp.broadcast_to((rows[:, None] == index(n)).astype(a.dtype), a.shape)

    def body(step, q):
        k = count - 1 - step
        vector = jnp.where(rows > k, column_of(a, k), jnp.where(rows == k, jnp.ones((), a.dtype), 0))
        product = jnp.sum(jnp.conj(vector)[..., :, None] * q, axis=-2)
        return q - outer(entry_of(taus, k)[..., None] * vector, product)

    return loop(count, body, start)
