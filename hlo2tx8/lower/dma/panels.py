"""The turns of a kernel's step loop in which the matrix engine multiplies panels of operands that tiles could share.

scf.for %step = 0 to 4 {
  scf.for %k = 0 to 31 { load(%a, %k); load(%b, %k); gemm(%a, %b) }     site of 31 panels
  load(%a'); load(%b'); gemm(%a', %b')                                  site of one panel
  store
}
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.ct_logic import CtBitsUnit
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.forms import CtVS, CtVuV, CtVuVLoop, CtVV
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import spm, vec
from hlo2tx8.indexing import Const, Dim, Interval, simplify_expr
from hlo2tx8.ir import i64_attr
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.idle_rows import HAS_COLUMNS
from hlo2tx8.lower.dma.join_tails import TAIL
from hlo2tx8.lower.dma.mesh import COLUMN, ROW, Along, TileIndex
from hlo2tx8.lower.dma.slices import constant_of, roots_of, turns_of

LEVELS = ("count", "n1", "n2", "n3")
MOVES = (TdmaGatherScatter, CtConvert, CtVV, CtVS, CtVuV, CtVuVLoop, CtBitsUnit)
"""By which tiles make of what is loaded what is multiplied."""
HAS_ROWS = "has_rows"
"""Of a loop whose rows all tiles of a mesh row have (`gather-rows`)."""
RING = "is_ring"
"""Of a loop whose rows tiles have themselves, while sums go around (`ring-sums`), and of what sends these."""


class PanelSide(Enum):
    """What of a panel is loaded apart: rows, columns, the columns of further products of the same rows, the rows of further ones
    of the same columns, or the columns of the product's tail, which the tiles of one line have."""

    ROWS = "rows"
    COLUMNS = "columns"
    SECOND = "columns of the second product"
    THIRD = "columns of the third product"
    FOURTH = "columns of the fourth product"
    SECOND_ROWS = "rows of the second product"
    THIRD_ROWS = "rows of the third product"
    FOURTH_ROWS = "rows of the fourth product"
    TAIL = "tail"

    @property
    def along(self) -> Along:
        """The line of tiles that have it in common."""
        return Along.ROW if self in ROWS_OF_PRODUCTS else Along.COLUMN


COLUMNS_OF_PRODUCTS = (PanelSide.COLUMNS, PanelSide.SECOND, PanelSide.THIRD, PanelSide.FOURTH)
"""Of products with the same rows."""
ROWS_OF_PRODUCTS = (PanelSide.ROWS, PanelSide.SECOND_ROWS, PanelSide.THIRD_ROWS, PanelSide.FOURTH_ROWS)
"""Of products whose columns are made of the same loads."""


@dataclass(frozen=True)
class Load:
    """A load that all tiles of a line make alike, into a buffer of its own; `moved` is what each tile makes of it for the engine,
    `branch` what it is inside of if it is the tail's. Where the vector engine makes of it what is multiplied, by the operations
    `split`, `moved` is that; `widened`: the instructions by which each tile makes of it what is multiplied, and the loads of what
    they read besides. `condition`: whether tiles have it in a step at all, if some have the tail instead."""

    op: Rdma
    alloc: spm.AllocOp
    side: PanelSide
    branch: scf.IfOp | None = None
    moved: tuple[spm.AllocOp, ...] = ()
    split: tuple[Instruction, ...] = ()
    widened: tuple[Instruction, ...] = ()
    condition: SSAValue | None = None

    @property
    def size_bytes(self) -> int:
        return self.alloc.size_bytes


@dataclass(frozen=True)
class Site:
    """`count` panels of a step from panel `first` on: those of a loop, or one. `loads` has one load per side; `gemms` are the
    products."""

    first: int
    count: int
    loop: scf.ForOp | None
    loads: dict[PanelSide, Load]
    gemms: tuple[NeGemm, ...]

    @property
    def begin(self) -> Operation:
        """What the panel's turn begins with."""
        own = [load for load in self.loads.values() if load.branch is None]
        allocs = [alloc for load in own for alloc in (load.alloc, *load.moved)]
        return next(alloc for alloc in allocs if all(alloc is o or alloc.is_before_in_block(o) for o in allocs))

    def goes_on_in(self, other: "Site", index: TileIndex) -> bool:
        """Is the other site's panel the next one of this loop?"""
        return all(_is_next(self, load, other.loads[side], index) for side, load in self.loads.items())


