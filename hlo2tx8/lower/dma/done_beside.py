"""In which turns of the loops behind it what follows a loop's products is done, so that engines work side by side.

    up(1); down(0); down(1)      what follows up(1), in 12 parts: 7 during the 11 turns of down(0), 5 during 9 of down(1)

Loops that do not read what the first one makes have all of their turns for it. One that reads it can have some: of what stays with
tiles (`keep_results`) a panel is some channel blocks of each tile, in their order, and parts are made in the same order. A panel is
copied to its slot two turns before it is multiplied; the range check orders that behind the parts that were issued before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby, takewhile

from xdsl.ir import SSAValue

from hlo2tx8.device.isa.lsu import Wdma
from hlo2tx8.dialects import xla
from hlo2tx8.lower.dma.column_sets import Columns, columns_of
from hlo2tx8.lower.dma.epilogue_parts import Epilogue
from hlo2tx8.lower.dma.keep_results import ResultBuffer
from hlo2tx8.lower.dma.load_levels import levels_of
from hlo2tx8.lower.dma.panels import Panels, PanelSide
from hlo2tx8.lower.dma.slices import instructions_in

COPIED_AHEAD = 2
"""Turns from the copy of a panel to its product."""


@dataclass(frozen=True)
class Beside:
    """So many first turns of a loop."""

    panels: Panels
    turns: int


@dataclass(frozen=True)
class Spread:
    """Stages spread over turns: before a turn there have been (turn * `each` + `more`) div `of`."""

    each: int
    of: int
    more: int = 0

    @staticmethod
    def over(epilogue: Epilogue, num_parts: int, num_turns: int) -> "Spread":
        """The stages of what follows a product, one more than parts if something is brought ahead, over so many turns."""
        num_stages = num_parts + bool(epilogue.ahead)
        if epilogue.has_arithmetic and 1 < num_stages < num_turns:  # one in the first turn, one in the last
            return Spread(num_stages - 1, num_turns - 1, num_turns - 2)
        return Spread(num_stages, num_turns)

    def before(self, turn: int) -> int:
        """How many stages there are before a turn."""
        return (turn * self.each + self.more) // self.of


def done_beside(
    panels: Sequence[Panels], reads: Sequence[set[SSAValue]], kept: Sequence[ResultBuffer]
) -> tuple[tuple[Columns, ...], tuple[Beside, ...]]:
    """The sets of columns of the first loop, and the turns of those behind it in which what follows its products is done.

    Those are loops of two products at most, of one if the first reads what tiles have, up to one that `reads` what the first makes;
    also that one if no loop behind makes anything for another.
    """
    first, behind = panels[0], list(zip(panels[1:], reads[1:], strict=True))
    made = {op.field("slot") for op in instructions_in(first.loop) if isinstance(op, Wdma)}
    most = 1 if _is_of_tiles(reads[0]) else 2
    products = [list(loops) for _, loops in groupby(behind, key=lambda own: own[1])]
    free = list(takewhile(lambda own: not made & own[1], chain.from_iterable(products[:most])))
    others = tuple(Beside(own, own.turns_beside) for own, _ in free)
    turns = sum(own.turns for own in others)
    results = [own for own in kept if own.kept.slot in made]
    if results and len(free) < len(behind) and made & behind[len(free)][1] and all(_is_of_tiles(its) for _, its in behind):
        reader = behind[len(free)][0]
        for more in range(reader.num_panels - COPIED_AHEAD - 1, 0, -1):
            sets = columns_of(first, turns + more)
            if len(sets) == 1 and _is_in_time(sets[0], turns, more, reader, results[0]):
                return sets, (*others, Beside(reader, more))
    return columns_of(first, turns), others


def _is_of_tiles(slots: set[SSAValue]) -> bool:
    """Are rows of a product what tiles have made?"""
    return any(isinstance(slot.owner, xla.AllocateScratchOp) for slot in slots)


def _is_in_time(columns: Columns, turns: int, more: int, reader: Panels, result: ResultBuffer) -> bool:
    """Is what follows the last products done before a reader's panels are copied, if it is spread over so many turns of others and
    then over so many `more` of the reader's?"""
    load = reader.sites[0].loads.get(PanelSide.ROWS)
    levels = levels_of(load.op, at_most=True) if load is not None else None
    if levels is None or levels[0][0] != result.columns:  # not a part of each tile
        return False
    epilogue, of_panel = columns.epilogue, levels[1][0]
    spread, done = Spread.over(epilogue, columns.num_parts, turns + more), result.kept.blocks - epilogue.blocks
    for panel in range(reader.num_panels):
        parts = spread.before(turns + max(0, panel - COPIED_AHEAD)) - bool(epilogue.ahead)
        if done + max(0, parts) * epilogue.blocks // columns.num_parts < (panel + 1) * of_panel:
            return False
    return True
