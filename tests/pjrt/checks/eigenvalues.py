"""Decompositions of matrices of any kind, as loops on the device."""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_default_matmul_precision", "highest")
RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((5, 5)).astype(np.float32)
TALL = RNG.standard_normal((5, 3)).astype(np.float32)
COMPLEX = SQUARE + 1j * RNG.standard_normal((5, 5)).astype(np.float32)


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=2e-5)


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
