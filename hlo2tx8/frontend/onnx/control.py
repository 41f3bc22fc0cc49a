"""Ops with graphs inside: If, Loop and Scan as control flow of the program, or turn by turn where results of turns have several
shapes.

Loop(M, true, state) { state' }         a loop with a fixed trip count, or while a condition holds
Loop(M, true, state) { state', rows }   rows of all turns are a result, so that M must be known
"""

# pyright: basic

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.scope import LOST, NameScope, TracedValue, plain_array
from hlo2tx8.frontend.onnx.sequences import SEQUENCES
from hlo2tx8.frontend.onnx.table import NodeCall, axis_of
from hlo2tx8.frontend.traced import Lost, Refused

MOST_TURNS = 1000
"""How often a loop's graph is traced at most, where each turn is traced."""
Values = Sequence[TracedValue]


class _Unrolled(Exception):
    """A loop whose turns must be traced one by one."""


def _attempt(tracer: Any, function: Callable[[], Any]) -> Any:
    """What the function gives; nothing is noted as refused if it cannot, which `_Unrolled` says."""
    before = dict(tracer.refused)
    try:
        found = function()
    except (Lost, TypeError, Refused) as error:
        tracer.refused = before
        raise _Unrolled(str(error)) from None
    if tracer.refused != before:
        tracer.refused = before
        raise _Unrolled
    return found


