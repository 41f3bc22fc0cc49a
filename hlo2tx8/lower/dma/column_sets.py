"""The sets of columns in which the result of a shared product can be finished, and how many panels wait for that.

A set is a number of channel blocks, which lie one after the other in the engine's layout, in the panel of columns as in sums and
result.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import ceil

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.lsu import TdmaGatherScatter, Wdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.dialects import spm, vec
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.allocate_spm import SpmSpace
from hlo2tx8.lower.dma.epilogue_parts import Epilogue
from hlo2tx8.lower.dma.find_epilogue import epilogue_of, ops_of_each
from hlo2tx8.lower.dma.join_tails import TAIL
from hlo2tx8.lower.dma.panels import RING, Panels
from hlo2tx8.lower.dma.slices import collect_slice, factors_of, instructions_in, roots_of
from hlo2tx8.lower.select.step_builder import StepBuilder

MOST_SETS = 12
LEAST_KEPT = 2
PARTS_STORED = 8
"""Parts of a result that is only stored: between them loads get their turn."""
LEAST_PART = 6300
"""Elements that the vector engine gets at once: few instructions' starts, and little that the matrix engine could wait for. 197
rows of 32 channels are enough; more and smaller parts of 392 rows have more buffers than fit where a network's results stay."""
LEAST_GAIN = 2
"""So many times as many parts are worth that the last of a block is smaller."""
LATE_PART_BYTES = 32768
"""Of a part that is done during other loops: its buffers take room beside theirs."""


@dataclass(frozen=True)
class Columns:
    """`num_sets` sets of `size` columns each, of which a step has the first `limit`; `last` multiplies the last panel of `depth`
    and less, `epilogue` is what follows it, in `num_parts`."""

    size: int
    num_sets: int
    limit: Size
    depth: int
    last: NeGemm
    epilogue: Epilogue
    num_parts: int

    def left_from(self, step: StepBuilder, part: Size, limit: Size) -> list[Size]:
        """What is positive if there is a part of that number in a step of so many sets; [] if that is certain."""
        each = self.num_parts // self.num_sets
        if isinstance(part, int) and part < (each if isinstance(limit, SSAValue) else self.num_parts):
            return []
        return [step.subtract(step(limit, each), part)]

    def saved_bytes(self, space: SpmSpace, *, is_later: bool) -> int:
        """What buffers of parts take less than those of all columns: all if nothing follows the products before the loop ends."""
        if is_later:
            return sum(space.aligned(alloc.size_bytes) for alloc in self.epilogue.whole)
        return self.epilogue.saved_bytes(self.num_parts, space)


def columns_of(panels: Panels, turns: int = 0) -> tuple[Columns, ...]:
    """The sets of columns in which a step's result can be finished, per product; none where a set's operands do not lie one after
    the other, or what follows the products cannot be cut. What follows them may be done during so many `turns` of another loop."""
    if len(panels.sites) != 2 or panels.sites[0].loop is None:
        return ()
    inner_site, end = panels.sites
    if len(inner_site.gemms) != len(end.gemms):
        return ()
    loads = [op for site in panels.sites for load in site.loads.values() for op in (load.op, *load.widened)]
    inner = [op for op in panels.sites[0].loop.body.block.ops if _is_of_products(op) and op not in loads]
    ops = ops_of(panels.loop.body.block)
    first, last = ops.index(end.gemms[0]), ops.index(end.gemms[-1])
    ours = (*loads, *end.gemms)
    before = [op for op in ops[:last] if _is_of_products(op) and op not in ours and not isinstance(op, TdmaGatherScatter)]
    if inner != list(inner_site.gemms) or before != [panels.sites[0].loop]:
        return ()
    after = [op for op in ops[last + 1 :] if not isinstance(op, scf.YieldOp) and not _moves_sums(op)]
    needed: set[Operation] = set()
    for op in after:
        collect_slice(op, panels.loop, needed)
    after = [op for op in ops[:first] if op in needed and not isinstance(op, Instruction | spm.AllocOp)] + after
    own = ops_of_each(after, [op.field("dst") for op in end.gemms])
    if own is None:
        return ()
    products = zip(inner_site.gemms, end.gemms, own, strict=True)
    found = [_columns(panels, gemm, op, behind, turns) for gemm, op, behind in products]
    known = [columns for columns in found if columns is not None]
    return tuple(known) if len(known) == len(found) else ()


