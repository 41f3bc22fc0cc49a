"""Programs for four chips: shardings, collectives, results where they belong."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

CHIPS = jax.devices("tx8")
LINE = Mesh(np.array(CHIPS), "x")
SQUARE = Mesh(np.array(CHIPS).reshape(2, 2), ("a", "b"))
RNG = np.random.default_rng(0)


def check_partitioned_products():
    x = RNG.standard_normal((8, 8)).astype(np.float32)
    placed = jax.device_put(x, NamedSharding(SQUARE, P("a", "b")))
    with jax.default_matmul_precision("highest"):
        total, turned, product = jax.jit(lambda x: (x.sum(0), x.T, x @ x))(placed)
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_allclose(product, x @ x, rtol=1e-5, atol=1e-5)
    assert turned.sharding.spec == P("b", "a")
    assert {shard.data.shape for shard in turned.addressable_shards} == {(4, 4)}


def check_results_where_they_are_wanted():
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    for spec in (P(), P("a"), P(None, "b"), P(("a", "b")), P(("b", "a"), None)):
        sharding = NamedSharding(SQUARE, spec)
        y = jax.jit(lambda x: x + 1, out_shardings=sharding)(jax.device_put(x, NamedSharding(SQUARE, P("b", "a"))))
        assert y.sharding.is_equivalent_to(sharding, 2)
        np.testing.assert_array_equal(y, x + 1)


def check_collectives():
    def work(x):
        number = jax.lax.axis_index("x").astype(jnp.float32)
        everything = jax.lax.all_gather(x, "x")
        return (
            jax.lax.psum(x, "x") + number,
            jax.lax.pmax(x, "x"),
            jax.lax.ppermute(x, "x", [(0, 1), (1, 2)]),
            jax.lax.all_to_all(everything, "x", 0, 0).sum(1),
            jax.lax.psum_scatter(everything, "x"),
        )

    x = np.arange(8, dtype=np.float32)
    rows = x.reshape(4, 2)
    sums, most, moved, turned, scattered = jax.jit(shard_map(work, mesh=LINE, in_specs=P("x"), out_specs=P("x")))(x)
    np.testing.assert_array_equal(np.reshape(sums, (4, 2)), rows.sum(0) + np.arange(4)[:, None])
    np.testing.assert_array_equal(np.reshape(most, (4, 2)), np.tile(rows.max(0), (4, 1)))
    np.testing.assert_array_equal(moved, [0, 0, 0, 1, 2, 3, 0, 0])
    np.testing.assert_array_equal(np.reshape(turned, (4, 4)), np.tile(rows.sum(1)[:, None], (1, 4)))
    np.testing.assert_array_equal(scattered, 4 * x)


def check_groups_of_chips():
    f = shard_map(lambda x: jax.lax.psum(x, "b"), mesh=SQUARE, in_specs=P("a", "b"), out_specs=P("a"))
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    np.testing.assert_allclose(jax.jit(f)(x), x[:, :3] + x[:, 3:], rtol=1e-6)


def check_each_chip_alone():
    f = jax.jit(lambda x: x * 2)
    for chip in CHIPS:
        y = f(jax.device_put(np.float32(3), chip))
        assert y.devices() == {chip} and float(y) == 6


def check_chain_of_calls_with_donation():
    step = jax.jit(lambda x: x - x.mean(), donate_argnums=0)
    x = RNG.standard_normal(64).astype(np.float32)
    y = jax.device_put(x, NamedSharding(LINE, P("x")))
    for _ in range(5):
        y = step(y)
        x = x - x.mean()
    np.testing.assert_allclose(y, x, atol=1e-6)


def check_callbacks_on_several_chips():
    seen = []

    def work(x):
        jax.debug.callback(lambda v: seen.append(float(v.sum())), x)
        return x + 1

    x = np.arange(8, dtype=np.float32)
    y = jax.jit(shard_map(work, mesh=LINE, in_specs=P("x"), out_specs=P("x")))(x)
    np.testing.assert_array_equal(y, x + 1)
    jax.effects_barrier()
    assert sorted(seen) == [1, 5, 9, 13]
    with pytest.raises(NotImplementedError, match="except inside of shard_map"):
        jax.jit(work)(jax.device_put(x, NamedSharding(LINE, P("x"))))


def check_programs_that_the_partitioner_gives_up_on():
    def work(x):
        return jax.lax.scan(lambda total, row: (total + row, row * 2), jnp.zeros(4), x)

    x = RNG.standard_normal((8, 4)).astype(np.float32)
    placed = jax.device_put(x, NamedSharding(SQUARE, P("a", "b")))
    total, rows = jax.jit(work, out_shardings=(None, NamedSharding(LINE, P(None, "x"))))(placed)
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-5)
    np.testing.assert_array_equal(rows, 2 * x)
    assert {shard.data.shape for shard in rows.addressable_shards} == {(8, 1)}


def check_sums_whose_parts_are_on_several_chips():
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Explicit,) * 2, devices=CHIPS)
    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), P("a", "b"))
        parts = jax.reshard(x, P("a", unreduced={"b"}))
        whole = jax.reshard(parts, P("a", None))
        np.testing.assert_array_equal(whole, x)
        assert sum(np.asarray(shard.data).sum() for shard in parts.addressable_shards) == np.asarray(x).sum()

        @jax.shard_map(out_specs=P(reduced={"b"}))
        def f(x):
            everything = jax.lax.all_gather(x, "b", axis=1, tiled=True, to="reduced")
            return jax.lax.psum(jnp.sum(everything), "a")

        np.testing.assert_array_equal(jax.jit(jax.grad(f))(x), np.ones((8, 4)))


def check_the_time_on_links():
    clock, startup, rate = 976_562_500, 977, 50_000_000_000  # four chips are two rows of two

    def cycles(hops: int, shares: float) -> float:
        return 200 + hops * startup + shares * 1024 / rate * clock

    ring = [(i, (i + 1) % 4) for i in range(4)]
    cases = (
        (lambda x: jax.lax.psum(x, "x"), cycles(2, 2)),  # each to all, as there is so little of it
        (lambda x: jax.lax.psum_scatter(x, "x"), cycles(2, 2 / 4)),
        (lambda x: jax.lax.all_gather(x, "x"), cycles(2, 2)),
        (lambda x: jax.lax.ppermute(x, "x", ring), cycles(2, 1)),
        (lambda x: jax.lax.ppermute(x, "x", [(0, 2), (1, 3)]), cycles(1, 1)),
    )
    for work, expected in cases:
        f = jax.jit(shard_map(work, mesh=LINE, in_specs=P(None, "x"), out_specs=P(None), check_vma=False))
        costs = f.lower(np.zeros((4, 256), np.float32)).compile().cost_analysis()
        np.testing.assert_allclose(costs["link_cycles"], expected, rtol=1e-9)
        assert costs["cycles"] >= costs["link_cycles"]


def check_linear_algebra_of_each_chips_own_part():
    a = RNG.standard_normal((4, 3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
    b = RNG.standard_normal((4, 3, 1)).astype(np.float32)
    solve = shard_map(lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.eigvalsh(a)), mesh=LINE, in_specs=P("x"), out_specs=P("x"))
    x, values = jax.jit(solve)(a, b)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-4, atol=1e-5)
    symmetric = (a + a.swapaxes(1, 2)) / 2
    np.testing.assert_allclose(values, np.linalg.eigvalsh(symmetric), rtol=1e-4, atol=1e-5)


def check_operations_that_need_what_neighbours_have():
    x = RNG.standard_normal((8, 8)).astype(np.float32)

    def work(x):
        lines = jax.lax.conv(x[None, None], np.ones((1, 1, 3, 1), np.float32), (1, 1), "SAME")[0, 0]
        most = jax.lax.reduce_window(x, -np.inf, jax.lax.max, (3, 1), (1, 1), "SAME")
        return x[::-1], most, lines

    placed = jax.device_put(x, NamedSharding(LINE, P("x")))
    with jax.default_matmul_precision("highest"):
        backwards, most, lines = jax.jit(work)(placed)
    around = np.pad(x, ((1, 1), (0, 0)), constant_values=-np.inf)
    np.testing.assert_array_equal(backwards, x[::-1])
    np.testing.assert_array_equal(most, np.maximum(np.maximum(around[:-2], around[1:-1]), around[2:]))
    around = np.pad(x, ((1, 1), (0, 0)))
    np.testing.assert_allclose(lines, around[:-2] + around[1:-1] + around[2:], rtol=1e-5, atol=1e-5)


def check_reductions_that_are_no_sums():
    x = RNG.standard_normal((8, 8)).astype(np.float32)
    work = jax.jit(lambda x: (x.max(0), x.min(0), x.prod(0), jnp.argmax(x, 0), (x < 1.5).all(0), x[jnp.array([5, 1])]))
    results = work(jax.device_put(x, NamedSharding(LINE, P("x"))))
    expected = (x.max(0), x.min(0), x.prod(0), x.argmax(0), (x < 1.5).all(0), x[[5, 1]])
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5)


def check_collectives_in_loops_and_branches():
    def work(x):
        def turn(i, x):
            x = jax.lax.cond(i == 1, lambda x: jax.lax.ppermute(x, "x", [(k, (k + 1) % 4) for k in range(4)]), lambda x: x, x)
            return x + jax.lax.psum(x, "x")

        return jax.lax.fori_loop(0, 3, turn, x)

    x = np.arange(4, dtype=np.float32)
    f = jax.jit(shard_map(work, mesh=LINE, in_specs=P("x"), out_specs=P("x")))
    expected = x
    for i in range(3):
        expected = np.roll(expected, 1) if i == 1 else expected
        expected = expected + expected.sum()
    np.testing.assert_array_equal(f(x), expected)
    once = jax.jit(shard_map(lambda x: jax.lax.psum(x, "x"), mesh=LINE, in_specs=P("x"), out_specs=P())).lower(x).compile()
    links = f.lower(x).compile().cost_analysis()["link_cycles"]
    assert links > 3 * once.cost_analysis()["link_cycles"]


def check_loops_that_chips_leave_at_different_times():
    def work(x):
        def turn(state):
            i, x = state
            return i + 1, x + jax.lax.psum(x, "b")

        turns = jax.lax.axis_index("a") + 1
        return jax.lax.while_loop(lambda state: state[0] < turns, turn, (turns * 0, x))[1]

    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    f = jax.jit(shard_map(work, mesh=SQUARE, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False))
    once = x + x.sum(1, keepdims=True)
    twice = once + once.sum(1, keepdims=True)
    np.testing.assert_array_equal(f(x), [once[0], twice[1]])
    together = jax.jit(
        shard_map(
            lambda x: jax.lax.while_loop(lambda x: x[0, 0] < 9, lambda x: x + jax.lax.psum(x, "b"), x),
            mesh=SQUARE, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False,
        )
    )  # fmt: skip
    with pytest.raises(jax.errors.JaxRuntimeError, match="disagree on the loop"):
        together(np.array([[0, 9], [0, 9]], np.float32)).block_until_ready()


def check_manual_computations_inside_of_others_and_of_loops():
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=CHIPS)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)

    def half(rows, axis, spec):
        work = shard_map(
            lambda r: r + jax.lax.pmax(r.max(), axis), in_specs=spec, out_specs=spec, axis_names={axis}, check_vma=False
        )
        return work(rows)

    def work(x):
        both = shard_map(
            lambda rows: half(rows * 2, "b", P(None, "b")), in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False
        )
        once = jax.lax.fori_loop(0, 2, lambda i, x: jax.lax.cond(i == 1, lambda x: half(x, "a", P("a")), jnp.negative, x), x)
        return both(x) + x.max(0), once

    with jax.set_mesh(mesh):
        nested, looped = jax.jit(work)(jax.device_put(x, NamedSharding(mesh, P("a", "b"))))
    most = np.repeat([[14.0], [30.0]], 2, axis=0)
    np.testing.assert_array_equal(nested, 2 * x + most + x.max(0))
    np.testing.assert_array_equal(looped, -x + 0)


def check_manual_computations_on_some_of_the_axes():
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=CHIPS)
    x = RNG.standard_normal((4, 4)).astype(np.float32)

    def work(rows):
        most = jax.lax.pmax(rows.max(), "a")
        return rows[:, ::-1] + rows.max(1, keepdims=True) + most

    f = shard_map(work, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False)
    found = jax.jit(f)(jax.device_put(x, NamedSharding(mesh, P("a", "b"))))
    np.testing.assert_allclose(found, x[:, ::-1] + x.max(1, keepdims=True) + x.max(), rtol=1e-6)

    def sums(x):
        both = NamedSharding(mesh, P(("a", "b")))
        f = shard_map(lambda x: x.sum()[None], mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}, check_vma=False)
        return jax.lax.with_sharding_constraint(jnp.repeat(f(jax.lax.with_sharding_constraint(x, both)), 2), both)

    np.testing.assert_array_equal(jax.jit(sums)(np.arange(8, dtype=np.float32)), [6, 6, 22, 22])


def check_reductions_of_rows_that_chips_have_whole():
    x = RNG.standard_normal((8, 8)).astype(np.float32)
    f = jax.jit(lambda x: jax.nn.softmax(x, -1))
    placed, cut = (jax.device_put(x, NamedSharding(LINE, spec)) for spec in (P("x"), P(None, "x")))
    assert "all-reduce" not in f.lower(placed).compile().as_text()
    assert f.lower(cut).compile().as_text().count("all-reduce(") == 2
    for argument in (placed, cut):
        np.testing.assert_allclose(f(argument), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)


def check_products_over_axes_in_another_order():
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    with jax.default_matmul_precision("highest"):
        product = jax.jit(lambda x: x @ x.T)(jax.device_put(x, NamedSharding(SQUARE, P(None, ("b", "a")))))
    np.testing.assert_allclose(product, x @ x.T, rtol=1e-5, atol=1e-5)


def check_linear_algebra_of_explicit_shardings():
    mesh = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Explicit,) * 2, devices=CHIPS)
    a = RNG.standard_normal((4, 3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
    with jax.set_mesh(mesh):
        x = jax.device_put(a, P(("a", "b")))
        solution = jnp.linalg.solve(x, x)
        values = jnp.linalg.svd(x)[1]
    assert jax.typeof(solution).sharding.spec == P(("a", "b"), None, None)
    np.testing.assert_allclose(solution, np.tile(np.eye(3), (4, 1, 1)), atol=1e-5)
    np.testing.assert_allclose(values, np.linalg.svd(a)[1], rtol=1e-4)


def check_products_of_an_array_cut_along_two_axes():
    x = RNG.standard_normal((8, 2)).astype(np.float32)
    wanted = NamedSharding(SQUARE, P("a", "b"))
    with jax.default_matmul_precision("highest"):
        product = jax.jit(lambda x: x @ x.T, out_shardings=wanted)(jax.device_put(x, wanted))
    for shard in product.addressable_shards:
        np.testing.assert_allclose(shard.data, (x @ x.T)[shard.index], rtol=1e-5, atol=1e-6)


def check_manual_computations_on_two_meshes():
    x = np.arange(8, dtype=np.float32)
    halves = shard_map(lambda x: x + jax.lax.psum(x.sum(), "a"), mesh=SQUARE, in_specs=P(("b", "a")), out_specs=P(("b", "a")))
    quarters = shard_map(lambda x: x[::-1], mesh=LINE, in_specs=P("x"), out_specs=P("x"))
    found = jax.jit(lambda x: quarters(halves(x)) + x)(x)
    sums = x + np.repeat([6, 22], 4)
    np.testing.assert_array_equal(found, sums.reshape(4, 2)[:, ::-1].ravel() + x)


def check_what_cuts_unevenly():
    def work(x):
        odd = jax.lax.with_sharding_constraint(x[:7], NamedSharding(LINE, P("x")))
        return odd, jnp.concatenate([odd, x])

    x = np.arange(8, dtype=np.float32)
    odd, both = jax.jit(work)(jax.device_put(x, NamedSharding(LINE, P("x"))))
    np.testing.assert_array_equal(odd, x[:7])
    np.testing.assert_array_equal(both, np.concatenate([x[:7], x]))


def check_sums_of_segments_whose_parts_stay_where_they_are():
    if "out_sharding" not in inspect.signature(jax.ops.segment_sum).parameters:  # jax 0.10.1
        return
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,), devices=CHIPS)
    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(8, dtype=np.float32), P("x"))
        segments = jax.device_put(np.array([0, 0, 1, 1, 2, 2, 0, 1]), P("x"))
        parts = jax.jit(lambda x, s: jax.ops.segment_sum(x, s, 3, out_sharding=P(unreduced={"x"})))(x, segments)
        found = [np.asarray(shard.data).tolist() for shard in parts.addressable_shards]
        assert found == [[1, 0, 0], [0, 5, 0], [0, 0, 9], [6, 7, 0]]
        np.testing.assert_array_equal(jax.reshard(parts, P()), [7, 12, 9])


def check_donated_arrays_that_no_result_can_take_over_are_kept():
    x = jax.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), NamedSharding(LINE, P("x")))
    jax.jit(lambda x: x @ x.T, donate_argnums=0)(x)
    assert not x.is_deleted()
    jax.jit(lambda x: x * 2, donate_argnums=0)(x)
    assert x.is_deleted()
