"""Loads of a block that read the same of a tensor become one, and what is made of them alike too.

    RDMA_load dst(%a) slot(%p2) offset(%o) ...        RDMA_load dst(%a) slot(%p2) offset(%o) ...
    and dst(%b) a(%a) ...                             and dst(%b) a(%a) ...
    RDMA_load dst(%c) slot(%p2) offset(%o) ...   ⟶
    and dst(%d) a(%c) ...                             and dst(%d) a(%a) ...

Products of different parts of the same bytes read these once, and their factors.
"""

from collections.abc import Hashable

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.base import BufferType
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.nested import nested_ops, ops_of

MOST_DEPTH = 8
"""Ops that an offset is computed by, on top of each other."""


def share_equal_loads(root: Operation) -> None:
    """In all blocks inside of an op in which several products are computed."""
    found = tuple(nested_ops(root))
    blocks: dict[Block, int] = {}
    for op in found:
        if isinstance(op, NeGemm) and op.parent is not None:
            blocks[op.parent] = blocks.get(op.parent, 0) + 1
    if max(blocks.values(), default=0) < 2:
        return
    stored = {op.field("slot") for op in found if isinstance(op, Wdma)}
    for block, count in blocks.items():
        if count > 1:
            _share(block, stored)


def _share(block: Block, stored: set[int | SSAValue]) -> None:
    known: dict[Hashable, SSAValue] = {}
    for op in ops_of(block):
        if not isinstance(op, Rdma | TdmaGatherScatter) or (isinstance(op, Rdma) and op.field("slot") in stored):
            continue
        buffer = op.field("dst")
        read = [value for value in op.operands if value is not buffer and isinstance(value.type, BufferType)]
        if not all(map(is_written_once, (buffer, *read))):
            continue
        key = (op.name, *(key_of(value, MOST_DEPTH) for value in op.operands if value is not buffer), *_facts(op))
        first = known.setdefault(key, buffer)  # pyright: ignore[reportArgumentType]
        if first is not buffer and isinstance(buffer, SSAValue) and isinstance(alloc := buffer.owner, Operation):
            op.detach()
            op.erase()
            buffer.replace_all_uses_with(first)
            alloc.detach()
            alloc.erase()


def is_written_once(buffer: int | SSAValue) -> bool:
    """Is it a buffer that only instructions of its own block use, of which one writes it?"""
    if not isinstance(buffer, SSAValue) or not isinstance(buffer.owner, spm.AllocOp):
        return False
    users = {use.operation for use in buffer.uses}
    instructions = [op for op in users if isinstance(op, Instruction) and op.parent is buffer.owner.parent]
    return len(instructions) == len(users) and sum(_writes(op, buffer) for op in instructions) == 1


def _writes(op: Instruction, buffer: SSAValue) -> bool:
    return any(access.is_write and op.field(access.field) is buffer for access in op.accesses())


def _facts(op: Operation) -> tuple[Hashable, ...]:
    named = sorted((*op.properties.items(), *op.attributes.items()))
    return tuple((name, value) for name, value in named if name != "loc")


def key_of(value: SSAValue, depth: int) -> Hashable:
    """Equal for values that ops without effects compute alike."""
    op = value.owner
    if not isinstance(op, Operation) or op.regions or isinstance(op, spm.AllocOp) or not depth:
        return value
    return (op.name, op.results.index(value), *_facts(op), *(key_of(operand, depth - 1) for operand in op.operands))
