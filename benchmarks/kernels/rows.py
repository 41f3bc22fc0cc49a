"""Kernels over the rows of a matrix: sums, softmax, layer norm, batch norm. A tile takes an equal share of the rows, a step some.

Rows lie in SPM as in DDR, so that transfers are dense. TDMA repeats a statistic of each row along it, and one of each column for
all rows of a step; then they meet the rows in instructions on whole steps.
"""

from dataclasses import dataclass

import numpy as np

from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVS, CtAddVV, CtMulVS, CtMulVV, CtRecip, CtRsqrt, CtSquare, CtSubVV
from hlo2tx8.device.isa.ct_function import CtExp
from hlo2tx8.device.isa.ct_reduce import CtReduce, CtReduceMax, CtReduceSum, ReduceDim
from hlo2tx8.device.isa.encoding import Register
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
        self.lanes, self.padded = self.buffer(self.step * LANES), self.buffer(self.step * PADDED)

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

    def load(self, dst: Register, slot: int, turn: Register) -> None:
        self.tx8(Rdma, self.fmt, dst=dst, slot=slot, offset=self.offset(turn), count=self.step * self.columns)

    def store(self, src: Register, slot: int, turn: Register) -> None:
        self.tx8(Wdma, self.fmt, slot=slot, offset=self.offset(turn), src=src, count=self.step * self.columns)

    def reduce(self, kind: type[CtReduce], dst: Register | int, src: Register | int) -> None:
        """A statistic of each row, one dense number per row: over the blocks of 64 lanes, then over the lanes."""
        sizes = {"batch": 1, "h": self.step, "c": LANES}
        self.tx8(kind, self.fmt, dst=self.lanes, src=src, w=self.blocks, dim=ReduceDim.W, **sizes)
        self.tx8(kind, self.fmt, dst=self.padded, src=self.lanes, w=1, dim=ReduceDim.C, **sizes)
        self.compact(dst, self.padded)

    def average(self, dst: int, src: Register) -> None:
        """The mean of each row."""
        self.reduce(CtReduceSum, dst, src)
        bits = int(np.float32(1 / self.columns).view(np.uint32))
        self.tx8(CtMulVS, self.fmt, dst=dst, a=dst, imm=bits, n=self.step)

    def compact(self, dst: int | Register, padded: int) -> None:
        size = self.fmt.bytes
        levels = {"rs1": PADDED * size, "rn1": self.step, "ws1": size, "wn1": self.step}
        self.tx8(TdmaGatherScatter, self.fmt, dst=dst, src=padded, run_bytes=size, **levels)

    def spread(self, dst: int, src: int) -> None:
        """[rows] to [rows][columns]."""
        size = self.fmt.bytes
        read = {"rs1": 0, "rn1": self.columns, "rs2": size, "rn2": self.step}
        write = {"ws1": size, "wn1": self.columns, "ws2": self.columns * size, "wn2": self.step}
        self.tx8(TdmaGatherScatter, self.fmt, dst=dst, src=src, run_bytes=size, **read, **write)

    def repeated(self, slot: int) -> int:
        """One number per column, for every row of a step."""
        dst, size = self.buffer(self.step * self.columns), self.columns * self.fmt.bytes
        self.tx8(Rdma, self.fmt, dst=dst, slot=slot, offset=0, count=self.columns)
        if self.step > 1:
            levels = {"rs1": 0, "rn1": self.step - 1, "ws1": size, "wn1": self.step - 1}
            self.tx8(TdmaGatherScatter, self.fmt, dst=dst + size, src=dst, run_bytes=size, **levels)
        return dst


