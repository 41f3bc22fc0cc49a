"""LAPACK's routines as jax calls them where a device has LAPACK: what a module that was lowered for cpu has for its linear algebra.

A routine takes the operands and attributes of a custom call, and gives its results: what jax asks for, `info` as LAPACK has it,
and zeros for what LAPACK leaves undefined. Where `info` is not 0, what was computed may be NaN.
"""
# pyright: basic

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from hlo2tx8.linalg import factorizations, jacobi, schur
from hlo2tx8.linalg.factorizations import Matrix, column_of, entry_of, first_of, index, loop, outer, pivot_size, row_of

Results = tuple[Any, ...]
LETTERS = ("uplo", "mode", "sort", "side", "diag", "trans_x", "compute_left", "compute_right")
"""Attributes that are codes of letters."""
_NAME = re.compile(r"(?:lapack|blas)_[sdcz](\w+)_ffi")
BAD_ARGUMENT = -4
"""What jax's kernels say of matrices that are not finite."""


def is_known(target: str) -> bool:
    """Is the target of a custom call one of the routines?"""
    found = _NAME.fullmatch(target)
    return found is not None and found[1] in ROUTINES


def routine(target: str, attributes: Mapping[str, Any], layouts: Sequence[Sequence[int]]) -> Callable[..., Results]:
    """The function of the operands that a custom call of a known target computes.

    `layouts`, minor to major, are those of operands and results in memory: what is not column major is to LAPACK another matrix.
    NotImplementedError, when it is traced, for attributes that are not known here.
    """
    found = _NAME.fullmatch(target)
    assert found is not None
    function = ROUTINES[found[1]]
    given = {key: chr(value) if key in LETTERS else value for key, value in attributes.items()}

    def call(*operands: Any) -> Results:
        rank = operands[0].ndim - (1 if function is gtsv else 2)
        seen = [_seen(x, layout, rank) for x, layout in zip(operands, layouts, strict=False)]
        results = function(*seen, **given)
        return tuple(_stored(x, layout, rank) for x, layout in zip(results, layouts[len(operands) :], strict=True))

    return call


def column_major(rank: int, num_batch: int) -> tuple[int, ...]:
    """The order of dimensions in memory, minor to major, that LAPACK expects; batches are outermost."""
    own = (rank - 2, rank - 1) if rank - num_batch == 2 else (rank - 1,) * (rank - num_batch)
    return (*own, *reversed(range(num_batch)))


def _seen(x: Any, layout: Sequence[int], num_batch: int) -> Any:
    """What LAPACK takes an array for that lies in memory in that order."""
    if tuple(layout) == column_major(x.ndim, num_batch):
        return x
    memory = jnp.transpose(x, tuple(reversed(layout)))
    if x.ndim - num_batch < 2:
        return memory.reshape(x.shape)
    return jnp.swapaxes(memory.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2]), -1, -2)


def _stored(x: Any, layout: Sequence[int], num_batch: int) -> Any:
    """The array that lies in memory in that order where LAPACK writes x."""
    if tuple(layout) == column_major(x.ndim, num_batch):
        return x
    order = tuple(reversed(layout))
    memory = jnp.swapaxes(x, -1, -2) if x.ndim - num_batch == 2 else x
    return jnp.transpose(memory.reshape([x.shape[d] for d in order]), [order.index(d) for d in range(x.ndim)])


def potrf(a: Matrix, *, uplo: str) -> Results:
    """The factor in one triangle, what was there in the other."""
    i = index(a.shape[-1])
    is_below, eye = i[:, None] >= i, i[:, None] == i
    if jnp.iscomplexobj(a):
        a = jnp.where(eye, jnp.real(a).astype(a.dtype), a)
    lower, info = factorizations.cholesky_with_info(a if uplo == "L" else _adjoint(a))
    return (jnp.where(is_below, lower, a) if uplo == "L" else jnp.where(is_below.T, _adjoint(lower), a)), info


