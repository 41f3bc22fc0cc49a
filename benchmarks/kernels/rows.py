"""Kernels over the rows of a matrix: sums, softmax, layer norm, batch norm. A tile takes an equal share of the rows, a step some.

Rows lie in SPM as in DDR, so that transfers are dense. TDMA repeats a statistic of each row 64 times, as the unit that its round
of a VuV_loop takes, and one of each column for all rows of a step. Norms compute in FP32 whatever the format: two conversions cost
less than rounding every result.
"""

from dataclasses import dataclass

from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtAddVS, CtAddVV, CtMulVuVLoop, CtMulVV, CtRecip, CtRsqrt, CtSquare, CtSubVuVLoop, CtSubVV
from hlo2tx8.device.isa.ct_function import CtExp
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.ct_reduce import CtReduce, CtReduceAvg, CtReduceMax, CtReduceSum, ReduceDim
from hlo2tx8.device.isa.encoding import Register
from hlo2tx8.device.isa.forms import CtVuVLoop
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
        self.lanes, self.padded = (self.buffer(self.step * n, Format.FP32) for n in (LANES, PADDED))

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

    def buffer(self, elements: int, fmt: Format | None = None) -> int:
        """The address of a new buffer, of the kernel's format unless told otherwise."""
        address = self.end
        self.end += -(-elements * (fmt or self.fmt).bytes // 256) * 256
        return address

    def offset(self, turn: Register) -> Register:
        """Byte of DDR where the rows of a step begin."""
        row = self.columns * self.fmt.bytes
        return self.tx8.affine(0, (self.tx8.tile, self.share * row), (turn, self.step * row))

    def load(self, dst: Register, slot: int, turn: Register) -> None:
        self.tx8(Rdma, self.fmt, dst=dst, slot=slot, offset=self.offset(turn), count=self.step * self.columns)

    def store(self, src: Register, slot: int, turn: Register) -> None:
        self.tx8(Wdma, self.fmt, slot=slot, offset=self.offset(turn), src=src, count=self.step * self.columns)

    def reduce(self, kind: type[CtReduce], fmt: Format, src: Register | int) -> None:
        """A statistic of each row, one number in every four of `padded`: over the blocks of 64 lanes, then over the lanes."""
        sizes = {"batch": 1, "h": self.step, "c": LANES}
        self.tx8(kind, fmt, dst=self.lanes, src=src, w=self.blocks, dim=ReduceDim.W, **sizes)
        self.tx8(kind, fmt, dst=self.padded, src=self.lanes, w=1, dim=ReduceDim.C, **sizes)

    def compact(self, dst: int | Register) -> None:
        """The numbers of `padded`, dense."""
        size = self.fmt.bytes
        levels = {"rs1": PADDED * size, "rn1": self.step, "ws1": size, "wn1": self.step}
        self.tx8(TdmaGatherScatter, self.fmt, dst=dst, src=self.padded, run_bytes=size, **levels)

    def spread(self, fmt: Format, units: int) -> None:
        """Each number of `padded` 64 times."""
        size = fmt.bytes
        read = {"rs1": 0, "rn1": LANES, "rs2": PADDED * size, "rn2": self.step}
        write = {"ws1": size, "wn1": LANES, "ws2": LANES * size, "wn2": self.step}
        self.tx8(TdmaGatherScatter, fmt, dst=units, src=self.padded, run_bytes=size, **read, **write)

    def with_units(self, kind: type[CtVuVLoop], fmt: Format, dst: Register | int, src: Register | int, units: int) -> None:
        """The rows of a step, each with its unit."""
        rounds = {"n": self.columns, "u": LANES, "full_n": self.step * self.columns, "full_u": self.step * LANES}
        self.tx8(kind, fmt, dst=dst, a=src, unit=units, **rounds)

    def convert(self, to: Format, of: Format, dst: Register | int, src: Register | int, n: int) -> Register | int:
        """Where `n` elements of `src` are in another format: at `dst`, or where they were if the formats are the same."""
        if to is of:
            return src
        self.tx8(CtConvert, to, of, dst=dst, src=src, n=n)
        return dst

    def parameter(self, slot: int) -> int:
        """One number per column, in FP32."""
        narrow, dst = self.buffer(self.columns), self.buffer(self.columns, Format.FP32)
        self.tx8(Rdma, self.fmt, dst=dst if self.fmt is Format.FP32 else narrow, slot=slot, offset=0, count=self.columns)
        self.convert(Format.FP32, self.fmt, dst, narrow, self.columns)
        return dst

    def repeated(self, src: int) -> int:
        """One FP32 number per column, for every row of a step."""
        dst, size = self.buffer(self.step * self.columns, Format.FP32), self.columns * Format.FP32.bytes
        levels = {"rs1": 0, "rn1": self.step, "ws1": size, "wn1": self.step}
        self.tx8(TdmaGatherScatter, Format.FP32, dst=dst, src=src, run_bytes=size, **levels)
        return dst


def row_sum(fmt: Format, rows: int, columns: int, step: int = 16) -> Program:
    """[rows, columns] -> [rows]."""
    k = Rows(fmt, rows, columns, step)
    tx8 = k.tx8
    x, y = tx8.input(DTYPES[fmt], (rows, columns)), tx8.output(DTYPES[fmt], (rows,))
    data, sums = k.buffer(2 * step * columns), k.buffer(k.share)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * fmt.bytes, turn)
        k.load(buffer, x, turn)
        k.reduce(CtReduceSum, fmt, buffer)
        k.compact(tx8.affine(sums, (turn, step * fmt.bytes)))
    tx8(Wdma, fmt, slot=y, offset=tx8.affine(0, (tx8.tile, k.share * fmt.bytes)), src=sums, count=k.share)
    return tx8.program(k.end)


