"""Programs that the chip interrupts: for host functions and for exchanges between chips.

@main is cut into segments, each a program of its own that every device runs; between segments the host calls and collective
operations take place. An operation is in the earliest segment that all it reads allows:

    %0 = add %a, %a                     segment: add            inputs a,   outputs 0
    %1 = all_reduce %0            ⟶    exchange: all_reduce    inputs 0,   outputs 1
    %2 = multiply %1, %a                segment: multiply       inputs 1 a, outputs 2

A loop or branch with such an operation inside is a step of its own: the host decides, and its regions are cut in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.hlo.module import find_main, module_name
from hlo2tx8.hlo.regions import CONTROL, captured, terminator_of
from hlo2tx8.hlo.trip_count import trip_count
from hlo2tx8.spmd.collectives import COLLECTIVES, IDENTITIES
from hlo2tx8.spmd.host_functions import TARGET
from hlo2tx8.spmd.tile_assignment import MOVE

_ANYWHERE = ("stablehlo.constant", "stablehlo.iota", "stablehlo.create_token")


@dataclass(frozen=True)
class Segment:
    """A module that every device runs; `inputs` and `outputs` are numbers of values."""

    module: ModuleOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Exchange:
    """An operation on the values of all devices."""

    op: Operation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """`inputs` are the state and what the regions read from outside; `turns` is how often the body runs, None if data decide,
    or the condition has interruptions of its own.

    Inputs 0, 1, ... of the regions are the loop's inputs.
    """

    condition: "Split"
    body: "Split"
    turns: int | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Branch:
    """The region that a number picks, out of range the last; the first input is the number, the others are the regions' inputs.

    The number of an `if` is 1 for its first region, and 0 for its second: they are here in that order, 0 and 1.
    """

    regions: tuple["Split", ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


Step = Segment | Exchange | Loop | Branch


@dataclass(frozen=True)
class Split:
    """@main or a region as steps in order; its inputs are values 0, 1, ..."""

    steps: tuple[Step, ...]
    results: tuple[int, ...]


def is_interruption(op: Operation) -> bool:
    """Is the op done between two programs?"""
    if op.name == "stablehlo.custom_call":
        return decode_attributes(op).get("call_target_name") in (TARGET, MOVE)
    return op.name in (*COLLECTIVES, *IDENTITIES) or (op.name in CONTROL and any(map(is_interruption, _inner(op))))


def split(module: ModuleOp) -> Split | None:
    """@main in steps; None if it runs without interruption."""
    block = find_main(module).body.block
    if not any(is_interruption(op) for op in block.ops):
        return None
    return _Splitter(module, block, ()).split()


@dataclass
class _Stage:
    """Ops for the device, the interruptions that follow, and values of this stage that are read elsewhere."""

    ops: list[Operation] = field(default_factory=list[Operation])
    interruptions: list[Operation] = field(default_factory=list[Operation])
    exported: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])


class _Splitter:
    """Cuts one block; `outer` are the values it reads from outside of it, but constants."""

    def __init__(self, module: ModuleOp, block: Block, outer: Sequence[SSAValue]) -> None:
        self.module = module
        self.block = block
        self.given = dict.fromkeys((*block.args, *outer))
        self.numbers: dict[SSAValue, int] = {}
        self.stage_of: dict[SSAValue, int] = {}
        self.stages: list[_Stage] = [_Stage()]

    def split(self) -> Split:
        for value in self.given:
            self.number(value)
            self.stage_of[value] = 0
        identities: list[Operation] = []
        ordered = 0
        last = terminator_of(self.block)
        for op in self.block.ops:
            if op is last or op.name in _ANYWHERE:
                continue
            stage = max((self.stage_of[v] for v in _reads(op) if v in self.stage_of), default=0)
            following = 0
            if op.name in IDENTITIES:
                identities.append(op)
            elif is_interruption(op):
                stage = ordered = max(stage, ordered) if _has_effect(op) else stage
                self.stage(stage).interruptions.append(op)
                following = 1
            else:
                self.stage(stage).ops.append(op)
            self.stage_of.update(dict.fromkeys(op.results, stage + following))
        self.export(last.operands)
        steps: list[Step] = [self.exchange(op) for op in identities]
        for number, stage in enumerate(self.stages):
            for op in stage.ops:
                self.export(_reads(op), number)
            for op in stage.interruptions:
                self.export(_needed(op))
        for stage in self.stages:
            segment = self.segment(stage)
            steps += [segment] if segment is not None else []
            steps += [self.interruption(op) for op in stage.interruptions]
        return Split(tuple(steps), tuple(self.number(v) for v in last.operands))

    def number(self, value: SSAValue) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def stage(self, number: int) -> _Stage:
        while len(self.stages) <= number:
            self.stages.append(_Stage())
        return self.stages[number]

    def export(self, values: Sequence[SSAValue], reader: int | None = None) -> None:
        """Notes the values that leave the stage that computes them: for an op of the reader's stage, or for the host."""
        for value in values:
            owner = value.owner
            if value in self.given or isinstance(owner, Block) or is_interruption(owner):
                continue
            if owner.name in _ANYWHERE:
                if reader is None:
                    self.stages[0].exported[value] = None
            elif reader is None or self.stage_of[value] != reader:
                self.stages[self.stage_of[value]].exported[value] = None

    def exchange(self, op: Operation) -> Exchange:
        return Exchange(op, tuple(self.number(v) for v in op.operands), tuple(self.number(v) for v in op.results))

    def interruption(self, op: Operation) -> Step:
        """The step of an op that is done between programs."""
        if op.name not in CONTROL:
            return self.exchange(op)
        outer = _outer(op)
        inputs = tuple(self.number(v) for v in (*op.operands, *outer))
        outputs = tuple(self.number(v) for v in op.results)
        if op.name == "stablehlo.while":
            condition, body = (_Splitter(self.module, region.block, outer).split() for region in op.regions)
            is_plain = not any(map(is_interruption, op.regions[0].block.ops))
            return Loop(condition, body, trip_count(op) if is_plain else None, inputs, outputs)
        regions = op.regions[::-1] if op.name == "stablehlo.if" else op.regions
        return Branch(tuple(_Splitter(self.module, region.block, outer).split() for region in regions), inputs, outputs)

    def segment(self, stage: _Stage) -> Segment | None:
        """The stage's ops as a module; None if nobody needs anything of it."""
        if not stage.exported:
            return None
        own = {result for op in stage.ops for result in op.results}
        read = dict.fromkeys(v for op in stage.ops for v in _reads(op) if v not in own)
        anywhere = dict.fromkeys(v.owner for v in chain(read, stage.exported) if _is_anywhere(v))
        given = [v for v in read if not _is_anywhere(v)]
        body = Block(arg_types=[v.type for v in given])
        mapping: dict[SSAValue, SSAValue] = dict(zip(given, body.args, strict=True))
        for op in chain(anywhere, stage.ops):
            assert isinstance(op, Operation)
            body.add_op(op.clone(mapping))
        body.add_op(ReturnOp(*(mapping[v] for v in stage.exported)))
        types = [v.type for v in given], [v.type for v in stage.exported]
        main = FuncOp("main", types, Region(body))
        others = [f.clone() for f in self.module.body.block.ops if f is not find_main(self.module)]
        module = ModuleOp([main, *others], sym_name=StringAttr(module_name(self.module)))
        return Segment(module, tuple(map(self.number, given)), tuple(map(self.number, stage.exported)))


def _is_anywhere(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name in _ANYWHERE


def _reads(op: Operation) -> list[SSAValue]:
    return [*op.operands, *captured(op)] if op.regions else list(op.operands)


def _outer(op: Operation) -> list[SSAValue]:
    """What the op's regions read from outside of it, but constants."""
    return [value for value in captured(op) if not _is_anywhere(value)]


def _needed(op: Operation) -> list[SSAValue]:
    """What an interruption reads."""
    return [*op.operands, *_outer(op)] if op.name in CONTROL else list(op.operands)


def _inner(op: Operation) -> list[Operation]:
    """The ops of the op's regions, but those of their regions."""
    return [inner for region in op.regions for block in region.blocks for inner in block.ops]


def _has_effect(op: Operation) -> bool:
    if op.name in CONTROL:
        return any(map(_has_effect, _inner(op)))
    return op.name == "stablehlo.custom_call" and bool(decode_attributes(op).get("has_side_effect"))
