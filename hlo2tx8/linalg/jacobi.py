"""Eigenvalues of Hermitian matrices and singular values by Jacobi's rotations, in jax: all pairs of a round turn at once.

Two columns p, q with the entries a_pp, a_qq, a_pq = |a_pq| e turn by the angle that makes a_pq zero; e is a sign, or a phase.
"""
# pyright: basic

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.linalg.factorizations import Matrix, as_turned, geqrf, householder_product, index, loop, varying_alike

MOST_SWEEPS = 30
"""They converge quadratically, after 6 to 10 sweeps."""


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
        return rotate(jnp.sum(jnp.where((index(len(rounds)) == step)[:, None], table, 0), axis=0).astype(jnp.int32), state)

    def more(carry):
        sweep, state = carry
        return (sweep < MOST_SWEEPS) & jnp.logical_not(is_done(state))

    def again(carry):
        sweep, state = carry
        return sweep + 1, loop(len(rounds), body, start(state))

    first = jnp.int32(0), varying_alike(state)
    return lax.while_loop(more, again, as_turned(again, first))[1]


def _rotation(p: Any, q: Any, pq: Any, partner: Any) -> tuple[Any, Any]:
    """Cosines and sines, by index: column i becomes cosine * column i + sine * column partner[i].

    p, q are the diagonal entries of an index and of its partner, real; pq is entry (partner[i], i).
    """
    size = jnp.abs(pq)
    phase, pq = pq / jnp.where(size == 0, 1, size), size
    is_first = index(partner.shape[0]) < partner
    theta = jnp.where(is_first, q - p, p - q)
    tangent = jnp.where(theta >= 0, 2.0, -2.0).astype(p.dtype) * pq / (jnp.abs(theta) + jnp.sqrt(theta * theta + 4 * pq * pq))
    tangent = jnp.where((pq == 0) | (partner == index(partner.shape[0])), 0, tangent)
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    return cosine, jnp.where(is_first, -tangent, tangent) * cosine * phase


def _swapped(a: Matrix, partner: Any) -> Matrix:
    """Column i is a's column partner[i]."""
    choice = (index(partner.shape[0])[:, None] == partner).astype(a.dtype)
    return jnp.matmul(a, choice, precision="highest")


def _sorted(values: Any, vectors: tuple[Matrix, ...], *, descending: bool) -> tuple[Any, tuple[Matrix, ...]]:
    """Values in order and the columns of the vectors with them."""
    n = values.shape[-1]
    i = index(n)
    key = -values if descending else values
    before = (key[..., None, :] < key[..., :, None]) | ((key[..., None, :] == key[..., :, None]) & (i[None, :] < i[:, None]))
    rank = jnp.sum(before.astype(jnp.int32), axis=-1)
    choice = rank[..., :, None] == i
    values = jnp.sum(jnp.where(choice, values[..., :, None], 0), axis=-2)
    return values, tuple(jnp.matmul(v, choice.astype(v.dtype), precision="highest") for v in vectors)


