"""Fusions that read a tensor, make statistics of it and read it again, which may be a group of phases.

    %0 = hlo.fusion "reduce_fusion"(%x)              sums of parts
    %1 = hlo.fusion "divide_fusion"(%0)              the mean
    %2 = hlo.fusion "reduce_fusion.1"(%1, %x)        sums of parts of squares
    %3 = hlo.fusion "add_fusion"(%x, %1, %2)

Each phase needs what all tiles made in the one before, so no step can have all of them; but a tile has the same part of %x in each.
If that fits the scratchpad, %x is loaded once.
"""

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.fusion.build_group import build_group, name_of_fusion
from hlo2tx8.hlo import Kind, has_spec
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.instruction import kind_of
from hlo2tx8.schedule.costs import Costs, size_bytes
from hlo2tx8.schedule.work_split import Target

KINDS = (Kind.ELEMENTWISE, Kind.PER_CHANNEL, Kind.REDUCE, Kind.SHAPING, Kind.CONSTANT)
"""What phases compute."""
MOST_PHASES = 16


def group_phases(block: Block, target: Target) -> list[str]:
    """Puts fusions of a block into groups of phases where that saves cycles; a line about each."""
    notes: list[str] = []
    taken: set[Operation] = set()
    paths = _Paths(block)
    for value in sorted(_values(block), key=size_bytes, reverse=True):
        phases = paths.phases(value)
        if len(phases) < 2 or not taken.isdisjoint(phases):
            continue
        share, saved = size_bytes(value) / target.rates.tiles, Costs(target.rates).transfer(value)
        names = tuple(Name(name_of_fusion(phase)) for phase in phases)
        shared = f"phases that share {share:.0f} bytes a tile"
        if share > target.rates.kept_bytes:
            why = f"{shared}, that is more than the {target.rates.kept_bytes} bytes that may stay in SPM"
            notes.append(Decision(What.NO_GROUP, names, why=why).line())
        elif saved > target.rates.kernel * len(phases):
            readers = sum(value in phase.operands for phase in phases)
            saved *= readers - 1
            why = f"{shared}: a group of phases, saves {saved:.0f} cycles"
            notes.append(Decision(What.GROUP, names, why=why, saved=saved).line())
            taken.update(phases)
            build_group(phases, {"phases": UnitAttr()})
            paths = _Paths(block)
    return notes


def _values(block: Block) -> Iterator[SSAValue]:
    """The values that several fusions of a block read."""
    read: dict[SSAValue, int] = {}
    for op in block.ops:
        for value in dict.fromkeys(op.operands) if isinstance(op, FusionOp) else ():
            read[value] = read.get(value, 0) + 1
    return (value for value, count in read.items() if count > 1)


class _Paths:
    """Which operations of a block are made of which: sets of them are integers, with a bit for each by its number in the block."""

    def __init__(self, block: Block) -> None:
        self.ops = ops_of(block)
        self.number = {op: number for number, op in enumerate(self.ops)}
        readers = [{self._number(block, use.operation) for value in op.results for use in value.uses} for op in self.ops]
        self.behind = [0] * len(self.ops)
        self.before = [0] * len(self.ops)
        for number in reversed(range(len(self.ops))):
            for reader in readers[number]:
                self.behind[number] |= self.behind[reader] | 1 << reader
        for number in range(len(self.ops)):
            for reader in readers[number]:
                self.before[reader] |= self.before[number] | 1 << number

    def phases(self, value: SSAValue) -> list[FusionOp]:
        """The fusions that read a value or what is made of it, and of which a later reader of the value is made; in order of
        execution. [] if something else lies between them, or one of them computes more than arithmetic and reductions."""
        users = [use.operation for use in value.uses if isinstance(use.operation, FusionOp)]
        fusions = [self.number[user] for user in users if user in self.number]
        behind = _union(self.behind[number] for number in fusions)
        readers = _union(1 << number for number in fusions)
        last = readers & behind
        before = _union(self.before[number] for number in self._in(last))
        within = readers & before | last | before & behind
        if within.bit_count() > MOST_PHASES:
            return []
        found = [self.ops[number] for number in self._in(within)]
        phases = [op for op in found if isinstance(op, FusionOp)]
        inside = [inner for op in phases for inner in op.body.block.ops if inner is not op.body.block.last_op]
        is_plain = all(has_spec(inner.name) and kind_of(inner) in KINDS for inner in inside)
        return phases if is_plain and len(phases) == len(found) else []

    def _number(self, block: Block, op: Operation) -> int:
        """Of an operation of the block, or of that in whose regions one is."""
        own = block.find_ancestor_op_in_block(op)
        assert own is not None
        return self.number[own]

    def _in(self, numbers: int) -> Iterator[int]:
        """The numbers in a set, in order."""
        return (number for number in range(numbers.bit_length()) if numbers >> number & 1)


def _union(sets: Iterable[int]) -> int:
    found = 0
    for own in sets:
        found |= own
    return found


def needed_by(op: Operation) -> set[Operation]:
    """The operations that an operation is made of."""
    found: set[Operation] = set()
    pending = [op]
    while pending:
        new = {value.owner for value in pending.pop().operands if isinstance(value.owner, Operation)} - found
        found |= new
        pending += new
    return found
