"""Hand-written programs of the benchmarks: both tiers and strict mode agree, and the answers are right."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.kernels.matrix import DTYPES, conv3x3, gemm
from benchmarks.kernels.rows import batch_norm, column_sum, layer_norm, row_sum, softmax
from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.program import Program, numpy_dtype

CHIP = load_chip()
EPSILON = {Format.FP32: 2.0**-23, Format.BF16: 2.0**-7, Format.FP16: 2.0**-10, Format.TF32: 2.0**-10, Format.INT8: 0.0}
ROWS, COLUMNS = 256, 192


def outputs(program: Program, inputs: list[np.ndarray]) -> np.ndarray:
    """The output, the same bytes in every mode, as f64."""
    fast, definition, strict = (Emulator(CHIP, mode).run(program, inputs)[0] for mode in ("fast", "definition", "strict"))
    assert fast.tobytes() == definition.tobytes() == strict.tobytes()
    return fast.astype(np.float64)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape)


def exact_softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def exact_layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * scale + bias


def exact_batch_norm(x: np.ndarray, mean: np.ndarray, variance: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


@pytest.mark.parametrize("fmt", [Format.FP32, Format.BF16, Format.FP16], ids=lambda f: f.name.lower())
@pytest.mark.parametrize(
    ("kernel", "exact", "parameters", "roundings"),
    [
        (row_sum, lambda x: x.sum(1), 0, 32),
        (column_sum, lambda x: x.sum(0), 0, 64),
        (softmax, exact_softmax, 0, 4),
        (layer_norm, exact_layer_norm, 2, 16),
        (batch_norm, exact_batch_norm, 4, 16),
    ],
    ids=["row_sum", "column_sum", "softmax", "layer_norm", "batch_norm"],
)
def test_rows(kernel: Callable[..., Program], exact: Callable[..., np.ndarray], parameters: int, roundings: int, fmt: Format):
    dtype = numpy_dtype(DTYPES[fmt])
    step = 8 if kernel in (row_sum, column_sum) else 16
    inputs = [normal(ROWS, COLUMNS).astype(dtype), *((abs(normal(COLUMNS)) + 0.5).astype(dtype) for _ in range(parameters))]
    want = exact(*(i.astype(np.float64) for i in inputs))
    got = outputs(kernel(fmt, ROWS, COLUMNS, step), inputs)
    assert np.abs(got - want).max() <= roundings * EPSILON[fmt] * max(1.0, np.abs(want).max())


@pytest.mark.parametrize("multiply", [Format.BF16, Format.TF32, Format.FP16, Format.INT8], ids=lambda f: f.name.lower())
@pytest.mark.parametrize("depth", [128, 256, 512])
def test_gemm(multiply: Format, depth: int):
    result = {Format.TF32: Format.FP32, Format.INT8: Format.INT32}.get(multiply, multiply)
    dtype = numpy_dtype(DTYPES[multiply])
    a, b = ((8 * normal(*shape)).astype(dtype) for shape in ((64, depth), (depth, 512)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    got = outputs(gemm(multiply, result, 64, 512, depth, 128), [a, b])
    assert np.abs(got - want).max() <= 2 * EPSILON[multiply] * np.abs(want).max()


@pytest.mark.parametrize("multiply", [Format.BF16, Format.TF32], ids=lambda f: f.name.lower())
def test_conv3x3(multiply: Format):
    result = Format.FP32 if multiply is Format.TF32 else multiply
    dtype = numpy_dtype(DTYPES[multiply])
    x, w = normal(8, 4, 4, 64).astype(dtype), normal(3, 3, 64, 64).astype(dtype)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    want = np.einsum("nyxchw,hwoc->nyxo", windows, w.astype(np.float64))
    got = outputs(conv3x3(multiply, result, 4, 64, 64, 1), [x, w])
    assert np.abs(got - want).max() <= 2 * EPSILON[multiply] * np.abs(want).max()


def test_operands_nobody_has():
    with pytest.raises(ValueError, match="CGRATensor_ArithOp_V_VV_add has no operands c"):
        Assembler()(CtAddVV, Format.FP32, dst=0, a=0, b=0, c=0, n=64)


def test_uneven_sizes_are_refused():
    with pytest.raises(ValueError, match="no whole steps"):
        row_sum(Format.FP32, 100, 64)
