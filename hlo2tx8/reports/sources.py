"""Source text that instructions came from: the module's own file, and Python files that it names."""

from collections.abc import Sequence
from pathlib import Path

from hlo2tx8.runtime.origin import split_origin

MOST_BYTES = 4 << 20
"""Of one file."""
AROUND = 12
"""Lines that are shown before and behind those that are named."""
MOST_LINES = 4_000
"""Of a file that is shown whole."""


def places_of(origins: Sequence[str]) -> list[dict[str, object]]:
    """The file, line and HLO instruction of each origin; an origin without a line has none."""
    found: list[dict[str, object]] = []
    for origin in origins:
        parts = split_origin(origin)
        file, line = _file_and_line(parts.get("source", ""))
        found.append({"file": file, "line": line, "hlo": parts.get("hlo", ""), "source": parts.get("source", "")})
    return found


def _file_and_line(source: str) -> tuple[str, int]:
    head, _, last = source.rpartition(":")
    before, _, number = head.rpartition(":")
    if last.isdigit() and number.isdigit() and before:
        return before, int(number)
    return (head, int(last)) if last.isdigit() else ("", 0)


def files_of(places: Sequence[dict[str, object]], given: Path | None) -> list[dict[str, object]]:
    """Text of the files that origins name: `given`, the module's own, whole; of others only Python, since a module may name any
    file of this machine and a page is passed on. Long ones without the lines that nothing came from; `first` numbers the lines.
    """
    lines: dict[str, set[int]] = {}
    for place in places:
        if place["file"]:
            lines.setdefault(str(place["file"]), set()).add(int(str(place["line"])))
    found: list[dict[str, object]] = []
    for name, named in sorted(lines.items(), key=lambda item: -len(item[1])):
        path = given if given is not None and given.name == Path(name).name else Path(name)
        is_ours = path is given or path.suffix == ".py"
        text = _text(path) if is_ours else None
        reason = "" if text is not None else "is not on this machine" if is_ours else "is neither the module nor Python"
        found.append({"name": name, "pieces": _pieces((text or "").splitlines(), named), "missing": reason})
    return found


def _text(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        return path.read_text(errors="replace")
    except OSError:
        return None


def _pieces(lines: Sequence[str], named: set[int]) -> list[dict[str, object]]:
    if len(lines) <= MOST_LINES:
        return [{"first": 1, "lines": list(lines)}] if lines else []
    found: list[tuple[int, int]] = []
    for line in sorted(named):
        first, end = max(1, line - AROUND), min(len(lines), line + AROUND)
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], end
        elif first <= end:
            found.append((first, end))
    return [{"first": first, "lines": list(lines[first - 1 : end])} for first, end in found]
