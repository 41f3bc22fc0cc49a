"""Programs that the chip interrupts: for host functions and for exchanges between chips.

@main is cut into segments, each a program of its own that every device runs; between segments the host calls and collective
operations take place. An operation is in the earliest segment that all it reads allows:

    %0 = add %a, %a                     segment: add            inputs a,   outputs 0
    %1 = all_reduce %0            ⟶    exchange: all_reduce    inputs 0,   outputs 1
    %2 = multiply %1, %a                segment: multiply       inputs 1 a, outputs 2

Only operations of @main itself can be cut at; those inside of loops and branches stay and are refused by the compiler.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.device.emulator import Progress
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.hlo.regions import captured
from hlo2tx8.module import find_main, module_name
from hlo2tx8.pjrt.collectives import COLLECTIVES, IDENTITIES, Rows
from hlo2tx8.pjrt.host_calls import TARGET
from hlo2tx8.pjrt.places import MOVE

Array = npt.NDArray[Any]
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
class Split:
    """@main as steps in order; its inputs are values 0, 1, ..."""

    steps: tuple[Segment | Exchange, ...]
    results: tuple[int, ...]


def is_interruption(op: Operation) -> bool:
    """Is the op done between two programs?"""
    if op.name == "stablehlo.custom_call":
        return decode_attributes(op).get("call_target_name") in (TARGET, MOVE)
    return op.name in (*COLLECTIVES, *IDENTITIES)


def split(module: ModuleOp) -> Split | None:
    """@main in steps; None if it runs without interruption."""
    block = find_main(module).body.block
    if not any(is_interruption(op) for op in block.ops):
        return None
    return _Splitter(module, block).split()


@dataclass
class _Stage:
    """Ops for the device, the interruptions that follow, and values of this stage that are read elsewhere."""

    ops: list[Operation] = field(default_factory=list[Operation])
    interruptions: list[Operation] = field(default_factory=list[Operation])
    exported: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])


class _Splitter:
    def __init__(self, module: ModuleOp, block: Block) -> None:
        self.module = module
        self.block = block
        self.numbers: dict[SSAValue, int] = {}
        self.stage_of: dict[SSAValue, int] = {}
        self.stages: list[_Stage] = [_Stage()]

    def split(self) -> Split:
        for argument in self.block.args:
            self.number(argument)
            self.stage_of[argument] = 0
        identities: list[Operation] = []
        ordered = 0
        for op in self.block.ops:
            if isinstance(op, ReturnOp) or op.name in _ANYWHERE:
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
        last = self.block.last_op
        assert last is not None
        self.export(last.operands)
        steps: list[Segment | Exchange] = [self.exchange(op) for op in identities]
        for number, stage in enumerate(self.stages):
            for op in stage.ops:
                self.export(_reads(op), number)
            for op in stage.interruptions:
                self.export(op.operands)
        for stage in self.stages:
            segment = self.segment(stage)
            steps += [segment] if segment is not None else []
            steps += [self.exchange(op) for op in stage.interruptions]
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
            if isinstance(owner, Block) or is_interruption(owner):
                continue
            if owner.name in _ANYWHERE:
                if reader is None:
                    self.stages[0].exported[value] = None
            elif reader is None or self.stage_of[value] != reader:
                self.stages[self.stage_of[value]].exported[value] = None

    def exchange(self, op: Operation) -> Exchange:
        return Exchange(op, tuple(self.number(v) for v in op.operands), tuple(self.number(v) for v in op.results))

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


def _has_effect(op: Operation) -> bool:
    return op.name == "stablehlo.custom_call" and bool(decode_attributes(op).get("has_side_effect"))


def run_steps(
    steps: Sequence[tuple[Callable[[Rows, Progress | None], Rows], tuple[int, ...], tuple[int, ...]]],
    results: Sequence[int],
    inputs: Rows,
    progress: Progress | None,
) -> Rows:
    """The results on every device; each step is what it does, and the numbers of the values it reads and gives."""
    values: list[dict[int, Array]] = [dict(enumerate(row)) for row in inputs]
    for run, read, given in steps:
        found = run([[row[i] for i in read] for row in values], progress)
        for row, arrays in zip(values, found, strict=True):
            row.update(zip(given, map(_contiguous, arrays), strict=True))
    return [[row[i] for i in results] for row in values]


def _contiguous(value: Array) -> Array:
    """The same array where that will do: devices that share one do the same work."""
    array = np.asarray(value)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
