"""Arrays that shardings do not divide evenly: every chip has a part, and padding is never seen."""

import numpy as np
import pytest

from hlo2tx8.options import Options
from hlo2tx8.spmd.chips import compile_chips_module
from hlo2tx8.spmd.chips_module import module_for_chips
from hlo2tx8.spmd.reference import expected_of
from hlo2tx8.tools.compare import compare

ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
MAX = ADD.replace("add", "max").replace("max(a", "maximum(a")
ROWS = "sharding={devices=[4,1]<=[4]}"
BODIES = {
    "elementwise": f"  l = f32[10,6] log(x)\n  ROOT r = f32[10,6] multiply(l, x), {ROWS}",
    "columns": "  n = f32[10,6] sine(x)\n  ROOT r = f32[6,10] transpose(n), dimensions={1,0}, sharding={devices=[1,4]<=[4]}",
    "sum of what padding makes infinite": "  z = f32[] constant(0)\n  l = f32[10,6] log(x)\n"
    "  ROOT r = f32[6] reduce(l, z), dimensions={0}, to_apply=add, sharding={replicated}",
    "largest": "  z = f32[] constant(-inf)\n  n = f32[10,6] negate(x)\n"
    "  ROOT r = f32[6] reduce(n, z), dimensions={0}, to_apply=max, sharding={replicated}",
    "product over rows": "  l = f32[10,6] log(x)\n"
    "  ROOT r = f32[6,6] dot(l, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}",
    "reversed rows": f"  ROOT r = f32[10,6] reverse(x), dimensions={{0}}, {ROWS}",
    "whole result": "  ROOT r = f32[10,6] tanh(x), sharding={replicated}",
}


@pytest.mark.parametrize("name", BODIES)
def test_results_are_those_of_one_chip(name: str) -> None:
    functions = ADD + MAX
    text = f"HloModule m, num_partitions=4\n{functions}ENTRY e {{\n  x = f32[10,6] parameter(0), {ROWS}\n{BODIES[name]}\n}}\n"
    module = module_for_chips(text, Options())
    assert module is not None
    assert module.local.inputs[0].shape == (3, 6)
    x = np.random.default_rng(3).uniform(0.5, 2, (10, 6)).astype(np.float32)
    results = compile_chips_module(module, Options()).execute_all([[x]])
    expected = expected_of(module, [[x]], None)
    assert not compare(results[0], expected.results[0], expected.limits[0])
    assert np.isfinite(results[0][0]).all()
    parts = module.parts_of([[x]])
    np.testing.assert_array_equal(parts[3][0], [x[9], np.zeros(6), np.zeros(6)])


def test_fewer_rows_than_chips() -> None:
    body = f"  x = f32[3,2] parameter(0), {ROWS}\n  ROOT r = f32[3,2] negate(x), {ROWS}\n"
    text = f"HloModule m, num_partitions=4\nENTRY e {{\n{body}}}\n"
    module = module_for_chips(text, Options())
    assert module is not None
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    executable = compile_chips_module(module, Options())
    np.testing.assert_array_equal(executable.execute(x)[0], -x)
    assert not executable.cost_analysis().get("bytes_sent")
