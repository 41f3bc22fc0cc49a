"""Channel-blocked layouts: where the elements of an NHWC tensor lie in Cx and NCx.

    fp16 [2, 1, 2, 131], p = h*W + w:   block 0      block 1      tail
                                        [2][64]      [2][64]      [2][4], channels 128..130 and one of padding
                                        byte 0       byte 256     byte 512 .. 527; batch 1 begins at byte 768

Channels come in blocks of B = 64 (128 for INT8), each block [HW][B]; what is left over is a narrower tail [HW][C0], or one more
block if it is more than half of one. Batches begin at multiples of 256 bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hlo2tx8.device.formats import Format

BATCH_ALIGNMENT_BYTES = 256
LEAST_TAIL = 4


@dataclass(frozen=True)
class Block:
    """Channels [first, first + channels) of one batch as rows of `width` elements, from `offset` elements on."""

    first: int
    channels: int
    width: int
    offset: int


@dataclass(frozen=True)
class Blocked:
    """The Cx layout (one batch) or NCx layout of `batch` times `points` = H*W times `channels` elements of a format."""

    fmt: Format
    batch: int
    points: int
    channels: int

    @property
    def block_width(self) -> int:
        """Channels of a block."""
        return 128 if self.fmt is Format.INT8 else 64

    @property
    def num_blocks(self) -> int:
        """Cx."""
        q, r = divmod(self.channels, self.block_width)
        return q + (r > self.block_width // 2)

    @property
    def tail_width(self) -> int:
        """C0: channels of the tail with padding, 0 if there is none."""
        rest = self.channels - self.num_blocks * self.block_width
        return max(LEAST_TAIL, 1 << (rest - 1).bit_length()) if rest > 0 else 0

    @property
    def aligned_channels(self) -> int:
        """Channels with padding."""
        return self.num_blocks * self.block_width + self.tail_width

    @property
    def batch_bytes(self) -> int:
        """Bytes of a batch without what aligns the next."""
        return self.points * self.aligned_channels * self.fmt.bytes

    @property
    def batch_stride_bytes(self) -> int:
        """Bytes from one batch to the next."""
        return -(-self.batch_bytes // BATCH_ALIGNMENT_BYTES) * BATCH_ALIGNMENT_BYTES

    @property
    def size_bytes(self) -> int:
        """Bytes from the first to behind the last element or padding."""
        return (self.batch - 1) * self.batch_stride_bytes + self.batch_bytes if self.batch else 0

    def blocks(self) -> Iterator[Block]:
        """The blocks of a batch, the tail last."""
        width = self.block_width
        for i in range(self.num_blocks):
            yield Block(i * width, min(width, self.channels - i * width), width, i * self.points * width)
        if self.tail_width:
            first = self.num_blocks * width
            yield Block(first, self.channels - first, self.tail_width, self.points * first)

    def offset_bytes(self, n: int, p: int, c: int) -> int:
        """Byte offset of channel c at point p of batch n; IndexError outside of the tensor."""
        if not (0 <= n < self.batch and 0 <= p < self.points and 0 <= c < self.channels):
            raise IndexError(f"({n}, {p}, {c}) is outside of [{self.batch}, {self.points}, {self.channels}]")
        block = next(b for b in self.blocks() if b.first <= c < b.first + b.channels)
        return n * self.batch_stride_bytes + (block.offset + p * block.width + c - block.first) * self.fmt.bytes

    def pack(self, dense: np.ndarray) -> np.ndarray:
        """uint8[size_bytes] of a dense array [batch, points, channels] of the format's dtype; padding is zero."""
        data = np.zeros(self.size_bytes, np.uint8)
        for n in range(self.batch):
            for block in self.blocks():
                rows = self.rows(data, n, block)
                part = np.ascontiguousarray(dense[n, :, block.first : block.first + block.channels])
                rows[:, : block.channels * self.fmt.bytes] = part.view(np.uint8).reshape(self.points, -1)
        return data

    def unpack(self, data: np.ndarray) -> np.ndarray:
        """The dense array [batch, points, channels] of what lies in uint8[size_bytes]; padding is left out."""
        size = self.fmt.bytes
        dense = np.empty((self.batch, self.points, self.channels * size), np.uint8)
        for n in range(self.batch):
            for block in self.blocks():
                part = self.rows(data, n, block)[:, : block.channels * size]
                dense[n, :, block.first * size : (block.first + block.channels) * size] = part
        return dense.view(self.fmt.numpy_dtype)

    def rows(self, data: np.ndarray, n: int, block: Block) -> np.ndarray:
        """A view [points, width in items] of a block of batch n in an array of one item per byte of the layout."""
        size = self.fmt.bytes
        start = n * self.batch_stride_bytes + block.offset * size
        return data[start : start + self.points * block.width * size].reshape(self.points, block.width * size)
