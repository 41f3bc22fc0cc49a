"""Which of a step's instructions after its last product can be done part by part, and which of them ahead; see epilogue_parts."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.ct_logic import CtBitsUnit
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.extents import Elements
from hlo2tx8.device.isa.forms import BITS, CtInstruction, CtV, CtVS, CtVuV, CtVuVLoop, CtVV, KcInstruction
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import spm, vec
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.epilogue_parts import ELEMENTWISE, PACKED, Epilogue, is_of_elements, is_product, turning
from hlo2tx8.lower.dma.slices import buffers_of


def ops_of_each(ops: Sequence[Operation], results: Sequence[object]) -> list[list[Operation]] | None:
    """The operations behind some products that each of their results needs, arithmetic on indices for all of them; None if an
    instruction serves two."""
    if len(results) == 1:
        return [list(ops)]
    instructions = [op for op in ops if isinstance(op, Instruction)]
    known: dict[object, set[int]] = {result: {number} for number, result in enumerate(results)}
    for op in instructions:
        own = {number for buffer in buffers_of(op, is_write=False) for number in known.get(buffer, ())}
        for buffer in buffers_of(op, is_write=True):
            known[buffer] = known.get(buffer, set()) | own
    for op in reversed(instructions):
        own = {number for buffer in buffers_of(op, is_write=True) for number in known.get(buffer, ())}
        for buffer in buffers_of(op, is_write=False):
            known[buffer] = known.get(buffer, set()) | own
    serves = [{n for write in (True, False) for buffer in buffers_of(op, write) for n in known[buffer]} for op in instructions]
    if any(len(own) != 1 for own in serves):
        return None
    of_op = dict(zip(instructions, serves, strict=True))
    return [[op for op in ops if not isinstance(op, Instruction) or number in of_op[op]] for number in range(len(results))]


def epilogue_of(
    ops: Sequence[Operation], result: SSAValue, rows: Size, columns: int, fmt: Format, present: vec.ExtentOp | None
) -> Epilogue | None:
    """What follows a product whose result is `rows` x `columns`, in a format, or of these as many parts as are `present`; None if
    it cannot be cut into parts."""
    width = Blocked(fmt, 1, 1, 1).block_width
    refused = scf.IfOp | scf.ForOp | spm.TurnOp | spm.OffsetOp
    if not isinstance(result.owner, spm.AllocOp) or any(isinstance(op, refused) for op in ops):
        return None
    instructions = [op for op in ops if isinstance(op, Instruction)]
    most = rows if isinstance(rows, int) else rows.owner.upper.value.data if isinstance(rows.owner, vec.ExtentOp) else 0
    found = Epilogue(
        tuple(ops), result.owner, columns // width, rows, most, width, fmt.bytes, present=present, compute=tuple(instructions)
    )
    if not any(isinstance(op, Wdma) for op in instructions):
        return None
    if not most:  # only what is stored as it is
        match instructions:
            case [Wdma() as store] if store.field("src") is result and _goes_over(store, found):
                return found
            case _:
                return None
    count = most * columns
    whole: dict[spm.AllocOp, None] = {}
    moved: dict[spm.AllocOp, None] = {}
    brought: dict[spm.AllocOp, None] = {}
    for op in instructions:
        for buffer in (*buffers_of(op, is_write=True), *buffers_of(op, is_write=False)):
            alloc = buffer.owner
            if not isinstance(alloc, spm.AllocOp):
                return None
            if spm.BROUGHT in alloc.attributes:
                brought[alloc] = None
            elif alloc is not found.result and alloc.size_bytes >= count:
                whole[alloc] = None
                if not isinstance(op, CtInstruction | KcInstruction):
                    moved[alloc] = None
    outside = [alloc for alloc in whole if alloc not in ops]
    fills = [_fill_of(alloc, ops) for alloc in outside]  # other things that steps or their parts share are computed once
    known = tuple(fill for fill in fills if fill is not None)
    if len(known) < len(fills):
        return None
    own = tuple(alloc for alloc in moved if alloc not in outside)  # what fills a buffer, and reads it by TDMA, stays
    found = replace(found, whole=tuple(whole), moved=own, fills=known, brought=tuple(brought))
    if not all(_is_cut(op, found, count) for op in instructions):
        return None
    once = [op for op in instructions if not found.is_whole(op)]
    ahead: list[Instruction] = []
    for op in instructions:
        if op not in once and isinstance(op, Rdma | TdmaMemset | TdmaGatherScatter):
            read = [buffer.owner for buffer in buffers_of(op, is_write=False)]
            late = {b.owner for o in instructions if o not in (*once, *ahead) for b in buffers_of(o, is_write=True)}
            ahead += [] if found.result in read or any(owner in late for owner in read) else [op]
    compute = tuple(op for op in instructions if op not in once and op not in ahead)
    return replace(found, once=tuple(once), ahead=tuple(ahead), compute=compute)


def _fill_of(alloc: spm.AllocOp, ops: Sequence[Operation]) -> TdmaMemset | None:
    """The memset that gives a buffer one value for everything in `ops`, and for nothing else."""
    others = [use.operation for use in alloc.result.uses if use.operation not in ops]
    match others:
        case [TdmaMemset() as fill] if fill.field("n1") == fill.field("n2") == 1 and fill.field("dst") is alloc.result:
            is_whole = isinstance(n := fill.field("n"), int) and n * fill.fmt.bytes == alloc.size_bytes
            is_only = not any(alloc.result in buffers_of(op, is_write=True) for op in ops if isinstance(op, Instruction))
            return fill if is_whole and is_only else None
        case _:
            return None


def _goes_over(op: Instruction, epilogue: Epilogue, side: str = "") -> bool:
    """Does a transfer's outermost level go over all channel blocks?"""
    levels = turning(op, side)
    return epilogue.blocks == 1 or (bool(levels) and epilogue.is_of_blocks(op.field(f"{side}n{levels[0]}"), 1))


