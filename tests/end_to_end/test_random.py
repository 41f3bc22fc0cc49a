"""rng_bit_generator bit for bit as XLA:CPU has it; rng by its statistics."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_programs import FAST, LEVELS, check, check_text

import hlo2tx8
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import load
from hlo2tx8.hlo import evaluate
from hlo2tx8.tools.xla_cpu import execute

STATES = {"THREE_FRY": 2, "PHILOX": 2, "PHILOX of three": 3, "DEFAULT": 2}
RESULTS = ("4x6xui32", "3x5xui32", "ui32", "7xui64", "3x4xui8", "5xui16", "0x2xui32")
OTHERS = ("3x4xf32", "5xf64", "6xbf16", "2x3xi32", "7xi64", "9xi8")


def text_of(algorithm: str, results: Sequence[str]) -> str:
    """A module with an rng_bit_generator for each type; one starts with the state of the one before it."""
    state = f"tensor<{STATES[algorithm]}xui64>"
    attribute = f"rng_algorithm = #stablehlo<rng_algorithm {algorithm.removesuffix(' of three')}>"
    lines = [
        f'%s{i + 1}, %r{i} = "stablehlo.rng_bit_generator"(%s{i}) {{{attribute}}} : ({state}) -> ({state}, tensor<{type_}>)'
        for i, type_ in enumerate(results)
    ]
    types = ", ".join([state, *(f"tensor<{type_}>" for type_ in results)])
    values = ", ".join([f"%s{len(results)}", *(f"%r{i}" for i in range(len(results)))])
    return f"func.func @main(%s0: {state}) -> ({types}) {{\n" + "\n".join(lines) + f"\nreturn {values} : {types}\n}}"


def state_of(name: str) -> np.ndarray:
    """Whose counter is about to overflow."""
    return np.array([0x0123456789ABCDEF, 2**64 - 2, 7][: STATES[name]], np.uint64)


@pytest.mark.parametrize("name", STATES)
def test_bits_are_those_of_xla(name: str) -> None:
    text, state = text_of(name, RESULTS), state_of(name)
    with jax.enable_x64(True):
        (expected,) = execute(text, [[state]])
    check_text(text, [state], expected, (), FAST)


@pytest.mark.parametrize(("name", "results"), [("THREE_FRY", OTHERS), ("PHILOX", OTHERS), ("PHILOX of three", OTHERS[:1])])
def test_bits_of_any_type(name: str, results: Sequence[str]) -> None:
    text, state = text_of(name, results), state_of(name)
    check_text(text, [state], evaluate(load(text), state), LEVELS if len(results) == 1 else (), FAST)


def run_rng(distribution: str, element: str, a: str, b: str) -> np.ndarray:
    text = f"""func.func @main() -> (tensor<64x128x{element}>, tensor<64x128x{element}>) {{
      %a = stablehlo.constant dense<{a}> : tensor<{element}>
      %b = stablehlo.constant dense<{b}> : tensor<{element}>
      %s = stablehlo.constant dense<[64, 128]> : tensor<2xi64>
      %r = stablehlo.rng %a, %b, %s, distribution = {distribution} : (tensor<{element}>, tensor<{element}>, tensor<2xi64>)
        -> tensor<64x128x{element}>
      %q = stablehlo.rng %a, %b, %s, distribution = {distribution} : (tensor<{element}>, tensor<{element}>, tensor<2xi64>)
        -> tensor<64x128x{element}>
      return %r, %q : tensor<64x128x{element}>, tensor<64x128x{element}>
    }}"""
    first, second = hlo2tx8.compile(text).execute()
    assert (first != second).mean() > 0.5, "two ops draw the same numbers"
    return first


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
def test_uniform(element: str) -> None:
    found = run_rng("UNIFORM", element, "-1.0", "3.0").astype(np.float64)
    assert -1 <= found.min() < -0.95
    assert 2.9 < found.max() <= 3
    assert abs(found.mean() - 1) < 0.06
    assert abs(found.var() - 16 / 12) < 0.06


@pytest.mark.parametrize(("element", "low"), [("i32", -3), ("ui8", 2), ("i64", -3)])
def test_uniform_integers(element: str, low: int) -> None:
    found = run_rng("UNIFORM", element, str(low), str(low + 10))
    counts = np.unique(found, return_counts=True)
    assert list(counts[0]) == list(range(low, low + 10))
    assert counts[1].min() > 0.8 * found.size / 10


def test_normal() -> None:
    found = run_rng("NORMAL", "f32", "2.0", "3.0").astype(np.float64)
    assert abs(found.mean() - 2) < 0.15
    assert abs(found.std() - 3) < 0.1
    assert abs(((found - found.mean()) ** 4).mean() / found.var() ** 2 - 3) < 0.3


def test_keys_of_jax_with_philox() -> None:
    def draw(seed: jax.Array) -> jax.Array:
        return jax.random.uniform(jax.random.key(seed, impl="unsafe_rbg"), (7,))

    check(draw, jnp.uint32(5), levels=(), modes=FAST)


@pytest.mark.parametrize(("algorithm", "words"), [("THREE_FRY", 4), ("PHILOX", 6), ("DEFAULT", 1)])
def test_states_of_other_sizes_are_refused(algorithm: str, words: int) -> None:
    state = f"tensor<{words}xui64>"
    text = f"""func.func @main(%s: {state}) -> ({state}, tensor<5xui32>) {{
      %a, %b = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : ({state}) -> ({state}, tensor<5xui32>)
      return %a, %b : {state}, tensor<5xui32>
    }}"""
    with pytest.raises(CompileError, match=rf"E1002: {algorithm} keeps its state in 2.* words of 64 bits, not in u64\[{words}\]"):
        hlo2tx8.compile(text)
