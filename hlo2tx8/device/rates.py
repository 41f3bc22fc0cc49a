"""What a chip does in a cycle, and what starting things costs: the one source of rates and sizes for every decision.

All numbers follow from the chip description; estimates of the schedule and of the fusion decisions are made of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hlo2tx8.device.chip import Beats, Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.layouts import Blocked

OVERLAP_LOST = 4
"""Transfers' starts that a kernel does not hide: its first loads and its last stores."""
KERNEL_CORE_INSTRUCTIONS = 4
"""Instructions that the kernel core is taken to need for an operation: some take it one, some several."""
DEPTH_UNIT = 16
"""Products that the matrix engine adds up at once: a multiple of them is the same in one instruction and in several."""
FILLED = 1.25
"""So many times the products that are needed are worth that weights stay as they are."""
STEPS_PART = 8
"""The part of a scratchpad that the buffers of steps get where others stay all the time."""


@dataclass(frozen=True)
class Rates:
    """Rates of a chip. Bytes per cycle: `ddr` of all tiles together, `transfer`, `vector`, `move` and `kernel_core` of one tile,
    `link` of a link between two tiles of the mesh.

    spm_bytes: what the buffers of a tile may take. line_bytes: DDR charges a shorter run as many, TDMA
    move_run_bytes. products: multiply-adds of a
    tile's matrix engine per cycle in 16-bit formats, `int8_products` in INT8; it multiplies `rows` x `depth` by `depth` x `columns`
    elements at a time. The others are cycles: what an instruction of an engine needs to start (a multicast: to the farthest tile),
    issue, and a barrier of all tiles; `beats` says how many times as long as an addition an instruction takes. queue: instructions
    that wait for an engine at most.
    """

    tiles: int
    spm_bytes: int
    ddr: float
    transfer: float
    line_bytes: int
    vector: float
    move: float
    move_run_bytes: int
    kernel_core: float
    products: int
    int8_products: int
    product_rows: int
    product_columns: int
    product_depth: int
    transfer_start: int
    vector_start: int
    product_start: int
    move_start: int
    issue: int
    barrier: int
    beats: Beats
    queue: int
    mesh_rows: int
    mesh_columns: int
    link: float
    link_start: int

    @staticmethod
    def of(chip: Chip) -> "Rates":
        """The rates of a chip."""
        c = chip.cycles
        products = c.ne_arrays * c.ne_tile_rows * c.ne_tile_columns * c.ne_tile_depth
        return Rates(
            tiles=chip.tiles,
            spm_bytes=chip.spm_limit - chip.spm_allocation_start,
            ddr=chip.ddr_bytes_per_cycle,
            transfer=c.dma_bytes_per_cycle,
            line_bytes=c.dma_min_run_bytes,
            vector=c.ct_bytes_per_cycle,
            move=c.tdma_bytes_per_cycle,
            move_run_bytes=c.tdma_min_run_bytes,
            kernel_core=c.kc_vector_bytes_per_cycle,
            products=products,
            int8_products=products * c.ne_int8_speedup,
            product_rows=c.ne_tile_rows,
            product_columns=c.ne_tile_columns,
            product_depth=c.ne_tile_depth,
            transfer_start=c.dma_startup,
            vector_start=c.ct_startup,
            product_start=c.ne_startup,
            move_start=c.tdma_startup,
            issue=c.issue,
            barrier=c.barrier,
            beats=chip.beats,
            queue=chip.queue_depth,
            mesh_rows=chip.mesh[0],
            mesh_columns=chip.mesh[1],
            link=c.dte_bytes_per_cycle,
            link_start=c.dte_startup + c.dte_hop * sum(chip.mesh),
        )

    @property
    def is_on_mesh(self) -> bool:
        """Do all tiles make a mesh of several rows and columns?"""
        return min(self.mesh_rows, self.mesh_columns) > 1 and self.mesh_rows * self.mesh_columns == self.tiles

    @property
    def meshes(self) -> "tuple[Rates, ...]":
        """The same with the tiles as a mesh of another shape, too: of half as many columns, if these are still several."""
        narrow = replace(self, mesh_rows=2 * self.mesh_rows, mesh_columns=self.mesh_columns // 2)
        return (self, narrow) if self.is_on_mesh and self.mesh_columns % 2 == 0 and narrow.is_on_mesh else (self,)

    @property
    def kernel(self) -> float:
        """Cycles of a kernel that nothing overlaps: the barrier behind it, its first loads and its last stores."""
        return self.barrier + OVERLAP_LOST * self.transfer_start

    @property
    def kept_bytes(self) -> int:
        """Bytes of a tile's scratchpad for what stays there from one loop to the next; the rest is for the buffers of steps."""
        return self.spm_bytes - self.spm_bytes // STEPS_PART

    @property
    def vector_pass(self) -> int:
        """Cycles of issuing and starting a vector instruction."""
        return self.issue + self.vector_start

    @property
    def mixed_kernel_core(self) -> float:
        """Bytes per cycle of a tile's kernel core, for a mixture of what takes it one instruction and several."""
        return self.kernel_core / KERNEL_CORE_INSTRUCTIONS


def block_width(width_bytes: int) -> int:
    """Channels of a block of the matrix engine's layout, of elements of as many bytes."""
    return _blocked(1, width_bytes).block_width


def aligned_channels(channels: int, width_bytes: int) -> int:
    """So many channels as the engine's layout has them, with its padding."""
    return _blocked(channels, width_bytes).aligned_channels if channels else 0


def is_multiplied_in_blocks(sizes: Sequence[int], width_bytes: int) -> bool:
    """Does the matrix engine multiply little that is not there if it multiplies channels block by block? So many are multiplied
    one after the other and added up."""
    most = max((_blocked(size, width_bytes) for size in sizes), key=lambda own: own.channels)
    return sum(-(-block.channels // DEPTH_UNIT) for block in most.blocks()) * DEPTH_UNIT <= FILLED * most.channels


def _blocked(channels: int, width_bytes: int) -> Blocked:
    return Blocked(Format.INT8 if width_bytes == 1 else Format.BF16, 1, 1, channels)
