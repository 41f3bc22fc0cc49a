"""dynamic_update_slice: boxes of any form written in place, at every level, in both tiers and strict mode."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import LEVELS, check_text

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.program import SlotKind
from hlo2tx8.link.boxes import UpdateBox, box_of
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import run_level

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("inner", "outer", "order", "box"),
    [
        ((), (), (), UpdateBox((), 4)),
        ((5, 7), (5, 7), (0, 1), UpdateBox((), 140)),
        ((2, 7), (5, 7), (0, 1), UpdateBox((), 56)),
        ((5, 1), (5, 7), (0, 1), UpdateBox(((5, 28),), 4)),
        ((5, 1), (5, 7), (1, 0), UpdateBox((), 20)),
        ((2, 3, 4), (5, 3, 8), (0, 1, 2), UpdateBox(((6, 32),), 16)),
        ((2, 2, 8), (5, 3, 8), (0, 1, 2), UpdateBox(((2, 96),), 64)),
        ((2, 2, 2, 2, 2), (3, 3, 3, 3, 3), (0, 1, 2, 3, 4), UpdateBox(((2, 324), (2, 108), (2, 36), (2, 12)), 8)),
        ((2, 1, 64), (2, 512, 64), (0, 1, 2), UpdateBox(((2, 131072),), 256)),
        ((0, 3), (5, 3), (0, 1), UpdateBox((), 0)),
    ],
)
def test_boxes(inner: tuple[int, ...], outer: tuple[int, ...], order: tuple[int, ...], box: UpdateBox) -> None:
    assert box_of(inner, outer, order, 4) == box


def check(function: Any, *inputs: Any, levels: Any = (Level.LOOPS,)) -> str:
    """The module of a function that is right at those levels and in every mode."""
    jitted = jax.jit(function, keep_unused=True)
    text = jitted.lower(*inputs).as_text()
    expected = [np.asarray(value) for value in jax.tree.leaves(jitted(*inputs))]
    check_text(text, [np.asarray(value) for value in inputs], expected, levels)
    return text


SHAPES = (
    ((), ()),
    ((9,), (4,)),
    ((9,), (9,)),
    ((9, 5), (0, 5)),
    ((5, 7), (1, 7)),
    ((5, 7), (5, 1)),
    ((6, 3, 8), (2, 3, 4)),
    ((40, 300), (37, 211)),
    ((3, 5000), (2, 4999)),
    ((2, 400_000), (1, 399_999)),
    ((4, 3, 5, 3, 6), (3, 2, 4, 2, 5)),
    ((17, 3, 9, 3, 30), (16, 2, 8, 2, 29)),
)


@pytest.mark.parametrize(
    ("outer", "inner", "dtype"),
    [*((*shapes, "int8") for shapes in SHAPES), *((*SHAPES[6], dtype) for dtype in ("bfloat16", "float32", "complex64"))],
)
def test_shapes(outer: tuple[int, ...], inner: tuple[int, ...], dtype: str) -> None:
    x, u = (jnp.asarray(RNG.integers(-100, 100, shape)).astype(dtype) for shape in (outer, inner))
    starts = [np.int32(RNG.integers(0, a - b + 1)) for a, b in zip(outer, inner, strict=True)]
    check(
        lambda x, u, *starts: lax.dynamic_update_slice(x, u, starts), np.asarray(x), np.asarray(u), *starts, levels=(Level.PROGRAM,)
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_starts_are_clamped(dtype: str) -> None:
    x, u = np.arange(60, dtype=np.int16).reshape(6, 10), -np.ones((2, 3), np.int16)
    limits = np.iinfo(dtype)
    text = """
      func.func @main(%x: tensor<6x10xi16>, %u: tensor<2x3xi16>, %i: tensor<T>, %j: tensor<T>) -> tensor<6x10xi16> {
        %r = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<6x10xi16>, tensor<2x3xi16>, tensor<T>, tensor<T>)
          -> tensor<6x10xi16>
        return %r : tensor<6x10xi16>
      }""".replace("T>", f"{'ui' if limits.min == 0 else 'i'}{limits.bits}>")
    executable = hlo2tx8.compile(text)
    for i, j in ((limits.max, limits.min), (3, 6), (limits.min, limits.max), (5, 9)):
        expected = x.copy()
        expected[min(max(i, 0), 4) :, :][:2, min(max(j, 0), 7) :][:, :3] = -1
        assert np.array_equal(executable.run(x, u, np.array(i, dtype), np.array(j, dtype)), expected)


X, U = RNG.integers(-9, 9, (8, 6)).astype(np.float32), RNG.integers(-9, 9, (1, 6)).astype(np.float32)
K = np.int32(3)


def old_is_needed(x: Any, u: Any, i: Any) -> Any:
    new = lax.dynamic_update_slice(x + 1, u, (i, 0))
    return new, new * 2, (x + 1) @ jnp.ones((6, 2)), lax.dynamic_update_slice(new, u * 3, (i, 0))


def chain(x: Any, u: Any, i: Any) -> Any:
    return lax.fori_loop(0, 3, lambda k, c: lax.dynamic_update_slice(lax.dynamic_update_slice(c, u + k, (k, 0)), u, (i, 0)), x)


def into_constants(u: Any, i: Any) -> Any:
    small, large = jnp.full((8, 6), 2.0), jnp.full((8000, 6), 2.0)
    return lax.dynamic_update_slice(small, u, (i, 0)), lax.dynamic_update_slice(large, u, (i, 0)), small * u


def of_constants(x: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x, jnp.arange(6.0)[None], (i, 0)), lax.dynamic_update_slice(x, jnp.zeros((1, 6)), (2, 0))


def read_while_written(x: Any, u: Any, i: Any) -> Any:
    def turn(k: Any, state: Any) -> Any:
        cache, total = state
        new = lax.dynamic_update_slice(cache, u * k, (k, 0))
        return new, total + cache[i]

    return lax.fori_loop(0, 4, turn, (x, u[0]))


def in_a_branch(x: Any, u: Any, i: Any) -> Any:
    y = x * 2
    return lax.switch(i, [lambda: y, lambda: x, lambda: lax.dynamic_update_slice(y, u, (i, 0))]), y


def shifted(x: Any) -> Any:
    return lax.dynamic_update_slice(x, x[:4], (jnp.argmax(x[0]) * 0 + 2, 0))


@pytest.mark.parametrize("function", [old_is_needed, chain, read_while_written, in_a_branch], ids=lambda f: f.__name__)
def test_values_that_live_on(function: Any) -> None:
    check(function, X, U, K, levels=LEVELS)


def test_constants_and_itself() -> None:
    check(into_constants, U, K)
    check(of_constants, X, K)
    check(shifted, X)


def test_a_loop_copies_nothing() -> None:
    """State that is only updated is one slot, the output's."""

    def fill(rows: Any) -> Any:
        return lax.scan(lambda c, row: (c + 1, row * c), jnp.int32(1), rows)[1]

    rows = RNG.integers(-9, 9, (5, 40)).astype(np.int32)
    executable = hlo2tx8.compile(check(fill, rows))
    assert [s.kind for s in executable.program.slots if s.shape == (5, 40)] == [SlotKind.INPUT, SlotKind.OUTPUT]


LAYOUTS = """
HloModule layouts, entry_computation_layout={(f32[4,6]{0,1}, f32[2,3]{1,0}, s32[])->f32[4,6]{1,0}}

fused {
  x = f32[4,6]{0,1} parameter(0)
  u = f32[2,3]{1,0} parameter(1)
  i = s32[] parameter(2)
  twice = f32[2,3]{1,0} add(u, u)
  ROOT r = f32[4,6]{1,0} dynamic-update-slice(x, twice, i, i)
}

ENTRY main {
  x = f32[4,6]{0,1} parameter(0)
  u = f32[2,3]{1,0} parameter(1)
  i = s32[] parameter(2)
  ROOT r = f32[4,6]{1,0} fusion(x, u, i), kind=kLoop, calls=fused
}
"""


def test_layouts_and_fusions_of_the_source() -> None:
    x, u = np.arange(24, dtype=np.float32).reshape(4, 6), -np.ones((2, 3), np.float32)
    expected = x.copy()
    expected[2:, 2:5] = -2
    for level in Level:
        (found,) = run_level(lambda: load_source(LAYOUTS, format="hlo"), Options(until=level), [x, u, np.int32(2)])
        assert np.array_equal(found, expected), level.name
