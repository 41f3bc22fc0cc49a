"""Hessenberg and Schur forms, and eigenvalues of matrices of any kind, in jax: the QR algorithm with implicit shifts.

A turn takes the window lo..hi of a Hessenberg matrix that no small entry below the diagonal cuts, turns it by the reflector of the
first column of (A - s) or, for real matrices, (A - s)(A - conj(s)), and makes it a Hessenberg matrix again; then the last entries
below the diagonal of the window are smaller. Conventions are LAPACK's, but that 2 x 2 blocks keep the form they have.
"""
# pyright: basic

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from hlo2tx8.linalg.factorizations import Matrix, column_of, index, loop, outer, reflector, varying_alike

MOST_TURNS = 30
"""For each eigenvalue; two to three are usual."""
STUCK_TURNS = 10
"""After so many without an eigenvalue the shift is another."""


def _similar(a: Matrix, v: Any, tau: Any) -> Matrix:
    """H^H a H with H = 1 - tau v v^H."""
    a = a - outer(jnp.conj(tau)[..., None] * v, jnp.sum(jnp.conj(v)[..., :, None] * a, axis=-2))
    return _turned(a, v, tau)


def _turned(a: Matrix, v: Any, tau: Any) -> Matrix:
    """a H with H = 1 - tau v v^H."""
    return a - outer(tau[..., None] * jnp.sum(a * v[..., None, :], axis=-1), jnp.conj(v))


def _reduced(a: Matrix, follow: Callable[[Any, Any, Any, Any], Any], state: Any) -> tuple[Matrix, Any]:
    """The Hessenberg form of a, and what follow(k, state, v, tau) makes of the state with each reflector."""
    rows = index(a.shape[-1])

    def body(k, carry):
        a, state = carry
        column = column_of(a, k)
        v, tau, beta = reflector(column, k + 1)
        a = _similar(a, v, tau)
        kept = jnp.where(rows == k + 1, beta[..., None], jnp.where(rows > k + 1, 0, column)).astype(a.dtype)
        return jnp.where(rows == k, kept[..., None], a), follow(k, state, v, tau)

    return loop(max(0, a.shape[-1] - 1), body, (a, state))


def hessenberg(a: Matrix) -> tuple[Matrix, Any]:
    """The Hessenberg form, with the reflectors' vectors below it; their factors."""
    n = a.shape[-1]
    rows = index(n)

    def follow(k, state, v, tau):
        vectors, taus = state
        below = jnp.where(rows > k + 1, v, 0)
        return jnp.where(rows == k, below[..., None], vectors), jnp.where(index(n - 1) == k, tau[..., None], taus)

    form, (vectors, taus) = _reduced(a, follow, (jnp.zeros_like(a), jnp.zeros((*a.shape[:-2], max(0, n - 1)), a.dtype)))
    return form + vectors, taus


def tridiagonal(a: Matrix, *, lower: bool) -> tuple[Matrix, Any, Any, Any]:
    """Of a Hermitian matrix, of which one triangle is read: the reflectors, diagonal, what is beside it, the factors."""
    if not lower:
        packed, d, e, taus = tridiagonal(jnp.flip(a, (-1, -2)), lower=True)
        return jnp.flip(packed, (-1, -2)), jnp.flip(d, -1), jnp.flip(e, -1), jnp.flip(taus, -1)
    i = index(a.shape[-1])
    eye = i[:, None] == i
    triangle = jnp.tril(a)
    packed, taus = hessenberg(
        jnp.where(eye, jnp.real(triangle).astype(a.dtype), triangle + jnp.conj(jnp.swapaxes(triangle, -1, -2)))
    )
    d = jnp.sum(jnp.where(eye, jnp.real(packed), 0), axis=-1)
    e = jnp.sum(jnp.where(i[:, None] == i + 1, jnp.real(packed), 0), axis=-2)[..., :-1]
    return jnp.where(i[:, None] < i, a, packed), d, e, taus


