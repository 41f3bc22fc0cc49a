"""Functions as netlists: they keep every rule, read back equal, and compute what the function does, by numpy and on the chip."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from hlo2tx8.errors import UnsupportedError
from hlo2tx8.netlist.checks import problems_of
from hlo2tx8.netlist.emit.emit import Emitted, emit
from hlo2tx8.netlist.emit.sparse import attributes_for, encoding, listing_of
from hlo2tx8.netlist.epochs import executed_epochs
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.golden import rules_of, run_golden, run_netlist
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.products import listed, sparse
from hlo2tx8.netlist.reader import read_netlist
from hlo2tx8.netlist.shapes import Shape
from hlo2tx8.netlist.tx8 import Tx8
from hlo2tx8.netlist.writer import write_netlist
from hlo2tx8.options import Options

Function = Callable[..., Any]


def array(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def emitted(function: Function, shapes: Sequence[tuple[int, ...]], dtype: Any = np.float32, **given: Any) -> Emitted:
    """The netlist, which keeps the rules of its architecture and reads back equal."""
    made = emit(function, [array(*shape, dtype=dtype) for shape in shapes], **given)
    assert not problems_of(made.netlist, given.get("arch", "wormhole_b0"))
    text = write_netlist(made.netlist)
    assert read_netlist(text, "x") == made.netlist
    assert write_netlist(read_netlist(text, "x")) == text
    return made


def largest_error(function: Function, made: Emitted, run: Callable[[dict[str, Array]], dict[str, Array]]) -> float:
    """Of all results for all inputs, relative to 1 and the result."""
    entries = next(iter(made.netlist.queues.values())).entries
    ports = list(made.inputs.items())
    runs = [[array(*port.shape, seed=n).astype(jnp.dtype(port.dtype)) for _, port in ports] for n in range(entries)]
    inputs = made.host_inputs({name: [one[at] for one in runs] for at, (name, _) in enumerate(ports)})
    results = made.results(run(inputs))
    worst = 0.0
    for number, arguments in enumerate(runs):
        wanted = jax.tree.leaves(jax.jit(function)(*arguments))
        assert len(wanted) == len(made.outputs)
        for name, one in zip(made.outputs, wanted, strict=True):
            found, right = (np.asarray(a, np.float64) for a in (results[name][number], one))
            assert found.shape == right.shape
            worst = max(worst, float(np.max(np.abs(found - right) / (1 + np.abs(right)), initial=0)))
    return worst


def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return jax.nn.relu(x @ (w1 / 8) + b1) @ (w2 / 8) + b2


def layer_norm(x: Any, scale: Any, offset: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + offset


def bert(x: Any, wq: Any, wk: Any, wv: Any, wo: Any, w1: Any, w2: Any, scale: Any, offset: Any) -> Any:
    batch, rows, width = x.shape
    q, k, v = ((x @ (w / 8)).reshape(batch, rows, 2, width // 2).transpose(0, 2, 1, 3) for w in (wq, wk, wv))
    shares = jax.nn.softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(width / 2), axis=-1)
    x = layer_norm(x + (shares @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ (wo / 8), scale, offset)
    return layer_norm(x + jax.nn.gelu(x @ (w1 / 8)) @ (w2 / 8), scale, offset)


def convolved(x: Any, kernel: Any, stride: int = 1, groups: int = 1, padding: str = "SAME") -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    strides = (stride, stride)
    return lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=numbers, feature_group_count=groups)


def resnet_block(x: Any, k1: Any, k2: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
    def norm(y: Any) -> Any:
        return (y - mean) * lax.rsqrt(variance**2 + 1e-3) * scale + offset

    return jax.nn.relu(norm(convolved(jax.nn.relu(norm(convolved(x, k1 / 4))), k2 / 4)) + x)


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


MODELS: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "mlp": (mlp, [(33, 40), (40, 100), (100,), (100, 20), (20,)]),
    "bert": (bert, [(2, 32, 64), (64, 64), (64, 64), (64, 64), (64, 64), (64, 128), (128, 64), (64,), (64,)]),
    "bert of odd sizes": (bert, [(2, 5, 24), (24, 24), (24, 24), (24, 24), (24, 24), (24, 40), (40, 24), (24,), (24,)]),
    "resnet block": (resnet_block, [(2, 6, 5, 8), (3, 3, 8, 8), (3, 3, 8, 8), (8,), (8,), (8,), (8,)]),
    "gelu": (jax.nn.gelu, [(5, 33)]),
    "softmax": (jax.nn.softmax, [(3, 5, 33)]),
    "layer norm": (layer_norm, [(100, 33), (33,), (33,)]),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_compute_what_the_function_does(name: str):
    function, shapes = MODELS[name]
    made = emitted(function, shapes, arch="blackhole")
    assert largest_error(function, made, lambda inputs: run_golden(made.netlist, "blackhole", inputs, {})) < 1e-4


@pytest.mark.parametrize("grid", [(4, 4), (8, 8)])
@pytest.mark.parametrize("name", MODELS)
def test_models_on_two_grids_in_bf16(name: str, grid: tuple[int, int]):
    function, shapes = MODELS[name]
    made = emitted(function, shapes, jnp.bfloat16, grid=grid)
    assert all(0 <= r < grid[0] and 0 <= c < grid[1] for op in made.netlist.ops.values() for r, c in op.cores)
    assert largest_error(function, made, lambda inputs: run_golden(made.netlist, "wormhole_b0", inputs, {})) < 0.1


@pytest.mark.parametrize("name", ["mlp", "softmax", "layer norm", "resnet block"])
def test_models_on_the_chip(name: str):
    function, shapes = MODELS[name]
    made = emitted(function, shapes, arch="blackhole", tensors=2)
    chip = Tx8(rules_of(made.netlist, "blackhole"), Options())
    chip.prepare(executed_epochs(made.netlist))
    assert largest_error(function, made, lambda inputs: run_netlist(made.netlist, chip, inputs, {})) < 1e-3


def test_choices_and_places_on_the_chip():
    def function(x: Any, y: Any) -> Any:
        return jnp.where(x > y, x, -y), lax.top_k(x, 3), jnp.argmax(y, -1), x[:, np.array([4, 1])]

    made = emitted(function, [(5, 40), (5, 40)], arch="blackhole")
    chip = Tx8(rules_of(made.netlist, "blackhole"), Options())
    chip.prepare(executed_epochs(made.netlist))
    assert largest_error(function, made, lambda inputs: run_netlist(made.netlist, chip, inputs, {})) < 1e-5


KINDS: list[tuple[str, Function, list[tuple[int, ...]]]] = [
    ("scalar", lambda x: 2 * x + 1, [()]),
    ("vector", lambda x: x * x, [(7,)]),
    ("row and column", lambda x, y: x[:, None] + y, [(7,), (40,)]),
    ("outer product", jnp.outer, [(7,), (40,)]),
    ("inner product", jnp.dot, [(40,), (40,)]),
    ("matrix times vector", jnp.matmul, [(5, 40), (40,)]),
    ("transposed factors", lambda x, y: x.T @ y.T, [(40, 5), (20, 40)]),
    ("sum of all", jnp.sum, [(5, 33)]),
    ("largest of all", lambda x: x.max() + x.min(), [(3, 5, 33)]),
    ("largest of rows", lambda x: x.max(-2), [(3, 5, 33)]),
    ("mean of a batch", lambda x: x.mean((0, 2)), [(3, 5, 33)]),
    ("softmax of columns", lambda x: jax.nn.softmax(x, 0), [(50, 33)]),
    ("turned in three dimensions", lambda x: jnp.transpose(x, (2, 0, 1)) + 1, [(3, 20, 33)]),
    ("reshaped without common factors", lambda x: x.reshape(8, 3) * 2, [(6, 4)]),
    ("flattened", lambda x: x.reshape(-1) * 2, [(5, 33)]),
    ("part of rows and columns", lambda x: x[2:7, ::3], [(20, 33)]),
    ("part of a batch", lambda x: x[1:3] * 2, [(4, 20, 33)]),
    ("backwards", lambda x: x[::-1, 3:], [(20, 33)]),
    ("rows behind rows", lambda x, y: jnp.concatenate([x, y]), [(5, 33), (6, 33)]),
    ("batches behind batches", lambda x, y: jnp.concatenate([x, y, x]), [(2, 5, 33), (3, 5, 33)]),
    ("one element behind another", lambda x: jnp.concatenate([x[2:3], x[1:2]]), [(4,)]),
    ("padded", lambda x: jnp.pad(x, ((1, 2), (3, 0)), constant_values=2.5), [(5, 33)]),
    ("chosen by a known mask", lambda x: jnp.where(np.tri(20, dtype=bool), x, -1e9), [(20, 20)]),
    ("chosen, and summed up", lambda x: jnp.where(np.tri(40, 5, dtype=bool)[:, None], x, -3.0) @ jnp.ones((5, 5)), [(40, 1, 5)]),
    ("clipped", lambda x: jnp.clip(x, -0.5, 0.5) - x**3, [(20, 20)]),
    ("divided", lambda x, y: jnp.minimum(x, y) / (3 + jnp.abs(y)), [(20, 20), (20, 20)]),
    ("convolution in steps", lambda x, k: convolved(x, k, 2), [(2, 9, 9, 3), (3, 3, 3, 5)]),
    ("convolution of groups", lambda x, k: convolved(x, k, 1, 4), [(2, 6, 6, 8), (3, 3, 2, 4)]),
    ("convolution of 1x1", lambda x, k: convolved(x, k, 1, 1, "VALID"), [(2, 6, 6, 8), (1, 1, 8, 4)]),
    ("largest of windows", pooled, [(2, 9, 9, 5)]),
    ("sums of windows", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2), (1, 2, 2), "VALID"), [(2, 8, 8)]),
    ("chosen by data", lambda x, y: jnp.where(x > y, x, 2 * y), [(5, 33), (5, 33)]),
    ("compared", lambda x, y: (x >= y, x == y, (x != y) & (x < 1) | ~(y <= 0)), [(5, 33), (5, 33)]),
    ("no numbers", lambda x: jnp.where(jnp.isnan(x), 0, jnp.sign(x)), [(5, 33)]),
    ("any and all, and how many", lambda x: ((x > 1).any(-1), (x > -1).all(0), (x > 0).sum()), [(5, 33)]),
    ("gelu with erfc", lambda x: jax.nn.gelu(3 * x, approximate=False), [(5, 33)]),
    ("elu, softplus, silu", lambda x: jax.nn.elu(x) + jax.nn.softplus(x) + jax.nn.silu(x), [(5, 33)]),
    ("rows by known numbers", lambda x: x[np.array([3, 1, 4, 1])], [(5, 33)]),
    ("columns by known numbers", lambda x: x[:, np.array([[3], [30]])], [(5, 33)]),
    ("where the largest are", lambda x: (x.argmax(-1), x.argmin(0), x.max(0)), [(5, 33)]),
    ("the five largest", lambda x: lax.top_k(x, 5), [(5, 40)]),
    ("sorted, and their order", lambda x: (jnp.sort(x, 0), jnp.argsort(x, -1)), [(5, 40)]),
    (
        "rounded",
        lambda x: (jnp.floor(4 * x), jnp.ceil(x), jnp.round(4 * x), jnp.trunc(x * 1e7), (9 * x).astype(np.int32)),
        [(5, 33)],
    ),
    ("product of rows", lambda x: x.prod(-1), [(5, 9)]),
    ("part set", lambda x, y: x.at[2:5, 3:7].set(y), [(20, 33), (3, 4)]),
    ("padded by data", lambda x, y: lax.pad(x, y, ((1, 2, 1), (0, 3, 0))), [(5, 33), ()]),
    ("loop", lambda x: lax.fori_loop(0, 3, lambda n, v: jnp.tanh(v @ v / 8) + n, x), [(16, 16)]),
    ("scan", lambda x, w: lax.scan(lambda c, v: (jnp.tanh(c @ w / 4 + v), c), jnp.ones((3, 16)), x), [(4, 3, 16), (16, 16)]),
    ("branches", lambda x, y: lax.cond(y > 0, lambda v: 2 * v, lambda v: v + 1, x), [(5, 33), ()]),
    ("a result twice, an argument, a constant", lambda x: (x, x + 1, x + 1, jnp.ones(3)), [(3, 4)]),
]


@pytest.mark.parametrize(("function", "shapes"), [pytest.param(*case[1:], id=case[0]) for case in KINDS])
def test_instructions_compute_what_they_do(function: Function, shapes: list[tuple[int, ...]]):
    made = emitted(function, shapes, arch="blackhole", turns=2)
    assert largest_error(function, made, lambda inputs: run_golden(made.netlist, "blackhole", inputs, {})) < 1e-4


@pytest.mark.parametrize("grid", [(4, 4), (8, 8)])
def test_products_with_mostly_zeros_are_listed(grid: tuple[int, int]):
    def function(x: Any, k: Any) -> Any:
        return jax.nn.relu(convolved(x, k / 12, 2))

    made = emitted(function, [(2, 15, 14, 8), (3, 3, 8, 16)], arch="blackhole", grid=grid, sparse=True, tensors=2)
    (op,) = (op for op in made.netlist.ops.values() if op.attributes.get("identity"))
    assert op.attributes["num_sparse_tiles"] < 40 and op.grid_size[0] == (7 if grid == (8, 8) else 1)
    assert largest_error(function, made, lambda inputs: run_golden(made.netlist, "blackhole", inputs, {})) < 1e-4
    dense = emitted(function, [(2, 15, 14, 8), (3, 3, 8, 16)], arch="blackhole", grid=grid)
    assert not any(op.attributes.get("identity") for op in dense.netlist.ops.values())
    chip = Tx8(rules_of(made.netlist, "blackhole"), Options())
    assert largest_error(function, made, lambda inputs: run_netlist(made.netlist, chip, inputs, {})) < 1e-4


def test_encodings_name_each_tile_once():
    numbers = np.random.default_rng(3)
    for _ in range(8):
        high, wide, z, cores = (int(n) for n in numbers.integers((2, 8, 1, 1), (9, 40, 3, 3)))
        high *= 8 * cores
        matrix = np.kron(numbers.random((high, wide)) < 0.1, np.ones((32, 32))) * numbers.integers(1, 5, (high * 32, 1))
        listing = listing_of(matrix, z, 1)
        assert listing is not None
        words = encoding(listing, z, cores)
        tiles = np.tile(listing.weights(), (1, cores, 1))
        op = SimpleNamespace(
            attributes=attributes_for(listing, cores, words),
            grid_size=(cores, 1),
            core_tiles=(high // cores, 1),
            ublock=(1, 1),
            t=z,
            shape=Shape(z, high, 1),
        )
        x = numbers.random((z, wide * 32, 32))
        (found,) = listed(cast("Op", op), tiles, words)
        np.testing.assert_allclose(sparse(cast("Op", op), tiles, x, [found]), matrix @ x)


def test_elementwise_chains_are_fused_ops():
    made = emitted(jax.nn.gelu, [(5, 33)])
    (op,) = made.netlist.ops.values()
    assert op.type == "fused_op"
    steps = made.netlist.fused_ops[op.attributes["fused_op_id"]].steps
    assert len(steps) > 5
    assert {"dest", "intermed0", "output"} >= {step.output for step in steps} > {"dest"}

    def shared(x: Any, y: Any) -> Any:  # what a product reads is no part of a chain
        z = jnp.exp(x) + 1
        return z @ (y / 8), jnp.tanh(z) * z

    made = emitted(shared, [(5, 33), (33, 20)], arch="grayskull", format="Float16_b")
    assert sorted(op.type for op in made.netlist.ops.values()) == ["fused_op", "fused_op", "matmul", "multiply"]
    assert largest_error(shared, made, lambda inputs: run_golden(made.netlist, "grayskull", inputs, {})) < 0.1


def test_many_tensors_pass_through_all_epochs():
    function, shapes = MODELS["mlp"]
    made = emitted(function, shapes, arch="blackhole", grid=(2, 2), tensors=2, turns=3)
    assert len(made.netlist.graphs) > 1
    assert largest_error(function, made, lambda inputs: run_golden(made.netlist, "blackhole", inputs, {})) < 1e-4


def integers(*shape: int, dtype: Any = np.int32) -> Array:
    return np.random.default_rng(shape).integers(-9, 9, shape).astype(dtype)


def test_integers_where_netlists_have_them():
    def dot(x: Any, y: Any) -> Any:
        return lax.dot(x, y, preferred_element_type=jnp.int32)

    cases = [(lambda x, y: jnp.maximum(x + 3 * y, x) - 2, [integers(5, 33), integers(5, 33)])]
    cases.append((dot, [integers(5, 33, dtype=np.int8), integers(33, 20, dtype=np.int8)]))
    for function, arguments in cases:
        made = emit(function, arguments)
        assert not problems_of(made.netlist, "wormhole_b0")
        inputs = made.host_inputs({f"arg{at}": [one] for at, one in enumerate(arguments)})
        found = made.results(run_golden(made.netlist, "wormhole_b0", inputs, {}))["out0"][0]
        assert (found == np.asarray(function(*arguments))).all()
    with pytest.raises(UnsupportedError, match="whole numbers up to 2048 only, not all of Int32"):
        emit(lambda x: x.T + 1, [integers(5, 33)])


def test_whole_numbers_choose_rows_and_places():
    table, rows, at = array(50, 33), np.random.default_rng(0).integers(0, 50, (2, 7)).astype(np.int32), np.int32(4)

    def function(x: Any, n: Any, at: Any) -> Any:
        moved = lax.dynamic_update_slice(x, x[7:10], (at, 0))
        return (
            x[n],
            jnp.take_along_axis(x.T, n[:1], 1),
            lax.dynamic_slice(moved, (at + 1, 0), (3, 20)),
            n.max(-1),
            n // 7,
            (n - 20) % 7,
            n.T,
        )

    made = emit(function, [table, rows, at], arch="blackhole")
    assert not problems_of(made.netlist, "blackhole")
    inputs = made.host_inputs({"arg0": [table], "arg1": [rows], "arg2": [at]})
    found = made.results(run_golden(made.netlist, "blackhole", inputs, {}))
    for name, wanted in zip(made.outputs, jax.jit(function)(table, rows, at), strict=True):
        assert (found[name][0] == np.asarray(wanted)).all()


def test_a_constant_with_equal_columns_is_joined_with_others():
    column = np.array([[0.0], [1], [1], [0], [0]], np.float32)

    def function(x: Any) -> Any:
        return jnp.concatenate([x, jnp.broadcast_to(column, (5, 4))], 1)

    made = emitted(function, [(5, 2)])
    assert largest_error(function, made, lambda inputs: run_golden(made.netlist, "wormhole_b0", inputs, {})) < 1e-3


def test_what_has_no_form_is_refused_by_name():
    def function(x: Any) -> Any:
        return jnp.where(x > 0, jnp.floor(x), lax.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, x))

    with pytest.raises(UnsupportedError) as caught:
        emit(function, [array(5, 33)])
    assert {op.name for op in caught.value.ops} == {"stablehlo.floor", "stablehlo.while"}
    assert "how often it runs depends on data" in str(caught.value)
