"""The decisions of a compilation by what they are about, and names that users write: of instructions, fusions, kernels, lines."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import chain

from hlo2tx8.errors import InputError
from hlo2tx8.notes import Decision, Name, What, decisions_in
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.origin import split_origin

NEAR = 3
_INSTRUCTION = re.compile(r"^\s*(?:ROOT\s+)?%?(?P<name>[\w.-]+)\s*=\s*[^=]*?\s(?P<op>[a-z][\w-]*)\(", re.MULTILINE)
_OP_NAME, _FILE, _LINE = (re.compile(rf"\b{key}=\"?(?P<value>[^\"\s}}]+)") for key in ("op_name", "source_file", "source_line"))


@dataclass(frozen=True)
class Asked:
    """What a name stands for: `instructions`, by number, with their names; `fusions` as a whole if it is theirs or a kernel's."""

    name: str
    instructions: Mapping[int, Name]
    fusions: tuple[str, ...] = ()


def aliases_in(text: str) -> dict[str, tuple[str, str]]:
    """For each instruction of HLO text whose metadata name its origin: (that origin, the op)."""
    found: dict[str, tuple[str, str]] = {}
    for instruction in _INSTRUCTION.finditer(text):
        line = text[instruction.start() : text.find("\n", instruction.end()) + 1 or None]
        name, file, number = (match["value"] if (match := key.search(line)) else "" for key in (_OP_NAME, _FILE, _LINE))
        place = f"{file}:{number}" if file and number else ""
        if origin := f"{place} {name}".strip():
            found[instruction["name"]] = (origin, instruction["op"].replace("-", "_"))
    return found


@dataclass(frozen=True)
class Book:
    """What was decided for one program; `aliases` as of `aliases_in`."""

    executable: Executable
    aliases: Mapping[str, tuple[str, str]]

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """All of them, in their order."""
        return decisions_in(self.executable.explanation)

    def of(self, *kinds: What) -> tuple[Decision, ...]:
        """The decisions of some kinds."""
        return tuple(decision for decision in self.decisions if decision.what in kinds)

    @cached_property
    def fusions(self) -> Mapping[str, Decision]:
        """What each fusion consists of; one that became a result of another is known as that."""
        return {str(decision.other): decision for decision in self.of(What.FUSION)}

    @cached_property
    def merged(self) -> Mapping[str, str]:
        """Fusions that became a result of another, and that one."""
        return {str(decision.about[0]): str(decision.other) for decision in self.of(What.SAME_FUSION)}

    @cached_property
    def kernels(self) -> Mapping[str, str]:
        """The kernel of each fusion that has one."""
        own = {str(name): str(decision.other) for decision in self.of(What.KERNEL) for name in decision.about}
        return own | {name: own[other] for name, other in self.merged.items() if other in own}

    @cached_property
    def instructions(self) -> Mapping[int, tuple[Name, ...]]:
        """The names of each instruction, by number: several of what the source has as a fusion."""
        found: dict[int, dict[Name, None]] = {}
        for name in chain.from_iterable(d.about for d in self.decisions):
            if name.number >= 0:
                found.setdefault(name.number, {})[name] = None
        return {number: tuple(names) for number, names in found.items()}

    @cached_property
    def _inside(self) -> Mapping[int, tuple[str, ...]]:
        found: dict[int, dict[str, None]] = {}
        for name, fusion in self.fusions.items():
            for member in fusion.about:
                found.setdefault(member.number, {})[name] = None
        return {number: tuple(names) for number, names in found.items()}

    def fusions_of(self, number: int) -> tuple[str, ...]:
        """The fusions that an instruction is in, several if it was copied."""
        return self._inside.get(number, ())

    def find(self, name: str) -> Asked | None:
        """What a name stands for: a fusion or kernel of the dumps, an instruction of the source, or a line `file.py:12`."""
        bare = name.removeprefix("%")
        whole = tuple(f for f in self.fusions if f == bare) or tuple(f for f, kernel in self.kernels.items() if kernel == bare)
        if whole:
            members = (member for fusion in whole for member in self.fusions[fusion].about)
            return Asked(bare, {member.number: member for member in members}, whole)
        for fits in _fitting(bare, self.aliases.get(bare)):
            found = {number: own for number, names in self.instructions.items() for own in names if fits(own)}
            if found:
                return Asked(bare, found)
        return None

    def known(self) -> Iterable[str]:
        """Names that `find` finds."""
        yield from self.fusions
        yield from self.kernels.values()
        yield from self.aliases
        for own in chain.from_iterable(self.instructions.values()):
            yield _hlo(own) or own.text
            yield _hlo(own).rpartition("/")[2]
            yield _place(own)


def _fitting(name: str, alias: tuple[str, str] | None) -> Iterator[Callable[[Name], bool]]:
    """Ways in which an instruction may be the one of that name, the surest first."""
    if alias is not None:
        origin, op = alias
        yield lambda own: own.origin == origin and own.text.partition(" ")[0].endswith(f".{op}")
        yield lambda own: own.origin == origin
    yield lambda own: name in (_hlo(own), own.text, own.text.partition("%")[2])
    yield lambda own: _hlo(own).rpartition("/")[2] == name
    yield lambda own: _is_at(own.origin, name)


def find_in(books: Sequence[Book], name: str) -> list[tuple[Book, Asked]]:
    """Where a name is found; InputError with names like it if it is nowhere."""
    found = [(book, subject) for book in books if (subject := book.find(name)) is not None]
    if not found:
        names = sorted({known for book in books for known in book.known() if known})
        near = get_close_matches(name.removeprefix("%"), names, NEAR, 0.4)
        hint = f"{', '.join(near)} {'is' if len(near) == 1 else 'are'} there" if near else "compile --until=fused prints all names"
        raise InputError("E1004", f"no instruction, fusion, kernel or line {name}, or none that is computed", hint=hint)
    return found


def shown(name: Name) -> str:
    """An instruction as a sentence names it: what the source calls it, the op, and the place."""
    own, place = _hlo(name), _place(name)
    op = name.text.partition(" ")[0].removeprefix("stablehlo.").removeprefix("hlo.")
    says = own if own == op or not own or own.endswith(f"/{op}") else f"{own}, {op}"
    return f"{says or op} ({place})" if place else says or name.text


def _hlo(name: Name) -> str:
    return split_origin(name.origin).get("hlo", "")


def _place(name: Name) -> str:
    """File without its folder, and line."""
    return split_origin(name.origin).get("source", "").rpartition("/")[2]


def _is_at(origin: str, line: str) -> bool:
    """Is that the line, in whatever folder, of an origin? Columns may be left out."""
    source = split_origin(origin).get("source", "")
    return bool(source) and re.search(rf"(^|/){re.escape(line)}(:\d+)*$", source) is not None and ":" in line
