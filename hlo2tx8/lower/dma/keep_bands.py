"""SCHEDULED → SCHEDULED: bands that one phase of a kernel makes and the next one reads stay in the scratchpad.

Before:                                                  After:
                                                             %kept = spm.alloc                  8 rows and one above and below
    scf.for %turn = 0 to 8 {                                 scf.for %turn = 0 to 8 {
      WDMA_store slot(%t) offset(tile * 8 + %turn) ...         TDMA %kept[1 + %turn] = ...
    }                                                        }
    xla.sync_tiles                                           xla.sync_tiles
                                                             DTE_unicast %kept[0] of tile + 1 = %kept[8]
                                                             DTE_unicast %kept[9] of tile - 1 = %kept[1]
                                                             xla.sync_tiles
    scf.for %turn = 0 to 8 {                                 scf.for %turn = 0 to 8 {
      RDMA_load slot(%t) offset(tile * 8 + %turn - 1) ...      TDMA ... = %kept[%turn]
    }                                                        }

A tile makes an unbroken part of the tensor %t in its turns, and reads that and a few rows of its neighbours', which they send once
all tiles have met; several later loops may do so. Places in the buffer are distances from the beginning of the tile's part, as they
are in DDR: so a load and a store are the same box, moved by TDMA.

If that phase stores a tensor that stays as well, it goes to the same buffer, so far above that no turn stores what a later one
reads: rows of a window above the first of a turn. Tiles meet before rows are sent, as these may lie where a neighbour still reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.dte import DteUnicast
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.indexing import Dim
from hlo2tx8.indexing.indexing_map import evaluate_expr
from hlo2tx8.lower.dma.load_levels import levels_of
from hlo2tx8.lower.dma.mesh import Mesh, TileIndex, of_one
from hlo2tx8.lower.dma.slices import instructions_in, turns_of
from hlo2tx8.lower.select.step_builder import StepBuilder

ALIGNMENT = 256
"""Bytes between places where a part may begin."""


@dataclass(frozen=True)
class KeepBandsPass(ModulePass):
    """Keeps what a phase makes band by band for the next one; see the module docstring."""

    name = "keep-bands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            tile = next((op for op in function.body.block.ops if isinstance(op, xla.TileIdOp)), None)
            if tile is not None and any(isinstance(op, xla.SyncTilesOp) for op in function.body.block.ops):
                _keep(function, tile)


@dataclass(frozen=True)
class _Bands:
    """A tensor of which each tile stores `share` bytes in the loop `made`, and reads these in later loops, the last of which is
    `read`, with `above` and `below` bytes of its neighbours'. `stored` and `loaded` are where a turn's transfers begin and end,
    those of the last loop, [transfer, turn] of all tiles, in bytes from the beginning of the tile's part."""

    stores: Sequence[Wdma]
    loads: Sequence[Rdma]
    made: scf.ForOp
    read: scf.ForOp
    share: int
    above: int
    below: int
    stored_end: np.ndarray
    loaded_begin: np.ndarray


def _keep(function: func.FuncOp, tile: xla.TileIdOp) -> None:
    block = function.body.block
    tiles = int(tile.range.get_values()[1]) + 1
    index = TileIndex.of(Mesh(1, tiles), tile.tile)
    for loop in [op for op in block.ops if isinstance(op, scf.ForOp)]:
        if (turns := turns_of(loop)) is not None:
            index.add_counter(loop.body.block.args[0], turns)
    transfers: dict[SSAValue, list[Rdma | Wdma]] = {}
    for op in instructions_in(function):
        if isinstance(op, Rdma | Wdma) and isinstance(slot := op.field("slot"), SSAValue):
            transfers.setdefault(slot, []).append(op)
    found = [bands for slot, own in transfers.items() if (bands := _bands_of(slot, own, block, tiles, index)) is not None]
    chains: list[list[_Bands]] = []
    for bands in found:  # in the order in which they are made
        before = [chain for chain in chains if chain[-1].read is bands.made]
        if before:
            _best_place(before, bands.share).append(bands)
        else:
            chains.append([bands])
    for chain in chains:
        _move(chain, tile.tile, tiles)


def _best_place(chains: Sequence[list[_Bands]], share: int) -> list[_Bands]:
    """Of tensors that are read for the last time where another one is made the one whose place that best takes."""
    return max(chains, key=lambda chain: (chain[-1].share == share, chain[-1].share))


def _bands_of(slot: SSAValue, transfers: Sequence[Rdma | Wdma], block: Block, tiles: int, index: TileIndex) -> _Bands | None:
    """The tensor of these transfers as bands that may stay, if it is one."""
    stores = [op for op in transfers if isinstance(op, Wdma)]
    loads = [op for op in transfers if isinstance(op, Rdma)]
    if not isinstance(slot.owner, xla.AllocateScratchOp) or not stores or not loads:
        return None
    size = prod(cast("TensorType[Attribute]", slot.type).get_shape()) * stores[0].fmt.bytes
    if size % tiles:
        return None
    (made, *others), readers = {op.parent_op() for op in stores}, {op.parent_op() for op in loads}
    reads = [op for op in block.ops if isinstance(op, scf.ForOp) and op in readers]
    if others or not isinstance(made, scf.ForOp) or made.parent is not block or len(reads) < len(readers) or made in reads:
        return None
    if not _meet_between(made, reads[0]):
        return None
    read, share = reads[-1], size // tiles
    stored, loaded = ([_span(op, op.parent_op(), tiles, index, share) for op in own] for own in (stores, loads))
    if any(span is None for span in (*stored, *loaded)):
        return None
    first, end = _reach([span for span in stored if span is not None])
    reach = [_reach([span]) for span in loaded if span is not None]
    begin, _ = _reach([span for op, span in zip(loads, loaded, strict=True) if span is not None and op.parent_op() is read])
    lowest, highest = min(int(own.min()) for own, _ in reach), max(int(own.max()) for _, own in reach)
    above, below = max(0, -lowest), max(0, highest - share)
    is_within = first.min() == 0 and end.max() == share and max(above, below) <= share
    return _Bands(stores, loads, made, read, share, above, below, end, begin) if is_within else None


