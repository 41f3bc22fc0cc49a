"""A module after fusion as plain data: groups of fusions, where their operands come from, what the program returns."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.hlo.regions import CALL, terminator_of
from hlo2tx8.notes import Decision


@dataclass(frozen=True)
class Input:
    """Argument number `index` of the program."""

    index: int
    kind: Literal["input"] = "input"


@dataclass(frozen=True)
class Constant:
    """A constant of the program too large to be written into functions."""

    op: Operation
    kind: Literal["const"] = "const"


@dataclass(frozen=True)
class Result:
    """Result `index` of group number `group`."""

    group: int
    index: int
    kind: Literal["result"] = "result"


@dataclass(frozen=True)
class Carried:
    """A value that control flow passes on: the result of a loop or branch, or a loop variable inside of its regions."""

    value: SSAValue
    kind: Literal["carried"] = "carried"


Source: TypeAlias = Input | Constant | Result | Carried


@dataclass(frozen=True)
class Group:
    """Fusions whose intermediates stay in SPM together; one fusion for now.

    `operands` are the sources of the fusion's parameters.
    """

    number: int
    fusions: tuple[Operation, ...]
    operands: tuple[Source, ...]
    result_types: tuple[Attribute, ...]

    @property
    def fusion(self) -> Operation:
        """The only fusion."""
        (fusion,) = self.fusions
        return fusion


@dataclass(frozen=True)
class FusedModule:
    """The program after fusion, in order of execution; `decisions` say why."""

    module: ModuleOp
    groups: tuple[Group, ...]
    outputs: tuple[Source, ...]
    decisions: tuple[Decision, ...] = ()

    @property
    def explain(self) -> tuple[str, ...]:
        """A line for each decision that has one."""
        return tuple(filter(None, (decision.line() for decision in self.decisions)))


def describe(module: ModuleOp, decisions: tuple[Decision, ...] = ()) -> FusedModule:
    """The groups of a module whose @main holds fusions, constants and control flow over them."""
    main = next(f for f in module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == "main")
    block = main.body.block
    sources: dict[SSAValue, Source] = {arg: Input(number) for number, arg in enumerate(block.args)}
    groups: list[Group] = []
    _describe(block, sources, groups)
    outputs = tuple(sources[value] for value in terminator_of(block).operands)
    return FusedModule(module, tuple(groups), outputs, decisions)


def _describe(block: Block, sources: dict[SSAValue, Source], groups: list[Group]) -> None:
    for op in block.ops:
        if op.name == "hlo.fusion":
            operands = tuple(sources[value] for value in op.operands)
            group = Group(len(groups), (op,), operands, tuple(op.result_types))
            sources.update({result: Result(group.number, i) for i, result in enumerate(op.results)})
            groups.append(group)
            continue
        for region in () if op.name == "hlo.library" else op.regions:
            sources.update({arg: Carried(arg) for arg in region.block.args})
            _describe(region.block, sources, groups)
        sources.update({result: Carried(result) if op.regions or op.name == CALL else Constant(op) for result in op.results})
