"""Cycles of the matrix engine: startup, then one cycle per array for each step of the product; INT8 goes faster.

A step multiplies `ne_tile_rows` x `ne_tile_depth` by `ne_tile_depth` x `ne_tile_columns` elements. A convolution takes as long as
the products it implies, see device/conv_rules.py, channels along the depth with their padding.
"""

from dataclasses import dataclass

from hlo2tx8.device.chip import Cycles
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import ne_conv
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.ne import NeGemmForm
from hlo2tx8.device.isa.window import SIDES
from hlo2tx8.device.layouts import Blocked


@dataclass(frozen=True)
class Product:
    """`count` products of [rows, depth] and [depth, columns]; `padded_depth` is how deep they are for the arrays."""

    count: int
    rows: int
    columns: int
    depth: int
    padded_depth: int

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the product without any padding."""
        return self.count * self.rows * self.columns * self.depth

    def steps(self, c: Cycles) -> int:
        """Steps of the arrays: blocks of rows times blocks of columns times blocks of depth."""
        across = -(-self.rows // c.ne_tile_rows) * -(-self.columns // c.ne_tile_columns)
        return self.count * across * -(-self.padded_depth // c.ne_tile_depth)


def product_of(kind: type[Instruction], o: Operands) -> Product:
    """What an instruction multiplies."""
    if issubclass(kind, NeGemmForm):
        return Product(o["batch"], o["rows"], o["columns"], o["depth"], o["depth"])
    if not issubclass(kind, ne_conv.NeConvForm):
        raise NotImplementedError(f"cycles of {kind.MNEMONIC}")
    rows, columns = ne_conv.windows(o)
    windows, taps = o["batch"] * rows * columns, ne_conv.taps(o)
    if kind in (ne_conv.NeDepthwise, ne_conv.NeDepthwiseQuantised):
        return Product(o["c"], windows, 1, taps, taps)
    if kind is ne_conv.NeConvBackwardImage:
        return Product(1, o["batch"] * o["h"] * o["w"], o["c"], taps * o["filters"], taps * _padded(o, "filters"))
    if kind is ne_conv.NeConvBackwardWeight:
        return Product(taps, o["filters"], o["c"], windows, windows)
    return Product(1, windows, o["filters"], taps * o["c"], taps * _padded(o, "c"))


def _padded(o: Operands, channels: str) -> int:
    return Blocked(o.fmt2, 1, 1, o[channels]).aligned_channels


def ne_cycles(kind: type[Instruction], o: Operands, c: Cycles) -> float:
    """Cycles from the start to the end of an instruction of the matrix engine."""
    return c.ne_startup + product_of(kind, o).steps(c) / (c.ne_arrays * (c.ne_int8_speedup if o.fmt2 is Format.INT8 else 1))


def _windows(axis: str) -> str:
    before, after = SIDES[axis]
    return f"(({axis} + {before} + {after} - (kernel_{axis} - 1) * dilation_{axis} - 1) // stride_{axis} + 1)"


def ne_cycles_text(kind: type[Instruction], c: Cycles) -> str:
    """The same as a formula of the operands; `rate` is the INT8 speedup, or 1, and padded(c) are channels with their padding."""
    windows, taps = f"batch * {_windows('h')} * {_windows('w')}", "kernel_h * kernel_w"
    if issubclass(kind, NeGemmForm):
        count, rows, columns, depth = "batch", "rows", "columns", "depth"
    elif kind in (ne_conv.NeDepthwise, ne_conv.NeDepthwiseQuantised):
        count, rows, columns, depth = "c", windows, "1", taps
    elif kind is ne_conv.NeConvBackwardImage:
        count, rows, columns, depth = "1", "batch * h * w", "c", f"{taps} * padded(filters)"
    elif kind is ne_conv.NeConvBackwardWeight:
        count, rows, columns, depth = taps, "filters", "c", windows
    else:
        count, rows, columns, depth = "1", windows, "filters", f"{taps} * padded(c)"
    sizes = ((rows, c.ne_tile_rows), (columns, c.ne_tile_columns), (depth, c.ne_tile_depth))
    factors = [count, *(f"ceil({size} / {tile})" for size, tile in sizes if size != "1")]
    return f"{c.ne_startup} + {' * '.join(f for f in factors if f != '1')} / ({c.ne_arrays} * rate)"
