"""Cycles of the matrix engine."""

from hlo2tx8.device.chip import Cycles
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction, Operands
from hlo2tx8.device.isa.ne import NeGemmForm


def ne_cycles(kind: type[Instruction], o: Operands, c: Cycles) -> float:
    """Startup, then one cycle per array for every step of the product; INT8 goes faster."""
    if not issubclass(kind, NeGemmForm):
        raise NotImplementedError(f"cycles of {kind.MNEMONIC}")
    steps = o["batch"] * -(-o["rows"] // c.ne_tile_rows) * -(-o["columns"] // c.ne_tile_columns) * -(-o["depth"] // c.ne_tile_depth)
    return c.ne_startup + steps / (c.ne_arrays * (c.ne_int8_speedup if o.fmt2 is Format.INT8 else 1))
