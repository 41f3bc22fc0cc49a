"""What is known of a value that constants make."""

from typing import Any

import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects.hlo import LiteralAttr

Array = npt.NDArray[Any]


def scalar_of(value: SSAValue) -> Array | None:
    """The element, of rank 0, of which all elements of a value are copies, if that is known."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name == "stablehlo.broadcast_in_dim":
        return scalar_of(owner.operands[0])
    literal = owner.properties.get("value")
    if owner.name == "stablehlo.constant" and isinstance(literal, LiteralAttr) and literal.array.ndim == 0:
        return literal.array
    return None
