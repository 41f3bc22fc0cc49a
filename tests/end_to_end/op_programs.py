"""One-op programs from the OpSpecs' samples, on edge values, compiled and run on the emulator."""

from dataclasses import dataclass

import numpy as np

from hlo2tx8.hlo import Kind, OpSpec, Sample, TensorLike, all_specs
from hlo2tx8.hlo.edge_values import edge_values
from hlo2tx8.hlo.types import is_float
from hlo2tx8.vendor.op_probes import sample_text

DTYPES = (
    *("bfloat16", "float16", "float32", "bool", "complex64", "complex128", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


@dataclass(frozen=True)
class OpProgram:
    """One use of one op."""

    spec: OpSpec
    sample: Sample

    def __str__(self) -> str:
        operands = "_".join(str(o) for o in self.sample.operands)
        return f"{self.spec.name}-{operands}-{dict(self.sample.attributes)}"

    @property
    def text(self) -> str:
        return sample_text(self.spec, self.sample)

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Edge values first, then random ones."""
        rng = np.random.default_rng(seed)
        return [values(o, rng, i in self.sample.index_operands) for i, o in enumerate(self.sample.operands)]


def values(like: TensorLike, rng: np.random.Generator, is_index: bool = False) -> np.ndarray:
    """An array of the type: edge values of its dtype in a random order among ordinary ones."""
    n, dtype = int(np.prod(like.shape)), like.dtype
    if is_index:
        return np.zeros(like.shape, dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, like.shape).astype(bool)
    if dtype.kind == "c":
        around = rng.normal(size=32) * 3 + 1j * rng.normal(size=32)
        pool = np.concatenate([edge_values(dtype), around, [0, 1e-6j + 1, 1e5j, 9 - 1j]])
    elif is_float(dtype):
        edges = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, np.inf, -np.inf, np.nan, 100.0, 1e-3, 3e38, -7.0])
        pool = np.concatenate([edges, rng.normal(size=64) * 3])
    else:
        info = np.iinfo(dtype)
        pool = np.array([0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1, 5, 7, 31], object)
        pool = np.concatenate([pool, rng.integers(info.min, info.max, 32, dtype=dtype, endpoint=True).astype(object)])
    with np.errstate(all="ignore"):
        return rng.choice(pool, n).astype(dtype).reshape(like.shape)


def programs() -> list[OpProgram]:
    """Every elementwise and shaping op with a sample of supported dtypes."""
    found: list[OpProgram] = []
    for spec in all_specs():
        if spec.kind not in (Kind.ELEMENTWISE, Kind.SHAPING) or not spec.name.startswith(("stablehlo.", "chlo.")):
            continue
        for sample in spec.samples():
            types = (*sample.operands, *sample.results)
            if len(sample.results) == 1 and all(t.dtype.name in DTYPES for t in types):
                found.append(OpProgram(spec, sample))
    return found


def ulps(actual: np.ndarray, expected: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """|actual - expected| in units of the last place of expected; inf where one is NaN or infinite and the other not."""
    import ml_dtypes

    if not is_float(expected.dtype) and expected.dtype.kind != "c":
        return np.where(actual == expected, 0.0, np.inf)
    wide, part = (np.complex128, expected.real.dtype) if expected.dtype.kind == "c" else (np.float64, expected.dtype)
    info = ml_dtypes.finfo(part)
    with np.errstate(all="ignore"):
        a, e = actual.astype(wide), expected.astype(wide)
        size = np.maximum(np.maximum(np.abs(e), floor), float(info.smallest_normal))
        spacing = 2.0 ** (np.floor(np.log2(size)) - info.nmant)
        far = np.abs(a - e) / spacing
    far = np.where((a == e) | (np.isnan(a) & np.isnan(e)), 0.0, far)
    return np.where(np.isnan(far), np.inf, far)
