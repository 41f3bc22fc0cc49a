"""Linear algebra that jax lowers to loops on the device: the matrices multiply back to what was decomposed."""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_default_matmul_precision", "highest")
RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((5, 5)).astype(np.float32)
POSITIVE = SQUARE @ SQUARE.T + np.eye(5, dtype=np.float32)
TALL = RNG.standard_normal((5, 3)).astype(np.float32)


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=2e-5)


def check_cholesky_and_triangular_solve():
    factor = jnp.linalg.cholesky(POSITIVE)
    assert factor.devices() == set(jax.devices("tx8"))
    close(factor, np.linalg.cholesky(POSITIVE))
    assert np.isnan(np.diagonal(jnp.linalg.cholesky(-POSITIVE))).all()
    for transposed in (0, 1):
        x = jax.scipy.linalg.solve_triangular(factor, TALL, lower=True, trans=transposed)
        close((factor.T if transposed else factor) @ x, TALL)


def check_lu():
    packed, swaps, order = jax.lax.linalg.lu(SQUARE)
    lower, upper = np.tril(packed, -1) + np.eye(5), np.triu(packed)
    close(lower @ upper, SQUARE[order])
    assert np.abs(lower).max() <= 1
    np.testing.assert_array_equal(jax.lax.linalg.lu_pivots_to_permutation(swaps, 5), order)
    close(SQUARE @ jnp.linalg.inv(SQUARE), np.eye(5))


def check_qr():
    q, r = jnp.linalg.qr(TALL, mode="complete")
    close(q @ r, TALL)
    close(q.T @ q, np.eye(5))
    np.testing.assert_array_equal(np.tril(r, -1), 0)


def check_eigh():
    batch = np.stack([POSITIVE, SQUARE + SQUARE.T])
    values, vectors = jnp.linalg.eigh(batch)
    close(values, np.linalg.eigvalsh(batch))
    close(batch @ vectors, vectors * np.asarray(values)[:, None])
    close(np.swapaxes(vectors, 1, 2) @ vectors, np.broadcast_to(np.eye(5), (2, 5, 5)))


def check_svd():
    for matrix in (TALL, TALL.T):
        u, s, vt = jnp.linalg.svd(matrix)
        close(s, np.linalg.svd(matrix)[1])
        close(u[:, :3] * s @ vt[:3], matrix)
        close(u.T @ u, np.eye(len(u)))


COMPLEX = SQUARE + 1j * RNG.standard_normal((5, 5)).astype(np.float32)


def check_complex_eigh_and_svd():
    hermitian = COMPLEX + COMPLEX.conj().T
    values, vectors = map(np.asarray, jnp.linalg.eigh(hermitian))
    close(values, np.linalg.eigvalsh(hermitian))
    close(hermitian @ vectors, vectors * values)
    u, s, vh = map(np.asarray, jnp.linalg.svd(COMPLEX[:, :3], full_matrices=False))
    close(s, np.linalg.svd(COMPLEX[:, :3])[1])
    close((u * s) @ vh, COMPLEX[:, :3])


def check_schur_and_hessenberg():
    form, q = map(np.asarray, jax.scipy.linalg.schur(SQUARE))
    close(q @ form @ q.T, SQUARE)
    np.testing.assert_array_equal(np.tril(form, -2), 0)
    form, q = map(np.asarray, jax.scipy.linalg.hessenberg(SQUARE, calc_q=True))
    close(q @ form @ q.T, SQUARE)
    np.testing.assert_array_equal(np.tril(form, -2), 0)


def check_eig():
    values, left, right = map(np.asarray, jax.lax.linalg.eig(SQUARE))
    close(SQUARE @ right, right * values)
    close(np.conj(left.T) @ SQUARE, values[:, None] * np.conj(left.T))
    close(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(SQUARE)))
    assert set(values) == set(np.conj(values))
    batch = np.stack([COMPLEX, np.full_like(COMPLEX, np.nan)])
    values = np.asarray(jax.lax.linalg.eig(batch, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0])
    close(np.sort_complex(values[0]), np.sort_complex(np.linalg.eigvals(COMPLEX)))
    assert np.isnan(values[1]).all()


def check_qr_with_pivots():
    q, r, order = map(np.asarray, jax.scipy.linalg.qr(TALL, pivoting=True))
    close(q @ r, TALL[:, order])
    assert (np.diff(np.abs(np.diagonal(r))) <= 0).all()


def check_tridiagonal():
    hermitian = COMPLEX + COMPLEX.conj().T
    _, d, e, _ = map(np.asarray, jax.lax.linalg.tridiagonal(hermitian, lower=False))
    close(np.linalg.eigvalsh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1)), np.linalg.eigvalsh(hermitian))