def trsm(a: Matrix, b: Matrix, *, side: str, uplo: str, diag: str, trans_x: str) -> Results:
    """x with op(a) x = b, or x op(a) = b."""
    x = factorizations.triangular_solve(
        a,
        b,
        left_side=side == "L",
        lower=uplo == "L",
        transpose_a=trans_x != "N",
        conjugate_a=trans_x == "C",
        unit_diagonal=diag == "U",
    )
    return (x,)


def getrf(a: Matrix) -> Results:
    """L and U in one matrix; the rows that were swapped, from 1."""
    packed, swaps, _ = factorizations.lu(a)
    count = min(a.shape[-2:])
    diagonal = jnp.sum(jnp.where(index(count)[:, None] == index(count), packed[..., :count, :count], 0), axis=-1)
    return packed, swaps + 1, first_of(diagonal == 0)


def geqrf(a: Matrix) -> Results:
    """R, the reflectors below it, their factors."""
    return factorizations.geqrf(a)


def geqp3(a: Matrix, order: Any) -> Results:
    """geqrf with the columns in another order, their numbers from 1."""
    return factorizations.geqp3(a, order, use_magma=None)


def orgqr(a: Matrix, taus: Any) -> Results:
    """The first columns of the product of reflectors."""
    return (factorizations.householder_product(a, taus),)


def ormqr(a: Matrix, taus: Any, c: Matrix, *, left: bool, transpose: bool) -> Results:
    """The product of reflectors times c, or c times it."""
    if not left:
        (turned,) = ormqr(a, taus, _adjoint(c), left=True, transpose=not transpose)
        return (_adjoint(turned),)
    rows, count = index(a.shape[-2]), taus.shape[-1]
    factors = jnp.conj(taus) if transpose else taus

    def body(step, c):
        k = step if transpose else count - 1 - step
        v = jnp.where(rows > k, column_of(a, k), jnp.where(rows == k, jnp.ones((), a.dtype), 0))
        return c - outer(entry_of(factors, k)[..., None] * v, jnp.sum(jnp.conj(v)[..., :, None] * c, axis=-2))

    return (loop(count, body, c),)


def gehrd(a: Matrix, *, low: int, high: int) -> Results:
    """The Hessenberg form, the reflectors below it, their factors."""
    if (low, high) != (1, a.shape[-1]):
        raise NotImplementedError(f"gehrd of rows {low} to {high}")
    return *schur.hessenberg(a), _zeros(a)


def sytrd(a: Matrix, *, uplo: str) -> Results:
    """The reflectors, the diagonal, what is beside it, their factors."""
    return *schur.tridiagonal(a, lower=uplo == "L"), _zeros(a)


def syevd(a: Matrix, *, mode: str, uplo: str) -> Results:
    """Eigenvectors and eigenvalues of a Hermitian matrix."""
    v, w = jacobi.eigh(a, lower=uplo == "L", sort_eigenvalues=True, subset_by_index=None, algorithm=None)
    return (v if mode == "V" else jnp.zeros_like(a)), w, _is_not_finite(w)


def gesdd(a: Matrix, *, mode: str) -> Results:
    """Singular values and vectors: all (A), as many as values (S), none (N)."""
    if mode not in "ASN":
        raise NotImplementedError(f"singular vectors by mode {mode}")
    m, n = a.shape[-2:]
    s, *vectors = jacobi.svd(a, full_matrices=mode == "A", compute_uv=mode != "N", subset_by_index=None, algorithm=None)
    u, vt = vectors or (jnp.zeros((*a.shape[:-2], size, size), a.dtype) for size in (m, n))
    return jnp.zeros_like(a), s, u, vt, BAD_ARGUMENT * _is_not_finite(a.reshape(*a.shape[:-2], m * n))


def geev(a: Matrix, *, compute_left: str, compute_right: str) -> Results:
    """Eigenvalues, of real matrices in two parts; left and right eigenvectors."""
    is_left, is_right = compute_left == "V", compute_right == "V"
    w, *found = schur.eig(a, compute_left_eigenvectors=is_left, compute_right_eigenvectors=is_right)
    vectors = iter(found)
    left, right = (next(vectors) if wanted else jnp.zeros(a.shape, w.dtype) for wanted in (is_left, is_right))
    return *_eigenvalues(a, w), left, right, BAD_ARGUMENT * _is_not_finite(w)


