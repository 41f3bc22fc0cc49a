"""Weights of a kernel are loaded while the one before ends, if no kernel writes them; strict mode finds no race in that."""

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.program import SlotKind
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable

CHAIN = """
HloModule chain
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}}
ENTRY %main (x: f32[{rows},128], w: f32[128,{columns}]) -> f32[{rows},{columns}] {{
  %x = f32[{rows},128] parameter(0)
  %w = f32[128,{columns}] parameter(1)
  %zero = f32[] constant(0)
  %s = f32[{rows}] reduce(%x, %zero), dimensions={{1}}, to_apply=%sum
  %wide = f32[{rows},128] broadcast(%s), dimensions={{0}}
  %y = f32[{rows},128] divide(%x, %wide)
  {made}
  ROOT %d = f32[{rows},{columns}] dot(%y, %{weights}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
MADE = "%t = f32[128,256] cosine(%w)\n  %v = f32[128,256] sine(%t)"


def loads_of_weights(executable: Executable) -> list[int]:
    """The launch in which each load of the second input stands."""
    program = executable.program
    slot = next(i for i, s in enumerate(program.slots) if s.kind is SlotKind.INPUT and s.index == 1)
    starts = [launch.first for launch in program.launches]
    records = decode_records(program.code, program.origins)
    return [sum(first <= i for first in starts) - 1 for i, r in enumerate(records) if r.kind is Rdma and r.fields["slot"] == slot]


@pytest.mark.parametrize(("rows", "columns"), [(256, 256), (300, 256), (256, 130)])
def test_weights_come_before_their_kernel(rows: int, columns: int):
    text = CHAIN.format(rows=rows, columns=columns, weights="w", made="")
    executable = hlo2tx8.compile(text, Options(mode="strict"))
    assert len(executable.program.launches) == 2 and 0 in loads_of_weights(executable)
    rng = np.random.default_rng(rows)
    x, w = rng.uniform(1, 2, (rows, 128)).astype(np.float32), rng.normal(size=(128, columns)).astype(np.float32)
    (found,) = executable.execute(x, w)
    np.testing.assert_allclose(found, x / x.sum(1, keepdims=True) @ w, rtol=0.01, atol=0.01)


def test_weights_that_are_made_wait_for_that():
    text = CHAIN.format(rows=256, columns=256, weights="v", made=MADE)
    executable = hlo2tx8.compile(text, Options(mode="strict"))
    rng = np.random.default_rng(0)
    x, w = rng.uniform(1, 2, (256, 128)).astype(np.float32), rng.normal(size=(128, 256)).astype(np.float32)
    (found,) = executable.execute(x, w)
    np.testing.assert_allclose(found, x / x.sum(1, keepdims=True) @ np.sin(np.cos(w)), rtol=0.01, atol=0.01)
