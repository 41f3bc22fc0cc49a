"""Functions as jax lowers them, at the levels of the compiler and in the modes of the emulator, against XLA:CPU."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.emulator import Mode
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS, each_run
from hlo2tx8.tools.xla_cpu import CpuServer

ALL_MODES: tuple[Mode, ...] = ("fast", "strict", "definition")
FAST: tuple[Mode, ...] = ("fast",)
LEVELS = (Level.FUSED, Level.LOOPS, Level.FLAT, Level.VECTOR, Level.SCHEDULED)

CPU = CpuServer()
"""Runs modules on XLA:CPU, all in one process."""

Compare = Callable[[np.ndarray, np.ndarray], None]


def same_bits(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit for bit."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    assert actual.tobytes() == np.asarray(expected, order="C").tobytes(), f"{actual}\n{expected}"


def check(
    function: Callable[..., Any],
    *arrays: Any,
    levels: Sequence[Level] = LEVELS,
    modes: Sequence[Mode] = ALL_MODES,
    compare: Compare = same_bits,
) -> None:
    """All levels and modes give what XLA:CPU gives."""
    cpu = jax.devices("cpu")[0]
    with jax.enable_x64(True), jax.default_device(cpu):
        jitted = jax.jit(function, keep_unused=True)
        text = jitted.lower(*arrays).as_text()
        expected = [np.asarray(e) for e in jax.tree.leaves(jitted(*arrays))]
    check_text(text, [np.asarray(a) for a in jax.tree.leaves(arrays)], expected, levels, modes, compare)


def check_text(
    text: str,
    inputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    levels: Sequence[Level] = LEVELS,
    modes: Sequence[Mode] = ALL_MODES,
    compare: Compare = same_bits,
) -> None:
    """All levels and modes of a StableHLO module give the expected results."""
    runs = [run for run in RUNS if (run.mode in modes if run.level is Level.PROGRAM else run.level in levels)]
    for results in each_run(lambda: load_source(text), Options(), inputs, runs):
        for actual, reference in zip(results, expected, strict=True):
            compare(actual, reference)
