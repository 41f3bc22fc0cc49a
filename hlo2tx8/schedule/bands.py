"""Bands: runs of rows of an image [height, width, channels], the part of it that a step of a group computes.

    a 3x3 convolution, 56 rows in 4 bands      rows 0-13, 14-27, 28-41, 42-55
    what it reads                              rows 0-14, 13-28, 27-42, 41-55: 16 at a time, from 0, 13, 27 and 40 on

The rows that two bands need of one tensor are computed in both. All bands of a tensor have the same number of rows, so the first
and the last may have some that nobody needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hlo2tx8.indexing import Dim, Expr, IndexingMap, Interval, Sym, Variable
from hlo2tx8.schedule.work_split import WorkSplit


@dataclass(frozen=True)
class RowReads:
    """Row h of a result needs rows `stride * h + first` to `stride * h + last` of an operand of `height` rows, as far as there are
    such."""

    stride: int
    first: int
    last: int
    height: int


@dataclass(frozen=True)
class Bands:
    """Band k has the rows from `starts[k]` on, `rows` of them; `height` is that of the image."""

    starts: tuple[int, ...]
    rows: int
    height: int

    @staticmethod
    def of(height: int, count: int) -> "Bands":
        """Bands of equal size side by side; their number divides the height."""
        rows = height // count
        return Bands(tuple(range(0, height, rows)), rows, height)

    def read(self, reads: RowReads) -> "Bands":
        """The bands of an operand."""
        spans: list[tuple[int, int]] = []
        for start in self.starts:
            first, last = reads.stride * start + reads.first, reads.stride * (start + self.rows - 1) + reads.last
            spans.append((max(first, 0), min(last, reads.height - 1)))
        return _covering(spans, reads.height)

    def fresh_rows(self, turns: int) -> float:
        """Rows of a band that the one before has not, on average, if a tile has so many bands in a row, of several images if it
        has to."""
        count = len(self.starts)
        moved = min(self.rows, (self.starts[-1] - self.starts[0]) / (count - 1)) if count > 1 else self.rows
        return moved if count % turns == 0 else moved + (self.rows - moved) / count

    def join(self, other: "Bands") -> "Bands":
        """The bands that hold both."""
        pairs = zip(self.starts, other.starts, strict=True)
        return _covering([(min(a, b), max(a + self.rows, b + other.rows) - 1) for a, b in pairs], self.height)

    def start_of(self, band: Expr) -> Expr | None:
        """The first row of a band; None if those of the bands between the first and the last are not at even distances."""
        count = len(self.starts)
        if count < 3:
            return band * (self.starts[-1] - self.starts[0]) + self.starts[0]
        step = self.starts[2] - self.starts[1] if count > 3 else self.starts[1] - self.starts[0]
        base = self.starts[1] - step
        if any(start != base + k * step for k, start in enumerate(self.starts[1:-1], start=1)):
            return None
        expr, early, late = band * step + base, self.starts[0] - base, self.starts[-1] - base - (count - 1) * step
        if early:
            expr = expr + early - (band + (count - 1)) // count * early
        return expr + (band + 1) // count * late if late else expr


def _covering(spans: Sequence[tuple[int, int]], height: int) -> Bands:
    """The bands of as few rows as hold a span each, inside of the image."""
    rows = max(last - first + 1 for first, last in spans)
    return Bands(tuple(max(0, min(first, height - rows)) for first, _ in spans), rows, height)


@dataclass(frozen=True)
class BandSplit:
    """Bands of a group: `images` times `bands` of them, in order; `tiles` share them, each has as many as another, or none at the
    end."""

    images: int
    bands: int
    tiles: int

    @property
    def num_bands(self) -> int:
        """Bands of all images."""
        return self.images * self.bands

    @property
    def num_turns(self) -> int:
        """Bands of a tile."""
        return -(-self.num_bands // self.tiles)

    @property
    def is_even(self) -> bool:
        """Has every tile as many bands?"""
        return self.num_turns * self.tiles == self.num_bands

    def split(self, shape: tuple[int, ...], bands: Bands, block: int = 0) -> WorkSplit:
        """The work split of a member whose result has the shape [images, height, width, channels], of which a step computes a band;
        lanes go by blocks of so many channels if that is not 0. Where bands overlap, rows are computed in several steps.

        Raises LevelError if the bands do not overlap and the split is not provably a bijection onto the shape.
        """
        _, height, width, channels = shape
        number: Expr = Dim(0) * self.num_turns + Sym(0)
        start = bands.start_of(number % self.bands)
        assert start is not None
        lanes = (channels // block, bands.rows, width, block) if block else (bands.rows, width, channels)
        if not self.is_even:  # a lane of its own says whether there is anything to do: the others keep their sizes
            lanes = (1, *lanes)
        last = len(lanes)
        first = last - 2
        channel: Expr = Sym(last - 3) * block + Sym(last) if block else Sym(last)
        results = (number // self.bands, start + Sym(first), Sym(first + 1), channel)
        constraints = () if self.is_even else ((number, Interval(0, self.num_bands - 1)),)
        ranges = (Variable(0, self.num_turns - 1, "turn"), *(Variable(0, n - 1, f"lane{i}") for i, n in enumerate(lanes)))
        map = IndexingMap((Variable(0, self.tiles - 1, "tile"),), ranges, (), results, constraints).simplify()
        split = WorkSplit(map, map, shape, self.num_turns, lanes)
        if height % self.bands == 0 and bands == Bands.of(height, self.bands):
            split.verify()
        return split
