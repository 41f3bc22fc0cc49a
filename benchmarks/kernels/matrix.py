"""Kernels of the matrix engine. Of a gemm each tile takes one of 4 x 4 blocks of the result, of images half the rows of one."""

from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Register
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset, Wdma
from hlo2tx8.device.isa.ne import NeGemm, psum_format
from hlo2tx8.device.isa.ne_conv import NeConv
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


def conv3x3(multiply: Format, result: Format, size: int, channels: int, filters: int, step: int = 7) -> Program:
    """[8, size, size, channels] * [3, 3, filters, channels], borders of zeros; `step` rows of the result at a time.

    In SPM an image's half has a row above and a row below it: one is the other half's, one is zero.
    """
    rows = size // 2
    if size % 2 or rows % step or channels != 64 or filters != 64:
        raise ValueError(f"halves of {rows} rows, {channels} and {filters} channels are no whole number of blocks")
    tx8, n = Assembler(), channels
    shape = (8, size, size)
    x, w = tx8.input(DTYPES[multiply], (*shape, channels)), tx8.input(DTYPES[multiply], (3, 3, filters, channels))
    y = tx8.output(DTYPES[result], (*shape, filters))
    row, result_row = size * n * multiply.bytes, size * filters * result.bytes
    weights = BASE
    image = weights + 9 * filters * n * multiply.bytes
    sums = image + (rows + 2) * row
    at, half = tx8.quotient(tx8.tile, 2), tx8.remainder(tx8.tile, 2)
    first = tx8.affine(0, (at, size * row), (half, rows * row))
    tx8(Rdma, multiply, dst=weights, slot=w, offset=0, count=9 * filters * n)
    tx8(TdmaMemset, multiply, dst=tx8.affine(image, (half, (rows + 1) * row)), value=0, n=size * n)
    beside = tx8.affine(rows * row, (at, size * row), (half, -row))
    tx8(Rdma, multiply, dst=tx8.affine(image + (rows + 1) * row, (half, -(rows + 1) * row)), slot=x, offset=beside, count=size * n)
    with tx8.loop(rows // step) as turn:
        to, place = tx8.affine(image + row, (turn, step * row)), tx8.affine(0, (first, 1), (turn, step * row))
        tx8(Rdma, multiply, dst=to, slot=x, offset=place, count=step * size * n)
    sizes = {"batch": 1, "h": step + 2, "w": size, "c": n, "filters": filters, "kernel_h": 3, "kernel_w": 3}
    steps = {f"{name}_{axis}": 1 for name in ("stride", "dilation") for axis in "hw"}
    pads = {"pad_top": 0, "pad_bottom": 0, "pad_left": 1, "pad_right": 1, "accumulate": 0}
    first = tx8.affine(0, (at, size * result_row), (half, rows * result_row))
    with tx8.loop(rows // step) as turn:
        source, target = tx8.affine(image, (turn, step * row)), tx8.affine(sums, (turn, step * result_row))
        tx8(NeConv, result, multiply, dst=target, image=source, weight=weights, psum=0, **sizes, **steps, **pads)
        place = tx8.affine(0, (first, 1), (turn, step * result_row))
        tx8(Wdma, result, slot=y, offset=place, src=target, count=step * size * filters)
    return tx8.program(sums + rows * result_row)
