"""Text tables: columns as wide as their longest cell, numbers aligned right; on a terminal also colours and bars."""

from collections.abc import Sequence
from dataclasses import dataclass

BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
BAR_CELLS = 12
EIGHTHS = " ▏▎▍▌▋▊▉█"
LONGEST = 60


@dataclass(frozen=True)
class Table:
    """A table with the column names `header`; a name that begins with `>` marks a column of numbers, aligned right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    bars: Sequence[float] = ()

    def text(self, *, is_terminal: bool) -> str:
        """The table as lines; on a terminal each row ends with a bar for its number in `bars` (0 to 1)."""
        names = [name.lstrip(">") for name in self.header]
        rows = [[_short(cell) for cell in row] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        lines = [self._line(names, widths), *(self._line(row, widths) for row in rows)]
        if not is_terminal:
            return "".join(f"{line.rstrip()}\n" for line in lines)
        bars = ["", *(f" {bar(share)}" for share in self.bars)] if self.bars else [""] * len(lines)
        head, *body = (line + end for line, end in zip(lines, bars, strict=True))
        rule = DIM + "─" * (sum(widths) + 2 * (len(widths) - 1)) + PLAIN
        return "".join(f"{line.rstrip()}\n" for line in (f"{BOLD}{head}{PLAIN}", rule, *body))

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        placed = (
            cell.rjust(width) if name.startswith(">") else cell.ljust(width)
            for name, cell, width in zip(self.header, cells, widths, strict=True)
        )
        return "  ".join(placed)


def bar(share: float) -> str:
    """A share (0 to 1) drawn as a bar."""
    eighths = round(min(max(share, 0.0), 1.0) * BAR_CELLS * 8)
    return EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def count(value: float) -> str:
    """A number rounded to an integer, with commas: 12,345."""
    return f"{value:,.0f}"


def size(value: float, unit: str = "") -> str:
    """A number with three digits and a prefix: 1.23 M."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


def percent(share: float) -> str:
    """A share (0 to 1) in percent, with one decimal below ten."""
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def _short(cell: str) -> str:
    """Long names lose their beginning."""
    return cell if len(cell) <= LONGEST else f"…{cell[1 - LONGEST :]}"
