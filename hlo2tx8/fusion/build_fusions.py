"""Turns candidates of instructions into `hlo.fusion` ops, and puts constants where they belong."""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeAlias

from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.nested import cloned, nested_ops, ops_of
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.fusion.candidate import FusionCandidate, is_kept
from hlo2tx8.fusion.recognize import recognized
from hlo2tx8.hlo.regions import CALL, CONTROL, UPDATE, inline_region, put_in_order, terminator_of
from hlo2tx8.ir import append
from hlo2tx8.partitioner.instruction import CONSTANTS, is_read_as_a_whole, is_splat_constant, shape_of

SMALL_ELEMENTS = 4096
"""Constants up to this size lie in the program's constants; larger ones are cheaper to compute."""
FusionName: TypeAlias = Callable[[Operation, Sequence[Operation]], str]
"""What a fusion is called, by its root and its instructions."""


def build_fusions(block: Block, candidates: Sequence[FusionCandidate], taken: dict[str, int]) -> list[FusionOp]:
    """Move or copy the instructions of each candidate into an `hlo.fusion` where its root stood, and drop instructions that nobody
    reads; the fusion of each.

    `taken` counts how often each fusion name was given, in this block and others.
    """
    joined = {op for candidate in candidates for op in candidate.members}
    kept = [op for op in block.ops if is_kept(op) and op not in joined]

    def name(root: Operation, members: Sequence[Operation]) -> str:
        return number_name(f"{recognized(members) or root.name.rpartition('.')[2]}_fusion", taken)

    built = put_fusions(block, candidates, name, [inner for op in kept for inner in nested_ops(op)])
    terminator = terminator_of(block)
    if terminator.name == "func.return":
        copy_outputs(terminator, taken)
    write_large_constants(block, taken)
    for op in reversed(ops_of(block)):
        if (not is_kept(op) or op in joined) and all(result.first_use is None for result in op.results):
            op.detach()
            op.erase()
    return built


def put_fusions(
    block: Block, candidates: Sequence[FusionCandidate], name: FusionName, readers: Iterable[Operation]
) -> list[FusionOp]:
    """Put copies of the instructions of each candidate into an `hlo.fusion` where its root stands; `readers` read those then."""
    position = {op: number for number, op in enumerate(block.ops)}
    made: dict[SSAValue, SSAValue] = {}
    built: list[FusionOp] = []
    for candidate in candidates:
        members = sorted(candidate.members, key=position.__getitem__)
        fusion = build_fusion(candidate, members, name(candidate.root, members))
        block.insert_op_before(fusion, candidate.root)
        built.append(fusion)
        for old, new in zip(candidate.outputs, fusion.results, strict=True):
            new.name_hint = old.name_hint
            made[old] = new
    for reader in (*readers, *built):
        reader.operands = [made.get(value, value) for value in reader.operands]
    put_in_order(block)
    return built


def build_fusion(candidate: FusionCandidate, members: Sequence[Operation], name: str) -> FusionOp:
    """The fusion of a candidate: copies of its instructions, parameters for everything else they read.

    A tensor that must be in memory is a parameter even if a copy of its instruction is inside for others.
    """
    body = Block()
    operands: dict[SSAValue, SSAValue] = {}
    copies: dict[SSAValue, SSAValue] = {}
    inside = {result: None for op in members for result in op.results}
    for op in members:
        for number, operand in enumerate(op.operands):
            if (operand not in inside or _is_in_memory(op, number)) and operand not in operands:
                operands[operand] = body.insert_arg(operand.type, len(body.args))
                operands[operand].name_hint = operand.name_hint
    copies.update(operands)
    for op in members:
        copy = cloned(op, copies)
        for number, operand in enumerate(op.operands):
            if _is_in_memory(op, number):
                copy.operands[number] = operands[operand]
        append(body, copy)
    roots = [copies[result] for result in candidate.outputs]
    body.add_op(ReturnOp(roots))
    for inner in [op for op in body.ops if isinstance(op, FusionOp)]:
        inline_region(inner, inner.body.block, list(inner.operands))
    loc = {key: value for key, value in candidate.root.attributes.items() if key == "loc"}
    fusion = FusionOp(list(operands), [result.type for result in candidate.outputs], "kLoop", Region(body), name)
    fusion.attributes.update(loc)
    return fusion


def _is_in_memory(op: Operation, number: int) -> bool:
    """Is the operand read at places that data decide, and no constant whose elements are all equal?"""
    owner = op.operands[number].owner
    return is_read_as_a_whole(op, number) and not (isinstance(owner, Operation) and is_splat_constant(owner))


def number_name(base: str, taken: dict[str, int]) -> str:
    """The name, with a number if it was `taken` before."""
    count = taken[base] = taken.get(base, -1) + 1
    return f"{base}.{count}" if count else base


def move_constants(fusion: Operation) -> None:
    """In a fusion of the source: splat operands move in, constants with different elements move out as operands."""
    body, parent = fusion.regions[0].block, fusion.parent_block()
    assert parent is not None
    operands: list[SSAValue] = []
    for arg, operand in zip(tuple(body.args), tuple(fusion.operands), strict=True):
        owner = operand.owner
        if not (isinstance(owner, Operation) and is_splat_constant(owner)):
            operands.append(operand)
            continue
        copy = owner.clone()
        first = body.first_op
        assert first is not None
        body.insert_op_before(copy, first)
        arg.replace_all_uses_with(copy.results[0])
        body.erase_arg(arg)
    for op in ops_of(body):
        if op.name in CONSTANTS and not is_splat_constant(op):
            op.detach()
            parent.insert_op_before(op, fusion)
            arg = body.insert_arg(op.results[0].type, len(body.args))
            op.results[0].replace_all_uses_with(arg)
            operands.append(op.results[0])
    fusion.operands = operands


def copy_outputs(terminator: Operation, taken: dict[str, int]) -> None:
    """Every output of the program is a result of its own: inputs, constants and second mentions are copied."""
    seen: dict[SSAValue, None] = {}
    outputs: list[SSAValue] = []
    for value in terminator.operands:
        owner = value.owner
        if isinstance(owner, Operation) and is_kept(owner) and value not in seen:
            seen[value] = None
            outputs.append(value)
            continue
        outputs.append(_copy(value, terminator, taken))
    terminator.operands = outputs


def write_large_constants(block: Block, taken: dict[str, int]) -> None:
    """Put large splat constants into a fusion that writes them, where a loop begins with them, a branch returns them, or an update
    or a call takes them.
    """
    for op in ops_of(block):
        if op.name not in (*CONTROL, CALL, UPDATE, "stablehlo.return"):
            continue
        for number, value in enumerate(op.operands):
            owner = value.owner
            if isinstance(owner, Operation) and is_splat_constant(owner) and prod(shape_of(value)) > SMALL_ELEMENTS:
                op.operands[number] = _copy(value, op, taken)


def _copy(value: SSAValue, before: Operation, taken: dict[str, int]) -> SSAValue:
    """The result of a fusion that copies a value, or is made of it if it is a splat constant."""
    body = Block(arg_types=[value.type])
    body.add_op(ReturnOp(list(body.args)))
    copy = FusionOp([value], [value.type], "kLoop", Region(body), number_name("copy_fusion", taken))
    block = before.parent
    assert block is not None
    block.insert_op_before(copy, before)
    move_constants(copy)
    return copy.results[0]
