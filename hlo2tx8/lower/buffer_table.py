"""The table of named buffers on its way from the allocator to the program, as attributes: what strict mode checks accesses against.

func.func @entry(...) attributes {buffers = [{name = "sum.3", address = 65536, size = 512, copies = 2, stride = 512}]}
tx8.CGRATensor_ArithOp_V_VV_add dst(%a) a(%x) b(%y) n(128) fp32 {buffers = array<i64: 0, 1, 2>}     // dst, a and b
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.utils.hints import isa

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.fields import SPM_ROLES
from hlo2tx8.device.program import Buffer, BufferUse
from hlo2tx8.dialects import spm

ATTRIBUTE = "buffers"
NUMBERS = ("address", "size", "copies", "stride")


def note_buffers(function: func.FuncOp, addresses: Mapping[SSAValue, int], strides: Mapping[SSAValue, int]) -> None:
    """Writes down where every `spm.alloc` of a function will be, and which of them each instruction's addresses are in."""
    allocs = [o for o in function.walk() if isinstance(o, spm.AllocOp)]
    numbers: dict[SSAValue, int] = {alloc.result: i for i, alloc in enumerate(allocs)}
    names: dict[SSAValue, str] = {}
    for op in function.walk():
        if not isinstance(op, Instruction):
            continue
        values = op.values()
        accesses = [a for a in op.accesses() if a.space != "ddr"]
        roots = [spm.root_buffer(v) for a in accesses if isinstance(v := values[a.field], SSAValue)]
        if len(roots) == len(accesses) and all(root in numbers for root in roots):
            op.attributes[ATTRIBUTE] = DenseArrayBase.from_list(i64, [numbers[root] for root in roots])
        for access, root in zip(accesses, roots, strict=False):
            if access.is_write:
                names.setdefault(root, _name(op))
    table = (
        (names.get(a.result, "unwritten"), (addresses[a.result], a.size_bytes, a.num_copies, strides[a.result])) for a in allocs
    )
    function.attributes[ATTRIBUTE] = ArrayAttr(
        DictionaryAttr({"name": StringAttr(name)} | {k: IntegerAttr(v, i64) for k, v in zip(NUMBERS, row, strict=True)})
        for name, row in table
    )


def _name(op: Instruction) -> str:
    """The HLO instruction the first writer came from, or the argument it loads."""
    slot = op.values().get("slot")
    if isinstance(slot, SSAValue):
        return f"argument{slot.index}" if isinstance(slot, BlockArgument) else "scratch"
    return op.origin.rpartition(" ")[2] or op.MNEMONIC


def uses_of(op: Instruction, record: int) -> list[BufferUse]:
    """The noted uses of an instruction that becomes that record."""
    noted = op.attributes.get(ATTRIBUTE)
    if not isinstance(noted, DenseArrayBase):
        return []
    operands = [i for i, f in enumerate(op.FIELDS) if f.role in SPM_ROLES]
    return [BufferUse(record, i, int(buffer)) for i, buffer in zip(operands, noted.get_values(), strict=True)]


def buffers_of(function: func.FuncOp, uses: Sequence[BufferUse], loops: Sequence[tuple[int, int]]) -> tuple[Buffer, ...]:
    """The noted buffers with their lives: from the first to the last use, through every loop they are used in and around.

    loops: (record of the beginning, of the end), inner ones first.
    """
    noted = function.attributes.get(ATTRIBUTE)
    rows = [row for row in noted.data if isinstance(row, DictionaryAttr)] if isa(noted, ArrayAttr[Attribute]) else []
    lives: dict[int, tuple[int, int]] = {}
    for use in uses:
        first, last = lives.get(use.buffer, (use.record, use.record))
        lives[use.buffer] = (min(first, use.record), max(last, use.record))
    for begin, end in loops:
        for number, (first, last) in lives.items():
            if first < begin < last < end:
                lives[number] = (first, end)
            elif begin < first < end < last:
                lives[number] = (begin, last)
    return tuple(_buffer(row, *lives.get(number, (0, -1))) for number, row in enumerate(rows))


def end_of_buffers(function: func.FuncOp) -> int:
    """The address behind the last of the noted buffers, 0 if there are none."""
    noted = function.attributes.get(ATTRIBUTE)
    rows = [row for row in noted.data if isinstance(row, DictionaryAttr)] if isa(noted, ArrayAttr[Attribute]) else []
    found = [_buffer(row, 0, -1) for row in rows]
    return max((buffer.address + buffer.stride_bytes * buffer.copies for buffer in found), default=0)


def _buffer(row: DictionaryAttr, first: int, last: int) -> Buffer:
    name, numbers = row.data["name"], [row.data[k] for k in NUMBERS]
    assert isinstance(name, StringAttr)
    address, size, copies, stride = (n.value.data for n in numbers if isinstance(n, IntegerAttr))
    return Buffer(name.data, address, size, copies, stride, first, last)
