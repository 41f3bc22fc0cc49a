"""Functions as jax lowers them: loaded and evaluated they give what jax gives; speed is printed with -s."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hlo2tx8.frontend import legalize_chlo, load, shim, to_mlir_text
from hlo2tx8.frontend.walker import walk_module
from hlo2tx8.hlo import evaluate


def dense(params: Any, x: Any) -> Any:
    for weight, bias in params:
        x = jax.nn.gelu(x @ weight + bias)
    return x


def loss(params: Any, x: Any) -> Any:
    return jnp.mean(dense(params, x) ** 2)


def train_step(params: Any, x: Any) -> Any:
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x))


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=-1)


def layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def loop(x: Any) -> Any:
    return jax.lax.fori_loop(0, 5, lambda i, v: jnp.sin(v) + i, x)


def branches(x: Any) -> Any:
    return jax.lax.cond(x.sum() > 0, jnp.exp, jnp.negative, x)


def special(x: Any) -> Any:
    return jax.scipy.special.erf(x), jax.lax.lgamma(jnp.abs(x)), jnp.arcsin(x / 10)


def bits(x: Any) -> Any:
    return jax.lax.bitcast_convert_type(x, jnp.uint32) >> 7, jax.lax.population_count(x.astype(jnp.int32))


X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
PARAMS = [(np.full((8, 8), 0.1 * i, np.float32), np.ones(8, np.float32)) for i in range(1, 3)]
PROGRAMS: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...] = (
    (train_step, (PARAMS, X)),
    *((function, (X,)) for function in (softmax, layer_norm, loop, branches, special, bits)),
)


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_program(function: Callable[..., Any], args: tuple[Any, ...]):
    wanted = jax.tree.leaves(jax.jit(function)(*args))
    flat = [np.asarray(a) for a in jax.tree.leaves(args)]
    for module in (load(jax.jit(function).lower(*args)), load(to_mlir_text(load(function, args=args)))):
        for actual, expected in zip(evaluate(module, *flat), wanted, strict=True):
            np.testing.assert_allclose(actual, np.asarray(expected), rtol=2e-5, atol=2e-6)


def test_legalized_program_has_no_chlo_and_the_same_answer():
    module = load(special, args=(X,))
    before = evaluate(module, X)
    assert any(op.name.startswith("chlo.") for op in module.walk())
    legal = legalize_chlo(module)
    legal.verify()
    assert not any(op.name.startswith("chlo.") for op in legal.walk())
    for actual, expected in zip(evaluate(legal, X), before, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


def test_legalizing_keeps_fusions_layouts_and_origins():
    text = """HloModule m
fused {
  p = f32[2,3]{0,1} parameter(0)
  ROOT e = f32[2,3]{0,1} erf(p)
}
ENTRY main {
  x = f32[2,3]{0,1} parameter(0)
  ROOT f = f32[2,3]{0,1} fusion(x), kind=kLoop, calls=fused
}"""
    module = load(text)
    main_type = module.body.block.first_op.function_type
    legal = legalize_chlo(module)
    legal.verify()
    (fusion,) = [op for op in legal.walk() if op.name == "hlo.fusion"]
    names = [op.name for op in fusion.regions[0].block.ops]
    assert "chlo.erf" not in names and len(names) > 5 and names[-1] == "stablehlo.return"
    assert fusion.result_types[0] == fusion.regions[0].block.last_op.operands[0].type == main_type.outputs.data[0]
    assert all(op.attributes["loc"].data == "<text>:4 e" for op in fusion.regions[0].block.ops if op.name.startswith("stablehlo.m"))
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(evaluate(legal, x)[0], evaluate(load(text), x)[0], rtol=1e-6)


def test_speed_is_noted():
    lowered = jax.jit(train_step).lower(PARAMS * 20, X)
    started = time.perf_counter()
    module = load(lowered)
    loaded = time.perf_counter()
    count = sum(1 for _ in module.walk())
    parsed = shim.parse_module(to_mlir_text(module), shim.make_context())
    exported = time.perf_counter()
    walk_module(parsed)
    walked = time.perf_counter()
    print(f"{count} ops: load {1e3 * (loaded - started):.0f} ms, walk {1e6 * (walked - exported) / count:.0f} us per op")
    assert count > 500


def test_ops_of_nested_functions_and_constants_come_from_the_users_lines() -> None:
    def sorted_cumsum(x: Any) -> Any:
        return jnp.sort(jnp.cumsum(x * 3.0, axis=0))

    module = load(sorted_cumsum, args=(X,))
    line = sorted_cumsum.__code__.co_firstlineno + 1
    places = {op.name: str(op.attributes["loc"]) for op in module.walk() if "loc" in op.attributes}
    assert f"{__file__}:{line}:" in places["stablehlo.sort"]
    assert f"{__file__}:{line}:" in places["stablehlo.reduce_window"]
    assert f"{__file__}:" in places["stablehlo.constant"]
