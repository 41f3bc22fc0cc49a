"""What a sweep has found, in one Parquet file, so that an end at any moment loses nothing and leaves no half of a file.

    out.parquet                 all rows, once a sweep is done: written beside it and moved to its place
    out.parquet.parts/KEY.parquet     a row each until then, written and moved likewise; they go when the file has them
    out.parquet.parts/lock      held by the sweep that writes

Rows are known by the key of their point, so what is read from either place is never measured again, but for rows that are `lost`.
"""

import fcntl
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from hlo2tx8.errors import InputError, writing
from hlo2tx8.sweep.farm import extra

TEXTS = ("key", "workload", "chip", "options", "version", "status", "why", "bound")
NUMBERS = ("cycles", "microseconds", "bound_cycles", "ddr_bytes", "flops", "spm_used", "area", "power", "cpu_seconds")
COLUMNS = (*TEXTS, *NUMBERS)
Row = Mapping[str, Any]


class Results:
    """A context in which one process adds rows to a file; InputError if another one does, or it cannot be written or read."""

    def __init__(self, path: Path, version: str) -> None:
        self.path, self.version = path, version
        self.parts = path.with_name(f"{path.name}.parts")
        self.rows: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        extra("pyarrow.parquet")
        with writing(self.parts):
            self.parts.mkdir(exist_ok=True)
            self.lock = (self.parts / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("E1004", f"another sweep writes to {self.path}") from None
        for left in self.parts.glob("*.new"):
            left.unlink()
        for row in read(self.path) if self.path.exists() else ():
            self._take(row)
        for part in sorted(self.parts.glob("*.parquet")):
            for row in read(part):
                self._take(row)
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.close()

    def _take(self, row: dict[str, Any]) -> None:
        if row["version"] not in ("", self.version):
            raise InputError("E1004", f"{self.path} was made by another version of hlo2tx8", hint="name another file, or delete it")
        if row["status"] != "lost":
            self.rows[row["key"]] = row

    def add(self, row: Row) -> None:
        """Keep a row for good; it is in the file system when this returns."""
        whole = {name: row.get(name, "" if name in TEXTS else None) for name in COLUMNS}
        write([whole], self.parts / f"{whole['key']}.parquet")
        self.rows[whole["key"]] = whole

    def join(self, order: Iterable[str]) -> None:
        """Write all rows to the file, those of the keys in that order first, then others by key."""
        keys = dict.fromkeys(key for key in order if key in self.rows)
        keys |= dict.fromkeys(sorted(set(self.rows) - set(keys)))
        write([self.rows[key] for key in keys], self.path)
        for part in self.parts.glob("*.parquet"):
            part.unlink()
        (self.parts / "lock").unlink()
        self.parts.rmdir()


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """A Parquet file of rows, whole or not at all; InputError if there is no room."""
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    fields = [(name, arrow.string()) for name in TEXTS] + [(name, arrow.float64()) for name in NUMBERS]
    new = path.with_name(f"{path.name}.new")
    with writing(path):
        parquet.write_table(arrow.Table.from_pylist(rows, schema=arrow.schema(fields)), new)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that `write` made; InputError if it is none."""
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    try:
        # A file, not a path: a folder is no data set here, and what Arrow keeps of a schema is not read as one.
        with path.open("rb") as file:
            table = parquet.ParquetFile(file).read()
    except (OSError, arrow.ArrowException) as error:
        raise InputError("E1004", f"{path} cannot be read: {error}".partition("\n")[0]) from None
    if set(table.column_names) != set(COLUMNS):
        raise InputError("E1004", f"{path} is no table of a sweep")
    return table.to_pylist()
