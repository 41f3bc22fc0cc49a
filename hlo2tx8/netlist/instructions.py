"""Programs: their instructions as frozen dataclasses, and how they are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hlo2tx8.netlist.fields import (
    Place,
    boolean,
    items_of,
    known,
    list_of,
    means,
    named_of,
    nonempty,
    pairs_of,
    placed,
    read_record,
    refuse_name,
    text,
    whole,
)
from hlo2tx8.netlist.tree import Items, Node, Pairs, Scalar, boolean_of, number_of

Value: TypeAlias = int | bool | str
"""Of an instruction: an integer, true or false, or a variable as "$name"."""


@means({"type": ["integer", "number", "boolean", "string"]})
def value(node: Node, place: Place) -> Value:
    """An integer, true, false or a variable."""
    word = text(node, place)
    if word.startswith("$"):
        return word
    if (flag := boolean_of(word)) is not None:
        return flag
    if isinstance(found := number_of(word), float) and found.is_integer():
        found = int(found)
    return found if isinstance(found, int) else place.refuse(f"{word!r} is neither a number nor a variable", node.line)


@dataclass(frozen=True)
class Declare:
    """`var`, `staticvar` or `param`: variables with what they begin with; parameters have nothing."""

    kind: str
    variables: Mapping[str, int | bool]
    line: int = placed()


@dataclass(frozen=True)
class Assign:
    """`varinst: [$out, op, args..]`"""

    out: str
    op: str
    args: tuple[Value, ...]
    line: int = placed()


@dataclass(frozen=True)
class LoopBegin:
    """`loop: n`"""

    count: Value
    line: int = placed()


@dataclass(frozen=True)
class EndLoop:
    """`endloop`"""

    line: int = placed()


@dataclass(frozen=True)
class Lifetime:
    """`allocate_queue` or `deallocate_queue`."""

    kind: str
    queues: tuple[str, ...]
    line: int = placed()


@dataclass(frozen=True)
class Setting:
    """How a graph uses an IO in one execution; None is what the file does not say."""

    prologue: Value = known(value, False)
    epilogue: Value = known(value, False)
    zero: Value = known(value, False)
    rd_ptr_local: Value | None = known(value, None)
    rd_ptr_global: Value | None = known(value, None)
    wr_ptr_global: Value | None = known(value, None)
    rd_ptr_autoinc: Value | None = known(value, None)
    global_rdptr_autoinc: Value | None = known(value, None)
    global_wrptr_autoinc: Value | None = known(value, None)
    read_only: Value | None = known(value, None)
    line: int = placed()


@dataclass(frozen=True)
class Execute:
    """`execute`: run a graph once."""

    graph_name: str = known(nonempty)
    queue_settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    line: int = placed()


Instruction: TypeAlias = Declare | Assign | LoopBegin | EndLoop | Lifetime | Execute


@dataclass(frozen=True)
class Program:
    """A list of instructions."""

    name: str
    instructions: tuple[Instruction, ...]
    line: int = placed()


ARGUMENTS: Mapping[str, int] = {"set": 1, "add": 2, "mul": 2, "inc": 1, "incwrap": 2}
"""Of the operations of `varinst`, beyond the variable that is written."""
NAMES = ("var", "staticvar", "param", "varinst", "loop", "allocate_queue", "deallocate_queue", "execute")
WORDS = ("endloop", "endprogram")


@means({"type": ["string", "number"]})
def variable(node: Node, place: Place) -> str:
    """A variable as "$name"; the file may leave the $ out."""
    return "$" + nonempty(node, place).lstrip("$")


def read_program(key: str, node: Node, place: Place, line: int) -> Program:
    """A program from the list of its instructions; `endprogram`, which says nothing, is dropped."""
    place = place.at(f"program {key}")
    instructions: list[Instruction] = []
    for number, item in enumerate(items_of(node, place)):
        at = place.at(f"instruction {number}")
        if isinstance(item, Scalar):
            instructions += _word(item.text, at, item.line)
            continue
        for word, fields in pairs_of(item, at):
            if word.text in WORDS:  # also `endloop:` with a remark behind it
                instructions += _word(word.text, at, word.line)
            else:
                instructions.append(_instruction(word.text, fields, at, word.line))
    return Program(key, tuple(instructions), line)


def _word(word: str, place: Place, line: int) -> list[Instruction]:
    if word not in WORDS:
        refuse_name(word, (*WORDS, *NAMES), "program instruction", place, line)
    return [EndLoop(line)] if word == "endloop" else []


def _instruction(word: str, node: Node, place: Place, line: int) -> Instruction:
    place = place.at(word)
    match word:
        case "var" | "staticvar" | "param":
            if isinstance(node, Pairs) and word != "param":
                return Declare(word, {variable(key, place): _initial(given, place) for key, given in node.pairs}, line)
            return Declare(word, dict.fromkeys(list_of(variable)(node, place), 0), line)
        case "varinst":
            return _assign(node, place, line)
        case "loop":
            count = value(node, place)
            if not isinstance(count, str) and count < 1:
                place.refuse(f"the count {count} is less than 1", line)
            return LoopBegin(count, line)
        case "allocate_queue" | "deallocate_queue":
            return Lifetime(word, list_of(nonempty)(node, place), line)
        case "execute":
            return _execute(node, place, line)
        case _:
            return refuse_name(word, NAMES, "program instruction", place, line)


def _initial(node: Node, place: Place) -> int | bool:
    if isinstance(node, Scalar) and boolean_of(node.text) is not None:
        return boolean(node, place)
    return whole(-(1 << 40))(node, place)


def _assign(node: Node, place: Place, line: int) -> Assign:
    items = items_of(node, place)
    if not isinstance(node, Items) or len(items) < 2:
        place.refuse("is not [$out, operation, arguments..]", line)
    if (op := nonempty(items[1], place)) not in ARGUMENTS:
        refuse_name(op, tuple(ARGUMENTS), "operation", place, line)
    if len(items) - 2 != ARGUMENTS[op]:
        place.refuse(f"{op} has {len(items) - 2} arguments instead of {ARGUMENTS[op]}", line)
    return Assign(variable(items[0], place), op, tuple(value(item, place) for item in items[2:]), line)


def _execute(node: Node, place: Place, line: int) -> Execute:
    if not isinstance(node, Pairs):
        place.refuse("is not a map", line)
    settings: dict[str, Setting] = {}
    for key, given in node.pairs:
        if key.text == "queue_settings":
            for io, fields, at in named_of(given, place, "setting of"):
                settings[io] = read_record(Setting, fields, place.at(f"settings of {io}"), "setting", line=at)
    return read_record(Execute, node, place, skip=("queue_settings",), queue_settings=settings, line=line)
