"""What a module should give, and how far each element may be off."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.error_bounds import evaluate_with_bounds
from hlo2tx8.tools.compare import Mismatch, compare, describe_difference, named

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Reference:
    """Expected results; `limits` gives, when it is asked, what each element may be off (float64)."""

    expected: Sequence[Array]
    limits: Callable[[], Sequence[Array]]

    @staticmethod
    def of(module: ModuleOp, arrays: Sequence[Array], max_steps: int = 0) -> "Reference":
        """The evaluator's results, with the errors that the module's operations declare, carried through it."""
        kept = module.clone()
        return Reference(list(evaluate(kept, *arrays, max_steps=max_steps)), lambda: evaluate_with_bounds(kept, *arrays)[1])

    @staticmethod
    def of_cpu(module: ModuleOp, arrays: Sequence[Array], expected: Sequence[Array]) -> "Reference":
        """XLA:CPU's results, which are off themselves, by more than the chip's."""
        kept = module.clone()
        return Reference(expected, lambda: [1.5 * b for b in evaluate_with_bounds(kept, *arrays, is_xla=True)[1]])

    @staticmethod
    def within(expected: Sequence[Array], absolute: float | None, relative: float | None) -> "Reference":
        """Expected results, and bounds that the user names."""
        return Reference(expected, lambda: named(expected, absolute, relative))

    @cached_property
    def allowed(self) -> Sequence[Array]:
        """What each element may be off."""
        return self.limits()

    def mismatches(self, actual: Sequence[Array]) -> list[Mismatch]:
        """The outputs that differ by more than is allowed."""
        return compare(actual, self.expected, self.allowed) if self._differs(actual) else []

    def describe(self, actual: Sequence[Array]) -> str:
        """How close the results are, as text."""
        exact = [np.zeros(e.shape) for e in self.expected]
        return describe_difference(actual, self.expected, self.allowed if self._differs(actual) else exact)

    def _differs(self, actual: Sequence[Array]) -> bool:
        """Are they not equal bit for bit? Bounds cost more than results and are not needed for those."""
        return bool(compare(actual, self.expected, [np.zeros(e.shape) for e in self.expected]))