def _is_cut(op: Instruction, epilogue: Epilogue, count: int) -> bool:
    """Can an instruction be made one for a part?"""
    if not epilogue.is_whole(op):
        return isinstance(op, Rdma | TdmaMemset | TdmaGatherScatter | CtV | CtVV | CtVS | CtConvert)
    own = (*epilogue.there, *epilogue.whole)
    fits: dict[str, bool] = {}
    sources = [field.name for field in op.FIELDS if isinstance(field.num_bytes, Elements) and field.num_bytes.is_source]
    for access in op.accesses():
        if access.space != "spm":
            continue
        fmt = op.fmt2 if access.field in sources else op.fmt
        value = op.field(access.field)
        if not isinstance(value, SSAValue) or not isinstance(value.owner, spm.AllocOp):
            return False
        fits[access.field] = value.owner in own and value.owner.step_bytes == count * fmt.bytes

    def is_all(value: Size, times: int = 1) -> bool:
        """Is a size that of all rows of all blocks, times so much?"""
        return epilogue.is_of_blocks(value, epilogue.width * times, epilogue.points)

    match op:
        case _ if isinstance(op, ELEMENTWISE):
            return all(fits.values()) and is_all(op.field("n")) and op.rounding is not Rounding.STOCHASTIC
        case _ if isinstance(op, PACKED):
            return _is_cut_of_bits(op, epilogue, count)
        case CtVuV() | CtVuVLoop():
            is_once = epilogue.blocks == 1
            if isinstance(op, CtVuVLoop):
                is_once = epilogue.is_of_blocks(op.field("full_u"), epilogue.width)
            return is_once and fits["dst"] and fits["a"] and is_all(op.field("full_n" if isinstance(op, CtVuVLoop) else "n"))
        case TdmaMemset():
            return all(fits.values()) and is_all(op.field("n"))
        case TdmaGatherScatter() if is_of_elements(op):
            read = [alloc for alloc in own if alloc.result in buffers_of(op, is_write=False)]
            sizes = [count * size for size in (op.field("rs1"),) if isinstance(size, int)]
            is_whole = [alloc.step_bytes for alloc in read] == sizes
            return fits["dst"] and is_whole and is_all(op.field("rn1"))
        case Rdma() | Wdma():
            return all(fits.values()) and (epilogue.is_one_run(op) or _goes_over(op, epilogue))
        case TdmaGatherScatter() if not turning(op, "r") and not turning(op, "w"):
            return all(fits.values()) and is_all(op.field("run_bytes"), op.fmt.bytes)
        case TdmaGatherScatter():
            if not fits["dst"] or not all(_goes_over(op, epilogue, side) for side in "rw"):
                return False
            levels = {side: epilogue.blocks_level(op, side) for side in "rw" if side == "w" or fits["src"]}
            distance = epilogue.width * op.fmt.bytes
            return all(
                not level or is_product(op.field(f"{side}s{level}"), distance, epilogue.points) for side, level in levels.items()
            )
        case _:
            return False


def _is_cut_of_bits(op: Instruction, epilogue: Epilogue, count: int) -> bool:
    """The same of an instruction on bits: are they those of all elements, of integers that are as wide in all its buffers?"""
    own = [op.field(name) for name in ("dst", "a", "b")[: 2 if isinstance(op, CtBitsUnit) else 3]]
    owners = [value.owner for value in own if isinstance(value, SSAValue)]
    wholes = [owner for owner in owners if isinstance(owner, spm.AllocOp) and owner in (*epilogue.there, *epilogue.whole)]
    widths = {owner.step_bytes // count for owner in wholes}
    if len(wholes) < len(own) or len(widths) != 1 or any(owner.step_bytes % count for owner in wholes):
        return False
    return epilogue.is_of_blocks(op.field("n"), epilogue.width * BITS * widths.pop(), epilogue.points)