def schur(a: Matrix, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any) -> tuple[Matrix, ...]:
    """T, triangular or, for real matrices, with 2 x 2 blocks of complex pairs; Q with a = Q T Q^H. NaN if it does not converge."""
    del select_callable
    if sort_eig_vals:
        raise NotImplementedError("schur with sorted eigenvalues")
    form, vectors = _schur(a)
    return (form, vectors) if compute_schur_vectors else (form,)


def _schur(a: Matrix) -> tuple[Matrix, Matrix]:
    if 0 in a.shape:
        return a, a
    return jnp.vectorize(_schur_of_one, signature="(n,n)->(n,n),(n,n)")(a)


def _schur_of_one(a: Matrix) -> tuple[Matrix, Matrix]:
    n = a.shape[-1]
    i = index(n)
    eps = jnp.finfo(a.dtype).eps
    is_complex = jnp.iscomplexobj(a)

    def follow(k, q, v, tau):
        del k
        return _turned(q, v, tau)

    form, q = _reduced(a, follow, jnp.eye(n, dtype=a.dtype))
    tiny = eps * jnp.max(jnp.abs(a)) * jnp.finfo(a.dtype).eps

    def more(state):
        form, _, hi, _, turns = state
        return (hi > 0) & (turns < MOST_TURNS * n) & jnp.isfinite(jnp.sum(jnp.abs(form)))

    def turn(state):
        form, q, hi, stuck, turns = state
        sizes = _diagonal(jnp.abs(form), 0)
        below = _diagonal(jnp.abs(form), 1)  # [i] is entry (i, i - 1)
        small = below <= jnp.maximum(eps * (sizes + jnp.roll(sizes, 1)), tiny)
        form = jnp.where((i[:, None] == i + 1) & small[:, None], 0, form)
        lo = jnp.max(jnp.where((small | (i == 0)) & (i <= hi), i, 0))
        size = hi - lo
        x, is_pair = (_one_shift if is_complex else _two_shifts)(form, lo, hi, stuck)
        leave = jnp.where(size == 0, 1, jnp.where((size == 1) & is_pair, 2, 0)).astype(jnp.int32)
        x = jnp.where(leave > 0, (i == lo).astype(x.dtype), x)
        v, tau, _ = reflector(x, lo)
        form, q = _reduced(_similar(form, v, tau), follow, _turned(q, v, tau))
        return form, q, hi - leave, jnp.where(leave > 0, 0, stuck + 1).astype(jnp.int32), turns + 1

    zero = jnp.int32(0)
    start = varying_alike((form, q, jnp.int32(n - 1), zero, zero))
    form, q, hi, _, _ = lax.while_loop(more, turn, start)
    is_bad = (hi > 0) | jnp.logical_not(jnp.isfinite(jnp.sum(jnp.abs(form))))
    form = jnp.where(i[:, None] > i + (0 if is_complex else 1), 0, form)
    return jnp.where(is_bad, jnp.nan, form), jnp.where(is_bad, jnp.nan, q)


def _diagonal(a: Matrix, down: int) -> Any:
    """a[i, i - down], 0 where there is none."""
    i = index(a.shape[-1])
    return jnp.sum(jnp.where(i[:, None] == i + down, a, 0), axis=-1)


def _at(a: Matrix, row: Any, column: Any) -> Any:
    i = index(a.shape[-1])
    return jnp.sum(jnp.where((i[:, None] == row) & (i == column), a, 0))


