"""Each pass in its place in the pipeline does what it is for: what it brings in, what is gone after it."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.compiler.driver import load_source, lower_module, lower_stages
from hlo2tx8.device.chip import DEFAULT_PATH
from hlo2tx8.dialects.launch import kernels
from hlo2tx8.errors import CapacityError
from hlo2tx8.options import Level, Options

TEXT = """
module @m {
  func.func private @square(%a: tensor<300x4096xf32>) -> tensor<300x4096xf32> {
    %0 = chlo.square %a : tensor<300x4096xf32> -> tensor<300x4096xf32>
    return %0 : tensor<300x4096xf32>
  }
  func.func @main(%a: tensor<300x4096xf32>, %b: tensor<300x4096xf32>) -> (tensor<300x4096xf32>, tensor<300x4096xf32>) {
    %0 = func.call @square(%a) : (tensor<300x4096xf32>) -> tensor<300x4096xf32>
    %1 = stablehlo.tanh %0 : tensor<300x4096xf32>
    %2 = stablehlo.reverse %1, dims = [0] : tensor<300x4096xf32>
    %3 = stablehlo.add %1, %2 : tensor<300x4096xf32>
    %4 = chlo.square %b : tensor<300x4096xf32> -> tensor<300x4096xf32>
    %c = stablehlo.optimization_barrier %4 : tensor<300x4096xf32>
    %5 = stablehlo.tanh %c : tensor<300x4096xf32>
    %6 = stablehlo.reverse %5, dims = [0] : tensor<300x4096xf32>
    %7 = stablehlo.add %5, %6 : tensor<300x4096xf32>
    return %3, %7 : tensor<300x4096xf32>, tensor<300x4096xf32>
  }
}
"""


@cache
def texts_around() -> dict[str, tuple[str, str]]:
    """Pass name → the module's text before and after it."""
    module = load_source(TEXT)
    before, texts = str(module), {}
    for stage, lowered in lower_stages(module, Options(verify=True)):
        texts[stage.step.name] = before, (before := str(lowered))
    return texts


@pytest.mark.parametrize(
    ("name", "present", "gone"),
    [
        ("expand-chlo", "stablehlo.tanh", "chlo."),
        ("simplify-control", "stablehlo.tanh", "optimization_barrier"),
        ("plan-fusions", "hlo.fusion", "func.call"),
        ("emit-fusions", "launch.kernel", "hlo.fusion"),
        ("lower-xla-to-scf", "scf.for", "xla.loop"),
        ("flatten-tensors", "tensor<1228800xf32>", "tensor.extract %p0[%dim0, "),
        ("vectorize", "vec.box", "tensor.extract"),
        ("select-instructions", "tx8.CGRATensor", "vec.box"),
        ("pipeline-dma", "spm.turn", "vec.box"),
        ("insert-waits", "tx8.KC_wait", "vec.box"),
        ("allocate-spm", "tx8.RDMA_load", "spm.alloc"),
    ],
)
def test_pass_brings_in_and_removes(name: str, present: str, gone: str):
    """Only passes with something to do in TEXT have a row: a row that holds before its pass could not fail."""
    before, after = texts_around()[name]
    assert present in after
    assert gone not in after
    assert present not in before or gone in before


def test_equal_fusions_are_compiled_once():
    module = load_source(TEXT)
    lower_module(module, Options(until=Level.LOOPS))
    assert len(kernels(module)) == 2
    assert str(module).count("launch.kernel") == 4


def test_unequal_fusions_are_not():
    module = load_source(TEXT.replace("%6 = stablehlo.reverse %5, dims = [0]", "%6 = stablehlo.reverse %5, dims = [1]"))
    lower_module(module, Options(until=Level.LOOPS))
    assert len(kernels(module)) == 3


@pytest.mark.parametrize("level", Level, ids=lambda level: level.name)
def test_every_level_prints(level: Level):
    module = load_source(TEXT)
    lowered = lower_module(module, Options(until=level))
    assert lowered.level == level
    assert str(lowered.module).startswith("builtin.module @m")


WIDE = "tensor<64x1000xf64>"


def wide(num_live: int) -> str:
    """A function of one input with that many vectors alive at once."""
    lines = [f"%s{i + 1} = stablehlo.negate %s{i} : {WIDE}" for i in range(num_live)]
    lines += [f"%r{i + 1} = stablehlo.add %{'r' if i else 's'}{i if i else num_live}, %s{i} : {WIDE}" for i in range(num_live)]
    body = "\n".join(lines)
    return f"func.func @main(%s0: {WIDE}) -> {WIDE} {{\n{body}\nreturn %r{num_live} : {WIDE}\n}}"


def test_steps_shrink_until_the_buffers_fit(tmp_path: Path):
    chip = tmp_path / "chip.yaml"
    chip.write_text(DEFAULT_PATH.read_text().replace("spm_limit: 3080192", "spm_limit: 98304"))
    options = Options(chip=chip, explain=True)
    executable = hlo2tx8.compile(wide(40), options)
    x = np.random.default_rng(0).normal(size=(64, 1000))
    expected = x * (sum((-1) ** i for i in range(40)) + 1)
    assert np.allclose(np.asarray(executable.run(x)), expected)
    too_large = hlo2tx8.compile(wide(40), Options(chip=chip, explain=True, step_elements=4096))
    assert np.array_equal(np.asarray(too_large.run(x)), np.asarray(executable.run(x)))
    plans = [line for line in too_large.explanation if "in steps of" in line]
    assert "steps of 4096 elements" in plans[0] and "is rejected: its buffers take" in plans[0]
    assert plans[-2].endswith("is taken") and plans[-1].startswith("warning: add_fusion: loop in steps of 64 elements")


def test_what_never_fits_is_one_clear_error(tmp_path: Path):
    chip = tmp_path / "chip.yaml"
    chip.write_text(DEFAULT_PATH.read_text().replace("spm_limit: 3080192", "spm_limit: 67584"))
    with pytest.raises(CapacityError, match=r"E3101: the buffers of kernel \w+ take [\d,]+ bytes, the scratchpad has 2,048"):
        hlo2tx8.compile(wide(40), Options(chip=chip))
