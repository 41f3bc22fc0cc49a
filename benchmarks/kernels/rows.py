"""Kernels over the rows of a matrix: sums, softmax, layer norm, batch norm. A tile takes an equal share of the rows, a step some.

In Cx a block of 64 columns lies together, [blocks][rows][64]: a statistic of the rows, spread to [rows][64], meets each block in
one VV instruction, and one of the columns in a VuV_loop.
"""

from dataclasses import dataclass

from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import (
    CtAddVS,
    CtAddVuVLoop,
    CtAddVV,
    CtMulVuVLoop,
    CtMulVV,
    CtRecip,
    CtRsqrt,
    CtSquare,
    CtSubVuVLoop,
    CtSubVV,
)
from hlo2tx8.device.isa.ct_function import CtExp
from hlo2tx8.device.isa.ct_reduce import CtReduce, CtReduceAvg, CtReduceMax, CtReduceSum, ReduceDim
from hlo2tx8.device.isa.encoding import Register
from hlo2tx8.device.isa.forms import CtVV
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.program import Program

TILES = 16
BASE = 0x10000
LANES = 64
PADDED = 4  # what a reduction over C leaves of the channels
EPSILON_BITS = 0x3727C5AC  # 1e-5
DTYPES = {Format.FP32: "float32", Format.BF16: "bfloat16", Format.FP16: "float16"}


@dataclass
class Rows:
    """A kernel on [rows, columns] that keeps `step` rows in SPM at a time; sizes must divide evenly."""

    fmt: Format
    rows: int
    columns: int
    step: int

    def __post_init__(self) -> None:
        if self.rows % (TILES * self.step) or self.columns % LANES:
            raise ValueError(f"{self.rows} rows of {self.columns} are no whole steps of {self.step} on {TILES} tiles")
        self.tx8 = Assembler()
        self.end = BASE

    @property
    def blocks(self) -> int:
        return self.columns // LANES

    @property
    def share(self) -> int:
        """Rows of a tile."""
        return self.rows // TILES

    @property
    def steps(self) -> int:
        return self.share // self.step

    def buffer(self, elements: int) -> int:
        """The address of a new buffer."""
        address = self.end
        self.end += -(-elements * self.fmt.bytes // 256) * 256
        return address

    def offset(self, turn: Register) -> Register:
        """Byte of DDR where the rows of a step begin."""
        row = self.columns * self.fmt.bytes
        return self.tx8.affine(0, (self.tx8.tile, self.share * row), (turn, self.step * row))

    def load_blocked(self, dst: Register, slot: int, turn: Register) -> None:
        levels = {"count": LANES, "s1": self.columns, "n1": self.step, "s2": LANES, "n2": self.blocks}
        self.tx8(Rdma, self.fmt, dst=dst, slot=slot, offset=self.offset(turn), **levels)

    def store_blocked(self, src: Register, slot: int, turn: Register) -> None:
        levels = {"count": LANES, "s1": self.columns, "n1": self.step, "s2": LANES, "n2": self.blocks}
        self.tx8(Wdma, self.fmt, slot=slot, offset=self.offset(turn), src=src, **levels)

    def reduce(self, kind: type[CtReduce], dst: int, src: Register | int) -> None:
        """A statistic of each row, one dense number per row."""
        padded = self.buffer(self.step * PADDED)
        self.tx8(kind, self.fmt, dst=padded, src=src, batch=1, h=self.step, w=1, c=self.columns, dim=ReduceDim.C)
        self.compact(dst, padded)

    def compact(self, dst: int | Register, padded: int) -> None:
        size = self.fmt.bytes
        levels = {"rs1": PADDED * size, "rn1": self.step, "ws1": size, "wn1": self.step}
        self.tx8(TdmaGatherScatter, self.fmt, dst=dst, src=padded, run_bytes=size, **levels)

    def spread(self, dst: int, src: int) -> None:
        """[rows] to [rows][64]."""
        size = self.fmt.bytes
        read = {"rs1": 0, "rn1": LANES, "rs2": size, "rn2": self.step}
        write = {"ws1": size, "wn1": LANES, "ws2": LANES * size, "wn2": self.step}
        self.tx8(TdmaGatherScatter, self.fmt, dst=dst, src=src, run_bytes=size, **read, **write)

    def each_column(self) -> dict[str, int]:
        """Sizes of a VuV_loop between the data and one number per column."""
        return {"n": self.step * LANES, "u": LANES, "full_n": self.step * self.columns, "full_u": self.columns}

    def each_block(self, kind: type[CtVV], data: Register, spread: int) -> None:
        """data[block] = data[block] op spread."""
        size = self.step * LANES
        with self.tx8.loop(self.blocks) as block:
            address = self.tx8.affine(0, (data, 1), (block, size * self.fmt.bytes))
            self.tx8(kind, self.fmt, dst=address, a=address, b=spread, n=size)


def row_sum(fmt: Format, rows: int, columns: int, step: int = 8) -> Program:
    """[rows, columns] -> [rows]: 64 sums of a row over W, then their sum over C."""
    k = Rows(fmt, rows, columns, step)
    tx8 = k.tx8
    x, y = tx8.input(DTYPES[fmt], (rows, columns)), tx8.output(DTYPES[fmt], (rows,))
    data, lanes, padded, sums = k.buffer(2 * step * columns), k.buffer(step * LANES), k.buffer(step * PADDED), k.buffer(k.share)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * fmt.bytes, turn)
        tx8(Rdma, fmt, dst=buffer, slot=x, offset=k.offset(turn), count=step * columns)
        tx8(CtReduceSum, fmt, dst=lanes, src=buffer, batch=1, h=step, w=k.blocks, c=LANES, dim=ReduceDim.W)
        tx8(CtReduceSum, fmt, dst=padded, src=lanes, batch=1, h=step, w=1, c=LANES, dim=ReduceDim.C)
        k.compact(tx8.affine(sums, (turn, step * fmt.bytes)), padded)
    tx8(Wdma, fmt, slot=y, offset=tx8.affine(0, (tx8.tile, k.share * fmt.bytes)), src=sums, count=k.share)
    return tx8.program(k.end)