def gees(a: Matrix, *, mode: str, sort: str) -> Results:
    """Schur's form and vectors, eigenvalues as of geev, how many were selected."""
    if sort != "N":
        raise NotImplementedError("gees with sorted eigenvalues")
    form, q = schur.schur(a, compute_schur_vectors=True, sort_eig_vals=False, select_callable=None)
    w = schur.eigenvalues(form)
    return form, (q if mode == "V" else jnp.zeros_like(q)), *_eigenvalues(a, w), _zeros(a), _is_not_finite(w)


def gtsv(dl: Any, d: Any, du: Any, b: Matrix) -> Results:
    """The diagonals of U and x with T x = b, where T has dl[k] beside, d[k] on and du[k] behind the diagonal; swaps rows."""
    n = d.shape[-1]

    def put(v: Any, k: Any, value: Any) -> Any:
        return jnp.where(index(n) == k, value[..., None], v)

    def put_row(rows: Matrix, k: Any, value: Any) -> Matrix:
        return jnp.where((index(n) == k)[:, None], value[..., None, :], rows)

    def eliminate(k, state):
        d, du, du2, b = state
        below, pivot, beside = entry_of(dl, k + 1), entry_of(d, k), entry_of(du, k)
        next_pivot, next_beside = entry_of(d, k + 1), entry_of(du, k + 1)
        row, next_row = row_of(b, k), row_of(b, k + 1)
        stays = pivot_size(pivot) >= pivot_size(below)
        top, low = jnp.where(stays, pivot, below), jnp.where(stays, below, pivot)
        factor = jnp.where(low == 0, 0, low / jnp.where(top == 0, 1, top)).astype(d.dtype)
        first, second = jnp.where(stays, beside, next_pivot), jnp.where(stays, next_pivot, beside)
        third = jnp.where(stays, 0, next_beside).astype(d.dtype)
        rest = jnp.where(stays, next_beside, -factor * next_beside)
        upper = jnp.where(stays[..., None], row, next_row)
        lower = jnp.where(stays[..., None], next_row, row)
        d = put(put(d, k, top), k + 1, second - factor * first)
        du = put(put(du, k, first), k + 1, rest)
        b = put_row(put_row(b, k, upper), k + 1, lower - factor[..., None] * upper)
        return d, du, put(du2, k, third), b

    d, du, du2, b = loop(max(0, n - 1), eliminate, (d, du, jnp.zeros_like(d), b))

    def solve(step, x):
        k = n - 1 - step
        known = entry_of(du, k)[..., None] * row_of(x, k + 1) + entry_of(du2, k)[..., None] * row_of(x, k + 2)
        return put_row(x, k, (row_of(b, k) - known) / entry_of(d, k)[..., None])

    return du2, d, du, loop(n, solve, jnp.zeros_like(b)), first_of(d == 0)


def _adjoint(a: Matrix) -> Matrix:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _eigenvalues(a: Matrix, w: Any) -> Results:
    return (w,) if jnp.iscomplexobj(a) else (jnp.real(w), jnp.imag(w))


def _zeros(a: Matrix) -> Any:
    return jnp.zeros(a.shape[:-2], jnp.int32)


def _is_not_finite(x: Any) -> Any:
    """1 for each row in which an element is not finite, else 0; int32."""
    return jnp.logical_not(jnp.all(jnp.isfinite(x), axis=-1)).astype(jnp.int32)


ROUTINES: dict[str, Callable[..., Results]] = {
    **{"potrf": potrf, "trsm": trsm, "getrf": getrf, "geqrf": geqrf, "geqp3": geqp3},
    **{"orgqr": orgqr, "ungqr": orgqr, "ormqr": ormqr, "unmqr": ormqr, "gehrd": gehrd, "sytrd": sytrd, "hetrd": sytrd},
    **{"syevd": syevd, "heevd": syevd, "gesdd": gesdd, "gesvd": gesdd, "geev": geev, "gees": gees, "gtsv": gtsv},
}
"""By the name without the letter of the element type."""
