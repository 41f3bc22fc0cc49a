"""Constants of the HLO dialects: arrays kept bit for bit, equal if dtype, shape and bytes are."""

import base64
import hashlib
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Array = npt.NDArray[Any]


class Literal:
    """A read-only array; a splat is kept as a 0-d array."""

    def __init__(self, array: Array) -> None:
        self.array: Array = np.ascontiguousarray(array) if array.ndim else np.array(array)
        self.array.setflags(write=False)

    @cached_property
    def digest(self) -> bytes:
        """A hash of dtype, shape and bytes."""
        return hashlib.blake2b(self.array.tobytes(), digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and other.array.dtype == self.array.dtype
            and other.array.shape == self.array.shape
            and other.digest == self.digest
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.array.dtype.name, self.array.shape, self.digest))


@irdl_attr_definition
class LiteralAttr(Data[Literal]):
    """`#hlo.literal<"bfloat16", [2], "base64 of the bytes">`; shape [] for a splat of any shape."""

    name = "hlo.literal"

    @staticmethod
    def from_array(array: Array, type_: Attribute | None = None) -> "LiteralAttr":
        """The literal of an array; one whose elements all have the same bytes becomes a splat."""
        array = np.asarray(array)
        if array.ndim and array.size:
            flat = np.ascontiguousarray(array).reshape(-1)
            rows = flat.view(np.uint8).reshape(array.size, -1)
            if (rows[-1] == rows[0]).all() and (rows == rows[0]).all():
                array = flat[:1].reshape(())
        return LiteralAttr(Literal(array))

    @property
    def array(self) -> Array:
        """The elements; 0-d for a splat."""
        return self.data.array

    def broadcast(self, shape: tuple[int, ...]) -> Array:
        """The elements in the shape of the constant, a read-only view."""
        return np.broadcast_to(self.array, shape)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Literal:
        with parser.in_angle_brackets():
            name = parser.parse_str_literal()
            parser.parse_punctuation(",")
            shape = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            parser.parse_punctuation(",")
            data = base64.b64decode(parser.parse_str_literal())
        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, name))
        return Literal(np.frombuffer(data, dtype).reshape(shape))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.array.dtype.name)
            printer.print_string(f", [{', '.join(str(n) for n in self.array.shape)}], ")
            printer.print_string_literal(base64.b64encode(self.array.tobytes()).decode())


@irdl_attr_definition
class ElementsAttr(ParametrizedAttribute):
    """An array that is an attribute of an op, not its value: paddings, replica groups. `type` has its shape."""

    name = "hlo.elements"
    value: LiteralAttr
    type: TensorType

    @property
    def array(self) -> Array:
        """All elements."""
        return self.value.broadcast(tuple(self.type.get_shape()))


def is_splat_literal(op: Operation) -> bool:
    """Has a constant op the same element everywhere?"""
    value = op.properties.get("value")
    return isinstance(value, LiteralAttr) and value.array.ndim == 0
