"""Boxes of steps on the mesh, and how deep the panels of one may be: see mesh_split."""

from collections.abc import Iterator, Sequence

from hlo2tx8.device.rates import Rates, aligned_channels, block_width
from hlo2tx8.partitioner.contraction import EXACT_DEPTH
from hlo2tx8.partitioner.windows import Line
from hlo2tx8.schedule.contraction_estimate import rows_with_gaps
from hlo2tx8.schedule.contraction_work import (
    SUM_BYTES,
    Blocking,
    ContractionPart,
    ContractionWork,
    inner_shape,
    is_even_beside,
    sides_of,
)
from hlo2tx8.schedule.mesh_estimate import (
    is_in_sets,
    mesh_cycles,
    num_splitting,
    num_steps_of,
    panel_bytes,
    read_bytes,
    steps_alike,
)

ROW_UNIT = 8
LEAST_SLOTS = 3
MOST_SLOTS = 32
SPLIT_LOADS = 2
"""Panels that have been loaded and not yet been split in parts."""
SPLIT_SLOTS = 4
"""Panels in parts."""
DEPTHS = (32, 64, 128, 256, 512)
"""Products of a panel that are tried."""
MOST_IDLE_STEPS, LEAST_BUSY = 3, 0.6
"""Steps of which the last one has no boxes for some mesh columns, and the part of all boxes that there are at least."""
MOST_STEPS = 64
"""Parts of rows, or of columns, that are tried."""
MOST_SETS = 3
"""Sets of single filters that are tried."""


def mesh_boxes(
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


def ways_of_box(
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
        laid_out = 0 if work.lines or work.in_ring else rows * _laid_out_bytes(work.depth % depth, work.operand_bytes)
        if turns * num_steps_of(part, rates, box) < 2:
            continue
        found: list[Blocking] = []
        for stays in (None, *(side for side in sharing if turns >= LEAST_SLOTS and steps_alike(part, rates, box)[side] > 1)):
            taken = kept + (0 if stays is None else turns * sides[stays])
            panel = padded + laid_out + (panel_of_all if stays is None else sides[1 - stays])
            slots = min(most_slots, (spm_bytes - taken) // panel)
            if slots >= LEAST_SLOTS:
                cycles, pace = mesh_cycles(part, work, rates, box, depth, slots, stays, tail)
                spm = taken + LEAST_SLOTS * panel
                found.append(Blocking(box, depth, cycles, spm, is_shared=True, is_by_columns=stays == 1, pace=pace))
        yield sorted(found, key=lambda blocking: blocking.cycles)


def _laid_out_bytes(rest: int, width_bytes: int) -> int:
    """Bytes of a row of the last, narrower panel that is brought into blocks and what is behind them, a copy for each place of a
    panel; 0 if it is loaded as the engine reads it: whole blocks, or a part of one with its padding."""
    channels = aligned_channels(rest, width_bytes)
    return channels * width_bytes if rest > block_width(width_bytes) and channels != rest else 0


def _is_convolved(part: ContractionPart, work: ContractionWork, box: Sequence[int], depth: int) -> bool:
    """Can a block of a convolution be a product per element of its windows, on one load of whole images and one of weights?"""
    return depth <= block_width(work.operand_bytes) and work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines))


def is_sums(work: ContractionWork) -> bool:
    """Is a result as large as its sums, and nothing follows the products?"""
    only = work.passes == 0 and work.column_operands == work.parts == 1 and not work.lines
    return only and work.moved_bytes == SUM_BYTES and work.kept_once == 2 * SUM_BYTES
