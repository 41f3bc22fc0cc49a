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


def check_matrices_without_elements():
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        a = np.zeros(shape, np.float32)
        np.testing.assert_array_equal(jnp.linalg.det(a), np.linalg.det(a))
        np.testing.assert_array_equal(jnp.linalg.inv(a), a)
