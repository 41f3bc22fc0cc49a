"""What is known of values that are made of constants."""

from typing import Any

import numpy.typing as npt
from xdsl.ir import SSAValue

from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.ir import maker_of

Array = npt.NDArray[Any]


def scalar_of(value: SSAValue) -> Array | None:
    """The element (a 0-d array) that all elements of the value equal, None if that is not known."""
    owner = maker_of(value)
    if owner is None:
        return None
    if owner.name == "stablehlo.broadcast_in_dim":
        return scalar_of(owner.operands[0])
    literal = owner.properties.get("value")
    if owner.name == "stablehlo.constant" and isinstance(literal, LiteralAttr) and literal.array.ndim == 0:
        return literal.array
    return None