def _columns(panels: Panels, gemm: NeGemm, last: NeGemm, after: Sequence[Operation], turns: int) -> Columns | None:
    """Those of one product, with what follows it."""
    rows, dst, depth = last.field("rows"), last.field("dst"), gemm.field("depth")
    if any(op.field("batch") != 1 for op in (gemm, last)):
        return None
    width = max(_block_width(fmt) for fmt in (last.fmt, last.fmt2, gemm.fmt))
    factors = [factors_of(op.field("columns")) for op in (gemm, last)]
    if (
        factors[0] != factors[1]
        or not isinstance(depth, int)
        or not isinstance(dst, SSAValue)
        or not isinstance(dst.owner, spm.AllocOp)
    ):
        return None
    match factors[0]:
        case (columns, ()) if columns % width == 0:
            present = None
        case (size, (vec.ExtentOp() as blocks,)) if size == width and len(panels.sites[0].gemms) == 1:  # as the step decides
            columns, present = blocks.upper.value.data * width, blocks
        case _:
            return None
    epilogue, is_whole = epilogue_of(after, dst, rows, columns, last.fmt, present), present is None
    size = next(n for n in range(width, columns + 1, width) if not is_whole or (columns % n == 0 and columns // n <= MOST_SETS))
    if not all(map(_has_columns_in_runs, (gemm, last))):
        size = columns
    if epilogue is None or (size > width and not is_whole):
        return None
    num_sets = columns // size
    own_turns = panels.num_panels - 1
    wanted = max(turns, own_turns, epilogue.most_points * columns * last.fmt.bytes // LATE_PART_BYTES if turns else 0)
    num_parts = _num_parts(epilogue, num_sets, wanted)
    return Columns(size, num_sets, num_sets if present is None else present.result, depth, last, epilogue, num_parts)


def _has_columns_in_runs(op: NeGemm) -> bool:
    """Does a panel of columns have them one after the other, as channel blocks or because it is no deeper than one block?"""
    return bool(op.field("transpose_right")) or op.field("depth") == _block_width(op.fmt2)


def _is_of_products(op: Operation) -> bool:
    """Is it an instruction, or a branch or loop with some, that does not belong to the tail or to what moves sums?"""
    return isinstance(op, Instruction | scf.IfOp | scf.ForOp) and TAIL not in op.attributes and not _moves_sums(op)


def _moves_sums(op: Operation) -> bool:
    """Is it a branch around what sends sums to other tiles?"""
    return isinstance(op, scf.IfOp) and all(RING in own.attributes for own in instructions_in(op))


def _num_parts(epilogue: Epilogue, num_sets: int, turns: int) -> int:
    """One per turn and more, so that engines work side by side; fewer will do where there is nothing to compute. Parts that are not
    all as large are made where those that are would be few."""
    wanted = turns if epilogue.has_arithmetic else min(turns, PARTS_STORED)
    most = epilogue.blocks * epilogue.most_points * epilogue.width // LEAST_PART
    found = [number for number in range(num_sets, most + 1, num_sets) if epilogue.can_cut(number)]
    even = [number for number in found if epilogue.is_even(number)] or [num_sets]
    best, most_even = (next((n for n in numbers if n >= wanted), numbers[-1]) for numbers in (found or even, even))
    return best if best >= LEAST_GAIN * most_even else most_even


def stored_sums(panels: Panels, sets: Sequence[Columns]) -> dict[NeGemm, spm.AllocOp]:
    """The last products of a step, its columns' and its tail's, whose results may be left where they are added up, with the buffers
    that these have now: they are as large as sums, and nothing but stored or, the tail's, moved to where they are stored from. {}
    if the columns' result is not one of them."""
    instructions = list(instructions_in(panels.loop))
    found: dict[NeGemm, spm.AllocOp] = {}
    for op in (op for op in instructions if isinstance(op, NeGemm)):
        sums, result = (value.owner if isinstance(value := op.field(name), SSAValue) else None for name in ("psum", "dst"))
        if not isinstance(sums, spm.AllocOp) or not isinstance(result, spm.AllocOp) or sums is result:
            continue
        others = _users(result.result) - {op}
        kinds = Wdma if any(op is columns.last for columns in sets) else Wdma | TdmaGatherScatter
        is_only_read = all(isinstance(other, kinds) and result.result not in roots_of(other, is_write=True) for other in others)
        if sums.size_bytes == result.size_bytes and is_only_read:
            found[op] = result
    return found if len(sets) == 1 and sets[0].last in found else {}


def _users(buffer: SSAValue) -> set[Operation]:
    """What reads or writes a buffer, or a part of it."""
    users = {use.operation for use in buffer.uses}
    parts = [op for op in users if isinstance(op, spm.OffsetOp)]
    return users.difference(parts).union(*(_users(op.result) for op in parts))


def num_kept(panels: Panels, columns: Columns, num_slots: int, chip: Chip, staying: Container[object]) -> int:
    """The last panels that are multiplied set by set: as many as take the engine as long as the result takes the others,
    and as stay in their slots. What is stored to `staying` slots is moved to a buffer of the tile instead, which takes no time."""
    c, last = chip.cycles, columns.last
    dst = last.field("dst")
    assert isinstance(dst, SSAValue) and isinstance(dst.owner, spm.AllocOp)
    products = c.ne_arrays * c.ne_tile_rows * c.ne_tile_columns * c.ne_tile_depth
    products *= c.ne_int8_speedup if last.fmt2 is Format.INT8 else 1
    is_stored = any(isinstance(op, Wdma) and op.field("slot") not in staying for op in columns.epilogue.ops)
    stored = dst.owner.step_bytes * chip.tiles / chip.ddr_bytes_per_cycle if is_stored else 0.0
    computed = columns.epilogue.cycles(columns.num_parts, chip)
    multiplied = c.ne_startup + dst.owner.step_bytes // last.fmt.bytes * columns.depth / products
    most = min(num_slots, panels.num_panels)
    if panels.num_steps > 1 and computed > multiplied * panels.num_panels:  # sets would wait for the matrix engine, one by one
        most = LEAST_KEPT
    return min(max(LEAST_KEPT, ceil(max(stored, computed) / multiplied)), most)


def _block_width(fmt: Format) -> int:
    return Blocked(fmt, 1, 1, 1).block_width
