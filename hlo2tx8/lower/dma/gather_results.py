"""What the tiles of a mesh column have made of the same rows of a batch, keys and values say, is sent to each of them.

    xla.sync_tiles                        xla.sync_tiles
    scf.for %turn { gemm(%k) }      ⟶     DTE_multicast %k + own rows of block 0; wait DTE; barrier
                                          scf.for %turn {
                                            if %turn > 0 { wait DTE; barrier }
                                            if %turn + 1 < blocks { DTE_multicast %k + own rows of block %turn + 1 }
                                            gemm(%k + block %turn)
                                          }

Each has a buffer for the rows of all, and has computed its own rows to their place there. Where a turn reads one block, a head, the
next one's is sent beside it; else all of them are sent first.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.dialects import xla
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.dma.branches import below, branch, leave
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.keep_results import ResultBuffer
from hlo2tx8.lower.dma.mesh import Mesh, power, quotient, remainder
from hlo2tx8.lower.select.step_builder import StepBuilder, step_at


def gather_results(results: Sequence[ResultBuffer], mesh: Mesh, tile: SSAValue) -> None:
    """Sends what tiles have made of each buffer that several of them read, behind the meeting in front of the loop that reads."""
    gathered = [own for own in results if own.kept.shared > 1]
    if not gathered:
        return
    meeting = gathered[0].reader.prev_op
    while not isinstance(meeting, xla.SyncTilesOp):
        assert meeting is not None
        meeting = meeting.prev_op
    step = step_at(InsertPoint.after(meeting))
    sends = [_Sends(own, mesh, tile, step) for own in gathered]
    loop, blocks = gathered[0].reader, gathered[0].kept.blocks
    is_by_turns = blocks > 1 and all(own.kept.is_by_turns and own.reader is loop and own.kept.blocks == blocks for own in gathered)
    for own in sends:
        own.send(step, range(1 if is_by_turns else own.result.kept.blocks))
    _meet(step)
    if not is_by_turns:
        return
    first = loop.body.block.first_op
    assert first is not None
    inside, turn = step_at(InsertPoint.before(first)), loop.body.block.args[0]
    outer = inside.builder
    branch(inside, turn, "sgt", 0)
    _meet(inside)
    leave(inside, outer)
    with below(inside, turn, blocks - 1):
        following = inside.value(inside.add(turn, 1))
        for own in sends:
            own.send(inside, [following])


class _Sends:
    """The sends of what a tile has of a buffer to the others of its mesh column."""

    def __init__(self, result: ResultBuffer, mesh: Mesh, tile: SSAValue, step: StepBuilder) -> None:
        kept, self.result = result.kept, result
        row, column = quotient(step, tile, mesh.columns), remainder(step, tile, mesh.columns)
        line = sum(1 << mesh.columns * number for number in range(kept.shared))
        first = power(step, quotient(step, row, kept.shared), mesh.columns * kept.shared, mesh.rows // kept.shared)
        of_line = step.emit(step.emit(first, power(step, column, 1, mesh.columns)), line)
        self.others = step.value(step.subtract(of_line, power(step, tile, 1, mesh.rows * mesh.columns)))
        self.begin = step.emit(remainder(step, row, kept.shared), kept.rows * kept.block_bytes)

    def send(self, step: StepBuilder, blocks: Sequence[Size]) -> None:
        """Sends the tile's rows of some blocks."""
        kept, store = self.result.kept, self.result.kept.stores[0]
        for block in blocks:
            at = step.at(self.result.buffer, step.add(self.begin, step(block, kept.plane_bytes)))
            n = kept.rows * kept.block_bytes // store.fmt.bytes
            sent = DteMulticast.make(fmt=store.fmt, dst=at, src=at, n=n, tiles=self.others, origin=store.origin)
            sent.attributes[ORDERED] = UnitAttr()
            step.insert(sent)


def _meet(step: StepBuilder) -> None:
    """All tiles have what was sent."""
    step.insert(KcWait.make(engines=1 << Engine.DTE.value))
    step.insert(KcBarrier.make())
