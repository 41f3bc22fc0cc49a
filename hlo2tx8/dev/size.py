"""`make size`: hand-written lines of the package, by room, against the budget in size.toml.

Counted are all lines of files that git tracks, comments and empty ones too. A file whose first line says "do not edit"
was written by a program and is not counted, nor are files of others, which are kept as they are.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "hlo2tx8"
TOP = "top"
"""The name of the files that lie in no room."""
OF_OTHERS = (f"{PACKAGE}/reports/echarts/",)
"""Folders of files that others wrote."""


@dataclass(frozen=True)
class Budget:
    """Most lines allowed in all, and in each room."""

    total: int
    rooms: Mapping[str, int]


def read_budget(text: str) -> Budget:
    """The budget in TOML text: `total` and a table `rooms`."""
    found = tomllib.loads(text)
    return Budget(found["total"], found["rooms"])


def is_generated(first_line: str) -> bool:
    """True if a file that begins with this line says that a program wrote it."""
    return "do not edit" in first_line.lower()


def lines_by_room(root: Path, files: Iterable[str]) -> dict[str, int]:
    """Hand-written lines per room, sorted by name; `files` are paths below the repository's `root`."""
    found: dict[str, int] = {}
    for name in sorted(files):
        lines = (root / name).read_bytes().splitlines()
        if lines and not name.startswith(OF_OTHERS) and not is_generated(lines[0].decode()):
            parts = Path(name).parts
            room = parts[1] if len(parts) > 2 else TOP
            found[room] = found.get(room, 0) + len(lines)
    return dict(sorted(found.items()))


def tracked_files(root: Path) -> list[str]:
    """Paths below `root` of the package's files that git tracks and that still exist."""
    command = ["git", "-C", str(root), "ls-files", "-z", PACKAGE]
    names = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\0")
    return [name for name in names if name and (root / name).is_file()]


def over_budget(lines: Mapping[str, int], budget: Budget) -> list[str]:
    """One sentence for each room, and for the total, that has more lines than allowed, or no budget."""
    found = [f"{room} has no budget in size.toml" for room in lines if room not in budget.rooms]
    found += [f"{room} is in size.toml and does not exist" for room in budget.rooms if room not in lines]
    found += [
        f"{room} has {count - budget.rooms[room]} lines more than its budget"
        for room, count in lines.items()
        if count > budget.rooms.get(room, count)
    ]
    total = sum(lines.values())
    return [*found, f"in all there are {total - budget.total} lines too many"] if total > budget.total else found


def main() -> int:
    """Print the table; 1 if anything is over budget."""
    budget = read_budget((ROOT / "size.toml").read_text())
    lines = lines_by_room(ROOT, tracked_files(ROOT))
    for room, count in lines.items():
        print(f"{room:<14} {count:>7,} of {budget.rooms.get(room, 0):>7,}")
    print(f"{'total':<14} {sum(lines.values()):>7,} of {budget.total:>7,}")
    wrong = over_budget(lines, budget)
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
