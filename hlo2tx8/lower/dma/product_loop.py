"""A step loop of one product: of all panels but the last in a loop, and of the last one behind it.

scf.for %step = 0 to 2 {
  scf.for %k = 0 to 15 { load(%a, rows, %k); load(%b, %k, columns); gemm(%a, %b) to %sums }
  load(%a', rows, 15); load(%b', 15, columns); gemm(%a', %b') to %sums; store
}
"""

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, SSAValue

from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.lower.box_levels import Size
from hlo2tx8.lower.select.channel_blocks import EngineOrderError


@dataclass(frozen=True)
class ProductLoop:
    """The product of a step loop: of all panels but the last in the loop `panels`, and of the last one. `rows` and `columns` are
    what is loaded of each for both."""

    loop: scf.ForOp
    panels: scf.ForOp
    products: tuple[NeGemm, NeGemm]
    rows: tuple[Rdma, Rdma]
    columns: tuple[Rdma, Rdma]

    @staticmethod
    def of(loop: scf.ForOp) -> "ProductLoop":
        """EngineOrderError if it is another loop."""
        inner = [op for op in loop.body.block.ops if isinstance(op, scf.ForOp)]
        blocks = [own.body.block for own in (*inner, loop)]
        gemms = [[op for op in block.ops if isinstance(op, NeGemm)] for block in blocks]
        if len(inner) != 1 or any(len(own) != 1 for own in gemms):
            raise EngineOrderError("E3208", "a phase is no loop of one product")
        (first,), (last,) = gemms
        rows, columns = ((_load_of(first, side, blocks[0]), _load_of(last, side, blocks[1])) for side in ("left", "right"))
        return ProductLoop(loop, inner[0], (first, last), rows, columns)

    @property
    def sums(self) -> spm.AllocOp:
        """The buffer in which panels are added up."""
        owner = spm.root_buffer(_value(self.products[1].field("psum"))).owner
        assert isinstance(owner, spm.AllocOp)
        return owner

    def store_sums(self) -> bool:
        """Lets a result that is as large as its sums, and nothing but stored, be stored from where it is added up; is it one?"""
        sums, result = self.sums, spm.root_buffer(_value(self.products[1].field("dst"))).owner
        if not isinstance(result, spm.AllocOp) or result.size_bytes != sums.size_bytes:
            return False
        others = [use.operation for use in result.result.uses if not isinstance(use.operation, NeGemm)]
        if not others or not all(isinstance(op, Wdma) and op.parent is self.loop.body.block for op in others):
            return False
        if result is not sums:
            result.result.replace_all_uses_with(sums.result)
            result.detach()
            result.erase()
        return True


def _load_of(gemm: NeGemm, side: str, block: Block) -> Rdma:
    """The load of what a product reads, itself or what TDMA makes of it."""
    buffers, ops = [spm.root_buffer(_value(gemm.field(side)))], ops_of(block)
    for op in ops[ops.index(gemm) :: -1]:
        if isinstance(op, Instruction) and not isinstance(op, NeGemm) and spm.root_buffer(_value(op.field("dst"))) in buffers:
            if isinstance(op, Rdma):
                return op
            buffers.append(spm.root_buffer(_value(op.field("src"))))
    raise EngineOrderError("E3208", "a product reads what is not loaded for it")


def _value(value: Size) -> SSAValue:
    assert isinstance(value, SSAValue)
    return value
