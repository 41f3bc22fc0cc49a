"""Work splits of contractions whose operands tiles share: the result's blocks lie on the chip as the tiles do in the mesh.

    (tile)[step, lane1, lane2, lane3]  row    = (step div 2 * 4 + tile div 4) * 512 + lane2
                                       column = (step mod 2 * 4 + tile mod 4) * 512 + lane1 * 64 + lane3

Tiles of a mesh row have rows of the result in common, tiles of a mesh column its columns. In each step every tile has a block of
`rows` x `columns`, and all go through the same panels of `depth` products each: a panel of rows is loaded once per mesh row, one of
columns once per mesh column, and sent to the others of the line. Steps of the same rows (or of the same columns) come one after the
other: all panels of these are loaded once for them if they fit.

Columns that are no whole number of blocks are a part of its own, the tail: the tiles that have the last whole blocks compute it
in the same step, from the same panels of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from hlo2tx8.device.mesh_sends import RING_BUFFERS, RING_PANELS, ring_group
from hlo2tx8.device.rates import Rates, block_width
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym, Variable, delinearize
from hlo2tx8.partitioner.contraction import EXACT_DEPTH, Role
from hlo2tx8.partitioner.windows import Line
from hlo2tx8.schedule.contraction_split import (
    BLOCK,
    SUM_BYTES,
    Blocking,
    ContractionPart,
    ContractionStep,
    ContractionWork,
    has_blocks,
    inner_shape,
    is_even,
    is_even_beside,
    rows_with_gaps,
    sides_of,
)
from hlo2tx8.schedule.mesh_estimate import (
    box_counts,
    is_in_sets,
    is_interleaved,
    mesh_cycles,
    num_splitting,
    num_steps_of,
    panel_bytes,
    read_bytes,
    ring_cycles,
    steps_alike,
)
from hlo2tx8.schedule.work_split import Residence, WorkSplit

ROW_UNIT = 8
LEAST_SLOTS = 3
MOST_SLOTS = 32
SPLIT_LOADS = 2
"""Panels that have been loaded and not yet been split in parts."""
SPLIT_SLOTS = 4
"""Panels in parts."""
DEPTHS = (32, 64, 128, 256, 512)
"""Products of a panel that are tried."""
LEAST_CHANNELS = 16
"""Channels of a panel of an image that are tried too: of each there are products of all elements of a window."""
AS_GOOD = 1.01
"""Estimates that differ by less say nothing: of such blockings those come first whose steps are all as large, and of them those of
deeper panels, with fewer turns to wait for."""
MOST_TRIED = 3
"""Ways to cut a part that are worth lowering; behind them come those that need much less room, should none of them fit."""
MUCH_LESS = 0.7
FEWER_ROWS = 8
"""The part that the last tile's rows may be fewer than those of others, as far as what stays is estimated."""
RING_PIECES = (2, 3, 4)
"""Of a tile's columns, whose sums go around a mesh row: while one is computed another one is sent."""
MOST_IDLE_STEPS, LEAST_BUSY = 3, 0.6
"""Steps of which the last one has no boxes for some mesh columns, and the part of all boxes that there are at least."""
MOST_KNOWN = 256
"""Products whose ways beside what stays are kept."""
MOST_STEPS = 64
"""Parts of rows, or of columns, that are tried."""
MOST_SETS = 3
"""Sets of single filters that are tried."""


def has_even_columns(shape: Sequence[int], rates: Rates) -> bool:
    """Have the tiles of a mesh row as many whole blocks of the columns of a result? Else it does not stay with them."""
    return (shape or (1,))[-1] % (BLOCK * rates.mesh_columns) == 0