def _if(tracer: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    """The branch that a constant condition chooses; both, where they give arrays of the same types; else the condition must be
    known.
    """
    branches = call["then_branch"], call["else_branch"]
    condition = inputs[0]

    def chosen() -> Values:
        return tracer.graph(branches[0 if np.asarray(condition.known()).reshape(()) else 1], scope)

    if condition.is_constant:
        return chosen()
    try:
        arrays = _attempt(
            tracer,
            lambda: lax.cond(
                jnp.reshape(plain_array(condition), ()),
                *(lambda graph=graph: [plain_array(value) for value in tracer.graph(graph, scope)] for graph in branches),
            ),
        )
    except _Unrolled:
        return chosen()
    return [TracedValue(array, lambda k=k: chosen()[k].known()) for k, array in enumerate(arrays)]


def _traced(arrays: Sequence[Any]) -> list[TracedValue]:
    return [TracedValue.of_traced(array) for array in arrays]


def _always(tracer: Any, body: Any, scope: NameScope, states: Values) -> bool:
    """Does a loop's graph say that it goes on, whatever it computes, if it has gone on so far?"""
    before = dict(tracer.refused)
    index, goes_on = TracedValue.of_traced(jnp.int64(0)), TracedValue.of_constant(np.array(True))
    try:
        found = tracer.graph(body, scope, [index, goes_on, *_traced([value.array for value in states])])[0]
        return found.is_constant and bool(np.asarray(found.known()).reshape(()))
    except (Lost, Refused, TypeError, ValueError):
        return False
    finally:
        tracer.refused = before


def _loop(tracer: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    """States after the last turn, and what each turn gives beside them, stacked."""
    (most, goes_on, *states), body = [*inputs, None][: max(2, len(inputs))], call["body"]
    num_rows = len(body.output) - 1 - len(states)
    is_plain = not any(isinstance(value.array, tuple) for value in states)
    begins = goes_on is None or (goes_on.is_constant and bool(np.asarray(goes_on.known()).reshape(())))
    try:
        if not is_plain:
            raise _Unrolled
        if num_rows or (begins and most is not None and most.is_constant):
            if goes_on is not None and not np.asarray(goes_on.known()).reshape(()):
                raise _Unrolled
            if most is None or not _always(tracer, body, scope, states):
                raise _Unrolled
            return _counted(tracer, body, scope, int(np.asarray(most.known()).reshape(())), states)
        return _while(tracer, body, scope, most, goes_on, states)
    except _Unrolled:
        return _turns(tracer, body, scope, most, goes_on, states, num_rows)


def _counted(tracer: Any, body: Any, scope: NameScope, turns: int, states: Values) -> Values:
    """A loop of so many turns."""
    goes_on = TracedValue.of_constant(np.array(True))

    def turn(carried: Any, index: Any) -> Any:
        values = tracer.graph(body, scope, [TracedValue.of_traced(index), goes_on, *_traced(carried)])[1:]
        arrays = [plain_array(value) for value in values]
        return arrays[: len(states)], arrays[len(states) :]

    first = [plain_array(value) for value in states]
    last, rows = _attempt(tracer, lambda: lax.scan(turn, first, jnp.arange(turns, dtype=jnp.int64)))
    return _traced([*last, *rows])


def _while(tracer: Any, body: Any, scope: NameScope, most: Any, goes_on: Any, states: Values) -> Values:
    """A loop while a condition holds, at most so many turns; it gives its states alone."""
    limit = None if most is None else jnp.reshape(plain_array(most), ()).astype(jnp.int64)
    begins = jnp.asarray(True) if goes_on is None else jnp.reshape(plain_array(goes_on), ())

    def holds(carried: Any) -> Any:
        index, condition, _ = carried
        return condition if limit is None else condition & (index < limit)

    def turn(carried: Any) -> Any:
        index, condition, arrays = carried
        values = tracer.graph(body, scope, _traced([index, condition, *arrays]))
        condition, *arrays = (plain_array(value) for value in values)
        return index + 1, jnp.reshape(condition, ()), arrays

    first = [plain_array(value) for value in states]
    return _traced(_attempt(tracer, lambda: lax.while_loop(holds, turn, (jnp.int64(0), begins, first)))[2])


def _turns(tracer: Any, body: Any, scope: NameScope, most: Any, goes_on: Any, states: Values, num_rows: int) -> Values:
    """Each turn traced by itself; how many there are must be known at compile time."""
    limit = MOST_TURNS + 1 if most is None else int(np.asarray(most.known()).reshape(()))
    rows: list[list[Any]] = [[] for _ in range(num_rows)]
    index, states = 0, list(states)
    while index < limit and (goes_on is None or bool(np.asarray(goes_on.known()).reshape(()))):
        if index == MOST_TURNS:
            raise Refused(f"more than {MOST_TURNS} turns of different shapes")
        count = TracedValue.of_constant(np.array(index, np.int64))
        current = TracedValue.of_constant(np.array(True))
        goes_on, *values = tracer.graph(body, scope, [count, current, *states])
        states = values[: len(states)]
        for row, value in zip(rows, values[len(states) :], strict=True):
            row.append(plain_array(value))
        index += 1
    if num_rows and not index:
        raise Refused("a loop without turns has no rows that say a shape")
    return [*states, *_traced([jnp.stack(row) for row in rows])]


def _scan(tracer: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    """States after the last slice of the inputs, and what the graph gives for each, stacked; in opset 8 for each of a batch."""
    num = call["num_scan_inputs"]
    if call.since >= 9:
        arrays = [plain_array(value) for value in inputs]
        return _traced(_scanned(tracer, call, scope, arrays[: len(arrays) - num], arrays[len(arrays) - num :]))
    if inputs[0] is not None:
        raise Refused("sequence_lens of Scan before opset 9")
    arrays = [plain_array(value) for value in inputs[1:]]
    parts = [
        _scanned(
            tracer, call, scope, *([a[k] for a in group] for group in (arrays[: len(arrays) - num], arrays[len(arrays) - num :]))
        )
        for k in range(arrays[0].shape[0])
    ]
    return _traced([jnp.stack(column) for column in zip(*parts, strict=True)])


def _scanned(tracer: Any, call: NodeCall, scope: NameScope, states: Sequence[Any], rows: Sequence[Any]) -> list[Any]:
    body = call["body"]
    num_out = len(body.output) - len(states)
    axes, directions = (call[f"scan_input_{key}"] or [0] * len(rows) for key in ("axes", "directions"))
    directions = call["directions"] or directions
    moved = [
        jnp.flip(row, axis_of(axis, row.ndim)) if backward else row
        for row, axis, backward in zip(rows, axes, directions, strict=True)
    ]
    moved = [jnp.moveaxis(row, axis, 0) for row, axis in zip(moved, axes, strict=True)]

    def turn(carried: Any, slices: Any) -> Any:
        arrays = [plain_array(value) for value in tracer.graph(body, scope, _traced([*carried, *slices]))]
        return arrays[: len(states)], arrays[len(states) :]

    last, found = lax.scan(turn, list(states), moved)
    axes, directions = (call[f"scan_output_{key}"] or [0] * num_out for key in ("axes", "directions"))
    found = [jnp.flip(row, 0) if backward else row for row, backward in zip(found, directions, strict=True)]
    return [*last, *(jnp.moveaxis(row, 0, axis) for row, axis in zip(found, axes, strict=True))]


def _sequence_map(tracer: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    """The graph for each element of a sequence, and of the others, of arrays the whole: sequences of what it gives."""
    num = len(inputs[0].array)
    rows = [
        tracer.graph(call["body"], scope, [v.array[k] if isinstance(v.array, tuple) else v for v in inputs]) for k in range(num)
    ]
    return [TracedValue.of_sequence(column) for column in zip(*rows, strict=True)] or [LOST] * len(call.outputs)


CONTROL: dict[str, Callable[..., Values]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
    **SEQUENCES,
}
"""Ops whose functions take the tracer, the node, values and the scope."""
