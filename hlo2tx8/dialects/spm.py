"""Dialect `spm`: buffers in a tile's scratchpad before they have addresses.

%b = spm.alloc {size = 32768, copies = 2} : !tx8.buffer     // two copies, used in turns
%t = spm.turn %b, %step                                     // the copy of turn %step
%o = spm.offset %t, %bytes                                  // an address inside a buffer
"""

from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Dialect, OpResult, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from hlo2tx8.device.isa import BufferType
from hlo2tx8.ir import DeclaredOp, i64_attr

KEPT = "kept"
"""Unit attribute of a buffer that holds what a tile has of a tensor while several loops read it."""
STEPS = "num_steps"
"""Number: how many steps of a loop make a part of such a buffer each, one after the other."""
BROUGHT = "brought"
"""Unit attribute of a buffer of what follows a loop's products that is loaded before they are done."""

_BUFFER = BufferType()


@irdl_op_definition
class AllocOp(DeclaredOp):
    """A buffer of `size` bytes in SPM, `copies` times."""

    name = "spm.alloc"
    size = prop_def(IntegerAttr)
    copies = prop_def(IntegerAttr)
    result = result_def(BufferType)

    def __init__(self, size: int, copies: int = 1):
        super().__init__(
            properties={"size": i64_attr(size), "copies": i64_attr(copies)},
            result_types=[_BUFFER],
        )

    @property
    def size_bytes(self) -> int:
        return self.size.value.data

    @property
    def num_copies(self) -> int:
        return self.copies.value.data

    @property
    def num_steps(self) -> int:
        """How many steps make a part of it each, one after the other."""
        steps = self.attributes.get(STEPS)
        return steps.value.data if isinstance(steps, IntegerAttr) else 1

    @property
    def step_bytes(self) -> int:
        return self.size_bytes // self.num_steps


@irdl_op_definition
class TurnOp(DeclaredOp):
    """The copy of a double buffer used in turn number `turn` of the loop: copy `turn mod copies`."""

    name = "spm.turn"
    buffer = operand_def(BufferType)
    turn = operand_def(IndexType)
    result = result_def(BufferType)
    traits = traits_def(Pure())

    def __init__(self, buffer: SSAValue, turn: SSAValue):
        super().__init__(operands=[buffer, turn], result_types=[_BUFFER])


@irdl_op_definition
class OffsetOp(DeclaredOp):
    """The address `bytes` after the start of a buffer."""

    name = "spm.offset"
    buffer = operand_def(BufferType)
    bytes = operand_def(IndexType)
    result = result_def(BufferType)
    traits = traits_def(Pure())

    def __init__(self, buffer: SSAValue, num_bytes: SSAValue):
        super().__init__(operands=[buffer, num_bytes], result_types=[_BUFFER])


def root_buffer(value: SSAValue) -> SSAValue:
    """The `spm.alloc` an address lies in."""
    while type(value) is OpResult and isinstance(op := value.op, (TurnOp, OffsetOp)):
        value = op.buffer
    return value


Spm = Dialect("spm", [AllocOp, TurnOp, OffsetOp], [])