def eigh(a: Matrix, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any) -> tuple[Matrix, Any]:
    """Eigenvectors and eigenvalues of a Hermitian matrix, of which one triangle is read."""
    n = a.shape[-1]
    i = index(n)
    triangle = jnp.tril(a) if lower else jnp.triu(a)
    eye = i[:, None] == i
    a = jnp.where(eye, jnp.real(triangle).astype(a.dtype), triangle + jnp.conj(jnp.swapaxes(triangle, -1, -2)))
    eps = jnp.finfo(a.dtype).eps

    def rotate(partner, state):
        a, v = state
        diagonal = jnp.sum(jnp.where(eye, jnp.real(a), 0), axis=-1)
        # Rounding leaves the two halves of a apart; a rotation made of one half for i and of the other for its partner is none.
        joined = jnp.sum(jnp.where(i == partner[:, None], (a + jnp.conj(jnp.swapaxes(a, -1, -2))) / 2, 0), axis=-2)
        others = jnp.sum(jnp.where(i == partner[:, None], diagonal[..., None, :], 0), axis=-1)
        cosine, sine = _rotation(diagonal, others, joined, partner)
        a = a * cosine[..., None, :] + _swapped(a, partner) * sine[..., None, :]
        turned = jnp.swapaxes(a, -1, -2)
        a = jnp.swapaxes(turned * cosine[..., None, :] + _swapped(turned, partner) * jnp.conj(sine)[..., None, :], -1, -2)
        return a, v * cosine[..., None, :] + _swapped(v, partner) * sine[..., None, :]

    def is_done(state):
        off = jnp.max(jnp.where(eye, 0, jnp.abs(state[0])), axis=(-1, -2), initial=0)
        return jnp.logical_not(jnp.any(off > eps * jnp.max(jnp.abs(state[0]), axis=(-1, -2), initial=0)))

    a, v = _sweeps(n, rotate, (a, jnp.broadcast_to(eye.astype(a.dtype), a.shape)), is_done) if n > 1 else (a, jnp.ones_like(a))
    w = jnp.sum(jnp.where(eye, jnp.real(a), 0), axis=-1)
    if sort_eigenvalues:
        w, (v,) = _sorted(w, (v,), descending=False)
    if subset_by_index is not None:
        first, last = subset_by_index
        v, w = v[..., first:last], w[..., first:last]
    return v, w


def svd(a: Matrix, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any, algorithm: Any) -> tuple[Any, ...]:
    """Singular values, descending; left vectors; right vectors as rows. Rotates columns until they are orthogonal."""
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
    i = index(n)
    eye = i[:, None] == i
    eps, real = jnp.finfo(a.dtype).eps, jnp.finfo(a.dtype).dtype

    def rotate(partner, state):
        a, v, _ = state
        other = _swapped(a, partner)
        own, theirs = jnp.sum(jnp.abs(a) ** 2, axis=-2), jnp.sum(jnp.abs(other) ** 2, axis=-2)
        joined = jnp.sum(jnp.conj(other) * a, axis=-2)
        cosine, sine = _rotation(own, theirs, joined, partner)
        rest = jnp.where(partner == i, 0, jnp.abs(joined)) / jnp.maximum(jnp.sqrt(own * theirs), jnp.finfo(a.dtype).tiny)
        worst = jnp.max(jnp.where(jnp.isnan(rest), 0, rest), initial=0)  # a NaN is done; the others of its batch are not
        a = a * cosine[..., None, :] + other * sine[..., None, :]
        v = v * cosine[..., None, :] + _swapped(v, partner) * sine[..., None, :]
        return a, v, jnp.maximum(state[2], worst)

    def sweep(state):
        a, v, _ = state
        return a, v, jnp.zeros((), real)

    def is_done(state):
        return jnp.logical_not(state[2] > eps * n)

    v = jnp.broadcast_to(eye.astype(a.dtype), (*a.shape[:-2], n, n))
    scale = jnp.max(jnp.abs(a), initial=0, keepdims=True, axis=(-1, -2))
    scale = jnp.where((scale == 0) | jnp.logical_not(jnp.isfinite(scale)), 1, scale)
    a = a / scale
    if n > 1:
        start = (a, v, jnp.full((), jnp.inf, real))
        a, v, _ = _sweeps(n, rotate, start, is_done, sweep)
    s, (a, v) = _sorted(jnp.sqrt(jnp.sum(jnp.abs(a) ** 2, axis=-2)), (a, v), descending=True)
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
    sign = jnp.where(jnp.real(diagonal) < 0, -1, 1).astype(a.dtype)
    u = u * jnp.pad(sign, [(0, 0)] * (sign.ndim - 1) + [(0, columns - n)], constant_values=1)[..., None, :]
    vt = jnp.conj(jnp.swapaxes(v, -1, -2))
    if subset_by_index is not None:
        u, vt = u[..., first:last], vt[..., first:last, :]
    return s, u, vt
