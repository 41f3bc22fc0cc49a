"""Data movement: RDMA and WDMA between DDR and SPM, TDMA inside SPM."""

from math import prod

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction, instruction
from hlo2tx8.device.isa.extents import Span
from hlo2tx8.device.isa.fields import Constraint, Engine, Field, Operands, Role, dims
from hlo2tx8.device.isa.forms import DMA_BYTES, DmaForm

MOST_ELEMENTS = 1 << 28  # moved by one TDMA instruction; only a damaged program asks for more


@instruction
class Rdma(DmaForm):
    """SPM[dst ...] = the elements slot[offset + (i1*s1 + i2*s2 + i3*s3 + i)], i innermost, dense."""

    FORM = "RDMA"
    ENGINE = Engine.RDMA
    MNEMONIC = "RDMA_load"
    OPCODE = 176
    FIELDS = (
        Field("dst", Role.SPM_WRITE, DMA_BYTES),
        Field("slot", Role.SLOT),
        Field("offset", Role.DDR_READ),
        *DmaForm.LEVELS,
    )


@instruction
class Wdma(DmaForm):
    """slot[offset + (i1*s1 + i2*s2 + i3*s3 + i)] = the elements SPM[src ...], i innermost, dense."""

    FORM = "WDMA"
    ENGINE = Engine.WDMA
    MNEMONIC = "WDMA_store"
    OPCODE = 177
    FIELDS = (
        Field("slot", Role.SLOT),
        Field("offset", Role.DDR_WRITE),
        Field("src", Role.SPM_READ, DMA_BYTES),
        *DmaForm.LEVELS,
    )


def _turns(o: Operands, count: str) -> int:
    return prod(o[f"{count}{i}"] for i in (1, 2, 3))


def _span(side: str) -> Span:
    return Span("run_bytes", tuple((f"{side}s{i}", f"{side}n{i}") for i in (1, 2, 3)), each=1)


@instruction
class TdmaGatherScatter(Instruction):
    """Runs of `run_bytes` read at strides rs1..rs3 and written, in the same order, at ws1..ws3, in bytes; level 3 outermost."""

    FORM = "TDMA"
    ENGINE = Engine.TDMA
    MNEMONIC = "TDMA_gatherScatter"
    OPCODE = 178
    FORMATS = tuple(Format)
    FIELDS = (
        Field("dst", Role.SPM_WRITE, _span("w")),
        Field("src", Role.SPM_READ, _span("r")),
        Field("run_bytes", Role.COUNT, least=1),
        *dims("rs1", "rn1", "rs2", "rn2", "rs3", "rn3"),
        *dims("ws1", "wn1", "ws2", "wn2", "ws3", "wn3"),
    )
    CONSTRAINTS = (
        Constraint("rn1 * rn2 * rn3 = wn1 * wn2 * wn3", lambda o: _turns(o, "rn") == _turns(o, "wn")),
        Constraint(f"run_bytes * rn1 * rn2 * rn3 <= {MOST_ELEMENTS}", lambda o: o["run_bytes"] * _turns(o, "rn") <= MOST_ELEMENTS),
    )


@instruction
class TdmaMemset(Instruction):
    """n elements with the bits `value`, at dst + i1*s1 + i2*s2, strides in elements."""

    FORM = "MEMSET"
    ENGINE = Engine.TDMA
    MNEMONIC = "TDMA_memset"
    OPCODE = 179
    FORMATS = tuple(Format)
    FIELDS = (
        Field("dst", Role.SPM_WRITE, Span("n", (("s1", "n1"), ("s2", "n2")))),
        Field("value", Role.IMMEDIATE),
        Field("n", Role.COUNT),
        *dims("s1", "n1", "s2", "n2"),
    )
    CONSTRAINTS = (Constraint(f"n * n1 * n2 <= {MOST_ELEMENTS}", lambda o: o["n"] * o["n1"] * o["n2"] <= MOST_ELEMENTS),)
