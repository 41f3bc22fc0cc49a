"""The units of a plan: its fusions and groups, and the ops beside them, by the numbers that ops had before the compiler ran."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, GroupOp, origin
from hlo2tx8.hlo.module import find_main
from hlo2tx8.spmd.segments import HostOp, Segment, cut_at_host_ops
from hlo2tx8.vendor.to_tx8be import RETURNS


@dataclass(frozen=True, eq=False)
class PlanUnit:
    """A fusion or group of the plan, or an op beside them: the numbers of the ops in it, and what the operands of a fusion are;
    the slots of inputs and outputs of the program that it is in, by what they are; of a loop or branch the units of its bodies."""

    origin: str
    is_group: bool
    ids: frozenset[str]
    operands: Sequence[Hashable] = ()
    inputs: Mapping[Hashable, int] = field(default_factory=dict[Hashable, int])
    outputs: Mapping[Hashable, int] = field(default_factory=dict[Hashable, int])
    bodies: "Sequence[Sequence[PlanUnit]]" = ()

    @property
    def has_groups(self) -> bool:
        """Is it a group, or are there some in its bodies?"""
        return self.is_group or any(unit.has_groups for body in self.bodies for unit in body)


def all_units(units: Sequence[PlanUnit]) -> Iterator[PlanUnit]:
    """The units and those in their bodies, in the order of the text."""
    for unit in units:
        yield unit
        for body in unit.bodies:
            yield from all_units(body)


def value_key(value: SSAValue) -> Hashable:
    """What a value is: an argument of @main; of a body, by its op and number; or a result of the op of that number."""
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        if parent is None or isinstance(parent, func.FuncOp):
            return value.index
        return (origin(parent), next(n for n, region in enumerate(parent.regions) if region is value.block.parent), value.index)
    op, number = value.owner, cast(OpResult, value).index
    while isinstance(op, FusionOp | GroupOp):
        assert op.body.block.last_op is not None
        value = op.body.block.last_op.operands[number]
        if isinstance(value, BlockArgument):
            return value_key(op.operands[value.index])
        op, number = value.owner, cast(OpResult, value).index
    assert isinstance(op, Operation)
    return (origin(op), number)


@dataclass(frozen=True)
class PlanSegment:
    """A module that is compiled as one, and what its arguments and results are in the whole."""

    module: ModuleOp
    inputs: Sequence[Hashable]
    outputs: Sequence[Hashable]

    def load(self) -> ModuleOp:
        """A copy for the compiler."""
        return self.module.clone()

    def units(self, fused: ModuleOp) -> list[PlanUnit]:
        """The units of its plan."""
        ports = {key: slot for slot, key in enumerate(self.inputs)}, {key: slot for slot, key in enumerate(self.outputs)}
        return [self._unit(op, *ports) for op in find_main(fused).body.block.ops if op.name not in RETURNS]

    def _unit(self, op: Operation, inputs: Mapping[Hashable, int], outputs: Mapping[Hashable, int]) -> PlanUnit:
        is_group = isinstance(op, FusionOp | GroupOp)
        inner = op.walk() if is_group else [op]
        operands = [self.inputs[key] if isinstance(key := value_key(value), int) else key for value in op.operands]
        blocks = [] if is_group else [region.block for region in op.regions]
        bodies = [[self._unit(each, {}, {}) for each in block.ops if each.name not in RETURNS] for block in blocks]
        return PlanUnit(origin(op), is_group, frozenset(filter(None, map(origin, inner))), operands, inputs, outputs, bodies)


def whole_module(module: ModuleOp) -> PlanSegment:
    """A module as one segment."""
    block = find_main(module).body.block
    assert block.last_op is not None
    return PlanSegment(module, range(len(block.args)), [value_key(value) for value in block.last_op.operands])


def cut_module(module: ModuleOp) -> list[PlanSegment | PlanUnit]:
    """The segments and collective ops; nothing, and so no groups, where such ops are in loops or branches."""
    steps = cut_at_host_ops(module).steps
    keys: dict[int, Hashable] = dict(enumerate(range(len(find_main(module).body.block.args))))
    found: list[PlanSegment | PlanUnit] = []
    for step in steps:
        if isinstance(step, HostOp):
            keys.update((number, (origin(step.op), k)) for k, number in enumerate(step.outputs))
            found.append(PlanUnit(origin(step.op), False, frozenset([origin(step.op)])))
        elif isinstance(step, Segment):
            inner = whole_module(step.module)
            keys.update(zip(step.outputs, inner.outputs, strict=True))
            found.append(PlanSegment(step.module, [keys[number] for number in step.inputs], inner.outputs))
        else:
            return []
    return found
