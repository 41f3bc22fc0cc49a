"""Parts of a load, of which each of several tiles makes one and sends it to the others."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.made import compare, if_op, yield_op
from hlo2tx8.indexing import Const, Dim, Expr, IndexingMap, Variable, delinearize
from hlo2tx8.lower.dma.insert_waits import ORDERED
from hlo2tx8.lower.dma.load_levels import levels_of
from hlo2tx8.lower.dma.mesh import Mesh
from hlo2tx8.lower.select.step_builder import StepBuilder

TOKEN_BYTES = 16
"""What is read of a part so that TDMA is done when the part is there."""


@dataclass(frozen=True)
class LoadParts:
    """A load of `levels` (count and stride in elements, the outermost first), and in how many each of them is `cut`, so that a part
    is one run of the buffer. Of so many `tiles` those have parts that are not `between` the first `line` and the last one."""

    op: Rdma
    levels: tuple[tuple[int, int], ...]
    cuts: tuple[int, ...]
    tiles: int
    line: int = 1
    between: int = 0

    @staticmethod
    def of(op: Rdma, tiles: int) -> "LoadParts | None":
        """The parts of a load for so many tiles; None if a step decides its sizes."""
        levels = levels_of(op)
        return None if levels is None else LoadParts(op, levels, _cuts(levels, tiles), tiles)

    @staticmethod
    def at_edges(op: Rdma, mesh: Mesh) -> "LoadParts | None":
        """The parts of a load for the first and the last row of a mesh: packets turn into columns, so what rows between them sent
        would be on the same links as what these do. None if a step decides its sizes."""
        levels, between = levels_of(op), max(0, mesh.rows - 2) * mesh.columns
        tiles = mesh.rows * mesh.columns
        return None if levels is None else LoadParts(op, levels, _cuts(levels, tiles - between), tiles, mesh.columns, between)

    @property
    def num_parts(self) -> int:
        """At most as many as there are tiles that may have one."""
        return prod(self.cuts)

    @property
    def num_senders(self) -> int:
        """Tiles that may have a part."""
        return self.tiles - self.between

    @property
    def num_elements(self) -> int:
        """Elements of a part."""
        return prod(count for count, _ in self.levels) // self.num_parts

    @property
    def num_bytes(self) -> int:
        """Bytes of a part."""
        return self.num_elements * self.op.fmt.bytes

    def load(self, step: StepBuilder, number: SSAValue, buffer: SSAValue, offset: SSAValue | int) -> SSAValue:
        """Loads the part of tile `number` of a tensor from byte `offset` of the load's slot on; returns its address in a buffer."""
        own = self._part_of_tile
        place: Expr = Const(offset if isinstance(offset, int) else 0)
        fields: dict[str, Any] = {}
        positions = delinearize(own, self.cuts)
        for name, position, cut, (count, stride) in zip(("3", "2", "1", ""), positions, self.cuts, self.levels, strict=True):
            place = place + position * (count // cut * stride * self.op.fmt.bytes)
            fields |= {f"n{name}": count // cut, f"s{name}": stride} if name else {"count": count // cut}
        part = self.address(step, number, buffer)
        with self.of_owner(step, number):
            begin = self._of_tile(step, number, place)
            begin = begin if isinstance(offset, int) else step.value(step.add(offset, begin))
            op = Rdma.make(fmt=self.op.fmt, dst=part, slot=self.op.field("slot"), offset=begin, origin=self.op.origin, **fields)
            step.insert(op)
        return part

    def address(self, step: StepBuilder, number: SSAValue, buffer: SSAValue) -> SSAValue:
        """Where the part of tile `number` is in a buffer."""
        return step.insert(spm.OffsetOp(buffer, self._of_tile(step, number, self._part_of_tile * self.num_bytes))).result

    def meet(self, step: StepBuilder, number: SSAValue, part: SSAValue, token: SSAValue) -> None:
        """Reads a few bytes of the part by TDMA: the range check holds that back until the part is there."""
        fields = dict.fromkeys(("rs1", "rs2", "rs3", "ws1", "ws2", "ws3"), 0)
        fields |= dict.fromkeys(("rn1", "rn2", "rn3", "wn1", "wn2", "wn3"), 1)
        with self.of_owner(step, number):
            step.insert(TdmaGatherScatter.make(fmt=Format.INT8, dst=token, src=part, run_bytes=TOKEN_BYTES, **fields))

    def send(self, step: StepBuilder, number: SSAValue, part: SSAValue, tiles: SSAValue) -> None:
        """Sends the part of tile `number` to the same place of other tiles."""
        with self.of_owner(step, number):
            count, origin = self.num_elements, self.op.origin
            sent = DteMulticast.make(fmt=self.op.fmt, dst=part, src=part, n=count, tiles=tiles, origin=origin)
            sent.attributes[ORDERED] = UnitAttr()
            step.insert(sent)

    @contextmanager
    def of_owner(self, step: StepBuilder, number: SSAValue) -> Generator[None]:
        """Emits what follows for the tiles that have a part only."""
        outer, own = step.builder, Block()
        if self.num_parts < self.tiles:
            place = self._part_of_tile
            place = place if self.num_parts == self.num_senders else place * self.num_senders // self.num_parts
            away = self._of_tile(step, number, place + place // self.line * self.between - Dim(0))
            condition = step.insert(compare(away, step.value(1), "slt")).result
            step.insert(if_op(condition, [], Region(own)))
            step.builder = Builder(InsertPoint.at_end(own))
        yield
        if self.num_parts < self.tiles:
            own.add_op(yield_op())
        step.builder = outer

    @property
    def _part_of_tile(self) -> Expr:
        """The part of a tile, or one of a later tile: fewer parts than tiles are spread evenly, so that no link of the mesh has
        them all."""
        place = Dim(0) if not self.between else Dim(0) - Dim(0) // (self.line + self.between) * self.between
        of_all = self.num_parts == self.num_senders
        return place if of_all else (place * self.num_parts + (self.num_senders - 1)) // self.num_senders

    def _of_tile(self, step: StepBuilder, number: SSAValue, expr: Expr) -> SSAValue:
        map = IndexingMap((Variable(0, self.tiles - 1, "tile"),), (), (), (expr,))
        return step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(map), [number])).results[0]


def _cuts(levels: Sequence[tuple[int, int]], tiles: int) -> tuple[int, ...]:
    """In how many each level is cut: an inner one only if a part has one of the outer ones."""
    cuts: list[int] = []
    left, is_whole = tiles, True
    for count, _ in levels:
        cut = next(n for n in range(min(left, count), 0, -1) if count % n == 0) if is_whole else 1
        cuts.append(cut)
        left, is_whole = left // cut, is_whole and cut == count
    return tuple(cuts)
