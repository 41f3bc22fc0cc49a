"""A value with a bound on the error of each of its elements."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2tx8.hlo.spec import Array


class Undecided(Exception):
    """Rounding may decide how often a loop turns, or which branch is taken."""


@dataclass(frozen=True)
class Bounded:
    """The reference's array, and per element (float64) how far a correct one may be from it; None if not at all."""

    array: Array
    error: Array | None = None

    @property
    def errors(self) -> Array:
        """The bound as an array, zeros where there is no error."""
        return np.broadcast_to(np.float64(0), self.array.shape) if self.error is None else self.error

    @property
    def decided(self) -> Array:
        """The array, for what a loop or branch goes by; Undecided if another element may be right."""
        if self.error is not None:
            raise Undecided
        return self.array

    @staticmethod
    def of(array: Array, error: Array) -> "Bounded":
        """With None for a bound of zeros; a bound that is no number is infinite."""
        array = np.asarray(array)
        largest = float(np.max(error, initial=0.0))
        if np.isnan(largest):
            error = np.where(np.isnan(error), np.inf, error)
        return Bounded(array, np.broadcast_to(error, array.shape) if largest != 0 else None)

    def unknown(self) -> "Bounded":
        """The same array, of which nothing is known."""
        return Bounded(self.array, np.full(self.array.shape, np.inf))


def arrays_of(value: Any) -> Any:
    """A value of the bounding evaluator without its bounds: an array, or a tuple of values."""
    return value.array if isinstance(value, Bounded) else tuple(map(arrays_of, value))


def all_unknown(value: Any) -> Any:
    """The value with nothing known of any of its arrays."""
    return value.unknown() if isinstance(value, Bounded) else tuple(map(all_unknown, value))


def any_error(values: Iterable[Bounded]) -> bool:
    """True if one of them may be off."""
    return any(value.error is not None for value in values)
