"""Chips with more tiles than a packet has destinations, whose masks of tiles fill a register: programs run, and are right."""

import re
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.device.chip import DEFAULT_PATH
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source

SOURCES = {
    "read alike": """HloModule read_alike
ENTRY main {
  x = f32[256,2048] parameter(0)
  w = f32[2048] parameter(1)
  b = f32[256,2048] broadcast(w), dimensions={1}
  ROOT y = f32[256,2048] multiply(x, b)
}
""",
    "product": """HloModule product
ENTRY main {
  x = f32[512,256] parameter(0)
  w = f32[256,512] parameter(1)
  ROOT y = f32[512,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (5, 7), (4, 8)])
def test_programs_run_on_it(tmp_path: Path, name: str, rows: int, columns: int):
    text = re.sub(r"(?m)^tiles: \d+", f"tiles: {rows * columns}", DEFAULT_PATH.read_text())
    chip = tmp_path / "chip.yaml"
    chip.write_text(re.sub(r"(?m)^mesh: \[.*?\]", f"mesh: [{rows}, {columns}]", text))
    executable = compile_source(SOURCES[name], Options(chip=chip, mode="strict", matmul_precision="highest"))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, port.shape).astype(np.float32) for port in executable.signature.inputs]
    wanted = inputs[0] * inputs[1] if name == "read alike" else inputs[0] @ inputs[1]
    (found,) = executable.execute(*inputs)
    np.testing.assert_array_equal(found, wanted)
