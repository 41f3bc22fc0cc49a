"""What it costs to compute a contraction by steps for which tiles share nothing but what all load alike: see contraction_split."""

from collections.abc import Sequence
from math import prod

from hlo2tx8.device.alike_loads import is_spread, spread_cycles
from hlo2tx8.device.rates import Rates, block_width
from hlo2tx8.schedule.contraction_work import (
    BLOCK,
    SUM_BYTES,
    ContractionPart,
    ContractionWork,
    inner_shape,
    is_even_beside,
    sides_of,
)

MOST_PEELED = 2
"""Turns that are no loop: the last one comes behind it."""


def buffer_bytes(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork) -> int:
    """Estimated bytes of a tile's buffers."""
    rows, columns = sides_of(part, box)
    deep = 1 if work.is_per_channel or work.is_backward else depth
    once = alike_bytes(part, box, depth, work)
    of_rows, of_columns = buffered(part, box, work)
    several = (of_rows + (0 if once else of_columns)) * deep
    return rows * columns * work.kept_bytes + several * work.operand_copies + once


def alike_bytes(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork) -> int:
    """Bytes of columns that are the same in all steps of all tiles, because a step has all columns and all products: in a turn, or
    in two, which are no loop."""
    shape, roles = inner_shape(part)
    is_cut = any(own != "row" and step < size for own, step, size in zip(roles, box, shape, strict=True))
    if is_cut or depth < work.depth or work.loops > MOST_PEELED or work.is_per_channel or work.is_backward:
        return 0
    return int(loaded(part, box, work)[1] * work.products * work.in_memory[1])


def sides_that_stay(
    part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates
) -> tuple[bool, bool]:
    """Do rows, and columns, stay from one turn of a loop around to the next? A tile has them all at once then, in one step."""
    if not any(work.may_stay) or depth < work.depth or num_boxes(part, box) > rates.tiles:
        return False, False
    kept = sum(own * depth for own, may in zip(buffered(part, box, work), work.may_stay, strict=True) if may)
    return work.may_stay if kept * (1 + work.split_buffers) <= work.stay_bytes else (False, False)


def _alike_beside(part: ContractionPart, box: Sequence[int], stay: tuple[bool, bool], work: ContractionWork) -> int:
    """Bytes that all tiles load alike beside what stays."""
    shape, roles = inner_shape(part)
    side = stay.index(False) if any(stay) and not all(stay) else -1
    is_cut = any(own != ("column", "row")[side] and n < size for own, n, size in zip(roles, box, shape, strict=True))
    return 0 if side < 0 or is_cut else int(loaded(part, box, work)[side] * work.depth * work.in_memory[side])


def num_boxes(part: ContractionPart, box: Sequence[int]) -> int:
    """Steps of all tiles."""
    return prod(part.cut(box).counts)


def loaded(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> tuple[int, int]:
    """Elements of rows and of columns that are loaded for each product of an element of a window."""
    rows, columns = sides_of(part, box)
    rows, columns = rows * work.row_operands, columns * work.column_operands
    for line in work.lines:
        rows = rows // box[line.row] * line.extent(box[line.row])
        columns *= line.taps
    return (rows * sides_of(part, box)[1], columns) if work.is_per_channel else (rows, columns)


def buffered(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> tuple[int, int]:
    """Bytes of buffers of rows and of columns for each product of an element of a window: as they are multiplied, and as they are
    in memory if that is another type."""
    rows, columns = loaded(part, box, work)
    of_rows, of_columns = (
        work.operand_bytes + own * is_other for own, is_other in zip(work.in_memory, work.is_converted, strict=True)
    )
    return int(rows * of_rows), int(columns * of_columns)


def conversion_cycles(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates) -> float:
    """What the vector engine takes to convert so many products of a step's rows and columns."""
    each = zip(loaded(part, box, work), work.conversions, strict=True)
    return sum(passes * (count * depth * work.operand_bytes / rates.vector + rates.vector_pass) for count, passes in each)


def moved_bytes(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork) -> float:
    """Bytes that TDMA moves in a step with windows besides its weights: padding is filled, and vectors whose channels are no block
    of the engine's layout go there and back. Where weights are not turned, windows that move by several points need planes of their
    own, and lines of the result are brought together.
    """
    if not work.lines or work.is_backward:
        return 0.0
    rows, columns = sides_of(part, box)
    image = loaded(part, box, work)[0] * (work.loops if work.is_per_channel else work.products) * work.operand_bytes
    laid_out = image + rows * columns * SUM_BYTES if is_laid_out(part, box, work) else 0
    if work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines)) and not work.is_per_channel:
        return image * (1 if max(line.stride for line in work.lines) == 1 else 3) + rows * columns * work.operand_bytes
    return image + laid_out


