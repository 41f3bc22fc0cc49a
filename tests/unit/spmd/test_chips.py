"""Modules for several chips, and with infeed and outfeed, outside of jax: what each chip gives, and the reference for it."""

from typing import Any

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import CompileError, InputError
from hlo2tx8.frontend.sources import parse
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.spmd.chips import ChipsExecutable, compile_chips_module
from hlo2tx8.spmd.chips_module import module_for_chips
from hlo2tx8.spmd.feeds import infeed_of
from hlo2tx8.spmd.import_shardings import import_shardings
from hlo2tx8.spmd.reference import expected_of
from hlo2tx8.tools.compare import compare

Array = np.ndarray[Any, Any]
ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\n"
RNG = np.random.default_rng(0)


def text(body: str, header: str = "") -> str:
    return f"HloModule m{header}\n{ADD}ENTRY e {{\n  x = f32[4,6] parameter(0)\n{body}\n}}\n"


def run(source: str, num_chips: int) -> tuple[Array, list[Array]]:
    """The inputs of all chips, and the first result of each, which is checked against the reference."""
    module = module_for_chips(source, Options())
    assert module is not None
    assert module.num_chips == num_chips
    x = RNG.standard_normal((num_chips, 4, 6)).astype(np.float32)
    inputs = [[own] for own in x]
    results = compile_chips_module(module, Options()).execute_all(inputs)
    expected = expected_of(module, inputs, None)
    for actual, wanted, limits in zip(results, expected.results, expected.limits, strict=True):
        assert not compare(actual, wanted, limits)
        assert all(np.isfinite(limit).all() for limit in limits)
    return x, [own[0] for own in results]


def test_the_header_says_how_many_chips_there_are() -> None:
    x, results = run(text("  ROOT r = f32[4,6] all-reduce(x), replica_groups={}, to_apply=add", ", replica_count=3"), 3)
    for found in results:
        np.testing.assert_allclose(found, x.sum(0), rtol=1e-6, atol=1e-6)


def test_else_collective_ops_name_them_also_in_fusions() -> None:
    source = """HloModule m
f {
  p = f32[4,6] parameter(0)
  n = f32[4,6] negate(p)
  ROOT r = f32[8,6] all-gather(n), replica_groups={{1,0}}, dimensions={0}
}
ENTRY e {
  x = f32[4,6] parameter(0)
  ROOT r = f32[8,6] fusion(x), kind=kCustom, calls=f
}"""
    x, results = run(source, 2)
    for found in results:
        np.testing.assert_array_equal(found, -np.concatenate([x[1], x[0]]))


def test_partitions_and_replicas() -> None:
    body = "  p = u32[] partition-id()\n  f = f32[] convert(p)\n  fs = f32[4,6] broadcast(f), dimensions={}\n"
    body += "  t = f32[4,6] tanh(x)\n  m = f32[4,6] multiply(t, fs)\n"
    body += "  ROOT r = f32[2,6] reduce-scatter(m), replica_groups={{0,1},{2,3}}, channel_id=1, use_global_device_ids=true, "
    x, results = run(text(body + "dimensions={0}, to_apply=add", ", replica_count=2, num_partitions=2"), 4)
    np.testing.assert_allclose(results[2], np.tanh(x[3])[:2], rtol=1e-6)
    np.testing.assert_allclose(results[1], np.tanh(x[1])[2:], rtol=1e-6)


def test_asynchronous_ops_are_done_where_they_start() -> None:
    body = "  s = (f32[4,6], f32[4,6]) collective-permute-start(x), source_target_pairs={{0,1}}\n"
    x, results = run(text(body + "  ROOT r = f32[4,6] collective-permute-done(s)"), 2)
    np.testing.assert_array_equal(results[1], x[0])
    np.testing.assert_array_equal(results[0], 0)


def test_an_all_to_all_of_several_operands() -> None:
    body = "  n = f32[4,6] negate(x)\n  t = (f32[4,6], f32[4,6]) all-to-all(x, n), replica_groups={{0,1}}\n"
    x, results = run(text(body + "  ROOT r = f32[4,6] get-tuple-element(t), index=0"), 2)
    np.testing.assert_array_equal(results[0], x[0])
    np.testing.assert_array_equal(results[1], -x[0])


def test_where_rounding_decides_a_loop_nothing_is_known() -> None:
    source = f"""HloModule m, replica_count=2
{ADD}
body {{
  p = f32[] parameter(0)
  h = f32[] constant(0.4)
  r = f32[] all-reduce(p), replica_groups={{}}, to_apply=add
  ROOT m = f32[] multiply(r, h)
}}
cond {{
  p = f32[] parameter(0)
  l = f32[] constant(0.673176788)
  ROOT c = pred[] compare(p, l), direction=GT
}}
ENTRY e {{
  x = f32[] parameter(0)
  s = f32[] sine(x)
  ROOT w = f32[] while(s), condition=cond, body=body
}}"""
    module = module_for_chips(source, Options())
    assert module is not None
    one = [[np.float32(1)], [np.float32(1)]]
    expected = expected_of(module, one, None)
    assert np.isinf(expected.limits[0][0])
    assert expected.results[0][0] < 0.7


