"""Where an op comes from: `file:line:column name` of MLIR's locations, or the line of the HLO text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hlo2tx8.frontend import shim

_INSTRUCTION = re.compile(r"^\s*(?:ROOT\s+)?%?([\w.\-]+)\s*=", re.MULTILINE)


def instruction_lines(text: str) -> dict[str, int]:
    """Line of each instruction of an HLO text, by its name."""
    lines: dict[str, int] = {}
    number, last = 1, 0
    for match in _INSTRUCTION.finditer(text):
        start = match.start(1)
        number += text.count("\n", last, start)
        last = start
        lines.setdefault(match.group(1), number)
    return lines


@dataclass
class LocationReader:
    """Turns locations of one module into text.

    `lines` says where in `file` the instruction of a name is; MLIR calls the file of a text "-".
    """

    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    known: dict[tuple[Any, str], str] = field(default_factory=dict[tuple[Any, str], str])
    parts: dict[Any, tuple[str, str]] = field(default_factory=dict[Any, tuple[str, str]])

    @cached_property
    def ir(self) -> Any:
        """MLIR's Python bindings."""
        return shim.ir()

    def text(self, location: Any, call_site: str = "") -> str:
        """`file:line:column name`, as much of it as is known; the call's place for an op that has none of its own."""
        found = self.known.get((location, call_site))
        if found is None:
            name, place = self.parts_of(location)
            if not place and name in self.lines:
                place = f"{self.file}:{self.lines[name]}"
            elif place.startswith("-:") and self.file:
                place = self.file + place[1:]
            found = self.known[location, call_site] = f"{place or call_site} {name}".strip()
        return found

    def parts_of(self, location: Any) -> tuple[str, str]:
        """(name, `file:line:column`): of a call stack the innermost frame, of a fused location the first found."""
        found = self.parts.get(location)
        if found is None:
            found = self.parts[location] = self._parts_of(location)
        return found

    def _parts_of(self, location: Any) -> tuple[str, str]:
        ir = self.ir
        match location:
            case ir.NameLoc():
                name, place = self.parts_of(location.child_loc)
                return location.name_str or name, place
            case ir.FileLineColLoc():
                column = f":{location.start_col}" if location.start_col else ""
                return "", f"{location.filename}:{location.start_line}{column}"
            case ir.CallSiteLoc():
                name, place = self.parts_of(location.callee)
                outer_name, outer_place = ("", "") if name and place else self.parts_of(location.caller)
                return name or outer_name, place or outer_place
            case ir.FusedLoc():
                found = [self.parts_of(inner) for inner in location.locations]
                return next((n for n, _ in found if n), ""), next((p for _, p in found if p), "")
            case _:
                return "", ""
