"""The hand-written kernels of the benchmarks: the model equals the full simulation, and takes little time at any size."""

import time
from collections.abc import Callable

import pytest
from simulate import simulate

from benchmarks.kernels.matrix import gemm
from benchmarks.kernels.rows import batch_norm, column_sum, layer_norm, row_sum, softmax
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model

CHIP = load_chip()
Sized = Callable[[int], Program]
KERNELS: dict[str, tuple[Sized, int, int]] = {
    "row sum": (lambda n: row_sum(Format.FP32, n, 512), 16 * 48, 1 << 20),
    "column sum": (lambda n: column_sum(Format.FP32, n, 512), 16 * 24, 1 << 20),
    "softmax": (lambda n: softmax(Format.FP32, n, 512), 16 * 48, 1 << 20),
    "layer norm": (lambda n: layer_norm(Format.BF16, n, 512), 16 * 48, 1 << 20),
    "batch norm": (lambda n: batch_norm(Format.FP16, n, 256), 16 * 96, 32 * 56 * 56),
    "gemm": (lambda n: gemm(Format.BF16, Format.BF16, n, n, n), 1024, 4096),
}
MOST_SECONDS = 0.05


@pytest.mark.parametrize("name", KERNELS)
def test_small_kernels_take_what_every_event_takes(name: str) -> None:
    kernel, small, _ = KERNELS[name]
    program = kernel(small)
    assert model(program, CHIP).cycles == pytest.approx(simulate(program, CHIP).cycles, rel=0.001)


@pytest.mark.parametrize("name", KERNELS)
def test_timing_a_large_kernel_takes_milliseconds(name: str) -> None:
    kernel, small, large = KERNELS[name]
    seconds = min(_seconds(kernel(large)) for _ in range(3))
    assert seconds < MOST_SECONDS
    assert seconds < 3 * min(_seconds(kernel(small)) for _ in range(3)) + 0.01


def _seconds(program: Program) -> float:
    """Of the processor, which others do not count in."""
    started = time.process_time()
    model(program, CHIP)
    return time.process_time() - started
