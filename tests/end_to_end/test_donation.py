"""Donated inputs: outputs that are computed in their place have their memory, and callers never see it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.program import SlotKind
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable

update = jax.lax.dynamic_update_slice
CACHE, ROW, AT = ((64, 256), "float32"), ((1, 256), "float32"), ((), "int32")
ROWS, PLACES = ((5, 256), "float32"), ((5,), "int32")


@dataclass(frozen=True)
class Case:
    """A function, its arguments, of which some are donated, and per output the input that it takes over."""

    function: Callable[..., Any]
    arguments: tuple[tuple[tuple[int, ...], str], ...]
    taken_over: list[int | None]
    donated: tuple[int, ...] = (0,)
    is_faster: bool = False


def append(cache: Any, row: Any, at: Any) -> Any:
    return update(cache, row, (at, 0))


CASES = {
    "update": Case(append, (CACHE, ROW, AT), [0], is_faster=True),
    "update read again": Case(
        lambda c, u, i: (append(c, u, i), jnp.sum(append(c, u, i))), (CACHE, ROW, AT), [0, None], is_faster=True
    ),
    "two updates": Case(lambda c, u, i: append(append(c, u, i), u, i + 1), (CACHE, ROW, AT), [0], is_faster=True),
    "updates in a loop": Case(
        lambda c, u, n: jax.lax.fori_loop(0, n, lambda k, s: append(s, u + k, k), c), (CACHE, ROW, AT), [0], is_faster=True
    ),
    "two caches": Case(
        lambda k, v, u, i: (append(k, u, i), append(v, 2 * u, i)), (CACHE, CACHE, ROW, AT), [0, 1], (0, 1), is_faster=True
    ),
    "a loop": Case(lambda c, n: jax.lax.fori_loop(0, n, lambda k, s: s * 2 + k, c), (CACHE, AT), [0], is_faster=True),
    "elementwise": Case(lambda p, g: p - 0.5 * g, (CACHE, CACHE), [0]),
    "old value read later": Case(lambda c, u, i: (append(c, u, i), jnp.sum(c)), (CACHE, ROW, AT), [None, None]),
    "update of its own row": Case(lambda c, i: append(c, c[2:3] * 2, i), (CACHE, AT), [0], is_faster=True),
    "scatter": Case(lambda c, u, i: c.at[i].add(u), (CACHE, ROWS, PLACES), [0], is_faster=True),
    "two scatters": Case(lambda c, u, i: c.at[i].add(u).at[i + 1].set(u), (CACHE, ROWS, PLACES), [0], is_faster=True),
    "scatter of itself": Case(lambda c, i: c.at[i].add(c[:5]), (CACHE, PLACES), [0], is_faster=True),
    "scatter of all of itself": Case(lambda c, i: c.at[i].add(c), (CACHE, ((64,), "int32")), [None]),
    "scatter and its operand": Case(lambda c, u, i: (c.at[i].add(u), c * 2), (CACHE, ROWS, PLACES), [None, None]),
    "computed from all of it": Case(lambda a: a @ a, (((64, 64), "float32"),), [None]),
    "transposed": Case(lambda a: a.T, (((64, 64), "float32"),), [None]),
    "exchanged": Case(lambda a, b: (b + 1, a * 2), (CACHE, CACHE), [None, None], (0, 1)),
    "other type": Case(lambda a: a.astype(jnp.bfloat16), (CACHE,), [None]),
}


def compiled(case: Case, donated: tuple[int, ...], options: Options) -> Executable:
    arguments = [jax.ShapeDtypeStruct(*argument) for argument in case.arguments]
    return hlo2tx8.compile(jax.jit(case.function, donate_argnums=donated).lower(*arguments), options=options)


def inputs_of(case: Case) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.integers(1, 9, shape).astype(dtype) for shape, dtype in case.arguments]


def taken_over(executable: Executable) -> list[int | None]:
    return [slot.takes_over for slot in executable.program.slots_of(SlotKind.OUTPUT)]


@pytest.mark.parametrize("mode", ["fast", "definition", "strict"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_results_are_those_without_donation(name: str, mode: Any):
    case = CASES[name]
    executable, plain = (compiled(case, donated, Options(mode=mode)) for donated in (case.donated, ()))
    assert taken_over(executable) == case.taken_over
    inputs = inputs_of(case)
    kept = [array.copy() for array in inputs]
    for result, expected in zip(executable.execute(*inputs), plain.execute(*inputs), strict=True):
        np.testing.assert_array_equal(result, expected)
    for array, before in zip(inputs, kept, strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.is_faster])
def test_nothing_is_copied(name: str):
    case = CASES[name]
    executable, plain = (compiled(case, donated, Options()) for donated in (case.donated, ()))
    costs = [e.cost_analysis() for e in (executable, plain)]
    copied = 2 * 64 * 256 * 4 * len([number for number in case.taken_over if number is not None])
    (more, less) = (float(str(cost["bytes accessed"])) for cost in costs[::-1])
    assert more - less >= copied * 0.99
    assert float(str(costs[0]["cycles"])) < float(str(costs[1]["cycles"]))
    assert executable.memory_analysis()["alias_size_in_bytes"] == copied // 2


HLO = """HloModule step, input_output_alias={ {1}: (0, {}, may-alias) }

ENTRY main {
  cache = f32[64,256] parameter(0)
  row = f32[1,256] parameter(1)
  at = s32[] parameter(2)
  zero = s32[] constant(0)
  sum = f32[1,256] add(row, row)
  new = f32[64,256] dynamic-update-slice(cache, row, at, zero)
  ROOT both = (f32[1,256], f32[64,256]) tuple(sum, new)
}
"""


def test_input_output_alias_of_hlo(tmp_path: Path):
    (tmp_path / "step.hlo").write_text(HLO)
    executable = hlo2tx8.compile(tmp_path / "step.hlo")
    assert taken_over(executable) == [None, 0]
    cache, row = np.zeros((64, 256), np.float32), np.ones((1, 256), np.float32)
    _, new = executable.execute(cache, row, np.int32(3))
    np.testing.assert_array_equal(np.flatnonzero(new.any(axis=1)), [3])
    assert not cache.any()


def test_a_saved_program_keeps_it(tmp_path: Path):
    executable = compiled(CASES["update"], (0,), Options())
    executable.save(tmp_path / "update.tx8x")
    loaded = Executable.load(tmp_path / "update.tx8x")
    inputs = inputs_of(CASES["update"])
    assert taken_over(loaded) == [0]
    np.testing.assert_array_equal(loaded.execute(*inputs)[0], executable.execute(*inputs)[0])
