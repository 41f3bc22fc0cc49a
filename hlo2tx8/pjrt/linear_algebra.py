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
MOST_SWEEPS = 30
"""Of Jacobi rotations; they converge quadratically, after 6 to 10 sweeps."""


def _loop(count: int, body: Callable[[Any, Any], Any], state: Any) -> Any:
    """body(k, state) for k = 0, 1, ..., count - 1; k is int32."""
    return lax.fori_loop(0, count, lambda k, s: body(jnp.int32(k), s), varying_alike(state))


def varying_alike(state: Any) -> Any:
    """The same arrays; in a shard_map all of them vary over the axes that any does, as what a loop makes of them will."""
    axes = frozenset[str]().union(*(jax.typeof(leaf).mat.varying for leaf in jax.tree.leaves(state)))

    def vary(leaf: Any) -> Any:
        missing = tuple(sorted(axes - jax.typeof(leaf).mat.varying))
        return lax.pcast(leaf, missing, to="varying") if missing else leaf

    return jax.tree.map(vary, state)


def _index(size: int) -> Any:
    return lax.iota(np.dtype(np.int32), size)


def _column(a: Matrix, k: Any) -> Any:
    """a[..., :, k]"""
    return jnp.sum(jnp.where(_index(a.shape[-1]) == k, a, 0), axis=-1)


def _row(a: Matrix, k: Any) -> Any:
    """a[..., k, :]"""
    return jnp.sum(jnp.where((_index(a.shape[-2]) == k)[:, None], a, 0), axis=-2)


def _entry(v: Any, k: Any) -> Any:
    """v[..., k]"""
    return jnp.sum(jnp.where(_index(v.shape[-1]) == k, v, 0), axis=-1)


def _outer(v: Any, w: Any) -> Matrix:
    return v[..., :, None] * w[..., None, :]


def cholesky(a: Matrix) -> Matrix:
    """L with L L^H = a, lower; NaN where a is not positive definite."""
    n = a.shape[-1]
    rows = _index(n)

    def body(k, state):
        rest, factor = state
        column = _column(rest, k)
        column = jnp.where(rows >= k, column / jnp.sqrt(_entry(column, k))[..., None], 0)
        factor = jnp.where(rows == k, column[..., :, None], factor)
        return rest - _outer(column, jnp.conj(column)), factor

    _, factor = _loop(n, body, (a, jnp.zeros_like(a)))
    pivots = jnp.sum(jnp.where(rows[:, None] == rows, factor, 0), axis=-1)
    good = jnp.all(jnp.real(pivots) > 0, axis=-1)
    return jnp.where(good[..., None, None], factor, jnp.nan)


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
    rows = _index(n)

    def body(step, state):
        rest, x = state
        k = step if lower else n - 1 - step
        column = _column(a, k)
        value = _row(rest, k)
        if not unit_diagonal:
            value = value / _entry(column, k)[..., None]
        below = jnp.where((rows > k) if lower else (rows < k), column, 0)
        return rest - _outer(below, value), jnp.where((rows == k)[:, None], value[..., None, :], x)

    _, x = _loop(n, body, (b, jnp.zeros_like(b)))
    return x if left_side else jnp.swapaxes(x, -1, -2)


def lu(a: Matrix) -> tuple[Matrix, Any, Any]:
    """L (unit diagonal, not stored) and U in one matrix, the row swapped with row k, the permutation of rows."""
    m, n = a.shape[-2:]
    rows, columns = _index(m), _index(n)
    batch = a.shape[:-2]

    def body(k, state):
        a, swaps, order = state
        column = _column(a, k)
        size = jnp.where(rows >= k, jnp.abs(column), -1)
        size = jnp.where(jnp.isnan(size), jnp.inf, size)
        best = jnp.min(jnp.where(size == jnp.max(size, -1, keepdims=True), rows, m), axis=-1).astype(jnp.int32)
        at_best, at_k = rows == best[..., None], rows == k
        row, other = jnp.sum(jnp.where(at_best[..., None], a, 0), axis=-2), _row(a, k)
        a = jnp.where(at_best[..., None], other[..., None, :], a)
        a = jnp.where(at_k[:, None], row[..., None, :], a)
        first, second = jnp.sum(jnp.where(at_best, order, 0), -1), _entry(order, k)
        order = jnp.where(at_k, first[..., None], jnp.where(at_best, second[..., None], order)).astype(jnp.int32)
        swaps = jnp.where(_index(swaps.shape[-1]) == k, best[..., None], swaps)
        pivot = _entry(row, k)[..., None]
        column = _column(a, k)
        factor = jnp.where(rows > k, jnp.where(pivot == 0, column, column / jnp.where(pivot == 0, 1, pivot)), 0)
        a = jnp.where((rows > k)[:, None] & (columns == k), factor[..., None], a)
        return a - _outer(factor, jnp.where(columns > k, row, 0)), swaps, order

    swaps = jnp.zeros((*batch, min(m, n)), jnp.int32)
    order = jnp.broadcast_to(rows, (*batch, m))
    return _loop(min(m, n), body, (a, swaps, order))


