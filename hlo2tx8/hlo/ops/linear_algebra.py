"""cholesky and triangular_solve at full precision, matrix by matrix."""

import numpy as np

from hlo2tx8.hlo.rounding import narrow, widen_to_double
from hlo2tx8.hlo.spec import Array, Attributes, Kind, OpSpec, TensorLike

Results = tuple[TensorLike, ...]


def _wide(a: Array) -> type[np.generic]:
    return np.complex128 if a.dtype.kind == "c" else np.float64


def cholesky(attributes: Attributes, results: Results, a: Array) -> Array:
    """The triangular factor of each matrix, from one triangle of it; all NaN for one that is not positive definite."""
    lower, found = bool(attributes.get("lower", False)), np.zeros(a.shape, _wide(a))
    for place in np.ndindex(a.shape[:-2]):
        own = widen_to_double(a[place])
        half = np.tril(own) if lower else np.triu(own).conj().T
        try:
            factor = np.linalg.cholesky(half + np.tril(half, -1).conj().T)
        except np.linalg.LinAlgError:
            factor = np.full_like(half, np.nan)
        found[place] = factor if lower else factor.conj().T
    return narrow(found, results[0].dtype)


def triangular_solve(attributes: Attributes, results: Results, a: Array, b: Array) -> Array:
    """x with op(a) x = b, or x op(a) = b; only one triangle of a is looked at."""
    found = np.zeros(b.shape, _wide(a))
    keep = np.tril if attributes["lower"] else np.triu
    for place in np.ndindex(a.shape[:-2]):
        matrix = keep(widen_to_double(a[place]))
        if attributes["unit_diagonal"]:
            np.fill_diagonal(matrix, 1)
        if "NO_TRANSPOSE" not in str(attributes["transpose_a"]):
            matrix = matrix.conj().T if "ADJOINT" in str(attributes["transpose_a"]) else matrix.T
        right = widen_to_double(b[place])
        if right.size:
            found[place] = np.linalg.solve(matrix, right) if attributes["left_side"] else np.linalg.solve(matrix.T, right.T).T
    return narrow(found, results[0].dtype)


def _leading_dimensions(_: Attributes, rank: int) -> tuple[int, ...]:
    return tuple(range(rank - 2))


SPECS = (
    OpSpec("stablehlo.cholesky", Kind.HERO, cholesky, ulp=8, batch_dimensions=_leading_dimensions),
    OpSpec("stablehlo.triangular_solve", Kind.HERO, triangular_solve, ulp=8, batch_dimensions=_leading_dimensions),
)
