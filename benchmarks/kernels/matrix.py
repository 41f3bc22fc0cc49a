"""Kernels of the matrix engine. A gemm's result is cut into 4 x 4 blocks, one for each tile."""

from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Register
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.isa.ne import NeGemm, psum_format
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.program import Program

GRID = 4  # tiles along each side of a result
BASE = 0x10000
DTYPES = {
    Format.INT8: "int8",
    Format.FP16: "float16",
    Format.BF16: "bfloat16",
    Format.TF32: "float32",
    Format.FP32: "float32",
    Format.INT32: "int32",
}


def gemm(multiply: Format, result: Format, rows: int, columns: int, depth: int, step: int = 256) -> Program:
    """[rows, depth] . [depth, columns], `step` of the depth at a time; partial sums stay in SPM. Sizes must divide evenly."""
    own_rows, own_columns = rows // GRID, columns // GRID
    left, right = Blocked(multiply, 1, own_rows, step), Blocked(multiply, 1, step, own_columns)
    psum = psum_format(multiply)
    if rows % GRID or columns % GRID or depth % step or left.tail_width or right.tail_width:
        raise ValueError(f"[{rows}, {depth}] . [{depth}, {columns}] is no whole number of blocks")
    tx8, steps = Assembler(), depth // step
    a = tx8.input(DTYPES[multiply], (rows, depth))
    b = tx8.input(DTYPES[multiply], (depth, columns))
    c = tx8.output(DTYPES[result], (rows, columns))
    lefts = BASE
    rights = lefts + 2 * left.size_bytes
    sums = rights + 2 * right.size_bytes
    size, width = multiply.bytes, left.block_width

    def part(turn: Register, dst: Format, accumulate: int) -> None:
        """One step of the depth."""
        to_left, to_right = (tx8.copy_of(at, block.size_bytes, turn) for at, block in ((lefts, left), (rights, right)))
        place = tx8.affine(0, (row, own_rows * depth * size), (turn, step * size))
        levels = {"count": width, "s1": depth, "n1": own_rows, "s2": width, "n2": step // width}
        tx8(Rdma, multiply, dst=to_left, slot=a, offset=place, **levels)
        place = tx8.affine(0, (turn, step * columns * size), (column, own_columns * size))
        levels = {"count": width, "s1": columns, "n1": step, "s2": width, "n2": own_columns // width}
        tx8(Rdma, multiply, dst=to_right, slot=b, offset=place, **levels)
        sizes = {"rows": own_rows, "columns": own_columns, "depth": step, "batch": 1}
        flags = {"transpose_left": 0, "transpose_right": 1, "accumulate": accumulate}
        tx8(NeGemm, dst, multiply, dst=sums, left=to_left, right=to_right, psum=sums, **sizes, **flags)

    row, column = tx8.quotient(tx8.tile, GRID), tx8.remainder(tx8.tile, GRID)
    last = steps - 1
    part(tx8.affine(0), psum if last else result, accumulate=0)
    with tx8.loop(last, start=1) as turn:
        part(turn, psum, accumulate=1)
    if last:
        part(tx8.affine(last), result, accumulate=1)
    product = Blocked(result, 1, own_rows, own_columns)
    width = product.block_width
    place = tx8.affine(0, (row, own_rows * columns * result.bytes), (column, own_columns * result.bytes))
    levels = {"count": width, "s1": columns, "n1": own_rows, "s2": width, "n2": own_columns // width}
    tx8(Wdma, result, slot=c, offset=place, src=sums, **levels)
    return tx8.program(sums + Blocked(psum, 1, own_rows, own_columns).size_bytes)
