"""Tables of text: columns as wide as their longest cell, numbers to the right; on a terminal with colour and bars."""

from collections.abc import Sequence
from dataclasses import dataclass

BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
BAR_CELLS = 12
EIGHTHS = " ▏▎▍▌▋▊▉█"
LONGEST = 60


@dataclass(frozen=True)
class Table:
    """`header` names the columns; those whose names begin with `>` are numbers and stand to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    bars: Sequence[float] = ()

    def text(self, *, is_terminal: bool) -> str:
        """Lines with ends; `bars`, shares of one per row, are drawn on a terminal."""
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
    """A share of one as a bar of eighths of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * BAR_CELLS * 8)
    return EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def count(value: float) -> str:
    """With thousands apart: 12,345."""
    return f"{value:,.0f}"


def size(value: float, unit: str = "") -> str:
    """Three digits: 1.23 M."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()


def percent(share: float) -> str:
    """With one digit after the point below ten."""
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def _short(cell: str) -> str:
    """Long names lose their beginning."""
    return cell if len(cell) <= LONGEST else f"…{cell[1 - LONGEST :]}"