def is_laid_out(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> bool:
    """Do the vectors of a convolution go to the engine's layout and back, because their channels are no block of it?"""
    width = part.width(box)
    return bool(work.lines) and not (width <= BLOCK and width & (width - 1) == 0)


def turned_bytes(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates) -> float:
    """Bytes of weights that TDMA turns element by element for a step with windows; 0 if they stay as they are in memory."""
    stay = work.is_backward or work.is_per_channel or work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines))
    if not work.lines or stay:
        return 0.0
    return loaded(part, box, work)[1] * work.products * max(work.operand_bytes, rates.move_run_bytes)


def rows_with_gaps(part: ContractionPart, box: Sequence[int], work: ContractionWork) -> int:
    """Rows of a product per element of a window: from the first result to the last one, points of the image one after the other."""
    pitch, found, of_row = 1, 1, {line.row: line for line in work.lines}
    for dim in reversed([dim for dim, role in enumerate(inner_shape(part)[1]) if role == "row"]):
        line = of_row.get(dim)
        found += (box[dim] - 1) * pitch
        pitch *= box[dim] if line is None else -(-line.extent(box[dim]) // line.stride)
    return found


def step_cycles(part: ContractionPart, box: Sequence[int], depth: int, work: ContractionWork, rates: Rates) -> tuple[float, float]:
    """Estimated cycles: the busiest of DDR, a tile's transfers and its engine; then what nothing overlaps. And DDR's alone."""
    rows, columns = sides_of(part, box)
    chunks = num_boxes(part, box)
    steps, active = -(-chunks // rates.tiles), min(chunks, rates.tiles)
    loads = sum(count * size for count, size in zip(loaded(part, box, work), work.in_memory, strict=True))
    taps = prod(line.taps for line in work.lines)
    alike = once = alike_bytes(part, box, depth, work)
    stay, before = sides_that_stay(part, box, depth, work, rates), 0.0
    if any(stay):
        sides = list(zip(loaded(part, box, work), work.in_memory, stay, strict=True))
        loads = sum(count * size for count, size, stays in sides if not stays)
        before = active * work.depth * sum(count * size for count, size, stays in sides if stays) / rates.ddr
        alike = once = _alike_beside(part, box, stay, work)
    if not is_spread(alike, active, rates):
        alike = 0
    own = loads * work.products + rows * columns * work.moved_bytes - alike
    turns = work.turns(depth)
    is_by_tap = work.is_tap_by_tap(depth, is_even=is_even_beside(part, box, work.lines))
    own_rows = rows_with_gaps(part, box, work) if is_by_tap else rows
    height, width = (-(-n // unit) * unit for n, unit in ((own_rows, rates.product_rows), (columns, rates.product_columns)))
    engine = height * width * (work.products * taps + rates.product_depth - 1) / work.tile_products
    engine += turns * (rates.product_start + rates.move_start)
    block = block_width(work.operand_bytes)
    is_by_parts = is_by_tap and depth > block and depth % block > 0  # of channels, which have each block of filters by itself
    if is_by_tap:
        instructions = taps * work.turns(min(depth, block)) * (-(-columns // BLOCK) if is_by_parts else 1)
        engine += instructions * rates.product_start
    engine += work.passes * rates.vector_pass + rows * columns * work.passed_cycles
    engine += work.split_passes * (loads * work.products / rates.vector + 2 * turns * rates.vector_pass)
    engine += turns * conversion_cycles(part, box, min(depth, work.depth), work, rates)
    if work.is_added_apart:
        engine += turns * (rows * columns * SUM_BYTES / rates.vector + rates.vector_pass)
    first = (loads * depth - alike) * active
    start = max((first + alike) / rates.ddr, spread_cycles(alike, rates)) if alike else first / rates.ddr
    ends = start + rows * columns * work.moved_bytes * active / rates.ddr
    last = engine / turns + (work.meeting if active > 1 else 0)
    alone = 2 * (rates.transfer_start + rates.issue) + rates.product_start + rates.move_start
    moved, turned = moved_bytes(part, box, depth, work) / rates.move, turned_bytes(part, box, depth, work, rates) / rates.move
    in_each = moved if once else moved + turned  # weights that are alike are turned once
    if (is_laid_out(part, box, work) and not work.is_per_channel) or is_by_parts:
        busy = steps * (engine + alone + in_each) + ends  # the engine waits for moves before and after its products
    else:
        busy = steps * max(engine + alone, in_each) + ends
    busy += (moved + turned) / turns  # a panel is between its zeros before it is multiplied
    # while tiles send each other what they have alike, steps are loaded as far as there are buffers; of guarded ones one
    ahead = min(steps, 1 if chunks % active else 2) * first
    busy += before / work.turns_around
    last += before / work.turns_around
    streamed = max((chunks * own + alike) / rates.ddr, start + (chunks * own - ahead) / rates.ddr if alike else 0.0)
    streamed += steps * rates.transfer_start  # tiles that are in step all start a transfer at the same time
    return max(busy, streamed + last, steps * own / rates.transfer + last), streamed
