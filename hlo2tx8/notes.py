"""Notes of passes about their decisions: `hlo.notes` of the module holds the lines until the driver takes them.

Passes write them only when asked to explain; they are IR, so a pass run alone shows its notes too.
"""

from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

KEY = "hlo.notes"


def add_notes(module: ModuleOp, lines: Iterable[str]) -> None:
    """Appends lines to the module's notes."""
    notes = [*_notes(module), *map(StringAttr, lines)]
    if notes:
        module.attributes[KEY] = ArrayAttr(notes)


def take_notes(module: ModuleOp) -> tuple[str, ...]:
    """The module's notes, which it has no longer."""
    lines = tuple(note.data for note in _notes(module))
    module.attributes.pop(KEY, None)
    return lines


def _notes(module: ModuleOp) -> list[StringAttr]:
    found = module.attributes.get(KEY)
    return list(cast(ArrayAttr[StringAttr], found)) if isinstance(found, ArrayAttr) else []