def _two_shifts(form: Matrix, lo: Any, hi: Any, stuck: Any) -> tuple[Any, Any]:
    """The first column for two real or conjugate shifts, or one for a window of two; is that a pair of complex eigenvalues?"""
    i = index(form.shape[-1])
    a, b, c, d = _at(form, hi - 1, hi - 1), _at(form, hi - 1, hi), _at(form, hi, hi - 1), _at(form, hi, hi)
    half, product = (a - d) / 2, b * c
    discriminant = half * half + product
    root = jnp.sqrt(jnp.maximum(discriminant, 0))
    near = d - jnp.where(half >= 0, 1, -1).astype(a.dtype) * product / jnp.maximum(jnp.abs(half) + root, jnp.finfo(a.dtype).tiny)
    is_exceptional = (stuck > 0) & (stuck % STUCK_TURNS == 0)
    other = jnp.abs(c) + jnp.abs(_at(form, hi - 1, hi - 2))
    trace = jnp.where(is_exceptional, 1.5 * other, a + d)
    determinant = jnp.where(is_exceptional, other * other, a * d - product)
    h00, h01, h10, h11 = _at(form, lo, lo), _at(form, lo, lo + 1), _at(form, lo + 1, lo), _at(form, lo + 1, lo + 1)
    h21 = _at(form, lo + 2, lo + 1)
    is_two = hi - lo == 1
    first = jnp.where(is_two, h00 - near, (h00 * (h00 - trace) + determinant) / jnp.where(h10 == 0, 1, h10) + h01)
    second = jnp.where(is_two, h10, h00 + h11 - trace)
    third = jnp.where(is_two, 0, h21)
    x = jnp.where(i == lo, first, jnp.where(i == lo + 1, second, jnp.where(i == lo + 2, third, 0)))
    return x.astype(form.dtype), is_two & (discriminant < 0)


def _one_shift(form: Matrix, lo: Any, hi: Any, stuck: Any) -> tuple[Any, Any]:
    """The first column of A - s, where s is the eigenvalue of the last 2 x 2 block that is nearer to the last entry; no pairs."""
    i = index(form.shape[-1])
    near = _nearer(_at(form, hi - 1, hi - 1), _at(form, hi - 1, hi), _at(form, hi, hi - 1), _at(form, hi, hi))
    is_exceptional = (stuck > 0) & (stuck % STUCK_TURNS == 0)
    shift = jnp.where(is_exceptional, _at(form, hi, hi) + jnp.abs(_at(form, hi, hi - 1)), near)
    x = jnp.where(i == lo, _at(form, lo, lo) - shift, jnp.where(i == lo + 1, _at(form, lo + 1, lo), 0))
    return x.astype(form.dtype), jnp.zeros((), jnp.bool_)


