"""Values of a graph that is traced, and the names that they have."""

# pyright: basic

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from hlo2tx8.frontend.traced import Lost, Refused


@dataclass(frozen=True)
class TracedValue:
    """An array of the traced program, or a tuple of values, which is a sequence. `known` gives it at compile time, Refused if
    that cannot be; `is_constant` if it needs none of the model's inputs for that.
    """

    array: Any
    known: Callable[[], Any]
    is_constant: bool = False

    @classmethod
    def of_constant(cls, array: Any) -> "TracedValue":
        """A constant of numpy's."""
        return cls(array, lambda: array, True)

    @classmethod
    def of_traced(cls, array: Any, why: str = "it depends on what a loop computes") -> "TracedValue":
        """An array that cannot be known at compile time."""

        def known() -> Any:
            raise Refused(why)

        return cls(array, known)

    @classmethod
    def of_sequence(cls, values: Any) -> "TracedValue":
        """A sequence of values."""

        def known() -> Any:
            raise Refused("a sequence is no array")

        return cls(tuple(values), known)


@dataclass
class NameScope:
    """Names of values, also of the graphs around; opsets by domain; attributes of the function's call that nodes refer to."""

    opsets: Mapping[str, int]
    parent: "NameScope | None" = None
    values: dict[str, TracedValue | None] = field(default_factory=dict[str, "TracedValue | None"])
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    depth: int = 0

    def __getitem__(self, name: str) -> TracedValue | None:
        """The value of that name, None for "" and for an input of a function that its call leaves out."""
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        if not name:
            return None
        raise ValueError(f"nothing gives {name!r}")

    def inside(self, values: Mapping[str, TracedValue | None]) -> "NameScope":
        """The scope of a graph inside of this one."""
        return NameScope(self.opsets, self, dict(values), self.attributes, self.depth + 1)


def _no_value() -> Any:
    raise Lost


LOST = TracedValue(None, _no_value)
"""In place of what a refused node would have computed."""


def plain_array(value: TracedValue) -> Any:
    """The array of a value; Refused if it is a sequence."""
    if isinstance(value.array, tuple):
        raise Refused("takes no sequence")
    return value.array if isinstance(value.array, jax.Array) else jnp.asarray(value.array)
