"""What full searches have found, by content: in memory, and in a folder that other compilations share.

    DIR/3f/3fa1…e2.json    {"plan": "64 rows a step, 128 a chunk", "cut": 0, "cycles": 35945.0, "lines": [...], "check": "9c…"}

The name of a file is a hash of the fusion or group, of what its place in the module decides, of the chip, and of the package's
code: nothing in it is ever out of date. A file that cannot be read, or whose check does not fit, is ignored with a warning and
written again. Files are written elsewhere and moved to their place, so processes may share a folder.
"""

import json
import os
import tempfile
import warnings
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from math import isfinite
from pathlib import Path

import hlo2tx8
from hlo2tx8.device.chip import Chip
from hlo2tx8.emitters.search_kernels import Found

MOST_BYTES = 1 << 22
"""Of a file that is read."""


@dataclass
class Remembered:
    """In memory, for as long as this lives."""

    found: dict[str, Found] = field(default_factory=dict[str, Found])

    def get(self, key: str) -> Found | None:
        """What was found before, None if nothing was."""
        return self.found.get(key)

    def put(self, key: str, found: Found) -> None:
        """Keep it."""
        self.found[key] = found


@dataclass
class PlanFolder(Remembered):
    """In `folder` too, for a chip and this version of the code."""

    folder: Path = Path()
    chip: Chip | None = None
    is_writable: bool = True

    def get(self, key: str) -> Found | None:
        """What was found before, by this compilation or another one; None if nothing was."""
        if key not in self.found and (found := self._read(self.path(key))) is not None:
            self.found[key] = found
        return self.found.get(key)

    def put(self, key: str, found: Found) -> None:
        """Keep it; a folder that cannot be written is left alone from then on, with a warning."""
        self.found[key] = found
        if not self.is_writable or not isfinite(found.cycles):
            return
        path = self.path(key)
        text = json.dumps(asdict(found) | {"check": _check(found)}, indent=1)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
                file.write(text)
            os.replace(file.name, path)
        except OSError as error:
            self.is_writable = False
            warnings.warn(f"plans that are found are not kept: {error}", stacklevel=2)

    def path(self, key: str) -> Path:
        """The file of a key."""
        name = sha256(repr((key, self.chip, code_version())).encode()).hexdigest()
        return self.folder / name[:2] / f"{name}.json"

    def _read(self, path: Path) -> Found | None:
        try:
            if not path.is_file():
                return None
            if path.stat().st_size > MOST_BYTES:
                raise ValueError("it is too large")
            values = json.loads(path.read_text())
            plan, cut, cycles, lines = (values[name] for name in ("plan", "cut", "cycles", "lines"))
            found = Found(str(plan), int(cut), float(cycles), tuple(str(line) for line in lines))
            if values["check"] != _check(found):
                raise ValueError("its check does not fit")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            warnings.warn(f"{path} holds no plan and is ignored: {error}", stacklevel=2)
            return None
        return found


def plans_of(folder: Path | None, chip: Chip) -> Remembered:
    """Where plans for a chip are kept: in the folder, or in memory alone if it is None."""
    return Remembered() if folder is None else PlanFolder(folder=folder, chip=chip)


@cache
def code_version() -> str:
    """A hash of all files of the package that decide what a search finds."""
    package, found = Path(hlo2tx8.__file__).parent, sha256()
    for path in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".yaml", ".c", ".h")):
        found.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _check(found: Found) -> str:
    return sha256(repr(found).encode()).hexdigest()
