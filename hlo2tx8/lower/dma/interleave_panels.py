"""Panels of what the tiles of a mesh row have made, with a part of each of them.

    RDMA_load slot(%t) offset(%k * 256) count(64) s1(1024) n1(392) s2(64) n2(4)          columns 256 k to 256 k + 255
⟶
    RDMA_load slot(%t) offset(%k * 64) count(64) s1(1024) n1(392) s2(64) n2(1) s3(256) n3(4)      columns 256 i + 64 k + j

Where panels go through all columns of a tensor of which a tile has a fourth each, they would come from one tile after the other. So
all of them send at once, and links are busy in both directions. The other operand is loaded in the same order.
"""

from math import prod
from typing import Any

from xdsl.builder import Builder
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.device.isa.lsu import Rdma
from hlo2tx8.indexing import split_terms
from hlo2tx8.lower.dma.load_levels import LEVELS, levels_of
from hlo2tx8.lower.dma.mesh import TileIndex
from hlo2tx8.lower.dma.panels import Load, Panels, PanelSide, Site
from hlo2tx8.lower.select.step_builder import StepBuilder

Levels = tuple[tuple[int, int], ...]


def interleave(panels: Panels, index: TileIndex) -> bool:
    """Rewrites the loads of a loop's panels if they go through all columns, a number of blocks of each tile of a mesh row in each;
    False if they don't."""
    first, lines = panels.sites[0], index.mesh.columns
    if len(panels.kinds) != 1 or first.loop is None:
        return False
    changes = {side: _change(load, first, index, lines, panels.num_panels) for side, load in first.loads.items()}
    found = {side: change for side, change in changes.items() if change is not None}
    if len(found) < len(changes):
        return False
    own = [(site, side) for site in panels.sites for side in found]
    of_first = {side: levels_of(load.op, at_most=True) for side, load in first.loads.items()}
    if any(levels_of(site.loads[side].op, at_most=True) != of_first[side] for site, side in own):
        return False
    for site, side in own:
        _rewrite(site, site.loads[side].op, *found[side])
    return True


def _change(load: Load, site: Site, index: TileIndex, lines: int, num_panels: int) -> tuple[Levels, int] | None:
    """The levels of a load with a part of each tile's columns, and how many bytes less it moves from turn to turn."""
    op, levels = load.op, levels_of(load.op, at_most=True)
    offset = op.field("offset")
    expr = index.expr(offset) if isinstance(offset, SSAValue) else None
    if levels is None or expr is None or site.loop is None or levels[0][0] != 1 or load.branch is not None or load.split:
        return None
    counter = index.known[site.loop.body.block.args[0]]
    split = split_terms(expr, [counter])
    each = (split[1].get(counter, 0) if split is not None else 0) // op.fmt.bytes
    number = next((i for i, (count, distance) in enumerate(levels) if count > 1 and count * distance == each), None)
    if number is None or number == len(levels) - 1 or levels[number][0] % lines:
        return None
    count, distance = levels[number]
    if load.side is PanelSide.ROWS and prod(n for n, _ in levels) * num_panels % lines:
        return None
    parts = ((lines, count * distance * num_panels // lines), (count // lines, distance))
    return (*levels[1:number], *parts, *levels[number + 1 :]), (each - each // lines) * op.fmt.bytes


def _rewrite(site: Site, op: Rdma, levels: Levels, less: int) -> None:
    builder = Builder(InsertPoint.before(op))
    step = StepBuilder(builder, builder, (), {})
    panel = step.value(site.first) if site.loop is None else step.value(step.add(site.loop.body.block.args[0], site.first))
    fields: dict[str, Any] = dict(op.values())
    fields["offset"] = step.value(step.subtract(fields["offset"], step.emit(panel, less)))
    of_step = dict(zip(levels_of(op, at_most=True) or (), (fields[count] for count, _ in LEVELS), strict=False))
    for (count, distance), (size, stride) in zip(LEVELS[:-1], levels[:-1], strict=True):
        fields |= {count: of_step.get((size, stride), size), distance: stride}
    Rewriter.replace_op(op, Rdma.make(fmt=op.fmt, origin=op.origin, **fields), [])