def lu_pivots_to_permutation(swaps: Any, *, permutation_size: int) -> Any:
    """The permutation that swapping row k with row swaps[k], for k = 0, 1, ..., gives."""
    rows = _index(permutation_size)

    def body(k, order):
        other = _entry(swaps, k)[..., None]
        first, second = _entry(order, k)[..., None], jnp.sum(jnp.where(rows == other, order, 0), -1, keepdims=True)
        return jnp.where(rows == k, second, jnp.where(rows == other, first, order)).astype(jnp.int32)

    order, _ = varying_alike((jnp.broadcast_to(rows, (*swaps.shape[:-1], permutation_size)), swaps))
    return _loop(swaps.shape[-1], body, order)


def geqrf(a: Matrix) -> tuple[Matrix, Any]:
    """R above, the Householder vectors below the diagonal (their first entry is 1); their factors."""
    m, n = a.shape[-2:]
    rows, columns = _index(m), _index(n)

    def body(k, state):
        a, taus = state
        column = _column(a, k)
        head = _entry(column, k)
        tail = jnp.sum(jnp.where(rows > k, jnp.abs(column) ** 2, 0), axis=-1)
        norm = jnp.sqrt(jnp.abs(head) ** 2 + tail)
        beta = jnp.where(jnp.real(head) >= 0, -norm, norm).astype(a.dtype)
        idle = (tail == 0) & (jnp.imag(head) == 0)
        beta = jnp.where(idle, head, beta)
        tau = jnp.where(idle, 0, (beta - head) / jnp.where(beta == 0, 1, beta))
        scale = jnp.where(idle, 1, head - beta)
        vector = jnp.where(rows > k, column / scale[..., None], jnp.where(rows == k, jnp.ones((), a.dtype), 0))
        product = jnp.sum(jnp.conj(vector)[..., :, None] * a, axis=-2)
        applied = a - _outer(jnp.conj(tau)[..., None] * vector, jnp.where(columns > k, product, 0))
        kept = jnp.where(rows == k, beta[..., None], jnp.where(rows > k, vector, column))
        a = jnp.where(columns == k, kept[..., None], applied)
        return a, jnp.where(_index(taus.shape[-1]) == k, tau[..., None], taus)

    return _loop(min(m, n), body, (a, jnp.zeros((*a.shape[:-2], min(m, n)), a.dtype)))


def householder_product(a: Matrix, taus: Any) -> Matrix:
    """The first columns of the product of the reflectors that geqrf gave."""
    m, n = a.shape[-2:]
    rows = _index(m)
    count = taus.shape[-1]
    start = jnp.broadcast_to((rows[:, None] == _index(n)).astype(a.dtype), a.shape)

    def body(step, q):
        k = count - 1 - step
        vector = jnp.where(rows > k, _column(a, k), jnp.where(rows == k, jnp.ones((), a.dtype), 0))
        product = jnp.sum(jnp.conj(vector)[..., :, None] * q, axis=-2)
        return q - _outer(_entry(taus, k)[..., None] * vector, product)

    return _loop(count, body, start)


