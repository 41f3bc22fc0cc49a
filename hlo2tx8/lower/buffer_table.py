"""The table of named buffers on its way from the allocator to the program, as attributes: what strict mode checks accesses against.

func.func @entry(...) attributes {buffers = [{name = "sum.3", address = 65536, size = 512, copies = 2, stride = 512}]}
tx8.CGRATensor_ArithOp_V_VV_add dst(%a) a(%x) b(%y) n(128) fp32 {buffers = array<i64: 0, 1, 2>}     // dst, a and b
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, BlockArgument, SSAValue

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.fields import SPM_ROLES
from hlo2tx8.device.program import Buffer, BufferUse
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.ir import i64_array, i64_attr, integers, text_attr

ATTRIBUTE = "buffers"
NUMBERS = ("address", "size", "copies", "stride")
LIFE = ("start", "end", "is_kept")


class BufferLife(NamedTuple):
    """When the allocator keeps a buffer's place, as positions in program order, and whether what stays is placed before others."""

    start: int
    end: int
    is_kept: bool


def note_buffers(
    function: func.FuncOp,
    addresses: Mapping[SSAValue, int],
    strides: Mapping[SSAValue, int],
    lives: Mapping[SSAValue, BufferLife],
) -> None:
    """Writes down where every `spm.alloc` of a function will be, and when, and which of them each instruction's addresses are
    in."""
    ops = nested_ops(function)
    allocs = [o for o in ops if isinstance(o, spm.AllocOp)]
    numbers: dict[SSAValue, int] = {alloc.result: i for i, alloc in enumerate(allocs)}
    names: dict[SSAValue, str] = {}
    for op in ops:
        if not isinstance(op, Instruction):
            continue
        values = op.values()
        accesses = [a for a in op.accesses() if a.space != "ddr"]
        roots = [spm.root_buffer(v) for a in accesses if isinstance(v := values[a.field], SSAValue)]
        if len(roots) == len(accesses) and all(root in numbers for root in roots):
            op.attributes[ATTRIBUTE] = i64_array([numbers[root] for root in roots])
        for access, root in zip(accesses, roots, strict=False):
            if access.is_write and root not in names:
                names[root] = _name(op, values)
    table = (
        (
            names.get(a.result, "unwritten"),
            (addresses[a.result], a.size_bytes, a.num_copies, strides[a.result], *map(int, lives[a.result])),
        )
        for a in allocs
    )
    function.attributes[ATTRIBUTE] = ArrayAttr(
        DictionaryAttr({"name": text_attr(name)} | {k: i64_attr(v) for k, v in zip((*NUMBERS, *LIFE), row, strict=True)})
        for name, row in table
    )


def _name(op: Instruction, values: Mapping[str, int | SSAValue]) -> str:
    """The HLO instruction the first writer came from, or the argument it loads."""
    slot = values.get("slot")
    if isinstance(slot, SSAValue):
        return f"argument{slot.index}" if isinstance(slot, BlockArgument) else "scratch"
    return op.origin.rpartition(" ")[2] or op.MNEMONIC


def uses_of(op: Instruction, record: int) -> list[BufferUse]:
    """The noted uses of an instruction that becomes that record."""
    noted = op.attributes.get(ATTRIBUTE)
    if not isinstance(noted, DenseArrayBase):
        return []
    buffers = integers(cast("DenseArrayBase[IntegerType]", noted))
    return [BufferUse(record, i, buffer) for i, buffer in zip(_in_scratchpad(type(op)), buffers, strict=True)]


@cache
def _in_scratchpad(kind: type[Instruction]) -> tuple[int, ...]:
    """The numbers of the fields that are addresses in the scratchpad."""
    return tuple(i for i, f in enumerate(kind.FIELDS) if f.role in SPM_ROLES)


def buffers_of(function: func.FuncOp, uses: Sequence[BufferUse], loops: Sequence[tuple[int, int]]) -> tuple[Buffer, ...]:
    """The noted buffers with their lives: from the first to the last use, through every loop they are used in and around.

    loops: (record of the beginning, of the end), inner ones first.
    """
    rows = _rows(function)
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
    found = [_buffer(row, 0, -1) for row in _rows(function)]
    return max((buffer.address + buffer.stride_bytes * buffer.copies for buffer in found), default=0)


def lives_of(function: func.FuncOp) -> tuple[BufferLife, ...]:
    """When the places of the noted buffers are theirs."""
    found = (_numbers(row, LIFE) for row in _rows(function))
    return tuple(BufferLife(start, end, bool(is_kept)) for start, end, is_kept in found)


def _rows(function: func.FuncOp) -> list[DictionaryAttr]:
    noted = function.attributes.get(ATTRIBUTE)
    rows = cast("ArrayAttr[Attribute]", noted).data if isinstance(noted, ArrayAttr) else ()
    return [row for row in rows if isinstance(row, DictionaryAttr)]


def _numbers(row: DictionaryAttr, names: Sequence[str]) -> list[int]:
    return [n.value.data for n in (row.data[k] for k in names) if isinstance(n, IntegerAttr)]


def _buffer(row: DictionaryAttr, first: int, last: int) -> Buffer:
    name = row.data["name"]
    assert isinstance(name, StringAttr)
    address, size, copies, stride = _numbers(row, NUMBERS)
    return Buffer(name.data, address, size, copies, stride, first, last)