def column_sum(fmt: Format, rows: int, columns: int, step: int = 8) -> Program:
    """[rows, columns] -> [columns]: every tile adds up its rows, then all tiles' sums of its columns."""
    k = Rows(fmt, rows, columns, step)
    tx8, size = k.tx8, fmt.bytes
    x, y = tx8.input(DTYPES[fmt], (rows, columns)), tx8.output(DTYPES[fmt], (columns,))
    partial = tx8.scratch(DTYPES[fmt], (TILES, columns))
    data, sums = k.buffer(2 * step * columns), k.buffer(columns)
    tx8(TdmaMemset, fmt, dst=sums, value=0, n=columns)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * size, turn)
        tx8(Rdma, fmt, dst=buffer, slot=x, offset=k.offset(turn), count=step * columns)
        for row in range(step):
            tx8(CtAddVV, fmt, dst=sums, a=sums, b=tx8.affine(row * columns * size, (buffer, 1)), n=columns)
    tx8(Wdma, fmt, slot=partial, offset=tx8.affine(0, (tx8.tile, columns * size)), src=sums, count=columns)
    tx8.barrier()
    own = columns // TILES
    place = tx8.affine(0, (tx8.tile, own * size))
    tx8(Rdma, fmt, dst=data, slot=partial, offset=place, count=own, s1=columns, n1=TILES)
    for tile in range(1, TILES):
        tx8(CtAddVV, fmt, dst=data, a=data, b=data + tile * own * size, n=own)
    tx8(Wdma, fmt, slot=y, offset=place, src=data, count=own)
    return tx8.program(k.end)