def column_sum(fmt: Format, rows: int, columns: int, step: int = 8) -> Program:
    """[rows, columns] -> [columns]: every tile adds up its rows, then all tiles' sums of its columns."""
    k = Rows(fmt, rows, columns, step)
    tx8, size = k.tx8, fmt.bytes
    x, y = tx8.input(DTYPES[fmt], (rows, columns)), tx8.output(DTYPES[fmt], (columns,))
    partial = tx8.scratch(DTYPES[fmt], (TILES, columns))
    data, sums, added = k.buffer(2 * step * columns), k.buffer(columns), k.buffer(columns)
    tx8(TdmaMemset, fmt, dst=sums, value=0, n=columns)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, step * columns * size, turn)
        k.load(buffer, x, turn)
        tx8(CtReduceSum, fmt, dst=added, src=buffer, batch=1, h=step, w=k.blocks, c=LANES, dim=ReduceDim.H)
        tx8(CtAddVV, fmt, dst=sums, a=sums, b=added, n=columns)
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
    data, powers, units = k.buffer(2 * size), k.buffer(2 * size), k.buffer(step * LANES)
    with tx8.loop(k.steps) as turn:
        source, result = (tx8.copy_of(buffer, size * fmt.bytes, turn) for buffer in (data, powers))
        k.load(source, x, turn)
        k.reduce(CtReduceMax, fmt, source)
        k.spread(fmt, units)
        k.with_units(CtSubVuVLoop, fmt, result, source, units)
        tx8(CtExp, fmt, dst=result, src=result, n=size)
        k.reduce(CtReduceSum, fmt, result)
        k.spread(fmt, units)
        tx8(CtRecip, fmt, dst=units, src=units, n=step * LANES)
        k.with_units(CtMulVuVLoop, fmt, result, result, units)
        k.store(result, y, turn)
    return tx8.program(k.end)


def layer_norm(fmt: Format, rows: int, columns: int, step: int = 16) -> Program:
    """(x - mean) * rsqrt(variance + 1e-5) * scale + bias over the columns; inputs x, scale, bias."""
    k = Rows(fmt, rows, columns, step)
    wide, tx8, size = Format.FP32, k.tx8, step * columns
    x, *parameters = (tx8.input(DTYPES[fmt], shape) for shape in ((rows, columns), (columns,), (columns,)))
    y = tx8.output(DTYPES[fmt], (rows, columns))
    data, results = k.buffer(2 * size), k.buffer(2 * size)
    centred, squares, units = k.buffer(size, wide), k.buffer(size, wide), k.buffer(step * LANES, wide)
    scale, bias = (k.repeated(k.parameter(slot)) for slot in parameters)
    with tx8.loop(k.steps) as turn:
        source, result = (tx8.copy_of(buffer, size * fmt.bytes, turn) for buffer in (data, results))
        k.load(source, x, turn)
        rows_of = k.convert(wide, fmt, centred, source, size)
        k.reduce(CtReduceAvg, wide, rows_of)
        k.spread(wide, units)
        k.with_units(CtSubVuVLoop, wide, centred, rows_of, units)
        tx8(CtSquare, wide, dst=squares, src=centred, n=size)
        k.reduce(CtReduceAvg, wide, squares)
        tx8(CtAddVS, wide, dst=k.padded, a=k.padded, imm=EPSILON_BITS, n=step * PADDED)
        tx8(CtRsqrt, wide, dst=k.padded, src=k.padded, n=step * PADDED)
        k.spread(wide, units)
        k.with_units(CtMulVuVLoop, wide, centred, centred, units)
        tx8(CtMulVV, wide, dst=centred, a=centred, b=scale, n=size)
        sums = result if fmt is wide else centred
        tx8(CtAddVV, wide, dst=sums, a=centred, b=bias, n=size)
        k.convert(fmt, wide, result, sums, size)
        k.store(result, y, turn)
    return tx8.program(k.end)


def batch_norm(fmt: Format, rows: int, columns: int, step: int = 32) -> Program:
    """x * factor + term, which is (x - mean) * factor + bias, with factor = rsqrt(variance + 1e-5) * scale; statistics given.

    Inputs x, mean, variance, scale, bias.
    """
    k = Rows(fmt, rows, columns, step)
    wide, tx8, size = Format.FP32, k.tx8, step * columns
    x, *parameters = (tx8.input(DTYPES[fmt], shape) for shape in ((rows, columns), *((columns,),) * 4))
    y = tx8.output(DTYPES[fmt], (rows, columns))
    data, product = k.buffer(3 * size), k.buffer(size, wide)
    mean, factor, scale, term = map(k.parameter, parameters)
    tx8(CtAddVS, wide, dst=factor, a=factor, imm=EPSILON_BITS, n=columns)
    tx8(CtRsqrt, wide, dst=factor, src=factor, n=columns)
    tx8(CtMulVV, wide, dst=factor, a=factor, b=scale, n=columns)
    tx8(CtMulVV, wide, dst=mean, a=mean, b=factor, n=columns)
    tx8(CtSubVV, wide, dst=term, a=term, b=mean, n=columns)
    factors, terms = k.repeated(factor), k.repeated(term)
    with tx8.loop(k.steps) as turn:
        buffer = tx8.copy_of(data, size * fmt.bytes, turn, copies=3)
        k.load(buffer, x, turn)
        values = k.convert(wide, fmt, product, buffer, size)
        tx8(CtMulVV, wide, dst=product, a=values, b=factors, n=size)
        sums = buffer if fmt is wide else product
        tx8(CtAddVV, wide, dst=sums, a=product, b=terms, n=size)
        k.convert(fmt, wide, buffer, sums, size)
        k.store(buffer, y, turn)
    return tx8.program(k.end)
