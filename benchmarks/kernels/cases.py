"""The kernels that are compared: a program for the chip, its inputs, and the same function for XLA:CPU."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import hlo2tx8
from benchmarks.kernels import matrix, rows
from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.program import Program

BF16 = ml_dtypes.bfloat16
F16_LIMIT, LIMIT = 2.0, 1.5
MATRIX, TENSOR = (4096, 4096), (20, 160, 170)


@dataclass(frozen=True)
class Case:
    """`reference` takes the inputs; times above `limit` times those of XLA:CPU are a regression."""

    name: str
    program: Program
    inputs: tuple[np.ndarray, ...]
    reference: Callable[..., jax.Array]
    limit: float = LIMIT


def normal(shape: tuple[int, ...], dtype: np.typing.DTypeLike = np.float32, scale: float = 1.0) -> np.ndarray:
    """Numbers of a fixed seed."""
    return (scale * np.random.default_rng(0).standard_normal(shape, np.float32)).astype(dtype)


def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    """Over the last dimension."""
    centred = x - x.mean(1, keepdims=True)
    variance = (centred**2).mean(1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + jnp.asarray(1e-5, x.dtype)) * scale + bias


def batch_norm(x: jax.Array, mean: jax.Array, variance: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    """Statistics given, over all but the last dimension."""
    return (x - mean) * jax.lax.rsqrt(variance + jnp.asarray(1e-5, x.dtype)) * scale + bias


def compiled(name: str, function: Callable[..., jax.Array], *inputs: np.ndarray) -> Case:
    """A case whose program is the compiler's."""
    return Case(name, hlo2tx8.compile(jax.jit(function).lower(*inputs)).program, inputs, function)


def row_cases() -> list[Case]:
    """Sums and norms."""
    x, s = normal(MATRIX), normal((4096, 1024))
    scale, bias = normal((1024,)), normal((1024,))
    images = (32 * 56 * 56, 256)
    statistics = tuple(np.abs(normal((256,), np.float16)) + np.float16(0.5) for _ in range(4))
    low = tuple(a.astype(BF16) for a in (s, scale, bias))
    return [
        Case("row sum f32[4096,4096]", rows.row_sum(Format.FP32, *MATRIX), (x,), lambda x: x.sum(1)),
        Case("column sum f32[4096,4096]", rows.column_sum(Format.FP32, *MATRIX), (x,), lambda x: x.sum(0)),
        Case("softmax f32[4096,1024]", rows.softmax(Format.FP32, 4096, 1024), (s,), lambda x: jax.nn.softmax(x, 1)),
        Case("layer norm f32[4096,1024]", rows.layer_norm(Format.FP32, 4096, 1024), (s, scale, bias), layer_norm),
        Case("layer norm bf16[4096,1024]", rows.layer_norm(Format.BF16, 4096, 1024), low, layer_norm),
        Case(
            "batch norm f16[32,56,56,256]",
            rows.batch_norm(Format.FP16, *images, step=64),
            (normal(images, np.float16), *statistics),
            batch_norm,
            F16_LIMIT,
        ),
    ]


def transpose_cases() -> list[Case]:
    """Compiled from StableHLO."""
    return [
        compiled("transpose f32[4096,4096]", lambda x: x.T, normal(MATRIX)),
        compiled("transpose 021 f32[20,160,170]", lambda x: x.transpose(0, 2, 1), normal(TENSOR)),
        compiled("transpose 102 f32[20,160,170]", lambda x: x.transpose(1, 0, 2), normal(TENSOR)),
        compiled("transpose 210 f32[20,160,170]", lambda x: x.transpose(2, 1, 0), normal(TENSOR)),
    ]


def gemm_cases() -> list[Case]:
    """1024^3; f32 is one pass of TF32 on the chip."""

    def case(name: str, multiply: Format, result: Format, dtype: np.typing.DTypeLike, limit: float = LIMIT) -> Case:
        a, b = normal((1024, 1024), dtype, 8), normal((1024, 1024), dtype, 8)
        wide = jnp.int32 if result is Format.INT32 else None
        return Case(
            f"gemm {name}[1024]^3",
            matrix.gemm(multiply, result, 1024, 1024, 1024),
            (a, b),
            lambda a, b: jax.lax.dot(a, b, preferred_element_type=wide),
            limit,
        )

    return [
        case("bf16", Format.BF16, Format.BF16, BF16),
        case("f32", Format.TF32, Format.FP32, np.float32),
        case("f16", Format.FP16, Format.FP16, np.float16, F16_LIMIT),
        case("int8", Format.INT8, Format.INT32, np.int8),
    ]


def conv_cases() -> list[Case]:
    """3x3, borders of zeros."""

    def conv(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWOI", "NHWC"))

    inputs = normal((8, 56, 56, 64)), normal((3, 3, 64, 64))
    return [Case("conv 3x3 f32[8,56,56,64]", matrix.conv3x3(Format.TF32, Format.FP32, 56, 64, 64), inputs, conv)]


def many_instructions(count: int = 100_000) -> Program:
    """`count` sums of 64 elements on tile 0, a hundred in the body of a loop."""
    tx8 = Assembler()
    turns = count // 100
    with tx8.loop(tx8.affine(turns, (tx8.tile, -turns))):
        for i in range(100):
            address = rows.BASE + 256 * (i % 16)
            tx8(CtAddVV, Format.FP32, dst=address, a=address, b=rows.BASE + 4096, n=64)
    return tx8.program(rows.BASE + 8192)
