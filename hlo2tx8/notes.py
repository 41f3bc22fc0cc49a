"""Notes of passes about their decisions: `hlo.notes` of the module holds the lines until the driver takes them.

Passes write them only when asked to explain; they are IR, so a pass run alone shows its notes too. A line that is made of a
`Decision` keeps it, so what is asked about decisions afterwards is answered from those, and never read out of text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

KEY = "hlo.notes"


class What(Enum):
    """What was decided."""

    COARSE = auto()
    STARTS = auto()
    JOINS = auto()
    OUTPUT = auto()
    SHARED = auto()
    NO_OUTPUT = auto()
    EPILOGUE = auto()
    NO_EPILOGUE = auto()
    BEHIND_PRODUCT = auto()
    MERGED = auto()
    SAME_ROWS = auto()
    SAME_FUSION = auto()
    REMADE = auto()
    APART = auto()
    FUSION = auto()
    NO_LINK = auto()
    GROUP = auto()
    NO_GROUP = auto()
    VIEW = auto()
    DISSOLVED = auto()
    PLAN = auto()
    NO_PLAN = auto()
    KERNEL = auto()


LINES: Mapping[What, str] = {
    What.COARSE: "{about} {why}",
    What.STARTS: "{about} starts a fusion: {why}",
    What.JOINS: "{about} joins {other}: {why}",
    What.OUTPUT: "{about} is an output of {other}: {why}",
    What.SHARED: "{about} is shared in {other}: {why}",
    What.NO_OUTPUT: "{about} is no output of {other}: {why}",
    What.EPILOGUE: "{about} has {other} as epilogue: {why}",
    What.NO_EPILOGUE: "{about} has no epilogue: {why}",
    What.BEHIND_PRODUCT: "{about} is written behind its product, which then is not",
    What.MERGED: "{about} and {other} become one fusion: {why}",
    What.SAME_ROWS: "{about} and {other} are products of the same rows: {why}",
    What.SAME_FUSION: "{about} is a result of {other}, which has its rows",
    What.REMADE: "{about} is made anew by what reads it of {other}: {why}",
    What.APART: "{about} and {other} stay apart: {why}",
    What.GROUP: "{about}: {why}",
    What.NO_GROUP: "{about}: no group, {why}",
    What.VIEW: "{about} is a view of what it reads: no kernel",
    What.DISSOLVED: "{other}: its fusions are kernels of their own: {why}",
    What.PLAN: "{about}: {other} is taken{why}",
    What.NO_PLAN: "{about}: {other} is rejected: {why}",
}
"""The line about a decision; others have none."""


@dataclass(frozen=True)
class Name:
    """An instruction, fusion, kernel or plan as a decision names it: its text; an instruction's number while fusions are planned,
    -1 of others; where it came from."""

    text: str
    number: int = -1
    origin: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class KeptApart:
    """A reader of an instruction that has it in no fusion of its own: the root of the reader's fusion, which rule keeps them apart,
    and modelled cycles that one fusion would have saved."""

    reader: Name
    why: str
    saved: float


@dataclass(frozen=True)
class Decision:
    """What was decided about instructions, fusions or kernels, with whom, and by which rule.

    `saved`: modelled cycles that it gains; `cycles` that the way taken is estimated to take, `apart` those of the other way; 0 if
    nobody asked. `edges` of an instruction that starts a fusion say what keeps it from its readers. FUSION: `other` is a fusion
    of the instructions `about`, which reads results of fusions `reads`. KERNEL: `other` computes the fusions `about`. NO_LINK: a
    group with the fusion `about` ends there.
    """

    what: What
    about: tuple[Name, ...]
    other: Name = Name("")
    why: str = ""
    saved: float = 0.0
    cycles: float = 0.0
    apart: float = 0.0
    edges: tuple[KeptApart, ...] = ()
    reads: tuple[str, ...] = ()

    def line(self) -> "DecisionLine":
        """The line that `--explain` prints."""
        why = self.why or (f"saves {self.saved:.0f} cycles" if self.saved else "")
        return DecisionLine.of(
            LINES.get(self.what, "").format(about=", ".join(map(str, self.about)), other=self.other, why=why), self
        )


class DecisionLine(str):
    """A line of explanation that knows the decision it is about."""

    decision: Decision

    @classmethod
    def of(cls, text: str, decision: Decision) -> Self:
        """The line, which may be "" for a decision that is not printed."""
        line = cls(text)
        line.decision = decision
        return line


def decisions_in(lines: Iterable[str]) -> tuple[Decision, ...]:
    """The decisions that lines are about, in their order; other lines have none."""
    return tuple(line.decision for line in lines if isinstance(line, DecisionLine))


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
