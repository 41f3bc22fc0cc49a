"""Sequences and optional values: tuples of values, and values that may be missing, while a model is traced."""

# pyright: basic

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from hlo2tx8.frontend.onnx.scope import NameScope, TracedValue, plain_array
from hlo2tx8.frontend.onnx.table import NodeCall, axis_of, numbers

Values = Sequence[TracedValue]


def _position(value: TracedValue | None, size: int, default: int) -> int:
    place = default if value is None else int(np.asarray(value.known()).reshape(()))
    if not -size <= place <= size:
        raise ValueError(f"a sequence of {size} has no element {place}")
    return place + size if place < 0 else place


def _construct(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    return [TracedValue.of_sequence(inputs)]


def _at(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    return [inputs[0].array[_position(inputs[1], len(inputs[0].array), 0)]]


def _insert(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    sequence = list(inputs[0].array)
    sequence.insert(_position(inputs[2] if len(inputs) > 2 else None, len(sequence), len(sequence)), inputs[1])
    return [TracedValue.of_sequence(sequence)]


def _erase(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    sequence = list(inputs[0].array)
    del sequence[_position(inputs[1] if len(inputs) > 1 else None, len(sequence), len(sequence) - 1)]
    return [TracedValue.of_sequence(sequence)]


def _length(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    return [TracedValue.of_constant(np.array(len(inputs[0].array), np.int64))]


def _concatenate(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    arrays = [plain_array(value) for value in inputs[0].array]
    found = (jnp.stack if call["new_axis"] else jnp.concatenate)(arrays, call["axis"])
    return [TracedValue.of_traced(found)]


def _split(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    """Parts of an array along an axis, of given sizes or one; each without the axis if `keepdims` is 0 and no sizes are given."""
    x = plain_array(inputs[0])
    axis, sizes = axis_of(call["axis"], x.ndim), None
    if len(inputs) > 1 and inputs[1] is not None:
        given = np.asarray(inputs[1].known())
        length = x.shape[axis]
        whole = (int(given),) * -(-length // int(given)) if given.ndim == 0 else numbers(given)
        sizes = [min(size, length - sum(whole[:k])) for k, size in enumerate(whole)]
    starts = np.cumsum([0, *(sizes or [1] * x.shape[axis])])
    parts = [lax.slice_in_dim(x, int(a), int(b), axis=axis) for a, b in pairwise(starts)]
    if sizes is None and not call["keepdims"]:
        parts = [jnp.squeeze(part, axis) for part in parts]
    return [TracedValue.of_sequence([TracedValue.of_traced(part) for part in parts])]


def _optional(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Sequence[TracedValue | None]:
    return [inputs[0] if inputs else None]


def _has_element(_: Any, call: NodeCall, inputs: Values, scope: NameScope) -> Values:
    return [TracedValue.of_constant(np.array(bool(inputs) and inputs[0] is not None))]


SEQUENCES: dict[str, Callable[..., Any]] = {
    "ConcatFromSequence": _concatenate,
    "Optional": _optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
"""As ops with graphs, their functions take values, not arrays."""