@dataclass(frozen=True)
class Panels:
    """`num_steps` steps of `num_panels` panels each. A site that goes on in the next one covers that too: `kinds` are the others.
    `steps_alike` says of each side for how many steps in a row the panels are the same."""

    loop: scf.ForOp
    num_steps: int
    num_panels: int
    sites: tuple[Site, ...]
    kinds: tuple[Site, ...]
    steps_alike: dict[PanelSide, int]

    @property
    def sides(self) -> tuple[PanelSide, ...]:
        """What of each panel is loaded."""
        return tuple(self.sites[0].loads)

    @property
    def rows_slot(self) -> Size | None:
        """What rows are loaded of; None if tiles have them themselves."""
        load = self.sites[0].loads.get(PanelSide.ROWS)
        return None if load is None else load.op.field("slot")

    @property
    def turns_beside(self) -> int:
        """How many turns there are in which what follows the products of a loop before can be done: those of its first step, of all
        pieces where sums go around."""
        return (self.num_panels - 1) * (self.num_steps if RING in self.loop.attributes else 1)

    def is_split(self, side: PanelSide) -> bool:
        """Does the vector engine make of a side's loads what is multiplied?"""
        return any(site.loads[side].split for site in self.sites)


def find_panels(loop: scf.ForOp, index: TileIndex) -> Panels | None:
    """The panels of a step loop whose counter is known; None if there are none, or tiles don't load them alike."""
    num_steps = turns_of(loop)
    if num_steps is None:
        return None
    sites: list[Site] = []
    pending: list[Load] = []
    gemms: list[NeGemm] = []
    first, num_products, num_gemms = 0, 1, 1
    for op in loop.body.block.ops:
        inner: scf.ForOp | None = None
        if isinstance(op, scf.ForOp):
            turns = turns_of(op)
            if turns is None or not (gemms := [o for o in op.body.block.ops if isinstance(o, NeGemm)]):
                continue
            index.add_counter(op.body.block.args[0], turns)
            found, inner = _multiplied(list(_loads(op.body.block, index)), op.body.block), op
            num_products, num_gemms = len(_columns_in(found)), len(gemms)
        elif isinstance(op, Rdma):
            load = _load(op, index)
            pending += [load] if load else []
            continue
        elif isinstance(op, scf.IfOp) and TAIL in op.attributes:
            pending += _loads_of_tail(op, index)
            continue
        elif isinstance(op, NeGemm) and pending:
            gemms.append(op)
            if len(_columns_in(pending)) < num_products or (num_products == 1 and len(gemms) < num_gemms):
                continue
            turns, found, pending = 1, _multiplied(pending, loop.body.block), []
        else:
            continue
        sides = _by_side(found, len(gemms))
        if sides is None or (PanelSide.ROWS in sides) == (RING in loop.attributes or HAS_ROWS in loop.attributes):
            return None
        sites.append(Site(first, turns, inner, sides, tuple(gemms)))
        first, gemms = first + turns, []
    if not sites or any(not _is_plain(site) or site.loads.keys() != sites[0].loads.keys() for site in sites):
        return None
    if PanelSide.TAIL in sites[0].loads:
        sites = [_with_condition(site, _has_columns(loop)) for site in sites]
    alike = {side: _steps_alike([site.loads[side].op for site in sites], loop, num_steps, index) for side in sites[0].loads}
    return Panels(loop, num_steps, first, tuple(sites), _kinds(sites, index), alike)


def _has_columns(loop: scf.ForOp) -> SSAValue | None:
    """What says whether a tile has columns in a step, if not all have."""
    return next((op.results[0] for op in loop.body.block.ops if HAS_COLUMNS in op.attributes), None)


