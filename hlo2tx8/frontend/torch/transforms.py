"""Linear algebra and Fourier transforms."""

# pyright: basic

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import linalg

from hlo2tx8.frontend.torch.table import AtenCall, Rows
from hlo2tx8.frontend.traced import Refused


def _ok(x: Any) -> Any:
    """That a factorisation went well, for each matrix."""
    return jnp.zeros(x.shape[:-2], jnp.int32)


def _h(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def _cholesky(call: AtenCall, x: Any, upper: bool = False, *_: Any) -> Any:
    lower = jnp.linalg.cholesky(_h(x) if upper else x, symmetrize_input=False)
    lower = jnp.tril(lower)
    found = _h(lower) if upper else lower
    return (found, _ok(x)) if len(call.dtypes) > 1 else found


def _solve_triangular(a: Any, b: Any, upper: bool, left: bool = True, unit: bool = False) -> Any:
    lead = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (jnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=not upper, unit_diagonal=unit)


def _triangular_solve(call: AtenCall, b: Any, a: Any, upper: bool = True, transpose: bool = False, unit: bool = False) -> Any:
    solved = _solve_triangular(jnp.swapaxes(a, -1, -2) if transpose else a, b, upper != transpose, True, unit)
    return solved, jnp.broadcast_to(a, (*solved.shape[:-2], *a.shape[-2:]))


def _cholesky_solve(call: AtenCall, b: Any, factor: Any, upper: bool = False) -> Any:
    lower = _h(factor) if upper else factor
    return _solve_triangular(_h(lower), _solve_triangular(lower, b, False), True)


def _cholesky_inverse(call: AtenCall, factor: Any, upper: bool = False) -> Any:
    one = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    return _cholesky_solve(call, one, factor, upper)


def _factored(x: Any) -> tuple[Any, Any, Any]:
    """LU in one matrix, pivots from 0 on, the permutation of rows."""
    return lax.linalg.lu(x)


def _lu_factor(call: AtenCall, x: Any, *_: Any) -> Any:
    lu, pivots, _order = _factored(x)
    return (lu, pivots + 1, _ok(x))[: len(call.dtypes)]


def _unpacked(lu: Any, order: Any) -> tuple[Any, Any, Any]:
    rows, columns = lu.shape[-2:]
    least = min(rows, columns)
    lower = jnp.tril(lu[..., :, :least], -1) + jnp.eye(rows, least, dtype=lu.dtype)
    permutation = jnp.swapaxes((order[..., None] == np.arange(rows)).astype(lu.dtype), -1, -2)
    return permutation, lower, jnp.triu(lu[..., :least, :])


def _lu(call: AtenCall, x: Any, pivot: bool = True) -> Any:
    if not pivot:
        raise Refused("LU without pivots")
    lu, _, order = _factored(x)
    return _unpacked(lu, order)


def _order_of(pivots: Any, rows: int) -> Any:
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, rows)