def _nearer(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The eigenvalue of the complex matrix [[a, b], [c, d]] that is nearer to d."""
    half = (a - d) / 2
    root = jnp.sqrt(half * half + b * c)
    root = jnp.where(jnp.real(jnp.conj(half) * root) < 0, -root, root)
    total = half + root
    return d - jnp.where(total == 0, 0, b * c / jnp.where(total == 0, 1, total))


def eig(
    a: Matrix,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool = False,
    implementation: Any = None,
) -> tuple[Any, ...]:
    """Eigenvalues, in pairs for real matrices; left and right eigenvectors of length 1, their largest entry real."""
    del enable_eigvec_derivs, implementation
    form, q = _schur(a)
    w, form, q = _triangular(form, q) if not jnp.iscomplexobj(a) else (_eigenvalues(form), form, q)
    results = [w]
    if compute_left_eigenvectors:
        turned = jnp.flip(jnp.conj(jnp.swapaxes(form, -1, -2)), (-1, -2))
        results.append(_normal(jnp.matmul(q, jnp.flip(_eigenvectors(turned), (-1, -2)), precision="highest")))
    if compute_right_eigenvectors:
        results.append(_normal(jnp.matmul(q, _eigenvectors(form), precision="highest")))
    return tuple(results)


def _eigenvalues(form: Matrix) -> Any:
    i = index(form.shape[-1])
    return jnp.sum(jnp.where(i[:, None] == i, form, 0), axis=-1)


def eigenvalues(form: Matrix) -> Any:
    """The eigenvalues of a Schur form, complex; conjugate pairs are so exactly, the one above the real line first."""
    if jnp.iscomplexobj(form):
        return _eigenvalues(form)
    i = index(form.shape[-1])
    diagonal = _eigenvalues(form)
    c, b = jnp.sum(jnp.where(i[:, None] == i + 1, form, 0), axis=-2), jnp.sum(jnp.where(i[:, None] + 1 == i, form, 0), axis=-1)
    mean, half = (diagonal + jnp.roll(diagonal, -1, -1)) / 2, (diagonal - jnp.roll(diagonal, -1, -1)) / 2
    height = jnp.sqrt(jnp.maximum(-(half * half + b * c), 0))  # of the pair that begins at i, where c is not zero
    begins = c != 0
    ends = jnp.roll(begins, 1, -1)
    return lax.complex(
        jnp.where(begins, mean, jnp.where(ends, jnp.roll(mean, 1, -1), diagonal)),
        jnp.where(begins, height, jnp.where(ends, -jnp.roll(height, 1, -1), 0)),
    )


def _triangular(form: Matrix, q: Matrix) -> tuple[Any, Matrix, Matrix]:
    """Eigenvalues, T and Q without 2 x 2 blocks, complex."""
    n = form.shape[-1]
    i = index(n)
    wide = jnp.complex128 if form.dtype == jnp.float64 else jnp.complex64
    begins = jnp.sum(jnp.where(i[:, None] == i + 1, form, 0), axis=-2) != 0
    w = eigenvalues(form)

    def body(k, state):
        form, q = state
        shift = jnp.sum(jnp.where(i == k + 1, w, 0), axis=-1, keepdims=True)
        column = column_of(form, k)
        x = jnp.where(i == k, column - shift, jnp.where(i == k + 1, column, 0))
        is_block = jnp.sum(jnp.where((i == k) & begins, 1, 0), axis=-1, keepdims=True) > 0
        v, tau, _ = reflector(jnp.where(is_block, x, (i == k).astype(x.dtype)), k)
        return _similar(form, v, tau), _turned(q, v, tau)

    form, q = loop(max(0, n - 1), body, (form.astype(wide), q.astype(wide)))
    return w, jnp.where(i[:, None] == i, w[..., None, :], jnp.where(i[:, None] > i, 0, form)), q


def _eigenvectors(form: Matrix) -> Matrix:
    """Column k is the eigenvector of a triangular matrix for entry k of its diagonal, with 1 in row k and 0 below."""
    n = form.shape[-1]
    i = index(n)
    w = _eigenvalues(form)
    least = jnp.finfo(form.dtype).eps * jnp.max(jnp.abs(form), axis=(-1, -2), keepdims=True, initial=0) + jnp.finfo(form.dtype).tiny

    def body(step, x):
        row = n - 1 - step
        entries = jnp.sum(jnp.where((i == row)[:, None], form, 0), axis=-2)
        total = jnp.sum(jnp.where(i > row, entries, 0)[..., :, None] * x, axis=-2)
        gap = jnp.sum(jnp.where(i == row, w, 0), axis=-1, keepdims=True) - w
        gap = jnp.where(jnp.abs(gap) < least[..., 0], least[..., 0].astype(gap.dtype), gap)
        value = jnp.where(i == row, 1, jnp.where(i > row, -total / gap, 0))
        return jnp.where((i == row)[:, None], value[..., None, :], x)

    return loop(n, body, jnp.zeros_like(form))


def _normal(x: Matrix) -> Matrix:
    """The columns with length 1 and their largest entry real."""
    i = index(x.shape[-1])
    size = jnp.abs(x)
    most = jnp.max(size, axis=-2, keepdims=True, initial=0)
    x = x / jnp.where(most == 0, 1, most)
    first = jnp.min(jnp.where(size == most, i[:, None], x.shape[-1]), axis=-2, keepdims=True)
    head = jnp.sum(jnp.where(i[:, None] == first, x, 0), axis=-2, keepdims=True)
    length = jnp.sqrt(jnp.sum(jnp.abs(x) ** 2, axis=-2, keepdims=True))
    return x * jnp.conj(head) / jnp.where(length == 0, 1, jnp.abs(head) * length)
