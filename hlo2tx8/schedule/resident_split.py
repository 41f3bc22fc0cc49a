"""Steps on the mesh of contractions whose result stays with the tiles that make it, or whose rows do: see mesh_split."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from hlo2tx8.device.mesh_sends import RING_BUFFERS, RING_PANELS, ring_group
from hlo2tx8.device.rates import Rates
from hlo2tx8.schedule.contraction_work import (
    BLOCK,
    SUM_BYTES,
    Blocking,
    ContractionPart,
    ContractionWork,
    inner_shape,
    is_even,
    sides_of,
)
from hlo2tx8.schedule.mesh_boxes import DEPTHS, LEAST_SLOTS, is_sums, mesh_boxes, ways_of_box
from hlo2tx8.schedule.mesh_estimate import (
    box_counts,
    is_interleaved,
    ring_cycles,
    steps_alike,
)
from hlo2tx8.schedule.work_split import Residence

FEWER_ROWS = 8
"""The part that the last tile's rows may be fewer than those of others, as far as what stays is estimated."""
RING_PIECES = (2, 3, 4)
"""Of a tile's columns, whose sums go around a mesh row: while one is computed another one is sent."""
MOST_KNOWN = 256
"""Products whose ways beside what stays are kept."""


def has_even_columns(shape: Sequence[int], rates: Rates) -> bool:
    """Have the tiles of a mesh row as many whole blocks of the columns of a result? Else it does not stay with them."""
    return (shape or (1,))[-1] % (BLOCK * rates.mesh_columns) == 0


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
    if not rates.is_on_mesh:
        return []
    boxes = list(mesh_boxes(part, rates, is_once=not residence.keeps_result))
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
            if is_sums(work):
                more = (ring_group(alike) + 1) * SUM_BYTES - work.kept_once
            own = replace(work, kept_once=work.kept_once + more, kept_bytes=work.kept_bytes + more)
        depths = [depth for depth in DEPTHS if depth <= residence.most_depth]
        found += [blocking for ways in ways_of_box(part, own, rates, room, box, None, depths) for blocking in ways]
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
    if not rates.is_on_mesh:
        return []
    columns = prod(size for size, role in zip(part.shape, part.roles, strict=True) if role == "column") // rates.mesh_columns
    boxes = [box for box in mesh_boxes(part, rates) if is_even(part, box) and sides_of(part, box)[1] == columns]
    room, found = spm_bytes - residence.kept_bytes - residence.rows_bytes, list[Blocking]()
    for box in boxes:
        is_one = prod(box_counts(part, box)) == rates.tiles
        own = _in_place(work, prod(sides_of(part, box)), residence) if is_one else work
        found += [
            replace(way, is_in_runs=not is_one)
            for ways in ways_of_box(part, own, rates, room, box, None)
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