def _lu_unpack(call: AtenCall, lu: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    permutation, lower, upper = _unpacked(lu, _order_of(pivots, lu.shape[-2]))
    nothing = jnp.zeros(0, lu.dtype)
    return (permutation if unpack_pivots else nothing, *((lower, upper) if unpack_data else (nothing, nothing)))


def _lu_solve(call: AtenCall, lu: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    order = _order_of(pivots, lu.shape[-1])
    permutation, lower, upper = _unpacked(lu, order)
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return _h(_lu_solve(call, lu, pivots, _h(b), True, not adjoint))
    if adjoint:
        y = _solve_triangular(_h(lower), _solve_triangular(_h(upper), b, False), True)
        return permutation @ y
    return _solve_triangular(upper, _solve_triangular(lower, jnp.swapaxes(permutation, -1, -2) @ b, False, True, True), True)


def _solved(a: Any, b: Any, left: bool) -> tuple[Any, Any, Any]:
    lu, pivots, order = _factored(a)
    if not left:
        return jnp.swapaxes(_solved(jnp.swapaxes(a, -1, -2), jnp.swapaxes(b, -1, -2), True)[0], -1, -2), lu, pivots
    lead = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = jnp.broadcast_to(b, (*lead, *b.shape[-2:]))
    order = jnp.broadcast_to(order, (*lead, order.shape[-1]))
    rows = jnp.take_along_axis(rows, order[..., None], -2)
    return _solve_triangular(lu, _solve_triangular(lu, rows, False, True, True), True), lu, pivots


def _solve_ex(call: AtenCall, a: Any, b: Any, left: bool = True, *_: Any) -> Any:
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    found, lu, pivots = _solved(a, b[..., None] if is_vector else b, left)
    found = found[..., 0] if is_vector else found
    return (found, lu, pivots + 1, _ok(a)) if len(call.dtypes) == 4 else (found, _ok(a))


def _inverse(call: AtenCall, x: Any, *_: Any) -> Any:
    found = _solved(x, jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape), True)[0]
    return (found, _ok(x)) if len(call.dtypes) > 1 else found


def _sign_and_size(lu: Any, pivots: Any) -> tuple[Any, Any]:
    diagonal = jnp.diagonal(lu, axis1=-2, axis2=-1)
    swaps = jnp.sum(pivots != np.arange(pivots.shape[-1]), -1) % 2
    sign = jnp.where(swaps == 0, 1, -1).astype(lu.dtype)
    return sign, diagonal


def _det(call: AtenCall, x: Any) -> Any:
    lu, pivots, _ = _factored(x)
    sign, diagonal = _sign_and_size(lu, pivots)
    return sign * jnp.prod(diagonal, -1), lu, pivots + 1


def _slogdet(call: AtenCall, x: Any) -> Any:
    lu, pivots, _ = _factored(x)
    sign, diagonal = _sign_and_size(lu, pivots)
    size = jnp.abs(diagonal)
    turned = jnp.prod(jnp.where(size == 0, 0, diagonal / jnp.where(size == 0, 1, size)), -1)
    return sign * turned, jnp.sum(jnp.log(size), -1), lu, pivots + 1


def _qr(call: AtenCall, x: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return jnp.zeros(0, x.dtype), jnp.linalg.qr(x, "r")
    return tuple(jnp.linalg.qr(x, mode))


def _svd(call: AtenCall, x: Any, full: bool = False, wants_vectors: bool = True, *_: Any) -> Any:
    if not wants_vectors:
        sizes = jnp.linalg.svd(x, compute_uv=False)
        return jnp.zeros(0, x.dtype), sizes, jnp.zeros(0, x.dtype)
    return tuple(jnp.linalg.svd(x, full_matrices=full))


def _pinv(call: AtenCall, x: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """By singular values, of which those up to atol or rtol times the greatest count as 0."""
    x = jnp.tril(x) + _h(jnp.tril(x, -1)) if hermitian else x
    u, sizes, vh = jnp.linalg.svd(x, full_matrices=False)
    most = jnp.max(sizes, -1, keepdims=True, initial=0)
    eps = max(x.shape[-2:]) * float(jnp.finfo(x.dtype).eps)
    tolerance = rtol if rtol is not None else eps if atol is None else 0.0
    relative, absolute = (jnp.asarray(0.0 if v is None else v, sizes.dtype)[..., None] for v in (tolerance, atol))
    bound = jnp.maximum(relative * most, absolute)
    inverse = jnp.where(sizes > bound, 1 / jnp.where(sizes > bound, sizes, 1), 0)
    return _h(vh) @ (inverse[..., None] * _h(u))


def _eigh(call: AtenCall, x: Any, uplo: str = "L", *_: Any) -> Any:
    values, vectors = lax.linalg.eigh(x, lower=uplo == "L", symmetrize_input=False)[::-1]
    return values, vectors


def _householder(call: AtenCall, a: Any, taus: Any) -> Any:
    """The product of reflections whose vectors are below the diagonal."""
    return lax.linalg.householder_product(a, taus)


def _ormqr(call: AtenCall, a: Any, taus: Any, c: Any, left: bool = True, transpose: bool = False) -> Any:
    rows = a.shape[-2]
    wide = jnp.concatenate([a, jnp.zeros((*a.shape[:-1], rows - a.shape[-1]), a.dtype)], -1) if a.shape[-1] < rows else a
    q = lax.linalg.householder_product(wide, taus)
    q = _h(q) if transpose else q
    return q @ c if left else c @ q


def _geqrf(call: AtenCall, a: Any) -> Any:
    factors, taus = jnp.linalg.qr(a, "raw")
    return jnp.swapaxes(factors, -1, -2), taus


def _matrix_exp(call: AtenCall, x: Any) -> Any:
    if x.ndim == 2:
        return linalg.expm(x)
    return jax.vmap(linalg.expm)(x.reshape(-1, *x.shape[-2:])).reshape(x.shape) if x.size else x


def _scale(norm: int, count: int) -> float:
    """What a transform is multiplied by: 1, 1 / sqrt(n), 1 / n."""
    return (1.0, 1 / math.sqrt(count), 1 / count)[norm]


def _fft_c2c(call: AtenCall, x: Any, dims: Any, norm: int, forward: bool) -> Any:
    if not dims:
        return x
    count = math.prod(x.shape[d] for d in dims)
    found = jnp.fft.fftn(x, axes=tuple(dims)) if forward else jnp.fft.ifftn(x, axes=tuple(dims), norm="forward")
    return found * jnp.asarray(_scale(norm, count), found.real.dtype)


def _fft_r2c(call: AtenCall, x: Any, dims: Any, norm: int, onesided: bool) -> Any:
    x = x.astype(np.zeros(0, call.dtype).real.dtype)
    count = math.prod(x.shape[d] for d in dims)
    found = jnp.fft.rfftn(x, axes=tuple(dims)) if onesided else jnp.fft.fftn(x, axes=tuple(dims))
    return found * jnp.asarray(_scale(norm, count), found.real.dtype)


def _fft_c2r(call: AtenCall, x: Any, dims: Any, norm: int, last: int) -> Any:
    sizes = [last if d == dims[-1] else x.shape[d] for d in dims]
    found = jnp.fft.irfftn(x, s=sizes, axes=tuple(dims), norm="forward")
    return found * jnp.asarray(_scale(norm, math.prod(sizes)), found.dtype)


ROWS: Rows = {
    "linalg_cholesky_ex": _cholesky,
    "cholesky": _cholesky,
    "cholesky_solve": _cholesky_solve,
    "cholesky_inverse": _cholesky_inverse,
    "linalg_solve_triangular": lambda call, a, b, upper, left=True, unit=False: _solve_triangular(a, b, upper, left, unit),
    "triangular_solve": _triangular_solve,
    "linalg_lu_factor_ex": _lu_factor,
    "linalg_lu": _lu,
    "lu_unpack": _lu_unpack,
    "linalg_lu_solve": _lu_solve,
    "_linalg_solve_ex": _solve_ex,
    "linalg_solve_ex": _solve_ex,
    "linalg_inv_ex": _inverse,
    "inverse": _inverse,
    "_linalg_det": _det,
    "_linalg_slogdet": _slogdet,
    "linalg_qr": _qr,
    "_linalg_svd": _svd,
    "_linalg_eigh": _eigh,
    "linalg_pinv.atol_rtol_tensor": _pinv,
    "linalg_householder_product": _householder,
    "ormqr": _ormqr,
    "geqrf": _geqrf,
    "linalg_matrix_exp": _matrix_exp,
    "_fft_c2c": _fft_c2c,
    "_fft_r2c": _fft_r2c,
    "_fft_c2r": _fft_c2r,
}