def shared_blockings(
    part: ContractionPart,
    work: ContractionWork,
    rates: Rates,
    spm_bytes: int,
    tail: ContractionPart | None = None,
    *,
    is_searched: bool = False,
) -> list[Blocking]:
    """How a part, and its tail, can be computed by steps on the mesh in `spm_bytes` of a tile, the best first, a few at most, or
    all if the fastest is searched for.

    None if some tile would have nothing to do in a step, or nothing fits.
    """
    if work.is_per_channel or work.is_backward or part.column < 0 or (part.inner != BLOCK and not work.lines):
        return []
    if work.parts > 1 and work.lines:
        return []
    if tail is not None and any(role == "column" and dim != part.column for dim, role in enumerate(part.roles)):
        return []
    if min(rates.mesh_rows, rates.mesh_columns) < 2 or rates.mesh_rows * rates.mesh_columns != rates.tiles:
        return []
    found: list[Blocking] = []
    for own in _cut_columns(part, rates, is_convolution=bool(work.lines)):
        found += _blockings(own, work, rates, spm_bytes, tail, is_searched=is_searched)
    least = AS_GOOD * min((b.cycles for b in found), default=0.0)
    found.sort(key=lambda b: (max(b.cycles, least), not is_even(part, b.box), -b.depth, b.cycles))
    return found if is_searched else _first_ones(found)


