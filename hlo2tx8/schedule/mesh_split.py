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
from math import prod

from hlo2tx8.device.rates import Rates, block_width
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Interval, Sym, Variable, delinearize
from hlo2tx8.partitioner.contraction import Role
from hlo2tx8.schedule.contraction_split import has_blocks
from hlo2tx8.schedule.contraction_work import (
    BLOCK,
    SUM_BYTES,
    Blocking,
    ContractionPart,
    ContractionStep,
    ContractionWork,
    inner_shape,
    is_even,
)
from hlo2tx8.schedule.mesh_boxes import DEPTHS, is_sums, mesh_boxes, ways_of_box
from hlo2tx8.schedule.mesh_estimate import (
    box_counts,
    is_in_sets,
    num_steps_of,
    steps_alike,
)
from hlo2tx8.schedule.work_split import WorkSplit

LEAST_CHANNELS = 16
"""Channels of a panel of an image that are tried too: of each there are products of all elements of a window."""
AS_GOOD = 1.01
"""Estimates that differ by less say nothing: of such blockings those come first whose steps are all as large, and of them those of
deeper panels, with fewer turns to wait for."""
MOST_TRIED = 3
"""Ways to cut a part that are worth lowering; behind them come those that need much less room, should none of them fit."""
MUCH_LESS = 0.7


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
    if not rates.is_on_mesh:
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
        box for box in mesh_boxes(part, rates, work.lines, has_tail=tail is not None) if has_blocks(part, work, box, in_order=True)
    ]
    most, depths = None if is_searched else 1, (LEAST_CHANNELS, *DEPTHS) if work.lines else DEPTHS

    def ways(own: ContractionWork, box: tuple[int, ...]) -> list[Blocking]:
        return [way for of_depth in ways_of_box(part, own, rates, spm_bytes, box, tail, depths) for way in of_depth[:most]]

    of_boxes = {box: ways(work, box) for box in boxes}
    found = [way for own in of_boxes.values() for way in own]
    if _is_only_stored(work):
        in_place = replace(work, kept_once=SUM_BYTES, stores_sums=True)
        large = [box for box, own in of_boxes.items() if not own and is_in_sets(part, work, box)]
        found += [way for box in large for way in ways(in_place, box)]
    return found


def _first_ones(found: Sequence[Blocking]) -> list[Blocking]:
    """Those of the best first that are worth a trial, as `MOST_TRIED` says."""
    first = list(found[:MOST_TRIED])
    for blocking in found[MOST_TRIED:]:
        if blocking.spm_bytes < MUCH_LESS * min(own.spm_bytes for own in first):
            first.append(blocking)
    return first


def _is_only_stored(work: ContractionWork) -> bool:
    """Is a result as large as its sums, and nothing but stored?"""
    return is_sums(work) and not work.rows_stay


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
