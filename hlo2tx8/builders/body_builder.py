"""Builds the bodies (regions of scalar HLO ops) of the reduces, sorts and scatters that expansions make."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.ir import Attribute, Block, Region, SSAValue

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.hlo.types import numpy_dtype

PRED: TensorType[Attribute] = TensorType(i1, [])


class BodyBuilder:
    """A block under construction whose arguments, `args`, are scalars of these element types."""

    def __init__(self, elements: Sequence[Attribute]) -> None:
        self.block = Block(arg_types=[TensorType(element, []) for element in elements])
        self.args: tuple[SSAValue, ...] = tuple(self.block.args)

    def emit(self, name: str, operands: Sequence[SSAValue], type_: Attribute | None = None, **properties: Attribute) -> SSAValue:
        """The result of `stablehlo.<name>`, of the type of the first operand unless said otherwise."""
        op = stablehlo.OPS[name](operands, [type_ or operands[0].type], properties)
        self.block.add_op(op)
        return op.results[0]

    def compare(self, direction: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """a EQ, LT, ... b."""
        return self.emit("compare", [a, b], PRED, comparison_direction=StringAttr(direction))

    def number(self, value: int, like: SSAValue) -> SSAValue:
        """A constant of the type of another value."""
        literal = LiteralAttr.from_array(np.array(value, numpy_dtype(as_tensor(like.type).element_type)))
        return self.emit("constant", [], like.type, value=literal)

    def inline(self, body: Block, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """Copy the ops of a body of the source, applied to these arguments; returns what it yields."""
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))
        for op in body.ops:
            if op is body.last_op:
                return [values[operand] for operand in op.operands]
            self.block.add_op(cloned(op, values))
        return []

    def region(self, *results: SSAValue) -> Region:
        """The region, ended by a return of these values."""
        self.block.add_op(stablehlo.ReturnOp(list(results)))
        return Region(self.block)