SHARDED = """HloModule m, num_partitions=4
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,2]<=[4]}
  w = f32[6,8] parameter(1), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  c = f32[4,8] custom-call(y), custom_call_target="Sharding", sharding={devices=[4,1]0,2,1,3}
  ROOT t = f32[4,8] tanh(c), sharding={replicated}
}"""


def test_a_sharded_module_takes_and_gives_whole_arrays() -> None:
    executable = hlo2tx8.compile(SHARDED)
    assert isinstance(executable, ChipsExecutable)
    assert executable.module.counts == (1, 4)
    assert executable.cost_analysis()["link_cycles"]
    x, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((4, 6), (6, 8)))
    np.testing.assert_allclose(executable(x, w), np.tanh(x @ w), atol=1e-6)
    expected = expected_of(executable.module, [[x, w]], None)
    assert not compare(executable.execute(x, w), expected.results[0], expected.limits[0])
    assert isinstance(hlo2tx8.compile(SHARDED, partitions=1), Executable)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{devices=[4,1]<=[2,2]T(1,0)}", '[{"a1", "a0"}, {}]'),
        ("{devices=[1,2,2]<=[4] last_tile_dim_replicate}", '[{}, {"a0"}]'),
        ("{devices=[2,2]0,1,3,2}", "is on no mesh"),
        ("{devices=[2,1]<=[2]}", "does not fit 4 devices"),
        ("{maximal device=1}", "is not supported"),
    ],
)
def test_shardings_of_hlo_are_those_of_a_mesh(given: str, said: str) -> None:
    parsed = parse(f"HloModule m\nENTRY e {{\n  ROOT x = f32[4,4] parameter(0), sharding={given}\n}}").module
    if said.startswith("["):
        import_shardings(parsed, (2, 2))
        assert f"sdy.sharding<@hlo, {said}>" in str(parsed)
        return
    with pytest.raises(CompileError, match=said):
        import_shardings(parsed, (2, 2))


def test_arrays_of_chips_are_stacked_in_python() -> None:
    executable = hlo2tx8.compile(text("  ROOT r = f32[4,6] negate(x)"), replicas=2)
    assert isinstance(executable, ChipsExecutable)
    x = RNG.standard_normal((2, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(executable(x), -x)
    with pytest.raises(InputError, match="leading dimension of 2"):
        executable(x[0])


FED = """HloModule m
body {
  p = (s32[], f32[3], token[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[3] get-tuple-element(p), index=1
  t = token[] get-tuple-element(p), index=2
  f = ((f32[3], s32[]), token[]) infeed(t)
  d = (f32[3], s32[]) get-tuple-element(f), index=0
  x = f32[3] get-tuple-element(d), index=0
  n = s32[] get-tuple-element(d), index=1
  t1 = token[] get-tuple-element(f), index=1
  y = f32[3] add(a, x)
  t2 = token[] outfeed(y, t1)
  j = s32[] add(i, n)
  ROOT r = (s32[], f32[3], token[]) tuple(j, y, t2)
}
cond {
  p = (s32[], f32[3], token[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  t = token[] after-all()
  z = s32[] constant(0)
  x = f32[3] parameter(0)
  s = (s32[], f32[3], token[]) tuple(z, x, t)
  w = (s32[], f32[3], token[]) while(s), condition=cond, body=body
  ROOT r = f32[3] get-tuple-element(w), index=1
}"""


def test_feeds_in_a_loop_whose_turns_depend_on_what_is_fed() -> None:
    executable = hlo2tx8.compile(FED)
    assert isinstance(executable, ChipsExecutable)
    x, fed = np.ones(3, np.float32), RNG.standard_normal((3, 3)).astype(np.float32)
    infeed = infeed_of([[row, np.int32(n)] for row, n in zip(fed, (1, 2, 1), strict=True)])
    (result,) = executable.execute(x, infeed=infeed)
    sums = x + np.cumsum(fed, 0)
    np.testing.assert_allclose(result, sums[-1], rtol=1e-6)
    np.testing.assert_allclose([arrays[0] for arrays in executable.outfeed[0]], sums, rtol=1e-5)
    expected = expected_of(executable.module, [[x]], infeed)
    assert [len(chip) for chip in expected.outfed] == [3]
    with pytest.raises(InputError, match="infeed 3 of chip 0 finds nothing"):
        executable.execute(x, infeed=infeed_of([[row, np.int32(1)] for row in fed]))
    with pytest.raises(InputError, match=r"infeed 0 takes f32\[3\], s32\[\], got f32\[3\]"):
        executable.execute(x, infeed=infeed_of([[fed[0]]]))
