"""A chain of vector instructions on what one has widened, in one buffer, where nothing else reads what they make in between.

    convert dst(%a) src(%q)                    convert dst(%a) src(%q)
    sub dst(%b) a(%a) unit(%z)          ⟶      sub dst(%a) a(%a) unit(%z)
    mul dst(%c) a(%b) unit(%s)                 mul dst(%a) a(%a) unit(%s)

Weights that are made of what is loaded then take as much room as if they were only converted.
"""

from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.forms import CtVS, CtVuV, CtVuVLoop, CtVV
from hlo2tx8.dialects import spm

ARITHMETIC = (CtVV, CtVS, CtVuV, CtVuVLoop)


def in_place(vector: SSAValue) -> SSAValue:
    """Rewrites what makes a vector; gives the buffer in which it is then."""
    made = _writer(vector)
    if not isinstance(made, ARITHMETIC) or not isinstance(source := made.field("a"), SSAValue):
        return vector
    source = in_place(source)
    before, own = source.owner, vector.owner
    if not isinstance(before, spm.AllocOp) or not isinstance(own, spm.AllocOp) or before.size_bytes != own.size_bytes:
        return vector
    users = [use.operation for use in source.uses]
    if {op for op in users if isinstance(op, Instruction) and op.field("dst") is not source} != {made}:
        return vector
    widened = next((op for op in users if isinstance(op, CtConvert) and op.field("dst") is source), None)
    if widened is None or widened.fmt.bytes <= widened.fmt2.bytes or any(op.parent is not made.parent for op in users):
        return vector
    vector.replace_all_uses_with(source)
    own.detach()
    own.erase()
    return source


def _writer(buffer: SSAValue) -> Operation | None:
    """The last instruction that writes a buffer, if all that use it are instructions of one block."""
    users = [use.operation for use in buffer.uses]
    writers = [op for op in users if isinstance(op, Instruction) and op.field("dst") is buffer]
    if len(writers) < len(users) and any(not isinstance(op, Instruction) or op.parent is not users[0].parent for op in users):
        return None
    last = None
    for op in writers:
        last = op if last is None or last.is_before_in_block(op) else last
    return last