def softmax(fmt: Format, rows: int, columns: int, step: int = 16) -> Program:
    """exp(x - max) / sum(exp(x - max)) over the columns."""
    k = Rows(fmt, rows, columns, step)
    tx8 = k.tx8
    x, y = tx8.input(DTYPES[fmt], (rows, columns)), tx8.output(DTYPES[fmt], (rows, columns))
    data, statistic, spread = k.buffer(3 * step * columns), k.buffer(step), k.buffer(step * LANES)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * fmt.bytes, turn, copies=3)
        k.load_blocked(buffer, x, turn)
        k.reduce(CtReduceMax, statistic, buffer)
        k.spread(spread, statistic)
        k.each_block(CtSubVV, buffer, spread)
        tx8(CtExp, fmt, dst=buffer, src=buffer, n=step * columns)
        k.reduce(CtReduceSum, statistic, buffer)
        tx8(CtRecip, fmt, dst=statistic, src=statistic, n=step)
        k.spread(spread, statistic)
        k.each_block(CtMulVV, buffer, spread)
        k.store_blocked(buffer, y, turn)
    return tx8.program(k.end)


def layer_norm(fmt: Format, rows: int, columns: int, step: int = 16) -> Program:
    """(x - mean) * rsqrt(variance + 1e-5) * scale + bias over the columns; inputs x, scale, bias."""
    k = Rows(fmt, rows, columns, step)
    tx8 = k.tx8
    x, scale, bias = (tx8.input(DTYPES[fmt], shape) for shape in ((rows, columns), (columns,), (columns,)))
    y = tx8.output(DTYPES[fmt], (rows, columns))
    data, squares, statistic = k.buffer(3 * step * columns), k.buffer(step * columns), k.buffer(step)
    spread, factors, terms = k.buffer(step * LANES), k.buffer(columns), k.buffer(columns)
    tx8(Rdma, fmt, dst=factors, slot=scale, offset=0, count=columns)
    tx8(Rdma, fmt, dst=terms, slot=bias, offset=0, count=columns)
    rounds = k.each_column()
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * fmt.bytes, turn, copies=3)
        k.load_blocked(buffer, x, turn)
        k.reduce(CtReduceAvg, statistic, buffer)
        k.spread(spread, statistic)
        k.each_block(CtSubVV, buffer, spread)
        tx8(CtSquare, fmt, dst=squares, src=buffer, n=step * columns)
        k.reduce(CtReduceAvg, statistic, squares)
        tx8(CtAddVS, fmt, dst=statistic, a=statistic, imm=EPSILON_BITS, n=step)
        tx8(CtRsqrt, fmt, dst=statistic, src=statistic, n=step)
        k.spread(spread, statistic)
        k.each_block(CtMulVV, buffer, spread)
        tx8(CtMulVuVLoop, fmt, dst=buffer, a=buffer, unit=factors, **rounds)
        tx8(CtAddVuVLoop, fmt, dst=buffer, a=buffer, unit=terms, **rounds)
        k.store_blocked(buffer, y, turn)
    return tx8.program(k.end)


def batch_norm(fmt: Format, rows: int, columns: int, step: int = 32) -> Program:
    """(x - mean) * rsqrt(variance + 1e-5) * scale + bias with statistics given; inputs x, mean, variance, scale, bias."""
    k = Rows(fmt, rows, columns, step)
    tx8 = k.tx8
    x, *parameters = (tx8.input(DTYPES[fmt], shape) for shape in ((rows, columns), *((columns,),) * 4))
    y = tx8.output(DTYPES[fmt], (rows, columns))
    data, mean, variance, scale, bias = k.buffer(3 * step * columns), *(k.buffer(columns) for _ in range(4))
    for slot, dst in zip(parameters, (mean, variance, scale, bias), strict=True):
        tx8(Rdma, fmt, dst=dst, slot=slot, offset=0, count=columns)
    tx8(CtAddVS, fmt, dst=variance, a=variance, imm=EPSILON_BITS, n=columns)
    tx8(CtRsqrt, fmt, dst=variance, src=variance, n=columns)
    rounds = k.each_column()
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * fmt.bytes, turn, copies=3)
        k.load_blocked(buffer, x, turn)
        for kind, unit in ((CtSubVuVLoop, mean), (CtMulVuVLoop, variance), (CtMulVuVLoop, scale), (CtAddVuVLoop, bias)):
            tx8(kind, fmt, dst=buffer, a=buffer, unit=unit, **rounds)
        k.store_blocked(buffer, y, turn)
    return tx8.program(k.end)
