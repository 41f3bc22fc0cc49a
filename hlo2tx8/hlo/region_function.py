"""Regions as functions on whole arrays: the combiners and comparators of reduces, windows, sorts and scatters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Region, SSAValue

from hlo2tx8.hlo.accumulation import only_adds
from hlo2tx8.hlo.spec import Array

if TYPE_CHECKING:
    from hlo2tx8.hlo.evaluator import Evaluator


@dataclass(frozen=True)
class RegionFunction:
    """A region written for scalars, applied to arrays of one shape; `values` holds the values that it reads from outside."""

    evaluator: "Evaluator"
    region: Region
    values: Mapping[SSAValue, Any]

    @property
    def only_adds(self) -> bool:
        """True if the region returns the sum of its two arguments."""
        return only_adds(self.region.block)

    def __call__(self, *arguments: Array) -> list[Array]:
        """What the region yields for every element."""
        from hlo2tx8.hlo.evaluator import is_elementwise

        shape, values = np.shape(arguments[0]), dict(self.values)
        if is_elementwise(self.region, self.evaluator.functions):
            found = self.evaluator.lifted().run(self.region.block, list(arguments), values)
            return [np.broadcast_to(f, shape) for f in found]
        rows = [self._element(arguments, index) for index in np.ndindex(shape)]
        if not rows:
            return [np.empty(shape, a.dtype) for a in arguments]
        return [np.stack(column).reshape(shape) for column in zip(*rows, strict=True)]

    def _element(self, arguments: Sequence[Array], index: tuple[int, ...]) -> list[Array]:
        scalars = [np.asarray(a[index]) for a in arguments]
        return self.evaluator.run(self.region.block, scalars, dict(self.values))