def _reach(spans: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Where the first of transfers begins, and the last ends."""
    return np.min([begin for begin, _ in spans], axis=0), np.max([end for _, end in spans], axis=0)


def _meet_between(made: scf.ForOp, read: scf.ForOp) -> bool:
    """Do all tiles meet behind a loop, and is the other one behind that?"""
    behind = _behind(made)
    if read not in behind:
        return False
    return any(isinstance(op, xla.SyncTilesOp) for op in behind[: behind.index(read)])


def _span(
    op: Rdma | Wdma, loop: Operation | None, tiles: int, index: TileIndex, share: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Where a transfer begins and ends, [tile, turn], in bytes from the beginning of the tile's part."""
    if not isinstance(loop, scf.ForOp):
        return None
    levels, offset, turns = levels_of(op), op.field("offset"), turns_of(loop)
    if levels is None or turns is None:
        return None
    expr = index.expr(offset) if isinstance(offset, SSAValue) else Dim(0) * 0 + offset
    counter = index.known.get(loop.body.block.args[0])
    if expr is None or any(leaf not in (Dim(0), Dim(1), counter) for leaf in expr.leaves()):
        return None
    tile, turn = np.meshgrid(np.arange(tiles), np.arange(turns), indexing="ij")
    dims = [np.zeros_like(tile), tile, *(turn for _ in index.bounds[2:])]
    begin = np.broadcast_to(evaluate_expr(expr, dims, ()), tile.shape) - tile * share
    reach = (sum((count - 1) * distance for count, distance in levels[:-1]) + levels[-1][0]) * op.fmt.bytes
    return begin, begin + reach


def _move(chain: Sequence[_Bands], tile: SSAValue, tiles: int) -> None:
    """Gives tensors of which each is read where the next one is made one buffer, puts moves in the place of transfers, and sends
    rows to the neighbours that need them."""
    places = [0]
    for bands, following in pairwise(chain):
        later = np.minimum.accumulate(bands.loaded_begin[:, ::-1], axis=1)[:, ::-1]
        room = later[:, 1:] - following.stored_end[:, :-1]
        places.append((places[-1] + min(0, int(room.min(initial=0)))) // ALIGNMENT * ALIGNMENT)
    low = min(place - -(-bands.above // ALIGNMENT) * ALIGNMENT for bands, place in zip(chain, places, strict=True))
    high = max(place + bands.share + bands.below for bands, place in zip(chain, places, strict=True))
    start = Builder(InsertPoint.before(chain[0].made))
    step = StepBuilder(start, start, (), {})
    buffer = step.insert(spm.AllocOp(high - low))
    buffer.attributes[spm.KEPT] = UnitAttr()
    next_tile, last_tile = (of_one(step, tile, (Dim(0) + away) % tiles) for away in (1, tiles - 1))
    for bands, place in zip(chain, places, strict=True):
        begin = step.value(step.subtract(step.emit(tile, bands.share), place - low))
        for op in (*bands.stores, *bands.loads):
            _replace(op, buffer.result, begin)
        meeting = next(op for op in _behind(bands.made) if isinstance(op, xla.SyncTilesOp))
        behind = Builder(InsertPoint.after(meeting))
        send = StepBuilder(behind, behind, (), {})
        own = place - low
        for size, there, here, other in (
            (bands.above, own - bands.above, own + bands.share - bands.above, next_tile),
            (bands.below, own + bands.share, own, last_tile),
        ):
            if size:
                dst, src = send.at(buffer.result, there), send.at(buffer.result, here)
                send.insert(DteUnicast.make(fmt=Format.INT8, dst=dst, src=src, n=size, tile=other))
        if bands.above or bands.below:
            send.insert(xla.SyncTilesOp([]))


def _behind(op: Operation) -> Sequence[Operation]:
    """The operations behind another one in its block."""
    found: list[Operation] = []
    following = op.next_op
    while following is not None:
        found.append(following)
        following = following.next_op
    return found


def _replace(op: Rdma | Wdma, buffer: SSAValue, begin: SSAValue) -> None:
    """Puts a move from or to a buffer in the place of a transfer; its byte 0 is at `begin` of the tensor."""
    builder = Builder(InsertPoint.before(op))
    step, width, levels = StepBuilder(builder, builder, (), {}), op.fmt.bytes, levels_of(op)
    assert levels is not None
    offset, local = op.field("offset"), op.field("dst" if isinstance(op, Rdma) else "src")
    assert isinstance(local, SSAValue)
    place = step.at(buffer, step.subtract(offset, begin))
    run = inner = levels[-1][0] * width
    fields: dict[str, Any] = {}
    there, here = ("r", "w") if isinstance(op, Rdma) else ("w", "r")
    for level, (count, distance) in enumerate(levels[-2::-1], start=1):
        fields |= {f"{there}n{level}": count, f"{there}s{level}": distance * width}
        fields |= {f"{here}n{level}": count, f"{here}s{level}": inner if count > 1 else 0}
        inner *= count
    dst, src = (local, place) if isinstance(op, Rdma) else (place, local)
    step.insert(TdmaGatherScatter.make(fmt=Format.INT8, origin=op.origin, dst=dst, src=src, run_bytes=run, **fields))
    op.detach()
    op.erase()