def _cut_columns(part: ContractionPart, rates: Rates, *, is_convolution: bool) -> Iterator[ContractionPart]:
    """The part by blocks of columns, and that of a convolution by single filters if those are no blocks of which tiles of a mesh
    row have as many."""
    if part.inner == BLOCK:
        yield part
    if is_convolution and (part.inner != BLOCK or part.size // BLOCK % rates.mesh_columns):
        yield replace(part, inner=1)


def _blockings(
    part: ContractionPart,
    work: ContractionWork,
    rates: Rates,
    spm_bytes: int,
    tail: ContractionPart | None,
    *,
    is_searched: bool,
) -> list[Blocking]:
    """The same of a part in blocks as they are, in no order."""
    boxes = [
        box for box in _boxes(part, rates, work.lines, has_tail=tail is not None) if has_blocks(part, work, box, in_order=True)
    ]
    most, depths = None if is_searched else 1, (LEAST_CHANNELS, *DEPTHS) if work.lines else DEPTHS
    found = [way for box in boxes for ways in _deep(part, work, rates, spm_bytes, box, tail, depths) for way in ways[:most]]
    if _is_only_stored(work):
        in_place = replace(work, kept_once=SUM_BYTES, stores_sums=True)
        large = [box for box in boxes if is_in_sets(part, work, box) and not any(_deep(part, work, rates, spm_bytes, box, tail))]
        found += [way for box in large for ways in _deep(part, in_place, rates, spm_bytes, box, tail) for way in ways[:most]]
    return found


def _first_ones(found: Sequence[Blocking]) -> list[Blocking]:
    """Those of the best first that are worth a trial, as `MOST_TRIED` says."""
    first = list(found[:MOST_TRIED])
    for blocking in found[MOST_TRIED:]:
        if blocking.spm_bytes < MUCH_LESS * min(own.spm_bytes for own in first):
            first.append(blocking)
    return first


def resident_blockings(
    part: ContractionPart, work: ContractionWork, rates: Rates, spm_bytes: int, residence: Residence
) -> list[Blocking]:
    """How a part whose result stays with the tiles, or whose rows do, can be computed on the mesh: the best first. A tile's steps
    are side by side.

    None if a tile's part is not whole blocks of channels, or a panel of what stays is neither one tile's nor a part of each.
    """
    depth = max(residence.most_depth, *DEPTHS) if work.loops == 1 else residence.most_depth  # with more it decides the others
    found = _resident_blockings(part, work, rates, spm_bytes, replace(residence, operands=frozenset(), most_depth=depth))
    return [own for own in found if own.depth <= residence.most_depth or residence.is_at_once]


@lru_cache(MOST_KNOWN)
def _resident_blockings(
    part: ContractionPart, work: ContractionWork, rates: Rates, spm_bytes: int, residence: Residence
) -> list[Blocking]:
    """The same, which is asked again for each depth, and for equal products of other layers. `work` knows which operands stay."""
    if work.is_per_channel or work.is_backward or work.parts > 1 or part.inner != BLOCK or part.size != part.shape[part.column]:
        return []
    if (work.loops > 1 and (work.rows_stay or work.has_rows)) or work.is_converted[0] or any(work.is_narrowed):
        return []
    if min(rates.mesh_rows, rates.mesh_columns) < 2 or rates.mesh_rows * rates.mesh_columns != rates.tiles:
        return []
    boxes = list(_boxes(part, rates, is_once=not residence.keeps_result))
    boxes = [box for box in boxes if _is_side_by_side(part, work, rates, box, residence)]
    boxes = [box for box in boxes if all(box[line.row] == part.shape[line.row] for line in work.lines)]
    boxes = [box for box in boxes if sides_of(part, box)[0] >= rates.product_rows]
    room, found = spm_bytes - residence.kept_bytes - residence.rows_bytes, list[Blocking]()
    if residence.is_at_once:
        return _rings_at_once(part, work, rates, room, boxes)
    work = replace(work, in_ring=residence.in_ring and work.rows_stay)
    for box in boxes:
        alike = steps_alike(part, rates, box)[0]
        is_in_place = residence.keeps_result and (alike == 1 if residence.row_steps > 1 else residence.in_ring)
        own = _in_place(work, alike * prod(sides_of(part, box)), residence) if is_in_place else work
        if work.in_ring:
            more = alike * SUM_BYTES
            if _is_sums(work):
                more = (ring_group(alike) + 1) * SUM_BYTES - work.kept_once
            own = replace(work, kept_once=work.kept_once + more, kept_bytes=work.kept_bytes + more)
        depths = [depth for depth in DEPTHS if depth <= residence.most_depth]
        found += [blocking for ways in _deep(part, own, rates, room, box, None, depths) for blocking in ways]
    if work.in_ring:
        found = [own for own in found if (work.depth // rates.mesh_columns) // own.depth >= LEAST_SLOTS]
    least = LEAST_SLOTS if residence.row_steps > 1 else 1  # panels: what follows other products goes into a loop over all but one
    found = [own for own in found if work.turns(own.depth) >= least]
    if work.has_rows and residence.row_steps > 1:
        found = [own for own in found if own.depth == BLOCK]
    if work.rows_stay:
        found = [own for own in found if _is_of_tiles(work, rates, own.depth)]
    return [replace(own, is_in_runs=True, is_by_columns=False) for own in sorted(found, key=lambda own: own.cycles)]


def _rings_at_once(
    part: ContractionPart, work: ContractionWork, rates: Rates, room: int, boxes: Sequence[tuple[int, ...]]
) -> list[Blocking]:
    """How sums of a part can go around mesh rows at once (`lower.dma.ring_at_once`), if they are less than the rows that would be
    sent, and all weights of a tile's own depth fit beside them."""
    own, rest = divmod(work.depth, rates.mesh_columns)
    depth = max((depth for depth in DEPTHS if own % depth == 0), default=0)
    if rest or work.lines or not work.rows_stay or depth % BLOCK or own > RING_PANELS * depth:
        return []
    found: list[Blocking] = []
    for box in boxes:
        rows, columns = sides_of(part, box)
        weights = own * columns * rates.mesh_columns * work.operand_bytes
        spm_bytes = weights + rows * columns * (work.kept_bytes + RING_BUFFERS * SUM_BYTES)
        if spm_bytes <= room and is_even(part, box) and columns * SUM_BYTES < own * work.operand_bytes:
            cycles = ring_cycles(work, rates, rows, columns)
            found.append(Blocking(box, depth, cycles, spm_bytes, is_shared=True, is_in_runs=True))
    return found


def _is_only_stored(work: ContractionWork) -> bool:
    """Is a result as large as its sums, and nothing but stored?"""
    return _is_sums(work) and not work.rows_stay


def _is_sums(work: ContractionWork) -> bool:
    """Is a result as large as its sums, and nothing follows the products?"""
    only = work.passes == 0 and work.column_operands == work.parts == 1 and not work.lines
    return only and work.moved_bytes == SUM_BYTES and work.kept_once == 2 * SUM_BYTES


def _is_side_by_side(part: ContractionPart, work: ContractionWork, rates: Rates, box: Sequence[int], residence: Residence) -> bool:
    """Can boxes be those of tiles whose results stay: of one step, or of steps with the same rows, or columns if rows stay? Those
    of parts of rows have as many steps of rows as there are parts. Sums that go around are those of some pieces."""
    columns, rows = steps_alike(part, rates, box)
    shape, roles = inner_shape(part)
    may_be_idle = work.rows_stay and not residence.keeps_result and not residence.in_ring
    ragged = {"row": not work.lines, "column": may_be_idle}
    is_cut = all(size % step == 0 or ragged.get(role, False) for size, step, role in zip(shape, box, roles, strict=True))
    if not is_cut or (work.lines and rows * columns > 1):
        return False
    of_columns = part.cut(box).of_columns if may_be_idle else columns * rates.mesh_columns
    if rows * of_columns * rates.mesh_rows != prod(box_counts(part, box)):
        return False
    if residence.in_ring and work.rows_stay:
        return rows == residence.row_steps and (columns == 1 if residence.is_at_once else columns in RING_PIECES)
    return (
        (columns == 1 if work.rows_stay else rows == 1)
        if residence.row_steps == 1
        else (rows == residence.row_steps and (columns == 1 or not work.rows_stay))
    )


def row_blockings(
    part: ContractionPart, work: ContractionWork, rates: Rates, spm_bytes: int, residence: Residence
) -> list[Blocking]:
    """How a part whose result stays with the tiles can be computed so that a tile has all rows of a run of them, and all columns of
    another: in steps of some of its rows, the best first."""
    if work.is_per_channel or work.is_backward or work.lines or work.parts > 1 or work.loops > 1 or any(work.is_converted):
        return []
    if part.column < 0 or part.inner != BLOCK or part.size != part.shape[part.column]:
        return []
    if min(rates.mesh_rows, rates.mesh_columns) < 2 or rates.mesh_rows * rates.mesh_columns != rates.tiles:
        return []
    columns = prod(size for size, role in zip(part.shape, part.roles, strict=True) if role == "column") // rates.mesh_columns
    boxes = [box for box in _boxes(part, rates) if is_even(part, box) and sides_of(part, box)[1] == columns]
    room, found = spm_bytes - residence.kept_bytes - residence.rows_bytes, list[Blocking]()
    for box in boxes:
        is_one = prod(box_counts(part, box)) == rates.tiles
        own = _in_place(work, prod(sides_of(part, box)), residence) if is_one else work
        found += [
            replace(way, is_in_runs=not is_one)
            for ways in _deep(part, own, rates, room, box, None)
            for way in ways
            if is_one or way.depth == BLOCK or not work.has_rows
        ]
    return sorted(found, key=lambda own: own.cycles)


def _in_place(work: ContractionWork, elements: int, residence: Residence) -> ContractionWork:
    """The work of a step whose results, of so many elements each, are left and computed where they stay, and added up there if they
    are as large as sums. Of parts of rows two stay at a time."""
    sums, kept = SUM_BYTES * work.column_operands, residence.kept_bytes // min(residence.row_steps, 2)
    return replace(work, kept_once=0 if kept <= elements * sums <= kept + kept // FEWER_ROWS else sums)


def _is_of_tiles(work: ContractionWork, rates: Rates, depth: int) -> bool:
    """Is a panel of rows that stay whole blocks of one tile of a mesh row, or as many of each? The latter are those of a loop."""
    of_tile, of_all = divmod(work.depth, rates.mesh_columns)
    if of_all or of_tile % BLOCK or depth % BLOCK:
        return False
    is_loop = work.turns(depth) >= LEAST_SLOTS
    return of_tile % depth == 0 or (not work.in_ring and is_loop and is_interleaved(work, rates, depth))


def _boxes(
    part: ContractionPart, rates: Rates, lines: Sequence[Line] = (), *, has_tail: bool = False, is_once: bool = False
) -> Iterator[tuple[int, ...]]:
    """Boxes that cut rows and columns into multiples of the rates, every one of which has elements; batches one by one. With
    windows along `lines` also those of one image: the last step may have fewer images than there are mesh rows. Without windows
    some mesh columns may have none in the last step; `is_once`: or in the only one."""
    shape, roles = inner_shape(part)
    rows, columns = ([dim for dim, role in enumerate(roles[:-1]) if role == own] for own in ("row", "column"))
    tall = list(_cuts([shape[dim] for dim in rows], rates.mesh_rows, 1 if lines else ROW_UNIT))
    wide = list(_cuts([shape[dim] for dim in columns], rates.mesh_columns, 1))[: MOST_SETS if part.inner == 1 else None]
    image = tuple(shape[dim] if any(dim == line.row for line in lines) else 1 for dim in rows)
    if len(columns) == 1 and not lines:
        wide += [(size,) for size in _some_idle(shape[columns[0]], rates.mesh_columns, has_tail=has_tail)]
        wide += [(-(-shape[columns[0]] // rates.mesh_columns),)] if is_once else []
    if lines and image not in tall and image != tuple(shape[dim] for dim in rows):
        tall.append(image)
    for row_box in tall:
        for column_box in dict.fromkeys(wide):
            box = [1] * len(shape)
            box[-1] = part.inner
            for dim, size in (*zip(rows, row_box, strict=True), *zip(columns, column_box, strict=True)):
                box[dim] = size
            yield tuple(box)


def _some_idle(size: int, lines: int, *, has_tail: bool) -> Iterator[int]:
    """Boxes of equal size, of which there are so many that few of the lines have none in the last step, or that it has the tail."""
    for chunk in (chunk for chunk in range(1, size // 2 + 1) if size % chunk == 0):
        number = size // chunk
        steps = -(-number // lines)
        is_for_tail = has_tail and (number + 1) % lines == 0
        if number % lines and (steps <= MOST_IDLE_STEPS or is_for_tail) and number >= LEAST_BUSY * steps * lines:
            yield chunk


def _cuts(sizes: Sequence[int], lines: int, unit: int) -> Iterator[tuple[int, ...]]:
    """Boxes of which a multiple of `lines` cover the sizes: whole inner dimensions, a part of one, one of each outer dimension."""
    for steps in range(1, MOST_STEPS + 1):
        wanted, box = lines * steps, [1] * len(sizes)
        outer = 1
        for dim, size in enumerate(sizes):
            if outer * size < wanted:
                outer *= size
                continue
            if wanted % outer:
                break
            chunk = -(-size // (wanted // outer))
            if chunk > unit and outer * chunk * (wanted // outer) != outer * size:
                chunk = -(-chunk // unit) * unit
            if -(-size // chunk) == wanted // outer:
                box[dim:] = [chunk, *sizes[dim + 1 :]]
                yield tuple(box)
            break


def _deep(
    part: ContractionPart,
    work: ContractionWork,
    rates: Rates,
    spm_bytes: int,
    box: tuple[int, ...],
    tail: ContractionPart | None,
    depths: Sequence[int] = DEPTHS,
) -> Iterator[list[Blocking]]:
    """The depths of panels of a box with which it fits: of each the ways to keep panels, the best first."""
    rows, columns = sides_of(part, box)
    if work.loops > 1:  # one loop over all of it has panels that are all as deep
        depths = [depth for depth in sorted({*depths, min(work.depth, max(depths))}) if work.depth % depth == 0]
    for depth in depths:
        if depth > work.depth or (work.is_added_apart and depth > EXACT_DEPTH) or work.run % depth:
            continue
        if work.lines and not _is_convolved(part, work, box, depth):
            continue
        sides, turns = panel_bytes(part, work, box, depth), work.turns(depth)
        padded = sides[0] * (1 if max(line.stride for line in work.lines) == 1 else 2) if work.lines else 0
        kept = rows * columns * (work.kept_once if is_in_sets(part, work, box) else work.kept_bytes)
        if work.lines:
            kept = rows * columns * work.kept_bytes + rows_with_gaps(part, box, work) * columns * 2 * SUM_BYTES
        if tail is not None:
            of_tail = work.kept_once if work.stores_sums else work.kept_bytes
            kept += tail.size * (rows * of_tail + depth * work.operand_bytes * (work.operand_copies + 1))
        panel_of_all, most_slots, sharing = sum(sides), MOST_SLOTS, (0, 1)
        if work.in_ring or work.has_rows:
            panel_of_all, sharing = sides[1], (1,) if work.has_rows else ()
        read = read_bytes(sides, work)
        kept += SPLIT_LOADS * sum(size for size, is_first in zip(read, work.is_narrowed, strict=True) if is_first)
        sides = [size + own * (own < size) for size, own in zip(sides, read, strict=True)]  # each tile widens what comes
        if work.parts > 1:
            kept += rows * columns * SUM_BYTES
            kept += (SPLIT_LOADS * sum(sides) + work.split_buffers * max(sides)) // num_splitting(work, rates)
            panel_of_all, most_slots, sharing = sum(sides) * int(work.sent_bytes[0]) // work.operand_bytes, SPLIT_SLOTS, ()
        if turns * num_steps_of(part, rates, box) < 2:
            continue
        found: list[Blocking] = []
        for stays in (None, *(side for side in sharing if turns >= LEAST_SLOTS and steps_alike(part, rates, box)[side] > 1)):
            taken = kept + (0 if stays is None else turns * sides[stays])
            panel = padded + (panel_of_all if stays is None else sides[1 - stays])
            slots = min(most_slots, (spm_bytes - taken) // panel)
            if slots >= LEAST_SLOTS:
                cycles, pace = mesh_cycles(part, work, rates, box, depth, slots, stays, tail)
                spm = taken + LEAST_SLOTS * panel
                found.append(Blocking(box, depth, cycles, spm, is_shared=True, is_by_columns=stays == 1, pace=pace))
        yield sorted(found, key=lambda blocking: blocking.cycles)


def _is_convolved(part: ContractionPart, work: ContractionWork, box: Sequence[int], depth: int) -> bool:
    """Can a block of a convolution be a product per element of its windows, on one load of whole images and one of weights?"""
    return depth <= block_width(work.operand_bytes) and work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines))


def split_on_mesh(
    part: ContractionPart,
    blocking: Blocking,
    to_output: Sequence[Expr],
    work: ContractionWork,
    rates: Rates,
    tail: ContractionPart | None = None,
) -> ContractionStep:
    """The work split of such steps, or of the tail's in them: the tile's place in the mesh and the step say which box it is.

    Raises LevelError if the split is not provably a bijection onto the part, or its tail.
    """
    box, counts = list(blocking.box), list(box_counts(part, blocking.box))
    shape, roles = inner_shape(part)
    row_dims, column_dims, batch_dims = (
        [dim for dim, role in enumerate(roles[:-1]) if role == own] for own in ("row", "column", "batch")
    )
    num_rows, (column_steps, row_steps) = prod(counts[dim] for dim in row_dims), steps_alike(part, rates, box)
    num_steps = num_steps_of(part, rates, box)
    batches = num_steps // (row_steps * column_steps)
    if blocking.is_by_columns:
        batch, column_step, row_step = delinearize(Sym(0), [batches, column_steps, row_steps])
    else:
        batch, row_step, column_step = delinearize(Sym(0), [batches, row_steps, column_steps])
    line = Dim(0) % rates.mesh_columns
    constraints: list[tuple[Expr, Interval]] = []
    first = 1
    if tail is not None:  # a lane of its own says whether the tile has it
        last = column_steps + rates.mesh_columns - 2
        constraints.append((column_step + line, Interval(last, last)))
        shape, box[part.column], box[-1], counts[part.column], first = inner_shape(tail)[0], 1, tail.inner, 1, 2
    row, column = row_step * rates.mesh_rows + Dim(0) // rates.mesh_columns, column_step * rates.mesh_columns + line
    if blocking.is_in_runs:
        row, column = Dim(0) // rates.mesh_columns * row_steps + row_step, line * column_steps + column_step
    num_columns = prod(counts[dim] for dim in column_dims)
    for number, of_mesh, place in ((num_rows, rates.mesh_rows, row), (num_columns, rates.mesh_columns, column)):
        if number % of_mesh and (tail is None or place is row):  # a lane of its own says whether the tile has any
            constraints.append((place, Interval(0, number - 1)))
            first = 2
    positions = ((batch_dims, batch), (row_dims, row), (column_dims, Const(0) if tail is not None else column))
    coordinates: list[Expr] = [Const(0)] * len(shape)
    for dims, position in positions:
        for dim, own in zip(dims, delinearize(position, [counts[dim] for dim in dims]), strict=True):
            coordinates[dim] = own * box[dim]
    ragged = [dim for dim, count in enumerate(counts) if count * box[dim] != shape[dim]]
    lanes = _lanes(part, box, shape, roles, work)
    for number, (dim, _, distance) in enumerate(lanes, start=first):
        coordinates[dim] = coordinates[dim] + Sym(number) * distance
    constraints += [(coordinates[dim], Interval(0, shape[dim] - 1)) for dim in ragged]
    lane_shape = (*(1 for _ in range(1, first)), *(size for _, size, _ in lanes))
    ranges = (Variable(0, num_steps - 1, "step"), *(Variable(0, n - 1, f"lane{i}") for i, n in enumerate(lane_shape)))
    tiles = (Variable(0, rates.tiles - 1, "tile"),)
    iteration = IndexingMap(tiles, ranges, (), tuple(coordinates), tuple(constraints)).simplify()
    places = list(iteration.results[:-1])
    own = part if tail is None else tail
    places[part.column] = iteration.results[part.column] * own.inner + iteration.results[-1] + own.start
    map = iteration.with_results(tuple(expr.substitute(places, ()) for expr in to_output)).simplify()
    split = WorkSplit(map, iteration, shape, num_steps, lane_shape)
    split.verify()
    return ContractionStep(split, blocking.depth, {dim: first - 1 + number for number, (dim, _, _) in enumerate(lanes)})


def _lanes(
    part: ContractionPart, box: Sequence[int], shape: Sequence[int], roles: Sequence[Role], work: ContractionWork
) -> list[tuple[int, int, int]]:
    """The lanes of a box, columns next to each other last: the dimension of each, how many there are, how far apart."""
    found: list[tuple[int, int, int]] = []
    last = part.column if part.inner == 1 else len(shape) - 1
    lines = {line.row for line in work.lines}
    wide = [dim for dim in range(len(shape) - 1) if (box[dim] > 1 or dim in lines) and dim != last]
    for dim in (dim for role in ("column", "row") for dim in wide if roles[dim] == role):
        together = block_width(work.operand_bytes) // BLOCK if dim == part.column else 1
        is_whole = box[dim] % together == shape[dim] % together == 0
        if is_whole and box[dim] > together > 1:  # blocks of the result that are one of the operand
            found += [(dim, box[dim] // together, together), (dim, together, 1)]
        else:
            found.append((dim, box[dim], 1))
    return [*found, (last, box[last], 1)]