def _with_condition(site: Site, condition: SSAValue | None) -> Site:
    columns = replace(site.loads[PanelSide.COLUMNS], condition=condition)
    return replace(site, loads=site.loads | {PanelSide.COLUMNS: columns})


def _columns_in(loads: Sequence[Load]) -> list[Load]:
    """The columns of products, in their order."""
    return [load for load in loads if load.side is PanelSide.COLUMNS]


def _by_side(loads: Sequence[Load], num_gemms: int) -> dict[PanelSide, Load] | None:
    """The loads of a panel by what they are, columns in the order of their products; None if there are others."""
    columns, rows = _columns_in(loads), [load for load in loads if load.side is PanelSide.ROWS]
    numbers = dict(zip(columns, COLUMNS_OF_PRODUCTS, strict=False))
    if len(rows) > 1 and len(columns) == 1 and num_gemms == len(rows):
        numbers |= dict(zip(rows, ROWS_OF_PRODUCTS, strict=False))
    sides = {(side := numbers.get(load, load.side)): replace(load, side=side) for load in loads}
    is_one = len(columns) == 1 or (PanelSide.TAIL not in sides and num_gemms == len(columns) <= len(COLUMNS_OF_PRODUCTS))
    return sides if is_one and len(sides) == len(loads) and PanelSide.COLUMNS in sides else None


