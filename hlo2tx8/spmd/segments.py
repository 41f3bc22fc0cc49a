"""Programs in segments: the device stops between two segments while the host runs a collective op or a Python function.

@main is cut into segments, each a module of its own that every device runs. An op is in the earliest segment that all of its
operands allow, or where it is read first if less is handed on then: the scaled moments of an optimizer wait for the gradients' sum.

    %0 = add %a, %a                     segment: add            inputs a,   outputs 0
    %1 = all_reduce %0            ⟶    host op: all_reduce     inputs 0,   outputs 1
    %2 = multiply %1, %a                segment: multiply       inputs 1 a, outputs 2

A loop or conditional with a host op inside is driven by the host, and its regions are cut into segments in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.hlo.host_ops import DEVICE_IDS, FEEDS, HOST_OPS
from hlo2tx8.hlo.module import find_main, module_name
from hlo2tx8.hlo.regions import CONTROL, captured, terminator_of
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.hlo.trip_count import trip_count
from hlo2tx8.spmd.host_functions import HOST_CALL_TARGET
from hlo2tx8.spmd.tile_assignment import RESHARD_TARGET

_REMATERIALIZED = ("stablehlo.constant", "stablehlo.iota", "stablehlo.create_token")
"""Ops that are repeated in each segment that reads them, instead of handing on their result; so are broadcasts of it."""
_BROADCAST = "stablehlo.broadcast_in_dim"

DEEPEST = 8
"""Ops in front of one that are looked at for what it is made of."""


@dataclass(frozen=True)
class Segment:
    """A module that every device runs; `inputs` and `outputs` number the values it reads and defines."""

    module: ModuleOp
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class HostOp:
    """An op that the host does for all devices at once: a collective op, a reshard or a call of a Python function."""

    op: Operation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class HostLoop:
    """A while loop that the host drives.

    `inputs` are the initial state, then what the regions read from outside; both regions' values 0, 1, ... are these.
    `trip_count` is how often the body runs; None if data decide, or if the condition has host ops of its own.
    """

    condition: "SegmentedRegion"
    body: "SegmentedRegion"
    trip_count: int | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class HostConditional:
    """An `if` or `case` that the host drives: input 0 is the number of the region that runs, the last one if out of range.

    The other inputs are the regions' values 0, 1, .... The regions of an `if` are in the order false, true.
    """

    regions: tuple["SegmentedRegion", ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


HostStep = Segment | HostOp | HostLoop | HostConditional


@dataclass(frozen=True)
class SegmentedRegion:
    """@main or a region as steps in order; its inputs are values 0, 1, ..., `results` number the values it returns."""

    steps: tuple[HostStep, ...]
    results: tuple[int, ...]


def is_host_op(op: Operation) -> bool:
    """Does the host do the op, or something inside of it?"""
    if op.name == "stablehlo.custom_call":
        return decode_attributes(op).get("call_target_name") in (HOST_CALL_TARGET, RESHARD_TARGET)
    return op.name in HOST_OPS or (op.name in CONTROL and any(map(is_host_op, _inner(op))))


def segment_program(module: ModuleOp) -> SegmentedRegion | None:
    """@main in segments; None if it has no host op and so is one program."""
    return cut_at_host_ops(module) if any(map(is_host_op, find_main(module).body.block.ops)) else None


def cut_at_host_ops(module: ModuleOp) -> SegmentedRegion:
    """@main in segments; one if it has no host op."""
    return _Segmenter(module, find_main(module).body.block, ()).segment_region()


@dataclass
class _Stage:
    """The ops of one segment, the host ops that follow it, and the values of the segment that are read outside of it."""

    ops: list[Operation] = field(default_factory=list[Operation])
    host_ops: list[Operation] = field(default_factory=list[Operation])
    exported: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])


class _Segmenter:
    """Cuts one block into segments; `captured_values` are those that it reads from outside of it, but constants."""

    def __init__(self, module: ModuleOp, block: Block, captured_values: Sequence[SSAValue]) -> None:
        self.module = module
        self.block = block
        self.inputs = dict.fromkeys((*block.args, *captured_values))
        self.numbers: dict[SSAValue, int] = {}
        self.stage_of: dict[SSAValue, int] = {}
        self.stages: list[_Stage] = [_Stage()]
        self.placed: dict[Operation, int] = {}

    def segment_region(self) -> SegmentedRegion:
        for value in self.inputs:
            self.number(value)
            self.stage_of[value] = 0
        device_ids: list[Operation] = []
        ordered = 0
        last = terminator_of(self.block)
        for op in self.block.ops:
            if op is last or _repeated(op):
                continue
            stage = max((self.stage_of[v] for v in _reads(op) if v in self.stage_of), default=0)
            following = 0
            if op.name in DEVICE_IDS:
                device_ids.append(op)
            elif is_host_op(op):
                stage = ordered = max(stage, ordered) if _has_effect(op) else stage
                self.stage(stage).host_ops.append(op)
                following = 1
            self.placed[op] = stage
            self.stage_of.update(dict.fromkeys(op.results, stage + following))
        self.sink(device_ids)
        self.export(last.operands)
        steps: list[HostStep] = [self.host_op(op) for op in device_ids]
        for number, stage in enumerate(self.stages):
            for op in stage.ops:
                self.export(_reads(op), number)
            for op in stage.host_ops:
                self.export(_read_by_host(op))
        for stage in self.stages:
            segment = self.stage_module(stage)
            steps += [segment] if segment is not None else []
            steps += [self.host_step(op) for op in stage.host_ops]
        return SegmentedRegion(tuple(steps), tuple(self.number(v) for v in last.operands))

    def sink(self, device_ids: Sequence[Operation]) -> None:
        """Moves ops to the stage that reads them first, the last ops first, and puts all of them into their stages."""
        for op, own in reversed(self.placed.items()):
            if is_host_op(op) or op in device_ids:
                continue
            readers = {self.placed.get(_in_block(use.operation, self.block)) for value in op.results for use in value.uses}
            first = min((stage for stage in readers if stage is not None), default=own)
            handed_on = sum(self.handed_on(value) for value in _reads(op))
            if first > own and handed_on < sum(map(_num_bytes, op.results)):
                self.placed[op] = first
                self.stage_of.update(dict.fromkeys(op.results, first))
        for op, stage in self.placed.items():
            if not is_host_op(op) and op not in device_ids:
                self.stage(stage).ops.append(op)

    def handed_on(self, value: SSAValue, depth: int = 0) -> int:
        """Bytes that a later stage needs from this one to read a value: those of what it is made of, if nobody else reads it."""
        owner = value.owner
        if value in self.inputs or isinstance(owner, Block) or is_host_op(owner) or _repeated(owner):
            return 0
        is_alone = value.has_one_use() or all(_is_rematerialized(read) for read in owner.operands)
        if depth == DEEPEST or owner.regions or not is_alone:
            return _num_bytes(value)
        return min(_num_bytes(value), sum(self.handed_on(read, depth + 1) for read in owner.operands))

    def number(self, value: SSAValue) -> int:
        """The number of a value; a new one for a new value."""
        return self.numbers.setdefault(value, len(self.numbers))

    def stage(self, number: int) -> _Stage:
        """Stage `number`, which is created together with those before it."""
        while len(self.stages) <= number:
            self.stages.append(_Stage())
        return self.stages[number]

    def export(self, values: Sequence[SSAValue], reader: int | None = None) -> None:
        """Notes which values leave the stage that defines them, read by an op of stage `reader`, or by the host if that is None."""
        for value in values:
            owner = value.owner
            if value in self.inputs or isinstance(owner, Block) or is_host_op(owner):
                continue
            if _repeated(owner):
                if reader is None:
                    self.stages[0].exported[value] = None
            elif reader is None or self.stage_of[value] != reader:
                self.stages[self.stage_of[value]].exported[value] = None

    def host_op(self, op: Operation) -> HostOp:
        return HostOp(op, tuple(self.number(v) for v in op.operands), tuple(self.number(v) for v in op.results))

    def host_step(self, op: Operation) -> HostStep:
        """The step for an op that the host does or drives."""
        if op.name not in CONTROL:
            return self.host_op(op)
        outer = _captured(op)
        inputs = tuple(self.number(v) for v in (*op.operands, *outer))
        outputs = tuple(self.number(v) for v in op.results)
        if op.name == "stablehlo.while":
            condition, body = (_Segmenter(self.module, region.block, outer).segment_region() for region in op.regions)
            is_plain = not any(map(is_host_op, op.regions[0].block.ops))
            return HostLoop(condition, body, trip_count(op) if is_plain else None, inputs, outputs)
        ordered = op.regions[::-1] if op.name == "stablehlo.if" else op.regions
        regions = tuple(_Segmenter(self.module, region.block, outer).segment_region() for region in ordered)
        return HostConditional(regions, inputs, outputs)

    def stage_module(self, stage: _Stage) -> Segment | None:
        """The segment with the stage's ops; None if none of its values is read."""
        if not stage.exported:
            return None
        own = {result for op in stage.ops for result in op.results}
        read = dict.fromkeys(v for op in stage.ops for v in _reads(op) if v not in own)
        rematerialized = dict.fromkeys(op for v in chain(read, stage.exported) for op in _repeated(v.owner))
        given = [v for v in read if not _is_rematerialized(v)]
        body = Block(arg_types=[v.type for v in given])
        mapping: dict[SSAValue, SSAValue] = dict(zip(given, body.args, strict=True))
        for op in chain(rematerialized, stage.ops):
            body.add_op(op.clone(mapping))
        body.add_op(ReturnOp(*(mapping[v] for v in stage.exported)))
        types = [v.type for v in given], [v.type for v in stage.exported]
        main = FuncOp("main", types, Region(body))
        others = [f.clone() for f in self.module.body.block.ops if f is not find_main(self.module)]
        module = ModuleOp([main, *others], sym_name=StringAttr(module_name(self.module)))
        return Segment(module, tuple(map(self.number, given)), tuple(map(self.number, stage.exported)))


