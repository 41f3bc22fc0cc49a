"""Plans follow the chip: more of a resource never makes a program slower, and where a resource decides, its plans change."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import yaml

import hlo2tx8
from hlo2tx8 import Options
from hlo2tx8.device.chip import DEFAULT_PATH

TOLERANCE = 1.02
"""Of estimates: among plans that are about as good another one may be taken."""
BF16 = jnp.bfloat16


def gemm(size: int) -> tuple[Callable[..., jax.Array], tuple[tuple[tuple[int, ...], Any], ...]]:
    return lambda a, b: a @ b, (((size, size), BF16), ((size, size), BF16))


def convolution(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


SAMPLES: dict[str, tuple[Callable[..., jax.Array], tuple[tuple[tuple[int, ...], Any], ...]]] = {
    "gelu": (jax.nn.gelu, (((6, 512, 1024), BF16),)),
    "softmax": (lambda x: jax.nn.softmax(x, -1), (((4096, 1024), jnp.float32),)),
    "column sum": (lambda x: x.sum(0), (((4096, 1024), jnp.float32),)),
    "transpose": (lambda x: x.T, (((2048, 2048), BF16),)),
    "gemm 1024": gemm(1024),
    "gemm 2048": gemm(2048),
    "gemm and gelu": (lambda a, b: jax.nn.gelu(a @ b), (((2048, 512), BF16), ((512, 2048), BF16))),
    "convolution": (convolution, (((8, 14, 14, 256), BF16), ((3, 3, 256, 256), BF16))),
    "small tanh": (lambda x, w: jnp.tanh(jnp.tanh(x)) @ w, (((8, 128), jnp.float32), ((128, 128), jnp.float32))),
}
SIDES = {0.25: 2, 1: 4, 4: 8}
"""Of the mesh, with so many times the tiles."""


def chip(resource: str, factor: float) -> dict[str, Any]:
    """The built-in chip's description with so much more of a resource."""
    found = yaml.safe_load(DEFAULT_PATH.read_text())
    cycles, reserved = found["cycles"], found["spm_bytes"] - found["spm_limit"]
    match resource:
        case "DDR":
            found["ddr_bytes_per_second"] = int(found["ddr_bytes_per_second"] * factor)
        case "CT":
            cycles["ct_bytes_per_cycle"] = int(cycles["ct_bytes_per_cycle"] * factor)
        case "NE":
            cycles["ne_arrays"] = int(cycles["ne_arrays"] * factor)
        case "SPM":
            found["spm_bytes"] = int(found["spm_bytes"] * factor)
            found["spm_limit"] = found["spm_bytes"] - reserved
        case _:
            found["mesh"], found["tiles"] = [SIDES[factor]] * 2, SIDES[factor] ** 2
    return found


@cache
def text(sample: str) -> str:
    function, shapes = SAMPLES[sample]
    return jax.jit(function).lower(*(jax.ShapeDtypeStruct(*shape) for shape in shapes)).as_text()


KNOWN: dict[tuple[str, str], tuple[float, bytes]] = {}
"""What was compiled by sample and text of the chip: with as much of each resource the chip is the same for all of them."""


def compiled(sample: str, resource: str, factor: float, folder: Path) -> tuple[float, bytes]:
    """Modelled cycles and the code."""
    description = yaml.safe_dump(chip(resource, factor))
    if (sample, description) not in KNOWN:
        path = folder / f"{resource}_{factor}.yaml"
        path.write_text(description)
        executable = hlo2tx8.compile(text(sample), Options(chip=path))
        KNOWN[sample, description] = executable.report.cycles, executable.program.code.tobytes()
    return KNOWN[sample, description]


@pytest.mark.parametrize("resource", ["DDR", "CT", "NE", "SPM", "tiles"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_more_is_never_slower(sample: str, resource: str, tmp_path: Path):
    least, same, most = (compiled(sample, resource, factor, tmp_path)[0] for factor in (0.25, 1, 4))
    assert same <= TOLERANCE * least
    assert most <= TOLERANCE * same


@pytest.mark.parametrize(
    ("sample", "resource"),
    [
        ("gemm 1024", "DDR"),
        ("small tanh", "CT"),
        ("gemm 1024", "NE"),
        ("gemm 2048", "SPM"),
        ("convolution", "SPM"),
        ("gelu", "tiles"),
    ],
)
def test_plans_change_where_a_resource_decides(sample: str, resource: str, tmp_path: Path):
    assert len({compiled(sample, resource, factor, tmp_path)[1] for factor in (0.25, 1, 4)}) > 1
