"""What expansions of an op have in common: new ops in front of it, with its origin."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo.types import numpy_dtype


@dataclass
class Expansion:
    """Builds ops in front of one op, with its origin."""

    op: Operation

    def emit(self, name: str, operands: Sequence[SSAValue], type_: Attribute, **properties: Attribute) -> SSAValue:
        """The result of a new `stablehlo.<name>`."""
        return self.insert(stablehlo.OPS[name](operands, [type_], properties)).results[0]

    def insert(self, new: Operation) -> Operation:
        """A new op, in its place."""
        new.attributes |= {k: v for k, v in self.op.attributes.items() if k == "loc"}
        return Builder(InsertPoint.before(self.op)).insert(new)

    def splat(self, value: int, type_: TensorType[Attribute]) -> SSAValue:
        """A constant whose elements are all `value`."""
        dtype = numpy_dtype(type_.element_type)
        return self.emit("constant", [], type_, value=LiteralAttr.from_array(np.array(value, dtype)))

    def replace(self, *values: SSAValue) -> None:
        """Let these values stand for the op's results."""
        Rewriter.replace_op(self.op, [], list(values))
