"""What it costs to compute a contraction by steps on the mesh, whose tiles share panels: see mesh_split."""

from collections.abc import Sequence
from math import ceil, prod

from hlo2tx8.device.mesh_sends import is_sent_in_halves, is_split_in_halves, send_cycles
from hlo2tx8.device.rates import Rates
from hlo2tx8.schedule.contraction_estimate import loaded, moved_bytes, rows_with_gaps, turned_bytes
from hlo2tx8.schedule.contraction_work import BLOCK, SUM_BYTES, ContractionPart, ContractionWork, Pace, sides_of

PART = 8192
"""Elements of a part of a result that vector instructions go over at once."""
COPIED = 3
"""Panels of what tiles have that are copied before the product of the first one is done."""
STEP_OVERHEAD = 60
"""Cycles of the kernel core in a turn, apart from waits, barrier and what engines need to start."""


def box_counts(part: ContractionPart, box: Sequence[int]) -> tuple[int, ...]:
    """How many boxes there are along each dimension."""
    return part.cut(box).counts


def steps_alike(part: ContractionPart, rates: Rates, box: Sequence[int]) -> tuple[int, int]:
    """How many steps have the same rows, and how many the same columns."""
    boxes = part.cut(box)
    return -(-boxes.of_columns // rates.mesh_columns), -(-boxes.of_rows // rates.mesh_rows)


def has_idle_tiles(part: ContractionPart, rates: Rates, box: Sequence[int]) -> bool:
    """Have some tiles nothing to do in the last step?"""
    return num_steps_of(part, rates, box) * rates.tiles > prod(box_counts(part, box))


def num_steps_of(part: ContractionPart, rates: Rates, box: Sequence[int]) -> int:
    """Steps of a tile. In the last ones some mesh rows, or mesh columns, may have nothing to do."""
    columns, rows = steps_alike(part, rates, box)
    return part.cut(box).of_batches * columns * rows


def panel_bytes(part: ContractionPart, work: ContractionWork, box: Sequence[int], depth: int) -> tuple[int, int]:
    """Bytes of a panel of rows and of one of columns."""
    rows, columns = loaded(part, box, work)
    return rows * depth * work.operand_bytes, columns * depth * work.operand_bytes


def read_bytes(sides: Sequence[int], work: ContractionWork) -> list[int]:
    """Bytes in memory of panels of so many bytes as they are multiplied."""
    return [int(size * own / work.operand_bytes) for size, own in zip(sides, work.in_memory, strict=True)]


def is_in_sets(part: ContractionPart, work: ContractionWork, box: Sequence[int]) -> bool:
    """Can an epilogue go over a result in sets?"""
    return work.is_cut and not work.lines


def mesh_cycles(
    part: ContractionPart,
    work: ContractionWork,
    rates: Rates,
    box: Sequence[int],
    depth: int,
    slots: int,
    stays: int | None,
    tail: ContractionPart | None,
) -> tuple[float, Pace]:
    """Estimated cycles with so many slots of panels, and the pace of steps; panels of rows (0) or of columns (1) may stay for the
    steps that share them."""
    rows, columns = sides_of(part, box)
    turns, num_steps = work.turns(depth), num_steps_of(part, rates, box)
    most, own = _with_tail(part, work, rates, box, depth, tail)
    own_rows = rows_with_gaps(part, box, work) if work.lines else rows
    engine = _product_cycles(own_rows, most, depth, work, rates)
    if work.lines:
        engine *= prod(line.taps for line in work.lines)
        moved = moved_bytes(part, box, depth, work) + turned_bytes(part, box, depth, work, rates)
        engine = max(engine, moved / work.products * depth / rates.move)
    stored = _stored_cycles(part, box, work, rates)
    num_parts = num_parts_of(rows, -(-columns // BLOCK), turns - 1)
    after = num_parts * work.passes * rates.vector_pass + rows * columns * work.passed_cycles
    queued = after / num_parts * min(1.0, (rates.queue + 1) / max(1, work.passes))
    sides = panel_bytes(part, work, box, depth)
    read, lines = read_bytes(sides, work), _lines_read(part, work, rates, box, depth)
    sent = [size * own / work.operand_bytes for size, own in zip(sides, work.sent_bytes, strict=True)]
    always = sent[1:] if work.in_ring or work.has_rows else sent if stays is None else [sent[1 - stays]]
    in_halves = work.parts == 1 and tail is None and not any(work.is_narrowed)
    in_halves = in_halves and is_sent_in_halves(always, rates, few_slots=work.stores_sums)
    around = _sent_around(rows * columns, turns, rates) if work.in_ring else 0.0

    def step(loaded: Sequence[int]) -> tuple[float, float, float, float]:
        """Of a step that loads panels of these sides: its cycles, alone and beside what the step before has left to do; those that
        its first panels take to arrive; those of memory."""
        sending, loaded = loaded, [side for side in loaded if side or not (work.rows_stay or work.has_rows)]
        shared = sum(read[side] * lines[side] for side in loaded) / rates.ddr + own / rates.ddr
        most = max((read[side] for side in loaded), default=0)
        loading = 2 if in_halves else num_splitting(work, rates)
        load = rates.transfer_start + max(most / loading / rates.transfer, shared)
        kinds = [sent[side] if side in sending else 0.0 for side in (0, 1)]
        send = around + _sent_in_turn(kinds, work, rates, depth, in_halves=in_halves)
        send += (work.column_operands - 1) * rates.link_start if 1 in loaded else 0
        split = work.split_passes * (most / num_splitting(work, rates) / rates.vector + rates.vector_pass)
        narrowing, widening = _conversion_cycles(sides, loaded, work, rates)
        split += narrowing
        if work.is_added_apart:
            split += rows * columns * SUM_BYTES / rates.vector + rates.vector_pass
        turn = max(engine + STEP_OVERHEAD, widening, load, max(send, split) + rates.barrier + STEP_OVERHEAD)
        busy = after + idle_cycles(turns, num_parts, turn, rates.barrier + 2 * STEP_OVERHEAD, queued) if after else 0.0
        transfers = turns * load + (0 if work.stores_sums else stored)
        return turns * turn, max(turns * turn, transfers, busy), load + split + send + rates.barrier, turns * shared + stored

    alone, first, start, moved = step((0, 1))
    of_others = (alone, 0.0, 0.0, moved) if stays is None else step((1 - stays,))
    num_first = num_steps if stays is None else num_steps // steps_alike(part, rates, box)[stays]
    sets = work.column_operands * -(-columns // BLOCK) if is_in_sets(part, work, box) else 1
    is_paced = alone > turns * (engine + STEP_OVERHEAD)
    is_vector_late = num_steps > 1 and after > alone  # the vector engine is not done with the step before the last one either
    end = (
        after
        if is_vector_late
        else end_cycles(
            max(stored, after) + min(stored, after) / sets,
            engine,
            start,
            sets,
            min(slots, turns),
            rates.queue,
            products=work.column_operands,
            is_paced=is_paced,
        )
    )
    alike, late = steps_alike(part, rates, box)[0], _made_late(work, rates, depth, turns)
    pace = Pace(alone, of_others[0], after, start, end, num_steps, alike, late)
    busy = alone + (num_first - 1) * first + (num_steps - num_first) * of_others[1] + start + end
    busy += _between_steps(part, work, box, (after, engine, stored), num_steps)
    return max(busy, num_first * moved + (num_steps - num_first) * of_others[3]), pace


def _stored_cycles(part: ContractionPart, box: Sequence[int], work: ContractionWork, rates: Rates) -> float:
    """What memory takes to store a box of each tile, in runs of channels."""
    elements = prod(sides_of(part, box))
    run_bytes = max(1, part.width(box) * work.moved_bytes)
    return elements * work.moved_bytes * max(1.0, rates.line_bytes / run_bytes) * rates.tiles / rates.ddr


def _lines_read(part: ContractionPart, work: ContractionWork, rates: Rates, box: Sequence[int], depth: int) -> tuple[float, float]:
    """How many times the bytes of a panel of rows, and of one of columns, memory is busy with: once for each mesh row or column. A
    run of channels of an element of an image, or of filters of its weights, counts as a line of memory at least."""
    mesh = (float(rates.mesh_rows), float(rates.mesh_columns))
    if not work.lines:
        return mesh
    runs = [(depth, work.depth), (part.width(box), part.size)]
    bytes_of = [own * size if own < of_all else rates.line_bytes for (own, of_all), size in zip(runs, work.in_memory, strict=True)]
    rows, columns = (own * max(1.0, rates.line_bytes / size) for own, size in zip(mesh, bytes_of, strict=True))
    return rows, columns


def num_splitting(work: ContractionWork, rates: Rates) -> int:
    """How many tiles of a line make a part each of what all multiply."""
    return 2 if work.parts > 1 and is_split_in_halves(rates) else 1


def _with_tail(
    part: ContractionPart,
    work: ContractionWork,
    rates: Rates,
    box: Sequence[int],
    depth: int,
    tail: ContractionPart | None,
) -> tuple[int, int]:
    """The columns of a step that has most, and bytes of a panel of the tail, which only one line loads."""
    _, columns = sides_of(part, box)
    if tail is None:
        return columns, 0
    boxes = box_counts(part, box)[part.column]
    last = 0 if boxes % rates.mesh_columns else part.size - (boxes - 1) * columns  # a line without columns of its own has the tail
    most = max(columns, last + -(-tail.size // rates.product_columns) * rates.product_columns)
    return most, depth * max(rates.line_bytes, tail.size * work.operand_bytes)


def _conversion_cycles(sides: Sequence[int], loaded: Sequence[int], work: ContractionWork, rates: Rates) -> tuple[float, float]:
    """What the vector engine takes to narrow what a tile has loaded, before it is sent, and to widen what has come."""
    each = [passes * (size / rates.vector + rates.vector_pass) for size, passes in zip(sides, work.conversions, strict=True)]
    narrowing = max((each[side] for side in loaded if work.is_narrowed[side]), default=0.0)
    return narrowing, sum(own for own, is_first in zip(each, work.is_narrowed, strict=True) if not is_first)


def _product_cycles(rows: int, columns: int, depth: int, work: ContractionWork, rates: Rates) -> float:
    """Cycles of the matrix engine for one product."""
    units = ((rows, rates.product_rows), (columns, rates.product_columns), (depth, rates.product_depth))
    return rates.product_start + prod(-(-n // unit) * unit for n, unit in units) / work.tile_products


def ring_cycles(work: ContractionWork, rates: Rates, rows: int, columns: int) -> float:
    """Estimated cycles of a product of a tile's own depth, of so many rows and columns of each tile of its mesh row, whose sums go
    around at once. Weights are sent during the phase before."""
    engine = _product_cycles(rows, columns, work.depth // rates.mesh_columns, work, rates)
    sent = rates.link_start + rows * columns * SUM_BYTES / rates.link + rates.barrier + STEP_OVERHEAD
    after = work.passes * rates.vector_pass + rows * columns * work.passed_cycles
    return rates.mesh_columns * engine + (rates.mesh_columns - 1) * sent + after


def _between_steps(
    part: ContractionPart, work: ContractionWork, box: Sequence[int], of_step: tuple[float, float, float], num_steps: int
) -> float:
    """Cycles of all steps in which no products are made: `of_step` what the vector engine, a turn of products, and storing take."""
    after, engine, stored = of_step
    found = 0.0 if is_in_sets(part, work, box) else num_steps * after
    if work.lines:  # TDMA takes a result out before it prepares the next step's first panel, and the matrix engine waits for that
        found += (num_steps - 1) * engine
    if work.stores_sums:
        found += (num_steps - 1) * stored
    return found


def alternating_cycles(first: Pace, second: Pace, parts: int) -> float:
    """Estimated cycles of two products whose rows are made in so many parts in turns (`alternate_phases`): what follows the
    products of a step is done beside those of the next ones."""
    steps: list[tuple[float, float, tuple[float, ...]]] = []  # cycles of turns, of what follows, the part of which steps has that
    for part in range(parts + 1):
        if part < parts:
            steps += [(first.turns if number == 0 else first.others, first.after, (1.0,)) for number in range(first.alike)]
            beside: tuple[float, ...] = (1.0,) * (1 + (part > 0) if part < parts - 1 else int(parts > 1))
            if part == parts - 1 and (second.in_order or parts == 1):
                beside = *beside, second.in_order
            steps[-1] = *steps[-1][:2], beside
        if part:
            steps.append((second.turns * second.alike, second.after * second.alike, (1.0,)))
    late, alone = [0.0] * (len(steps) + 2), 0.0
    for number, (_, after, beside) in enumerate(steps):
        during = [turns * share for (turns, _, _), share in zip(steps[number + 1 :], beside, strict=False)]
        alone += 0.0 if any(beside) else after  # nobody can read what is made of it before
        for place, turns in enumerate(during, start=number + 1):
            late[place] += after * turns / sum(during) if turns else 0.0
    cycles = sum(max(turns, own) for (turns, _, _), own in zip(steps, late, strict=False))
    return cycles + alone + first.start + (2 * parts - 1) * second.start + second.end


def least_alternating_cycles(first: Pace, second: Pace, parts: int) -> float:
    """Cycles that `alternating_cycles` is at least: all turns, as if nothing followed them."""
    turns = first.turns + (first.alike - 1) * first.others + second.turns * second.alike
    return parts * turns + first.start + (2 * parts - 1) * second.start + second.end


def _made_late(work: ContractionWork, rates: Rates, depth: int, turns: int) -> float:
    """The part of the turns in which tiles may still make the rows that a product reads."""
    if not work.rows_stay or work.in_ring or not is_interleaved(work, rates, depth):
        return 0.0
    return max(0.0, (turns - COPIED) / max(1, turns - 1))


def is_interleaved(work: ContractionWork, rates: Rates, depth: int) -> bool:
    """Has a panel of rows that stay as many whole blocks of each tile of a mesh row?"""
    of_tile, unit = work.depth // rates.mesh_columns, BLOCK * rates.mesh_columns
    return not work.lines and depth % unit == 0 and of_tile % (depth // rates.mesh_columns) == 0


def _sent_in_turn(sides: Sequence[float], work: ContractionWork, rates: Rates, depth: int, *, in_halves: bool) -> float:
    """Cycles until a panel has arrived, of so many bytes of rows and columns, 0 of what has stayed."""
    if work.in_ring or work.has_rows:
        return send_cycles(sides[1:], work.transfers, rates, in_halves=in_halves)
    if work.rows_stay:
        return _sent_by_owners(sides, work, rates, depth)
    return send_cycles([size for size in sides if size], work.transfers, rates, in_halves=in_halves)


def _sent_around(sums: int, turns: int, rates: Rates) -> float:
    """Cycles in a turn until a part of a piece of sums has arrived at the next tile."""
    return rates.link_start + sums * SUM_BYTES / max(1, turns // rates.mesh_columns - 1) / rates.link


def _sent_by_owners(sides: Sequence[float], work: ContractionWork, rates: Rates, depth: int) -> float:
    """Cycles until a panel has arrived, the rows of which tiles have: one, or a part each, which share the links of a mesh row."""
    rows, columns = sides
    if is_interleaved(work, rates, depth):
        rows *= (rates.mesh_columns - 1) / rates.mesh_columns
        return 2 * rates.link_start + max(
            rows / rates.link, rows / (rates.mesh_columns - 1) / rates.link + columns / 2 / rates.link
        )
    return 2 * rates.link_start + (rows + columns / 2) / rates.link


def idle_cycles(turns: int, num_parts: int, turn: float, meeting: float, queued: float) -> float:
    """Cycles of a step in which the vector engine has nothing to do because there are fewer parts than turns: the kernel core
    issues a part in one turn and meets the other tiles in those that follow, while the engine goes on for what is `queued`."""
    gaps = max(1, min(num_parts, turns - num_parts))
    return gaps * max(0.0, max(1.0, (turns - num_parts) / gaps) * turn + meeting - queued)


def num_parts_of(rows: int, blocks: int, turns: int) -> int:
    """In how many parts an epilogue goes over a step's result: channel blocks, or as many pieces of each as there are turns for."""
    found = blocks
    for number in range(2 * blocks, rows * blocks * BLOCK // PART + 1, blocks):
        found = number if found < turns and rows % (number // blocks) == 0 else found
    return found


def end_cycles(
    stored: float, engine: float, start: float, sets: int, slots: int, queue: int, *, products: int, is_paced: bool
) -> float:
    """Cycles behind the last panel but those of its product: other sets of columns are multiplied with the panels that are kept,
    and stored meanwhile. The turns of those are shorter by as much, but for panels that are not there yet: these are waited for,
    and all of them if the pace is that of transfers anyway."""
    kept = min(slots, queue + 2, max(2, ceil(stored / engine)))
    early, others = min(kept, slots - 2, queue), engine * (sets - 1) / sets
    if products == 1 and not is_paced:
        return max(stored / sets, stored - kept * others) + (kept - early) * max(0.0, start - engine / sets)
    return max(kept * others + stored / sets, stored) - (0 if is_paced else max(0, early) * others)
