"""What the tiles of a mesh column have made of the same rows of a batch, keys and values say, is sent to each of them.

    xla.sync_tiles                        xla.sync_tiles
    scf.for %turn { gemm(%k) }      ⟶     DTE_multicast %k + own rows of each block; wait DTE; barrier
                                          scf.for %turn { gemm(%k) }

Each has a buffer for the rows of all, and has computed its own rows to their place there.
"""

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.kc_control import KcBarrier, KcWait
from hlo2tx8.dialects import xla
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.keep_results import ResultBuffer
from hlo2tx8.lower.dma.mesh import Mesh, power, quotient, remainder
from hlo2tx8.lower.select.step_builder import StepBuilder


def gather_results(results: Sequence[ResultBuffer], mesh: Mesh, tile: SSAValue) -> None:
    """Sends what tiles have made of each buffer that several of them read, behind the meeting in front of the loop that reads."""
    gathered = [own for own in results if own.kept.shared > 1]
    if not gathered:
        return
    meeting = gathered[0].reader.prev_op
    while not isinstance(meeting, xla.SyncTilesOp):
        assert meeting is not None
        meeting = meeting.prev_op
    builder = Builder(InsertPoint.after(meeting))
    step = StepBuilder(builder, builder, (), {})
    row, column = quotient(step, tile, mesh.columns), remainder(step, tile, mesh.columns)
    for own in gathered:
        kept = own.kept
        line = sum(1 << mesh.columns * number for number in range(kept.shared))
        first = power(step, quotient(step, row, kept.shared), mesh.columns * kept.shared, mesh.rows // kept.shared)
        of_line = step.emit(step.emit(first, power(step, column, 1, mesh.columns)), line)
        others = step.value(step.subtract(of_line, power(step, tile, 1, mesh.rows * mesh.columns)))
        store, part = kept.stores[0], kept.rows * kept.block_bytes
        begin = step.emit(remainder(step, row, kept.shared), part)
        for block in range(kept.blocks):
            at = step.at(own.buffer, step.add(begin, block * kept.plane_bytes))
            sent = DteMulticast.make(fmt=store.fmt, dst=at, src=at, n=part // store.fmt.bytes, tiles=others, origin=store.origin)
            sent.attributes[ORDERED] = UnitAttr()
            step.insert(sent)
    step.insert(KcWait.make(engines=1 << Engine.DTE.value))
    step.insert(KcBarrier.make())
