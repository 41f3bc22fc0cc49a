"""Cycles of the matrix engine: startup, then one cycle per array for each step of the product; INT8 goes faster.

A step multiplies `ne_tile_rows` x `ne_tile_depth` by `ne_tile_depth` x `ne_tile_columns` elements.
"""

from hlo2tx8.device.chip import Cycles
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction, Operands
from hlo2tx8.device.isa.ne import NeGemmForm


def ne_cycles(kind: type[Instruction], o: Operands, c: Cycles) -> float:
    """Cycles of an instruction."""
    if not issubclass(kind, NeGemmForm):
        raise NotImplementedError(f"cycles of {kind.MNEMONIC}")
    steps = o["batch"] * -(-o["rows"] // c.ne_tile_rows) * -(-o["columns"] // c.ne_tile_columns) * -(-o["depth"] // c.ne_tile_depth)
    return c.ne_startup + steps / (c.ne_arrays * (c.ne_int8_speedup if o.fmt2 is Format.INT8 else 1))


def ne_cycles_text(c: Cycles) -> str:
    """The same as a formula of the operands; `rate` is the INT8 speedup, or 1."""
    steps = f"batch * ceil(rows / {c.ne_tile_rows}) * ceil(columns / {c.ne_tile_columns}) * ceil(depth / {c.ne_tile_depth})"
    return f"{c.ne_startup} + {steps} / ({c.ne_arrays} * rate)"
