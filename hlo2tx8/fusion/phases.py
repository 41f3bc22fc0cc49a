"""Fusions that read a tensor, make statistics of it and read it again, which may be a group of phases.

    %0 = hlo.fusion "reduce_fusion"(%x)              sums of parts
    %1 = hlo.fusion "divide_fusion"(%0)              the mean
    %2 = hlo.fusion "reduce_fusion.1"(%1, %x)        sums of parts of squares
    %3 = hlo.fusion "add_fusion"(%x, %1, %2)

Each phase needs what all tiles made in the one before, so no step can have all of them; but a tile has the same part of %x in each.
If that fits the scratchpad, %x is loaded once.
"""

from collections.abc import Callable, Iterable, Iterator

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
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
    for value in sorted(_values(block), key=size_bytes, reverse=True):
        phases = _phases(value)
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
    return notes


def _values(block: Block) -> Iterator[SSAValue]:
    """The values that several fusions of a block read."""
    read: dict[SSAValue, int] = {}
    for op in block.ops:
        for value in dict.fromkeys(op.operands) if isinstance(op, FusionOp) else ():
            read[value] = read.get(value, 0) + 1
    return (value for value, count in read.items() if count > 1)


def _phases(value: SSAValue) -> list[FusionOp]:
    """The fusions that read a value or what is made of it, and of which a later reader of the value is made; in order of execution.

    [] if something else lies between them, or one of them computes more than arithmetic and reductions.
    """
    readers = list(dict.fromkeys(use.operation for use in value.uses if isinstance(use.operation, FusionOp)))
    behind = {op for reader in readers for op in _made_of(reader)}
    last = [reader for reader in readers if reader in behind]
    before = {op for reader in last for op in needed_by(reader)}
    first = [reader for reader in readers if reader in before]
    within = {*first, *last, *(op for op in before if op in behind)}
    found = [op for op in within if isinstance(op, FusionOp)]
    if len(found) < len(within) or len(found) > MOST_PHASES or any(op.parent is not found[0].parent for op in found):
        return []
    inside = [inner for op in found for inner in op.body.block.ops if inner is not op.body.block.last_op]
    if not all(has_spec(inner.name) and kind_of(inner) in KINDS for inner in inside):
        return []
    block = found[0].parent_block() if found else None
    return [op for op in block.ops if isinstance(op, FusionOp) and op in within] if block is not None else []


def _made_of(op: Operation) -> set[Operation]:
    """The operations that read what an operation makes, or what those make."""
    return _reached(op, lambda made: (use.operation for value in made.results for use in value.uses))


def needed_by(op: Operation) -> set[Operation]:
    """The operations that an operation is made of."""
    return _reached(op, lambda made: (value.owner for value in made.operands if isinstance(value.owner, Operation)))


def _reached(op: Operation, following: Callable[[Operation], Iterable[Operation]]) -> set[Operation]:
    """The operations that follow an operation, or that follow those."""
    found: set[Operation] = set()
    pending = [op]
    while pending:
        new = set(following(pending.pop())) - found
        found |= new
        pending += new
    return found