def _pairs(n: int) -> np.ndarray:
    """int32 [rounds, 2, pairs]: every pair of 0..n-1 once, disjoint ones together (a tournament; n is even)."""
    players = list(range(n))
    rounds = []
    for _ in range(n - 1):
        rounds.append([players[: n // 2], players[: n // 2 - 1 : -1]])
        players = [players[0], players[-1], *players[1:-1]]
    return np.array(rounds, np.int32)


def _sweeps(
    n: int, rotate: Callable[[Any, Any], Any], state: Any, is_done: Callable[[Any], Any], start: Callable[[Any], Any] = lambda s: s
) -> Any:
    """Sweeps of rotations until done: start(state), then rotate(partner, state), where partner[i] is i's partner, int32 [n]."""
    even = n + n % 2
    rounds = _pairs(even)
    partners = np.zeros((len(rounds), even), np.int32)
    for number, (first, second) in enumerate(rounds):
        partners[number, first], partners[number, second] = second, first
    table = np.where(partners[:, :n] < n, partners[:, :n], np.arange(n)).astype(np.int32)

    def body(step, state):
        return rotate(jnp.sum(jnp.where((_index(len(rounds)) == step)[:, None], table, 0), axis=0).astype(jnp.int32), state)

    def more(carry):
        sweep, state = carry
        return (sweep < MOST_SWEEPS) & jnp.logical_not(is_done(state))

    def again(carry):
        sweep, state = carry
        return sweep + 1, _loop(len(rounds), body, start(state))

    return lax.while_loop(more, again, (jnp.int32(0), varying_alike(state)))[1]


def _rotation(p: Any, q: Any, pq: Any, partner: Any) -> tuple[Any, Any]:
    """Cosines and sines, by index: column i becomes cosine * column i + sine * column partner[i].

    p, q are the diagonal entries of an index and of its partner, pq what joins them.
    """
    is_first = _index(partner.shape[0]) < partner
    theta = jnp.where(is_first, q - p, p - q)
    tangent = jnp.where(theta >= 0, 2.0, -2.0).astype(p.dtype) * pq / (jnp.abs(theta) + jnp.sqrt(theta * theta + 4 * pq * pq))
    tangent = jnp.where((pq == 0) | (partner == _index(partner.shape[0])), 0, tangent)
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    return cosine, jnp.where(is_first, -tangent, tangent) * cosine


def _swapped(a: Matrix, partner: Any) -> Matrix:
    """Column i is a's column partner[i]."""
    choice = (_index(partner.shape[0])[:, None] == partner).astype(a.dtype)
    return jnp.matmul(a, choice, precision="highest")


def _sorted(values: Any, vectors: tuple[Matrix, ...], *, descending: bool) -> tuple[Any, tuple[Matrix, ...]]:
    """Values in order and the columns of the vectors with them."""
    n = values.shape[-1]
    i = _index(n)
    key = -values if descending else values
    before = (key[..., None, :] < key[..., :, None]) | ((key[..., None, :] == key[..., :, None]) & (i[None, :] < i[:, None]))
    rank = jnp.sum(before.astype(jnp.int32), axis=-1)
    choice = rank[..., :, None] == i
    values = jnp.sum(jnp.where(choice, values[..., :, None], 0), axis=-2)
    return values, tuple(jnp.matmul(v, choice.astype(v.dtype), precision="highest") for v in vectors)


def eigh(a: Matrix, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any) -> tuple[Matrix, Any]:
    """Eigenvectors and eigenvalues of a real symmetric matrix, of which one triangle is read, by Jacobi's rotations."""
    n = a.shape[-1]
    if jnp.iscomplexobj(a):
        raise NotImplementedError("eigh of complex matrices on tx8")
    i = _index(n)
    triangle = jnp.tril(a) if lower else jnp.triu(a)
    eye = i[:, None] == i
    a = triangle + jnp.where(eye, 0, jnp.swapaxes(triangle, -1, -2))
    eps = jnp.finfo(a.dtype).eps

    def rotate(partner, state):
        a, v = state
        diagonal = jnp.sum(jnp.where(eye, a, 0), axis=-1)
        # Rounding leaves the two halves of a apart; a rotation made of one half for i and of the other for its partner is none.
        joined = jnp.sum(jnp.where(i == partner[:, None], (a + jnp.swapaxes(a, -1, -2)) / 2, 0), axis=-1)
        others = jnp.sum(jnp.where(i == partner[:, None], diagonal[..., None, :], 0), axis=-1)
        cosine, sine = _rotation(diagonal, others, joined, partner)
        a = a * cosine[..., None, :] + _swapped(a, partner) * sine[..., None, :]
        turned = jnp.swapaxes(a, -1, -2)
        a = jnp.swapaxes(turned * cosine[..., None, :] + _swapped(turned, partner) * sine[..., None, :], -1, -2)
        return a, v * cosine[..., None, :] + _swapped(v, partner) * sine[..., None, :]

    def is_done(state):
        off = jnp.max(jnp.where(eye, 0, jnp.abs(state[0])), initial=0)
        return jnp.logical_not(off > eps * jnp.max(jnp.abs(state[0]), initial=0))

    a, v = _sweeps(n, rotate, (a, jnp.broadcast_to(eye.astype(a.dtype), a.shape)), is_done) if n > 1 else (a, jnp.ones_like(a))
    w = jnp.sum(jnp.where(eye, a, 0), axis=-1)
    if sort_eigenvalues:
        w, (v,) = _sorted(w, (v,), descending=False)
    if subset_by_index is not None:
        first, last = subset_by_index
        v, w = v[..., first:last], w[..., first:last]
    return v, w


def svd(a: Matrix, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any) -> tuple[Any, ...]:
    """Singular values, descending; left vectors; right vectors as rows. Rotates columns until they are orthogonal."""
    if jnp.iscomplexobj(a):
        raise NotImplementedError("svd of complex matrices on tx8")
    m, n = a.shape[-2:]
    if m < n:
        turned = svd(
            jnp.swapaxes(a, -1, -2),
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
            algorithm=algorithm,
        )
        return (turned[0], *(jnp.swapaxes(x, -1, -2) for x in turned[:0:-1]))
    i = _index(n)
    eye = i[:, None] == i
    eps = jnp.finfo(a.dtype).eps

    def rotate(partner, state):
        a, v, _ = state
        other = _swapped(a, partner)
        own, joined = jnp.sum(a * a, axis=-2), jnp.sum(a * other, axis=-2)
        theirs = jnp.sum(other * other, axis=-2)
        cosine, sine = _rotation(own, theirs, joined, partner)
        worst = jnp.max(
            jnp.where(partner == i, 0, jnp.abs(joined)) / jnp.maximum(jnp.sqrt(own * theirs), jnp.finfo(a.dtype).tiny), initial=0
        )
        a = a * cosine[..., None, :] + other * sine[..., None, :]
        v = v * cosine[..., None, :] + _swapped(v, partner) * sine[..., None, :]
        return a, v, jnp.maximum(state[2], worst)

    def sweep(state):
        a, v, _ = state
        return a, v, jnp.zeros((), a.dtype)

    def is_done(state):
        return jnp.logical_not(state[2] > eps * n)

    v = jnp.broadcast_to(eye.astype(a.dtype), (*a.shape[:-2], n, n))
    scale = jnp.max(jnp.abs(a), initial=0, keepdims=True, axis=(-1, -2))
    scale = jnp.where((scale == 0) | jnp.logical_not(jnp.isfinite(scale)), 1, scale)
    a = a / scale
    if n > 1:
        start = (a, v, jnp.full((), jnp.inf, a.dtype))
        a, v, _ = _sweeps(n, rotate, start, is_done, sweep)
    s, (a, v) = _sorted(jnp.sqrt(jnp.sum(a * a, axis=-2)), (a, v), descending=True)
    s = s * scale[..., 0]
    if subset_by_index is not None:
        first, last = subset_by_index
        s = s[..., first:last]
    if not compute_uv:
        return (s,)
    packed, taus = geqrf(a)
    diagonal = jnp.sum(jnp.where(eye, packed[..., :n, :], 0), axis=-1)
    columns = m if full_matrices else n
    u = householder_product(jnp.pad(packed, [(0, 0)] * (a.ndim - 1) + [(0, columns - n)]), taus)
    sign = jnp.where(diagonal < 0, -1, 1).astype(a.dtype)
    u = u * jnp.pad(sign, [(0, 0)] * (sign.ndim - 1) + [(0, columns - n)], constant_values=1)[..., None, :]
    vt = jnp.swapaxes(v, -1, -2)
    if subset_by_index is not None:
        u, vt = u[..., first:last], vt[..., first:last, :]
    return s, u, vt
