"""Kernels that write rows of a tensor where they belong, and loops whose counter needs no slot; what needs them gets them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2tx8
from hlo2tx8.device.isa.encoding import Record, decode_records
from hlo2tx8.device.isa.kc_control import KcLoadScalar, KcLoop
from hlo2tx8.device.isa.lsu import Wdma
from hlo2tx8.device.program import SlotKind
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable

RNG = np.random.default_rng(5)
X, CACHE = RNG.normal(size=(4, 96)).astype(np.float32), RNG.normal(size=(6, 4, 96)).astype(np.float32)


def rows(x: Any, cache: Any) -> Any:
    """A row of each turn, at the turn."""
    return lax.fori_loop(0, 6, lambda i, s: (s[0] * 0.5 + 1, lax.dynamic_update_index_in_dim(s[1], s[0] + 3, i, 0)), (x, cache))


def clamped(x: Any, cache: Any) -> Any:
    """Places in front of the first row and behind the last one."""
    return lax.fori_loop(-3, 9, lambda i, s: (s[0] + 1, lax.dynamic_update_index_in_dim(s[1], s[0] * 2, i, 0)), (x, cache))


def negative(x: Any, cache: Any) -> Any:
    """Places from in front of the first row up to the last one, of which nothing else is asked."""

    def turn(s: Any) -> Any:
        i, x, cache = s
        cache = lax.dynamic_update_slice_p.bind(cache, x[None] * 2, i, 0, 0)
        return i + 1, x + lax.dynamic_slice_p.bind(cache, i, 0, 0, slice_sizes=(1, *x.shape))[0], cache

    return lax.while_loop(lambda s: s[0] < 6, turn, (jnp.int32(-3), x, cache))


def backwards(x: Any, cache: Any) -> Any:
    """Places that are computed from the turn."""
    return lax.fori_loop(0, 6, lambda i, s: (s[0] + 1, lax.dynamic_update_index_in_dim(s[1], s[0] * 2, 5 - i, 0)), (x, cache))


def numbered(x: Any, cache: Any) -> Any:
    """What is written depends on the turn."""
    return lax.fori_loop(0, 6, lambda i, s: (s[0] + i, lax.dynamic_update_index_in_dim(s[1], s[0] * i, i, 0)), (x, cache))


def old(x: Any, cache: Any) -> Any:
    """What was there before is read in the same turn, by the kernel itself and by another one."""

    def turn(i: Any, s: Any) -> Any:
        x, cache = s
        row = lax.dynamic_index_in_dim(cache, (i + 1) % 6, 0, keepdims=False)
        new = lax.dynamic_update_index_in_dim(cache, x + row, i, 0)
        return x + jnp.sum(cache, 0), new

    return lax.fori_loop(0, 6, turn, (x, cache))


def kept(x: Any, cache: Any) -> Any:
    """The row that is written is read by the next turn too."""
    return lax.scan(lambda x, row: ((x * row + 1), x * row + 1), x, cache)


def gaps(x: Any, cache: Any) -> Any:
    """A column: several runs."""
    turned = jnp.transpose(cache, (1, 0, 2))
    return lax.fori_loop(0, 6, lambda i, s: (s[0] * 0.5, lax.dynamic_update_slice(s[1], s[0][:, None] + 1, (0, i, 0))), (x, turned))


def both(x: Any, cache: Any) -> Any:
    """Two tensors of each turn, and a loop inside, which takes the registers."""

    def turn(i: Any, s: Any) -> Any:
        x, a, b = s
        x = lax.fori_loop(0, 2, lambda j, x: x + a[j], x)
        return x, lax.dynamic_update_index_in_dim(a, x, i, 0), lax.dynamic_update_index_in_dim(b, x * 2, i, 0)

    return lax.fori_loop(0, 6, turn, (x, cache, cache + 1))


def never(x: Any, cache: Any) -> Any:
    """No turn."""
    return lax.fori_loop(3, 3, lambda i, s: (s[0] + 1, lax.dynamic_update_index_in_dim(s[1], s[0], i, 0)), (x, cache))


def counted(x: Any, cache: Any) -> Any:
    """The last number of the counter is a result."""

    def turn(s: Any) -> Any:
        i, x, cache = s
        return i + 2, x + 1, lax.dynamic_update_index_in_dim(cache, x, i, 0)

    return lax.while_loop(lambda s: s[0] < 6, turn, (jnp.int32(0), x, cache))


CASES: Sequence[Callable[..., Any]] = (rows, clamped, negative, backwards, numbered, old, kept, gaps, both, never, counted)
WITHOUT_SLOT = (rows, kept)
"""Whose counter nothing reads."""


def program(executable: Executable) -> tuple[Sequence[Record], Sequence[str]]:
    """The records, and the names of what is launched."""
    found = executable.program
    return decode_records(found.code, found.origins), [launch.name for launch in found.launches]


@pytest.mark.parametrize("function", CASES)
def test_answers(function: Callable[..., Any]):
    expected = jax.tree.leaves(jax.jit(function)(X, CACHE))
    executable = hlo2tx8.compile(jax.jit(function).lower(X, CACHE).as_text(), Options(mode="strict"))
    for found, reference in zip(executable.execute(X, CACHE), expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", WITHOUT_SLOT)
def test_nothing_else_is_launched(function: Callable[..., Any]):
    records, names = program(hlo2tx8.compile(jax.jit(function).lower(X, CACHE).as_text()))
    assert "update" not in names and not any(record.kind is KcLoadScalar for record in records)


@pytest.mark.parametrize("function", [old, gaps])
def test_what_is_read_before_stays_until_then(function: Callable[..., Any]):
    _, names = program(hlo2tx8.compile(jax.jit(function).lower(X, CACHE).as_text()))
    assert "update" in names


def squares(x: Any, cache: Any) -> Any:
    """All rows, from the last to the first: what the rows are before is nobody's concern."""
    return lax.scan(lambda x, row: (x * 0.5 + row, row * row), x, cache, reverse=True)


def but_one(x: Any, cache: Any) -> Any:
    """All rows but the first: that keeps its value."""
    return lax.fori_loop(1, 6, lambda i, s: (s[0] + 1, lax.dynamic_update_index_in_dim(s[1], s[0], i, 0)), (x, cache * 2))


def again(x: Any, cache: Any) -> Any:
    """What the rows are before is read elsewhere."""
    start = cache * 2
    found = lax.fori_loop(0, 6, lambda i, s: (s[0] + 1, lax.dynamic_update_index_in_dim(s[1], s[0], i, 0)), (x, start))
    return (*found, start + 1)


@pytest.mark.parametrize(("function", "is_unset"), [(squares, True), (but_one, False), (again, False)])
def test_what_turns_write_all_of_needs_no_value_before(function: Callable[..., Any], is_unset: bool):
    expected = jax.tree.leaves(jax.jit(function)(X, CACHE))
    executable = hlo2tx8.compile(jax.jit(function).lower(X, CACHE).as_text(), Options(mode="strict"))
    for found, reference in zip(executable.execute(X, CACHE), expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-5)
    records, _ = program(executable)
    before = records[: next(i for i, record in enumerate(records) if record.kind is KcLoop and record.fields["hi"] in (5, 6))]
    written = {record.fields["slot"] for record in before if record.kind is Wdma}
    rows = next(n for n, slot in enumerate(executable.program.slots) if slot.kind is SlotKind.OUTPUT and slot.index == 1)
    assert (rows not in written) is is_unset