def row_sum(fmt: Format, rows: int, columns: int, step: int = 8) -> Program:
    """[rows, columns] -> [rows]."""
    k = Rows(fmt, rows, columns, step)
    tx8 = k.tx8
    x, y = tx8.input(DTYPES[fmt], (rows, columns)), tx8.output(DTYPES[fmt], (rows,))
    data, sums = k.buffer(2 * step * columns), k.buffer(k.share)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * fmt.bytes, turn)
        k.load(buffer, x, turn)
        k.reduce(CtReduceSum, tx8.affine(sums, (turn, step * fmt.bytes)), buffer)
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
        k.load(buffer, x, turn)
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
    tx8, size = k.tx8, step * columns
    x, y = tx8.input(DTYPES[fmt], (rows, columns)), tx8.output(DTYPES[fmt], (rows, columns))
    data, powers, statistic, spread = k.buffer(2 * size), k.buffer(2 * size), k.buffer(step), k.buffer(size)
    with tx8.loop(k.steps) as turn:
        source, result = (tx8.copy_of(buffer, size * fmt.bytes, turn) for buffer in (data, powers))
        k.load(source, x, turn)
        k.reduce(CtReduceMax, statistic, source)
        k.spread(spread, statistic)
        tx8(CtSubVV, fmt, dst=result, a=source, b=spread, n=size)
        tx8(CtExp, fmt, dst=result, src=result, n=size)
        k.reduce(CtReduceSum, statistic, result)
        tx8(CtRecip, fmt, dst=statistic, src=statistic, n=step)
        k.spread(spread, statistic)
        tx8(CtMulVV, fmt, dst=result, a=result, b=spread, n=size)
        k.store(result, y, turn)
    return tx8.program(k.end)


def layer_norm(fmt: Format, rows: int, columns: int, step: int = 16) -> Program:
    """(x - mean) * rsqrt(variance + 1e-5) * scale + bias over the columns; inputs x, scale, bias."""
    k = Rows(fmt, rows, columns, step)
    tx8, size = k.tx8, step * columns
    x, scale, bias = (tx8.input(DTYPES[fmt], shape) for shape in ((rows, columns), (columns,), (columns,)))
    y = tx8.output(DTYPES[fmt], (rows, columns))
    data, results, squares = k.buffer(2 * size), k.buffer(2 * size), k.buffer(size)
    statistic, spread = k.buffer(step), k.buffer(size)
    factors, terms = k.repeated(scale), k.repeated(bias)
    with tx8.loop(k.steps) as turn:
        source, result = (tx8.copy_of(buffer, size * fmt.bytes, turn) for buffer in (data, results))
        k.load(source, x, turn)
        k.average(statistic, source)
        k.spread(spread, statistic)
        tx8(CtSubVV, fmt, dst=result, a=source, b=spread, n=size)
        tx8(CtSquare, fmt, dst=squares, src=result, n=size)
        k.average(statistic, squares)
        tx8(CtAddVS, fmt, dst=statistic, a=statistic, imm=EPSILON_BITS, n=step)
        tx8(CtRsqrt, fmt, dst=statistic, src=statistic, n=step)
        k.spread(spread, statistic)
        tx8(CtMulVV, fmt, dst=result, a=result, b=spread, n=size)
        tx8(CtMulVV, fmt, dst=result, a=result, b=factors, n=size)
        tx8(CtAddVV, fmt, dst=result, a=result, b=terms, n=size)
        k.store(result, y, turn)
    return tx8.program(k.end)


def batch_norm(fmt: Format, rows: int, columns: int, step: int = 32) -> Program:
    """(x - mean) * rsqrt(variance + 1e-5) * scale + bias with statistics given; inputs x, mean, variance, scale, bias."""
    k = Rows(fmt, rows, columns, step)
    tx8, size = k.tx8, step * columns
    x, *parameters = (tx8.input(DTYPES[fmt], shape) for shape in ((rows, columns), *((columns,),) * 4))
    y = tx8.output(DTYPES[fmt], (rows, columns))
    data = k.buffer(3 * size)
    mean, variance, scale, bias = map(k.repeated, parameters)
    tx8(CtAddVS, fmt, dst=variance, a=variance, imm=EPSILON_BITS, n=size)
    tx8(CtRsqrt, fmt, dst=variance, src=variance, n=size)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, size * fmt.bytes, turn, copies=3)
        k.load(buffer, x, turn)
        for kind, operand in ((CtSubVV, mean), (CtMulVV, variance), (CtMulVV, scale), (CtAddVV, bias)):
            tx8(kind, fmt, dst=buffer, a=buffer, b=operand, n=size)
        k.store(buffer, y, turn)
    return tx8.program(k.end)
