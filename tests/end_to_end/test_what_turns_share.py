"""Loops whose turns read the same weights: these are loaded once, before the loop, and stay; the answers are XLA's."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_programs import ALL_MODES, check

import hlo2tx8
from hlo2tx8.device.isa.encoding import Record, decode_records, partners
from hlo2tx8.device.isa.kc_control import KcLoadScalar, KcLoop
from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.device.program import SlotKind
from hlo2tx8.options import Options
from hlo2tx8.runtime.executable import Executable

RNG = np.random.default_rng(11)
ROUNDING = 2e-5
"""Of a few turns, each of which multiplies in parts."""
SLACK = 1.25
"""What a loop takes beside its turns, at most."""
TURNS, ROWS, WIDTH = 5, 8, 128


def normal(*shape: int, scale: float = 0.1) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def lstm(rows: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    def cell(state: Any, row: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(row @ w + h @ u + b, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(cell, (h, c), rows)


def gru(rows: Any, h: Any, w: Any, u: Any) -> Any:
    size = h.shape[1]

    def cell(h: Any, row: Any) -> Any:
        z, r = jnp.split(jax.nn.sigmoid(row @ w[:, : 2 * size] + h @ u[:, : 2 * size]), 2, 1)
        n = jnp.tanh(row @ w[:, 2 * size :] + (r * h) @ u[:, 2 * size :])
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(cell, h, rows)


def inside(rows: Any, h: Any, w: Any, v: Any) -> Any:
    """A loop in a loop, each with weights that it does not change."""

    def turn(h: Any, row: Any) -> Any:
        h = jnp.tanh(lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h @ w), h + row) @ v)
        return h, h + row

    return lax.scan(turn, h, rows)


def either(rows: Any, h: Any, w: Any, v: Any) -> Any:
    """Products in branches."""

    def turn(state: Any, row: Any) -> Any:
        i, h = state
        h = lax.cond(i % 2 == 0, lambda h: jnp.tanh(h @ w), lambda h: jnp.tanh(h @ v) + row, h)
        return (i + 1, h), h

    return lax.scan(turn, (0, h), rows)


def until(h: Any, w: Any) -> Any:
    """As many turns as data say, of none upwards."""
    return lax.while_loop(lambda s: (s[0] < TURNS) & (jnp.sum(s[1]) < 50), lambda s: (s[0] + 1, jnp.tanh(s[1] @ w) + 0.1), (0, h))


def changed(h: Any, w: Any) -> Any:
    """The loop makes other weights for the next turn."""
    return lax.fori_loop(0, TURNS, lambda _, s: (jnp.tanh(s[0] @ s[1]), s[1] * 0.9), (h, w))


STATE, SQUARE = normal(ROWS, WIDTH), normal(WIDTH, WIDTH, scale=0.03)
SEQUENCE = normal(TURNS, ROWS, WIDTH)
GATES = normal(WIDTH, 4 * WIDTH), normal(WIDTH, 4 * WIDTH), normal(4 * WIDTH)
CASES: dict[str, tuple[Callable[..., Any], Sequence[np.ndarray]]] = {
    "lstm": (lstm, (SEQUENCE, STATE, STATE + 1, *GATES)),
    "gru": (gru, (SEQUENCE, STATE, normal(WIDTH, 3 * WIDTH), normal(WIDTH, 3 * WIDTH))),
    "odd": (gru, (normal(3, 5, 31), normal(5, 70), normal(31, 210), normal(70, 210))),
    "inside": (inside, (SEQUENCE, STATE, SQUARE, normal(WIDTH, WIDTH, scale=0.03))),
    "either": (either, (SEQUENCE, STATE, SQUARE, normal(WIDTH, WIDTH, scale=0.03))),
    "until": (until, (STATE, SQUARE)),
    "changed": (changed, (STATE, SQUARE)),
}


@pytest.mark.parametrize("name", CASES)
def test_answers(name: str):
    function, inputs = CASES[name]
    with jax.default_matmul_precision("high"):
        compare = partial(np.testing.assert_allclose, rtol=ROUNDING, atol=ROUNDING)
        check(function, *inputs, modes=ALL_MODES if name == "odd" else ("strict",), compare=compare)


def bodies(executable: Executable) -> Iterator[Sequence[Record]]:
    """The records of each loop that has launches in it."""
    program = executable.program
    records = decode_records(program.code, program.origins)
    for begin, end in enumerate(partners(records)):
        if records[begin].kind is KcLoop and any(begin < launch.first < end for launch in program.launches):
            yield records[begin + 1 : end]


def compiled(function: Callable[..., Any], *shapes: Sequence[int], dtype: Any = jnp.bfloat16) -> Executable:
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return hlo2tx8.compile(jax.jit(function).lower(*arguments).as_text())


def loaded(executable: Executable, records: Sequence[Record]) -> set[int]:
    """The inputs that are loaded in these records."""
    slots = executable.program.slots
    found = {slot for r in records if r.kind is Rdma and isinstance(slot := r.fields["slot"], int)}
    return {slots[slot].index for slot in found if slots[slot].kind is SlotKind.INPUT}


LSTM = ((64, 32, 512), (32, 512), (32, 512), (512, 2048), (512, 2048), (2048,))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_weights_are_loaded_before_the_loop(dtype: Any):
    """So are the parts that f32 is multiplied in, and what is added to rows; the number of the turn is in a register."""
    executable = compiled(lstm, *LSTM, dtype=dtype)
    (body,) = bodies(executable)
    assert not loaded(executable, body) & {3, 4, 5}
    assert not any(record.kind is KcLoadScalar for record in body)
    assert len({launch.name for launch in executable.program.launches}) < len(executable.program.launches)


def test_weights_that_have_no_room_are_loaded_in_each_turn():
    wide = ((4, 16, 6144), (16, 6144), (6144, 6144), (6144, 6144))
    executable = compiled(inside, *wide)
    assert all(loaded(executable, body) for body in bodies(executable))


def test_buffers_that_stay_are_there_up_to_the_end_of_the_loop():
    program = compiled(lstm, *LSTM).program
    records = decode_records(program.code, program.origins)
    loop = max((b for b in range(len(records)) if records[b].kind is KcLoop), key=lambda b: partners(records)[b] - b)
    end = partners(records)[loop]
    staying = [b for b in program.buffers if b.first_record < loop < b.last_record]
    assert staying and all(b.last_record == end for b in staying)
    others = [b for b in program.buffers if loop < b.first_record <= b.last_record < end]
    assert max(b.end for b in others) <= min(b.address for b in staying)


def gradients(rows: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    def loss(w: Any, u: Any, b: Any) -> Any:
        return jnp.sum(lstm(rows, h, c, w, u, b)[1] ** 2)

    return jax.grad(loss, (0, 1, 2))(w, u, b)


@pytest.mark.parametrize("reassociate", [True, False])
def test_gradients_of_weights(reassociate: bool):
    """They are summed behind the loop, unless every rounding is to stay where it is."""
    rows, h, c, w, u, b = CASES["lstm"][1]
    with jax.default_matmul_precision("high"):
        jitted = jax.jit(gradients)
        expected = jitted(rows, h, c, w, u, b)
        text = jitted.lower(rows, h, c, w, u, b).as_text()
    executable = hlo2tx8.compile(text, Options(mode="strict", reassociate=reassociate))
    for found, reference in zip(executable.execute(rows, h, c, w, u, b), expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-3, atol=1e-3 * float(np.abs(reference).max()))


@pytest.mark.parametrize(("rows", "width", "dtype"), [(256, 1024, jnp.bfloat16), (512, 2048, jnp.float32)])
def test_a_loop_takes_no_longer_than_its_turns_one_by_one(rows: int, width: int, dtype: Any):
    """What kernels do with room that is left, they do with that beside what stays: else none of them would fit."""
    turns = 8

    def turn(x: Any, weights: Sequence[Any]) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    def loop(x: Any, *weights: Any) -> Any:
        return lax.fori_loop(0, turns, lambda _, x: turn(x, weights), x)

    shapes = (rows, width), *((width, width) for _ in range(3))
    one, all_turns = (compiled(own, *shapes, dtype=dtype).report.cycles for own in (lambda x, *w: turn(x, w), loop))
    assert all_turns < SLACK * turns * one