def _steps_alike(loads: Sequence[Rdma], loop: scf.ForOp, num_steps: int, index: TileIndex) -> int:
    """For how many steps in a row the loads are the same: the most that say so in every run of as many."""
    values = [value for load in loads for name, value in load.values().items() if name != "dst" and isinstance(value, SSAValue)]
    values = [value for value in values if isinstance(value.type, IndexType)]
    found = [index.made_of(value) for value in values]
    exprs = [expr for own in found if own is not None for expr in own]
    counter, place, run = index.known[loop.body.block.args[0]], Dim(len(index.dims)), Dim(len(index.dims) + 1)
    if None in found:
        return 1
    for length in range(num_steps, 1, -1):
        if num_steps % length:
            continue
        bounds = (*index.bounds, Interval(0, length - 1), Interval(0, num_steps // length - 1))
        dims = [run * length + place if dim == counter else dim for dim in index.dims]
        if all(place not in simplify_expr(expr.substitute(dims, ()), bounds, ()).leaves() for expr in exprs):
            return length
    return 1


def take_certain_branches(loop: scf.ForOp, index: TileIndex) -> None:
    """Puts the body of each branch that every tile takes in every step in its place, also inside of branches and of loops."""
    turns = turns_of(loop)
    if turns is None:
        return
    index.add_counter(loop.body.block.args[0], turns)
    nested = [(op, turns_of(op)) for op in loop.body.block.ops if isinstance(op, scf.ForOp)]
    inner = [(op, number) for op, number in nested if number is not None]
    for op, number in inner:
        index.add_counter(op.body.block.args[0], number)
    branches = [(op, index) for own in (loop, *(op for op, _ in inner)) for op in own.body.block.ops if isinstance(op, scf.IfOp)]
    while branches:
        branch, known = branches.pop()
        inside = _with_columns(branch, known)
        branches += [(op, inside) for op in branch.true_region.block.ops if isinstance(op, scf.IfOp)]
        compare = branch.cond.owner
        if not isinstance(compare, arith.CmpiOp) or arith.CMPI_COMPARISON_OPERATIONS[compare.predicate.value.data] != "sgt":
            continue
        limit = constant_of(compare.rhs)
        if limit is not None and known.range_of(compare.lhs).lo > limit:
            if known is not index and limit == 0 and isinstance(compare.lhs.owner, vec.ExtentOp):
                compare.lhs.owner.properties["lower"] = i64_attr(1)  # should tiles without columns compute once more what is there
            Rewriter.erase_op(branch.true_region.block.last_op or branch)
            Rewriter.inline_block(branch.true_region.block, InsertPoint.before(branch))
            Rewriter.erase_op(branch)


def _with_columns(branch: scf.IfOp, index: TileIndex) -> TileIndex:
    """What is known inside of a branch: fewer mesh columns, if only the first ones take it."""
    compare = branch.cond.owner
    if not isinstance(compare, arith.CmpiOp) or constant_of(compare.rhs) != 0:
        return index
    left = index.made_of(compare.lhs) or []
    terms = index.terms_of(left[0]) if len(left) == 1 else None
    if terms is None or terms.keys() != {None, COLUMN} or terms[COLUMN] != -1:
        return index
    row, column, *others = index.bounds
    return TileIndex(index.mesh, dict(index.known), [row, Interval(0, min(column.hi, terms[None] - 1)), *others])


def _kinds(sites: Sequence[Site], index: TileIndex) -> tuple[Site, ...]:
    kinds: list[Site] = []
    for site in sites:
        if kinds and kinds[-1].loop is not None and kinds[-1].goes_on_in(site, index):
            last = kinds.pop()
            site = Site(last.first, last.count + site.count, last.loop, last.loads, last.gemms)
        kinds.append(site)
    return tuple(kinds)


def _is_plain(site: Site) -> bool:
    """Is every panel loaded in every step, apart from the tail's?"""
    loads = [load for load in site.loads.values() if load.branch is None]
    return len({op.parent_block() for load in loads for op in (load.op, load.alloc)}) == 1


def _loads(block: Block, index: TileIndex) -> Iterator[Load]:
    for op in block.ops:
        if isinstance(op, Rdma) and (load := _load(op, index)):
            yield load
        if isinstance(op, scf.IfOp) and TAIL in op.attributes:
            yield from _loads_of_tail(op, index)


def _loads_of_tail(branch: scf.IfOp, index: TileIndex) -> Iterator[Load]:
    """The loads in front of the tail's product."""
    for op in branch.true_region.block.ops:
        if isinstance(op, NeGemm):
            return
        if isinstance(op, Rdma) and (load := _load(op, index, branch)):
            yield load


def _multiplied(loads: Sequence[Load], block: Block) -> list[Load]:
    """Those that are multiplied in a block, as they are, or after each tile has moved or widened them, and those of the tail."""
    moves = [op for op in block.ops if isinstance(op, MOVES) and _is_move(op)]
    multiplied = {buffer for op in block.ops if isinstance(op, NeGemm) for buffer in roots_of(op, is_write=False)}
    for move in reversed(moves):
        if any(target in multiplied for target in roots_of(move, is_write=True)):
            multiplied.add(_moved_by(move))
    found: list[Load] = []
    for load in loads:
        if load.branch is not None:
            found.append(_of_tail(load, load.branch, block))
        elif load.alloc.result in multiplied:
            made: dict[SSAValue, None] = {load.alloc.result: None}
            for move in moves:
                if _moved_by(move) in made:
                    made.update(dict.fromkeys(target for target in roots_of(move, is_write=True) if target in multiplied))
            owners = [buffer.owner for buffer in made if buffer is not load.alloc.result]
            is_widened = [op for op in moves if op.ENGINE is Engine.CT and any(o in made for o in roots_of(op, is_write=True))]
            read = {buffer for op in is_widened for buffer in roots_of(op, is_write=False)} - made.keys()
            units = [use.operation for buffer in read for use in buffer.uses if isinstance(use.operation, Rdma)]
            widened = (*is_widened, *units)
            found.append(replace(load, moved=tuple(o for o in owners if isinstance(o, spm.AllocOp)), widened=widened))
        elif (computed := _split(load, block, multiplied)) is not None:
            found.append(computed)
    return found


def _of_tail(load: Load, branch: scf.IfOp, block: Block) -> Load:
    """The load of a tail in a branch of a block, split if the vector engine makes parts of it."""
    branches = [op for op in block.ops if isinstance(op, scf.IfOp) and TAIL in op.attributes]
    ops = [op for own in branches for op in own.true_region.block.ops]
    multiplied = {buffer for op in ops if isinstance(op, NeGemm) for buffer in roots_of(op, is_write=False)}
    for move in (op for op in ops[::-1] if isinstance(op, TdmaGatherScatter)):
        if any(target in multiplied for target in roots_of(move, is_write=True)):
            multiplied.update(roots_of(move, is_write=False))
    found = _split(load, branch.true_region.block, multiplied) if load.alloc.result not in multiplied else None
    return found if found is not None and len(found.moved) > 1 else load


def _is_move(op: Instruction) -> bool:
    """Does each tile do it itself? Elements of which the vector engine makes wider ones are sent sooner as they are; so is what it
    does with those where they are, and of what it takes bits before."""
    if isinstance(op, CtConvert):
        return op.fmt.bytes > op.fmt2.bytes
    return isinstance(op, TdmaGatherScatter | CtBitsUnit) or roots_of(op, is_write=True) == [_moved_by(op)]


def _moved_by(op: Instruction) -> SSAValue:
    """The buffer of what an instruction moves, or computes with."""
    source = op.field("src" if isinstance(op, TdmaGatherScatter | CtConvert) else "a")
    assert isinstance(source, SSAValue)
    return spm.root_buffer(source)


def _split(load: Load, block: Block, multiplied: set[SSAValue]) -> Load | None:
    """A load of which the vector engine makes what is multiplied in a block, from nothing else and into buffers that are where its
    own is."""
    made: dict[SSAValue, spm.AllocOp] = {load.alloc.result: load.alloc}
    ops: list[Instruction] = []
    for op in block.ops:
        if not isinstance(op, Instruction) or op.ENGINE is not Engine.CT:
            continue
        read, written = roots_of(op, is_write=False), roots_of(op, is_write=True)
        if not any(buffer in made for buffer in read):
            continue
        owners = [buffer.owner for buffer in written]
        allocs = [owner for owner in owners if isinstance(owner, spm.AllocOp) and owner.parent is load.alloc.parent]
        if len(allocs) < len(owners) or not all(buffer in made for buffer in read):
            return None
        ops.append(op)
        made.update(zip(written, allocs, strict=True))
    parts = tuple(alloc for buffer, alloc in made.items() if buffer in multiplied)
    return replace(load, moved=parts, split=tuple(ops)) if parts else None


def _load(op: Rdma, index: TileIndex, branch: scf.IfOp | None = None) -> Load | None:
    dst = op.field("dst")
    if not isinstance(dst, SSAValue) or not isinstance(dst.owner, spm.AllocOp):
        return None
    found: set[object] = set()
    for name in ("offset", *LEVELS, "s1", "s2", "s3"):
        own = index.dependence(op.field(name))
        if own is None:
            return None
        found |= own & {ROW, COLUMN}
    if branch is not None and not found:
        moves = (use.operation for use in dst.uses if isinstance(use.operation, TdmaGatherScatter))
        moved = (move.field("dst") for move in moves)
        owners = (value.owner for value in moved if isinstance(value, SSAValue))
        return Load(op, dst.owner, PanelSide.TAIL, branch, tuple(owner for owner in owners if isinstance(owner, spm.AllocOp)))
    if len(found) != 1:
        return None
    return Load(op, dst.owner, PanelSide.ROWS if ROW in found else PanelSide.COLUMNS, branch)


def _is_next(site: Site, load: Load, other: Load, index: TileIndex) -> bool:
    """Is the other load that of a turn more?"""
    assert site.loop is not None
    if load.size_bytes != other.size_bytes or load.op.fmt is not other.op.fmt:
        return False
    names = [name for name in load.op.values() if name not in ("dst", "offset")]
    if any(load.op.field(name) != other.op.field(name) for name in names):
        return False
    offsets = [index.expr(o) for o in (load.op.field("offset"), other.op.field("offset")) if isinstance(o, SSAValue)]
    counter = index.known[site.loop.body.block.args[0]]
    if len(offsets) < 2 or any(offset is None for offset in offsets):
        return False
    mine, its = (offset for offset in offsets if offset is not None)
    dims = [Const(site.count) if counter == dim else dim for dim in index.dims]
    return index.simplified(mine.substitute(dims, ())) == its
