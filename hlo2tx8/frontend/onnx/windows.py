"""Windows over spatial dimensions, as convolutions and pooling have them: attributes to strides, dilations and paddings."""

# pyright: basic

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hlo2tx8.frontend.onnx.table import NodeCall


@dataclass(frozen=True)
class Windows:
    """Per spatial dimension: kernel, stride, dilation, padding before and behind, how many windows there are. `pads` are those
    that the op has; `more` is what `ceil_mode` adds behind so that the last window is whole, which counts as nothing.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, call: NodeCall, sizes: Sequence[int], kernel: Sequence[int]) -> "Windows":
        """What the attributes of a node say, for spatial sizes and a kernel."""
        rank = len(sizes)
        strides, dilations = (tuple(call[key] or (1,) * rank) for key in ("strides", "dilations"))
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        auto, given = call["auto_pad"] or "NOTSET", call["pads"] or (0,) * 2 * rank
        if auto.startswith("SAME"):
            total = [max(0, (-(-n // s) - 1) * s + k - n) for n, s, k in zip(sizes, strides, spans, strict=True)]
            pads = [(t - t // 2, t // 2) if auto == "SAME_LOWER" else (t // 2, t - t // 2) for t in total]
        else:
            pads = [(0, 0)] * rank if auto == "VALID" else list(zip(given[:rank], given[rank:], strict=True))
        counts: list[int] = []
        for n, s, k, (low, high) in zip(sizes, strides, spans, pads, strict=True):
            count = (n + low + high - k) // s + 1
            if call["ceil_mode"] and (n + low + high - k) % s and count * s < n + low:
                count += 1
            counts.append(max(0, count))
        return cls(tuple(sizes), tuple(kernel), strides, dilations, tuple(pads), tuple(counts))

    @property
    def whole_pads(self) -> tuple[tuple[int, int], ...]:
        """Paddings with which exactly `counts` windows are whole; behind it may be less than 0."""
        rows = zip(self.sizes, self.kernel, self.strides, self.dilations, self.pads, self.counts, strict=True)
        return tuple((low, (c - 1) * s + (k - 1) * d + 1 - n - low) for n, k, s, d, (low, _), c in rows)

    def places(self, axis: int) -> "np.ndarray":
        """[windows, kernel]: the index along a dimension of each element of each window; those in the padding are outside of it."""
        starts = np.arange(self.counts[axis]) * self.strides[axis] - self.pads[axis][0]
        return starts[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]