def _is_rematerialized(value: SSAValue) -> bool:
    return bool(_repeated(value.owner))


def _repeated(owner: Operation | Block) -> list[Operation]:
    """What is repeated in each segment that reads an op's result: itself, behind the constant that it is a broadcast of; [] if
    the result is handed on."""
    if isinstance(owner, Block):
        return []
    if owner.name == _BROADCAST:
        before = _repeated(owner.operands[0].owner)
        return [*before, owner] if before else []
    return [owner] if owner.name in _REMATERIALIZED else []


def _reads(op: Operation) -> list[SSAValue]:
    return [*op.operands, *captured(op)] if op.regions else list(op.operands)


def _captured(op: Operation) -> list[SSAValue]:
    """The values that the op's regions read from outside of it, but constants."""
    return [value for value in captured(op) if not _is_rematerialized(value)]


def _read_by_host(op: Operation) -> list[SSAValue]:
    """The values that a host op reads."""
    return [*op.operands, *_captured(op)] if op.name in CONTROL else list(op.operands)


def _in_block(op: Operation, block: Block) -> Operation:
    """The op itself, or the one of the block that it is in."""
    while op.parent is not block and (outer := op.parent_op()) is not None:
        op = outer
    return op


def _num_bytes(value: SSAValue) -> int:
    """Of a tensor; none of what is no array."""
    return port_of(value.type).size_bytes if value.type.name == TensorType.name else 0


def _inner(op: Operation) -> list[Operation]:
    """The ops directly in the op's regions."""
    return [inner for region in op.regions for block in region.blocks for inner in block.ops]


def _has_effect(op: Operation) -> bool:
    if op.name in CONTROL:
        return any(map(_has_effect, _inner(op)))
    return op.name in FEEDS or (op.name == "stablehlo.custom_call" and bool(decode_attributes(op).get("has_side_effect")))
