"""LAPACK's custom calls, in what jax lowers for cpu: the same numbers as XLA:CPU, which calls LAPACK."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
CPU = jax.devices("cpu")[0]


def random(*shape: int, dtype: str = "float32") -> Array:
    found = RNG.standard_normal(shape)
    return (found + 1j * RNG.standard_normal(shape) if dtype.startswith("complex") else found).astype(dtype)


def positive(*shape: int, dtype: str = "float32") -> Array:
    a = random(*shape, dtype=dtype)
    return np.asarray(a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1]), dtype)


def lowered(function: Callable[..., Any], arrays: Sequence[Array]) -> Any:
    found = jax.jit(function).trace(*arrays).lower(lowering_platforms=("cpu",))
    assert "@lapack_" in found.as_text()
    return found


def agree(actual: Sequence[Array], expected: Any) -> None:
    for a, e in zip(actual, jax.tree.leaves(expected), strict=True):
        assert a.dtype == e.dtype
        eps = np.finfo(e.dtype).eps if np.issubdtype(e.dtype, np.inexact) else 0
        np.testing.assert_allclose(a, e, rtol=0, atol=40 * float(eps) * max(1, np.nanmax(np.abs(e), initial=0)))


def check(function: Callable[..., Any], *arrays: Array) -> None:
    """Interpreted at level HLO; that levels agree with it is tested elsewhere."""
    with jax.default_device(CPU):
        expected = jax.jit(function)(*arrays)
    agree(evaluate(load(lowered(function, arrays)), *arrays), expected)


DIRECT: dict[str, tuple[Callable[..., Any], Sequence[Array]]] = {
    "potrf": (lambda a: lax.linalg.cholesky(a, symmetrize_input=False), [positive(2, 5, 5)]),
    "potrf, not positive definite": (lambda a: lax.linalg.cholesky(a), [np.stack([positive(3, 3), -positive(3, 3)])]),
    "getrf": (lax.linalg.lu, [random(2, 5, 4)]),
    "getrf, singular": (lambda a: (lax.linalg.lu(a), jnp.linalg.det(a)), [np.ones((3, 3), np.float32)]),
    "getrf, complex": (lax.linalg.lu, [random(4, 5, dtype="complex64")]),
    "geqrf, orgqr": (lambda a: jnp.linalg.qr(a, mode="complete"), [random(2, 4, 3)]),
    "geqp3": (lambda a: jax.scipy.linalg.qr(a, pivoting=True), [random(4, 5)]),
    "gehrd": (lax.linalg.hessenberg, [random(4, 4)]),
    "sytrd": (lambda a: (lax.linalg.tridiagonal(a, lower=True), lax.linalg.tridiagonal(a, lower=False)), [positive(4, 4)]),
    "syevd": (jnp.linalg.eigvalsh, [positive(4, 4) * np.array([1, 1e4, np.nan], np.float32).reshape(3, 1, 1)]),
    "gesdd": (lambda a: jnp.linalg.svd(a, compute_uv=False), [random(4, 3) * np.array([1, np.nan], np.float32).reshape(2, 1, 1)]),
    "gesvd": (lambda a: lax.linalg.svd(a, algorithm=lax.linalg.SvdAlgorithm.QR)[1], [random(3, 4)]),
    "geev": (lambda a: jnp.sort(jnp.linalg.eigvals(a)), [random(4, 4)]),
    "gtsv": (lax.linalg.tridiagonal_solve, [random(2, 5), random(2, 5), random(2, 5), random(2, 5, 2)]),
    "no elements": (lambda a: (jnp.linalg.cholesky(a), jnp.linalg.inv(a), jnp.linalg.svd(a)), [random(0, 3, 3)]),
    "no rows": (lambda a: (jnp.linalg.inv(a), jnp.linalg.eigh(a)), [random(0, 0)]),
    "one element": (lambda a: (jnp.linalg.cholesky(a), jnp.linalg.eigh(a)[0], jnp.linalg.svd(a)[1]), [positive(1, 1)]),
}


@pytest.mark.parametrize("name", DIRECT)
def test_a_routine_gives_what_lapack_gives(name: str) -> None:
    function, arrays = DIRECT[name]
    check(function, *arrays)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_triangular_solves(lower: bool, left: bool) -> None:
    def solve(a: Any, b: Any) -> Any:
        how = {"left_side": left, "lower": lower}
        conjugate = lax.linalg.triangular_solve(a, b, transpose_a=True, conjugate_a=True, **how)
        return lax.linalg.triangular_solve(a, b, **how), conjugate, lax.linalg.triangular_solve(a / 8, b, unit_diagonal=True, **how)

    check(
        solve,
        positive(2, 3, 3, dtype="complex64"),
        random(2, 3, 4, dtype="complex64") if left else random(2, 4, 3, dtype="complex64"),
    )


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_a_product_with_reflectors(left: bool, transpose: bool) -> None:
    packed, taus = np.linalg.qr(random(4, 3, dtype="complex64"), mode="raw")
    c = random(4, 2, dtype="complex64") if left else random(2, 4, dtype="complex64")
    check(lambda a, t, c: lax.linalg.ormqr(a, t, c, left=left, transpose=transpose), packed.T.copy(), taus, c)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_schur_forms_multiply_back(dtype: str) -> None:
    def residual(a: Any) -> Any:
        t, q = lax.linalg.schur(a)
        return q @ t @ jnp.conj(q.T) - a

    a = random(4, 4, dtype=dtype)
    np.testing.assert_allclose(evaluate(load(lowered(residual, [a])), a)[0], 0, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_factors_multiply_back(dtype: str) -> None:
    def residuals(a: Any) -> Any:
        u, s, vt = jnp.linalg.svd(a, full_matrices=False)
        w, v = jnp.linalg.eig(a)
        _, left, _ = lax.linalg.eig(a, compute_left_eigenvectors=True)
        adjoint = jnp.conj(left.T)
        return (u * s) @ vt - a, a @ v - v * w, adjoint @ a - w[:, None] * adjoint

    a = random(3, 3, dtype=dtype)
    for found in evaluate(load(lowered(residuals, [a])), a):
        np.testing.assert_allclose(found, 0, atol=1e-5)


def test_64_bits_on_the_emulator() -> None:
    with jax.enable_x64(True):
        a = positive(3, 3, dtype="float64")
        (factor,) = hlo2tx8.compile(lowered(jnp.linalg.cholesky, [a])).execute(a)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-13, atol=1e-14)


TEXT = """HloModule m
ENTRY e {
  x = f32[2,3,3] parameter(0)
  c = f32[2,3,3]{ORDER} copy(x)
  r = (f32[2,3,3]{ORDER}, s32[2]) custom-call(c), custom_call_target="lapack_spotrf_ffi",
    operand_layout_constraints={f32[2,3,3]{ORDER}}, api_version=API_VERSION_TYPED_FFI, backend_config={uplo = LETTER : ui8}
  a = f32[2,3,3]{ORDER} get-tuple-element(r), index=0
  i = s32[2] get-tuple-element(r), index=1
  ROOT t = (f32[2,3,3], s32[2]) tuple(a, i)
}"""


@pytest.mark.parametrize("order", ["1,2,0", "2,1,0"])
def test_calls_in_hlo_text_with_their_layouts(order: str) -> None:
    """A row major matrix is to LAPACK the transposed one; what was in the other triangle stays, `info` names the pivot."""
    x = positive(2, 3, 3)
    x[1, 1, 1] = -1
    factor, info = evaluate(load(TEXT.replace("ORDER", order).replace("LETTER", "76")), x)
    assert info.tolist() == [0, 2]
    own = factor[0] if order == "1,2,0" else factor[0].T
    np.testing.assert_allclose(np.tril(own), np.linalg.cholesky(x[0]), atol=1e-6)
    np.testing.assert_array_equal(np.triu(own, 1), np.triu(x[0], 1))


def test_what_a_routine_has_not_is_refused_by_name() -> None:
    text = """func.func @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
        %0:3 = stablehlo.custom_call @lapack_sgehrd_ffi(%a) {mhlo.backend_config = {low = 2 : i32, high = 3 : i32}}
            : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<2xf32>, tensor<i32>)
        return %0#0 : tensor<3x3xf32>
    }"""
    with pytest.raises(CompileError, match="lapack_sgehrd_ffi: gehrd of rows 2 to 3"):
        load(text)
    with pytest.raises(CompileError, match="lapack_sgehrd_ffi gives tensor<3x3xf32>, tensor<2xf32>, tensor<i32>"):
        load(text.replace("low = 2", "low = 1").replace("tensor<2xf32>", "tensor<3xf32>"))
