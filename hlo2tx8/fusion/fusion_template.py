"""Fusion by a template: five questions about instructions say which of them become one fusion.

candidate   may the instruction be in a fusion at all?
start       may a fusion be around it? Every fusion has one for which that holds.
trigger     does it join fusions of what it reads?
together    may these two sets of instructions, of which the second reads the first, be one?
valid       is the set a fusion as a whole?

    %0 = dot %x, %w            starts                         %0 = hlo.fusion "matmul_epilogue_fusion"(%x, %w, %b) {
    %1 = broadcast %b          costs nothing: a copy            the four instructions }
    %2 = add %0, %1            joins what it reads      ⟶
    %3 = maximum %2, %zero     joins what it reads

What a template does not take is left to plan-fusions, which keeps the fusions that are there. It weighs no cycles.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.fusion.build_fusions import number_name, put_fusions
from hlo2tx8.fusion.candidate import MAX_INSTRUCTIONS, FusionCandidate
from hlo2tx8.partitioner.instruction import is_free, is_splat_constant

Question: TypeAlias = Callable[[Operation], bool]
Members: TypeAlias = Collection[Operation]


@dataclass(frozen=True)
class FusionTemplate:
    """What becomes a fusion; `name` is the tag of the functions made of them. `valid_alone` is what `valid` is for one instruction,
    which becomes a fusion if that is asked for, or the template `is_of_one` instruction always."""

    name: str
    candidate: Question
    start: Question
    trigger: Question
    together: Callable[[Members, Members], bool]
    valid_alone: Question
    valid: Callable[[Members], bool]
    is_of_one: bool = False


def fuse_block(block: Block, template: FusionTemplate, *, single: bool, taken: dict[str, int]) -> list[FusionOp]:
    """Put what the template takes of a block into fusions, each in the place of its last instruction; these. `single`: also
    instructions alone. `taken` counts the names that were given."""
    found = [found for found in _merged(block, template) if _is_wanted(found, template, single)]
    for candidate in found:
        _add_free(candidate, template)
        inside = candidate.members
        read = (v for op in inside for v in op.results if any(_user(use.operation, block) not in inside for use in v.uses))
        candidate.outputs = dict.fromkeys(v for v in read if not _is_copied(v.owner))
    found = [candidate for candidate in found if candidate.outputs]
    moved = {op for candidate in found for op in candidate.members if not _is_copied(op)}
    readers = [inner for op in block.ops if op not in moved for inner in op.walk()]

    def name(root: Operation, members: Sequence[Operation]) -> str:
        return number_name(f"{template.name}_fusion", taken)

    fusions = put_fusions(block, found, name, readers)
    for op in reversed(ops_of(block)):
        if (op in moved or _is_copied(op)) and all(result.first_use is None for result in op.results):
            op.detach()
            op.erase()
    return fusions


def _merged(block: Block, template: FusionTemplate) -> list[FusionCandidate]:
    """The sets that instructions form with what they read, in program order of their last ones."""
    nodes = {op: FusionCandidate(op, True, number, number, {op: None}) for number, op in enumerate(block.ops)}
    for op, node in nodes.items():
        users = (_user(use.operation, block) for result in op.results for use in result.uses)
        node.readers = {nodes[user]: None for user in users}
    joining = {op: None for op in nodes if template.candidate(op) and not _is_copied(op)}
    for op in joining:
        for operand in op.operands if template.trigger(op) else ():
            if isinstance(operand.owner, Operation) and operand.owner in joining:
                first, second = nodes[operand.owner].find(), nodes[op].find()
                if first is not second and _may_merge(first, second, template):
                    second.absorb(first)
    return sorted({nodes[op].find(): None for op in joining}, key=lambda candidate: candidate.last)


def _may_merge(first: FusionCandidate, second: FusionCandidate, template: FusionTemplate) -> bool:
    """May two be one? Not if what reads the first is read by the second, but in neither."""
    if len(first.members) + len(second.members) > MAX_INSTRUCTIONS or not template.together(first.members, second.members):
        return False
    between = [node for reader in first.readers if (node := reader.find()) not in (first, second)]
    return not any(node.reaches(second) for node in between)


def _is_wanted(found: FusionCandidate, template: FusionTemplate, single: bool) -> bool:
    if not any(map(template.start, found.members)):
        return False
    if len(found.members) > 1:
        return template.valid(found.members)
    return (single or template.is_of_one) and template.valid_alone(found.root)


def _add_free(candidate: FusionCandidate, template: FusionTemplate) -> None:
    """Copies of constants and broadcasts that the instructions read, and of what these read."""
    waiting: list[SSAValue] = [value for op in candidate.members for value in op.operands]
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Operation) and _is_copied(owner) and owner not in candidate.members and template.candidate(owner):
            candidate.members[owner] = None
            waiting += owner.operands


def _is_copied(op: object) -> bool:
    """Does every fusion that reads it have its own?"""
    return isinstance(op, Operation) and (is_splat_constant(op) or is_free(op))


def _user(op: Operation, block: Block) -> Operation:
    """The op of the block in which an op is."""
    while op.parent is not block:
        around = op.parent_op()
        assert around is not None
        op = around
    return op
