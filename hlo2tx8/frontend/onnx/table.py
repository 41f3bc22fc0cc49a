"""What a row of the table of ONNX ops is: the function of jax that means the op, and what it must know at compile time.

A function takes the node as a `NodeCall` and an array, or None, for each input; arrays that it gives as numpy's are constants.
Results get the dtypes that the op's schema says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2tx8.frontend.traced import Refused


@dataclass(frozen=True)
class NodeCall:
    """A node as functions of the table see it: `since` is the opset that its meaning is from, `outputs` are the names of its
    results, "" where nobody asks for one; `attributes` hold the schema's defaults too. Graphs in attributes are as the file has
    them.
    """

    op: str
    name: str
    since: int
    attributes: Mapping[str, Any]
    outputs: tuple[str, ...]

    def __getitem__(self, key: str) -> Any:
        """The value of an attribute; None if it is not given and has no default."""
        return self.attributes.get(key)

    def wants(self, number: int) -> bool:
        """Does anything ask for that result?"""
        return number < len(self.outputs) and bool(self.outputs[number])


@dataclass(frozen=True)
class OpRow:
    """A row: `apply(call, *inputs)` gives a result or a tuple of them. The inputs of `statics` are numpy arrays, known at compile
    time; so are all where `is_folded`, and must not depend on the model's inputs, because the elements say the shape of the
    result.
    """

    apply: Callable[..., Any]
    statics: tuple[int, ...] = ()
    is_folded: bool = False


def plain(**functions: Callable[..., Any]) -> dict[str, OpRow]:
    """Rows of functions of the inputs and nothing else."""
    return {name: OpRow(_ignoring_call(function)) for name, function in functions.items()}


def _ignoring_call(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(_: NodeCall, *inputs: Any) -> Any:
        return function(*inputs)

    return apply


def refusing(reason: str, *names: str) -> dict[str, OpRow]:
    """Rows of ops that are refused, and why."""

    def apply(_: NodeCall, *inputs: Any) -> Any:
        raise Refused(reason)

    return {name: OpRow(apply) for name in names}


def axes_of(call: NodeCall, given: Any, rank: int) -> tuple[int, ...] | None:
    """The dimensions that an input, or an attribute of older opsets, names, from 0 on; None if neither does."""
    axes = call["axes"] if given is None else np.asarray(given).ravel().tolist()
    return None if axes is None else tuple(axis_of(int(axis), rank) for axis in axes)


def axis_of(axis: int, rank: int) -> int:
    """A dimension from 0 on of one that may be counted from the end; ValueError if there is none."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"there is no dimension {axis} of {rank}")
    return axis % max(rank, 1)


def numbers(values: Any) -> tuple[int, ...]:
    """Elements of an array as Python's integers."""
    return tuple(int(value) for value in np.asarray(values).ravel())
