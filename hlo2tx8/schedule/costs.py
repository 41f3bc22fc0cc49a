"""What a fusion decision saves, in modelled cycles of the whole chip.

An intermediate that stays in a fusion is neither written to DDR nor read from it, and a kernel less waits for all tiles; an
instruction that several fusions have a copy of is computed as often.
"""

from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import BFloat16Type, DenseArrayBase, Float16Type, Float32Type
from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.partitioner.instruction import kind_of, tensor_type

if TYPE_CHECKING:
    from hlo2tx8.device.chip import Chip

SLOW = ("exponential", "log", "sine", "cosine", "tanh", "logistic")
"""CT takes four times as long for these."""
SLOW_TIMES = 4
VECTOR_BYTES = 128
"""Of the widest operand, that CT computes in a cycle."""
KERNEL_CORE_BYTES = 8
"""The same of the kernel core, for a mixture of what takes it one instruction and several."""
OVERLAP_LOST = 4
"""Transfers' starts that a kernel does not hide: its first loads and its last stores."""


@dataclass(frozen=True)
class Costs:
    """Rates of a chip, in bytes per cycle of all tiles, and cycles. `spm_bytes`: what buffers of a tile may take."""

    tiles: int
    spm_bytes: int
    ddr_rate: float
    tile_rate: float
    vector_rate: float
    kernel_core_rate: float
    kernel: float

    @staticmethod
    def of(chip: "Chip") -> "Costs":
        """The costs on a chip."""
        c, tiles = chip.cycles, chip.tiles
        return Costs(
            tiles,
            chip.spm_limit - chip.spm_allocation_start,
            chip.ddr_bytes_per_cycle,
            c.dma_bytes_per_cycle,
            tiles * c.ct_bytes_per_cycle,
            tiles * c.kc_vector_bytes_per_cycle,
            c.barrier + OVERLAP_LOST * c.dma_startup,
        )

    def transfer(self, value: SSAValue) -> float:
        """Reading or writing the tensor once."""
        return size_bytes(value) / self.ddr_rate

    def saved(self, op: Operation, reads: int, writes: int) -> float:
        """What it saves not to read and write the results of an instruction so often, and to have a kernel less."""
        return (reads + writes) * sum(map(self.transfer, op.results)) + self.kernel

    def compute(self, op: Operation) -> float:
        """Computing all elements of an elementwise instruction."""
        size = max(map(size_bytes, (*op.operands, *op.results)))
        if not _is_for_vectors(op):
            return size / self.kernel_core_rate
        return size / self.vector_rate * _times(op)

    def idle(self, num_rows: int, num_bytes: float) -> float:
        """What moving as many bytes takes longer if fewer rows than tiles share the work."""
        busy = min(self.tiles, num_rows)
        return max(0.0, num_bytes / (busy * self.tile_rate) - num_bytes / self.ddr_rate)


def cycles_per_element(op: Operation) -> float:
    """Of a tile that computes an element of an instruction's result; infinite where nobody said."""
    match kind_of(op):
        case Kind.SHAPING | Kind.CONSTANT:
            return 0.0
        case Kind.INDEXED:
            return 1.0
        case Kind.ELEMENTWISE:
            width = max(numpy_dtype(tensor_type(value).element_type).itemsize for value in (*op.operands, *op.results))
            return width / VECTOR_BYTES * _times(op) if _is_for_vectors(op) else width / KERNEL_CORE_BYTES
        case _ if op.name in ("stablehlo.reduce", "stablehlo.reduce_window"):
            terms = op.properties.get("window_dimensions")
            read = prod(terms.get_values()) if isinstance(terms, DenseArrayBase) else _ratio(op)
            return read * sum(cycles_per_element(inner) for inner in op.regions[0].block.ops if inner.results)
        case _:
            return inf


def _ratio(op: Operation) -> float:
    return prod(tensor_type(op.operands[0]).get_shape()) / max(1, prod(tensor_type(op.results[0]).get_shape()))


def _is_for_vectors(op: Operation) -> bool:
    return isinstance(tensor_type(op.results[0]).element_type, BFloat16Type | Float16Type | Float32Type)


def _times(op: Operation) -> int:
    return SLOW_TIMES if op.name.partition(".")[2] in SLOW else 1


def size_bytes(value: SSAValue) -> int:
    """Bytes of a tensor in DDR."""
    type_ = tensor_type(value)
    return prod(type_.get_shape()) * numpy_dtype(type_.element_type).itemsize
