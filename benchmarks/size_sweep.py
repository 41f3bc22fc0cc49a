"""Modelled cycles at sizes n - 1, n and n + 1 around powers of two: how much they differ from one size to the next.

    python -m benchmarks.size_sweep [REGEX ...] [--sizes 64 256 1024] [--all] [--most RATIO]

Prints each family's worst step, with --all each step. A step is the ratio of the larger to the smaller of two neighbours' cycles,
and `/ bound` is what the middle size takes of its lower bound. Nothing runs. Exit code 1 if a step is above --most.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

import hlo2tx8
from benchmarks.roofline import BF16, F32, INT8, INT32, NAMES, Workload, array, attention, convolution, normalized, of_channels

SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
LEAST_ROWS = (1, 2, 4, 8, 16)
"""Of products of few rows: all neighbours from 1 on are looked at."""


@dataclass(frozen=True)
class Family:
    """Workloads over one size, `make(n)`, and the powers of two around which they are looked at."""

    name: str
    make: Callable[[int], Workload]
    sizes: tuple[int, ...] = SIZES


@dataclass(frozen=True)
class Step:
    """The cycles of neighbours, of which the second is the power of two, and its ratio to its bound."""

    size: int
    cycles: tuple[float, ...]
    to_bound: float

    @property
    def ratio(self) -> float:
        """Of the larger to the smaller of two neighbours."""
        return max(max(a, b) / min(a, b) for a, b in pairwise(self.cycles))

    def __str__(self) -> str:
        return f"{self.size:6} {' '.join(f'{c:13,.0f}' for c in self.cycles)} {self.to_bound:9.2f} {self.ratio:8.2f}"


Make: TypeAlias = Callable[[int], Workload]


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """[..., m, k] x [..., k, n]; integers are added up in 32 bits."""
    return jnp.matmul(a, b, preferred_element_type=INT32 if a.dtype == INT8 else a.dtype)


def exact_product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision="highest")


def finished_product(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    return jax.nn.gelu(a @ b + c)


def gemm(dtype: Any, *, m: int = 0, n: int = 0, k: int = 0, batch: tuple[int, ...] = (), function: Any = product) -> Make:
    """Products of matrices; sizes that are 0, and -1 in the batch, are those of the sweep."""

    def make(size: int) -> Workload:
        outer = tuple(size if extent < 0 else extent for extent in batch)
        shapes = (*outer, m or size, k or size), (*outer, k or size, n or size), (n or size,)
        operands = tuple(array(*shape, dtype=dtype) for shape in shapes)
        return Workload("", function, operands if function is finished_product else operands[:2])

    return make


def products() -> Iterator[Family]:
    """M, N and K alone, all of them, few rows, batches, parts of f32, and with an epilogue."""
    for dtype in (BF16, F32, INT8):
        kind = NAMES[dtype]
        yield Family(f"gemm {kind} n x 1024 x 1024", gemm(dtype, n=1024, k=1024))
        yield Family(f"gemm {kind} 1024 x n x 1024", gemm(dtype, m=1024, k=1024))
        yield Family(f"gemm {kind} 1024 x 1024 x n", gemm(dtype, m=1024, n=1024))
        yield Family(f"gemm {kind} n x n x n", gemm(dtype))
        yield Family(f"gemm {kind} n rows", gemm(dtype, n=4096, k=4096), LEAST_ROWS)
    yield Family("batched gemm bf16 16 n x n x n", gemm(BF16, batch=(16,)), SIZES[:-2])
    yield Family("batched gemm bf16 n 256 x 256 x 256", gemm(BF16, m=256, n=256, k=256, batch=(-1,)), (4, 16, 64))
    yield Family("gemm f32 HIGHEST n x n x n", gemm(F32, function=exact_product), SIZES[:-1])
    yield Family("gemm bias gelu bf16 n x n x n", gemm(BF16, function=finished_product))


def image(batch: int = 0, size: int = 0, channels: int = 0, filters: int = 0) -> Make:
    """3x3 convolutions; what is 0 is the size of the sweep."""

    def make(n: int) -> Workload:
        weights = array(3, 3, channels or n, filters or n, dtype=BF16)
        own = array(batch or n, size or n, size or n, channels or n, dtype=BF16)
        return Workload("", partial(convolution, stride=1), (own, weights))

    return make


def windows() -> Iterator[Family]:
    """Convolutions over the image, the batch and the channels."""
    yield Family("conv bf16 b4 n x n 64 -> 64 3x3", image(4, 0, 64, 64), (16, 32, 64))
    yield Family("conv bf16 b1 n x n 64 -> 64 3x3", image(1, 0, 64, 64), (28, 56, 64))
    yield Family("conv bf16 b1 n x n 128 -> 128 3x3", image(1, 0, 128, 128), (14, 28, 32))
    yield Family("conv bf16 bn 14 x 14 256 -> 256 3x3", image(0, 14, 256, 256), (4, 8, 16))
    yield Family("conv bf16 b4 28 x 28 n -> 128 3x3", image(4, 28, 0, 128), (64, 128, 256))
    yield Family("conv bf16 b4 28 x 28 128 -> n 3x3", image(4, 28, 128, 0), (64, 128, 256))


def row_sum(x: jax.Array) -> jax.Array:
    return x.sum(1)


def column_sum(x: jax.Array) -> jax.Array:
    return x.sum(0)


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, -1)


def square(function: Callable[[jax.Array], jax.Array], dtype: Any) -> Make:
    return lambda n: Workload("", function, (array(n, n, dtype=dtype),))


def heads(dtype: Any, *, is_causal: bool = False) -> Make:
    return lambda n: Workload("", partial(attention, is_causal=is_causal), (array(12, n, 64, dtype=dtype),) * 3)


def layer_norm(dtype: Any) -> Make:
    return lambda n: Workload("", normalized, (array(2048, n, dtype=dtype), array(n, dtype=dtype), array(n, dtype=dtype)))


def batch_norm(n: int) -> Workload:
    return Workload("", partial(of_channels, dims=(0,), is_fast=False), (array(4096, n), array(n), array(n)))


def rows() -> Iterator[Family]:
    """Attention, reductions of rows and columns, and norms."""
    for dtype in (BF16, F32):
        kind = NAMES[dtype]
        yield Family(f"attention {kind} 12 x n x 64", heads(dtype), SIZES[:-1])
        yield Family(f"causal attention {kind} 12 x n x 64", heads(dtype, is_causal=True), SIZES[:-1])
        for function in (row_sum, column_sum, softmax):
            yield Family(f"{function.__name__.replace('_', ' ')} {kind} [n, n]", square(function, dtype))
        yield Family(f"layer norm {kind} [2048, n]", layer_norm(dtype))
    yield Family("batch norm f32 [4096, n]", batch_norm, SIZES[:-1])


FAMILIES = (products, windows, rows)


def step(family: Family, size: int) -> Step:
    """The modelled cycles of the neighbours."""
    cycles: list[float] = []
    to_bound = math.nan
    for n in (size - 1, size, size + 1):
        if n < 1:
            continue
        executable = hlo2tx8.compile(family.make(n).text())
        cycles.append(executable.report.cycles)
        if n == size and executable.lower_bound is not None:
            to_bound = executable.report.cycles / executable.lower_bound.cycles
    return Step(size, tuple(cycles), to_bound)


def families(patterns: Sequence[str]) -> Iterator[Family]:
    for group in FAMILIES:
        yield from (family for family in group() if not patterns or any(re.search(p, family.name) for p in patterns))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="regular expressions")
    parser.add_argument("--sizes", nargs="*", type=int, default=(), help="powers of two, where a family has them")
    parser.add_argument("--all", action="store_true", help="print every step")
    parser.add_argument("--most", type=float, default=math.inf, metavar="RATIO")
    arguments = parser.parse_args()
    print(f"{'family':40} {'n':>6} {'n - 1':>13} {'n':>13} {'n + 1':>13} {'/ bound':>9} {'step':>8}")
    worst = 1.0
    for family in families(arguments.names):
        sizes = [n for n in family.sizes if not arguments.sizes or n in arguments.sizes]
        steps: list[Step] = []
        for size in sizes:
            steps.append(step(family, size))
            if arguments.all:
                print(f"{family.name:40} {steps[-1]}", flush=True)
        if steps and not arguments.all:
            print(f"{family.name:40} {max(steps, key=lambda own: own.ratio)}", flush=True)
        worst = max([worst, *(own.ratio for own in steps)])
    print(f"worst step {worst:.2f}")
    return int(worst > arguments.most)


if __name__ == "__main__":
    sys.exit(main())
