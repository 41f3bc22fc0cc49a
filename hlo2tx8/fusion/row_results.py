"""A reduction of the rows that a fusion over whole rows makes is one more result of it.

    %1 = hlo.fusion "exponential_fusion"(%0)         exp(x - max)
    %2 = hlo.fusion "reduce_fusion"(%1)              its sum       ⟶     %1, %2 = hlo.fusion "exponential_fusion"(%0)
    %3 = hlo.fusion "divide_fusion"(%1, %v, %2)

So is what its reader makes of it alone, conversions say.
"""

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.fusion.build_group import name_of_fusion, with_body
from hlo2tx8.hlo import has_spec
from hlo2tx8.notes import Decision, Name, What
from hlo2tx8.partitioner.instruction import is_elementwise
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.partitioner.row_space import row_space


def join_reductions_of_rows(block: Block) -> list[str]:
    """Joins such reductions of a block to what makes their rows; a line about each."""
    notes: list[str] = []
    for made in [op for op in block.ops if isinstance(op, FusionOp) and len(op.results) == 1]:
        readers = list(dict.fromkeys(use.operation for use in made.results[0].uses))
        sums = [op for op in readers if isinstance(op, FusionOp) and list(op.operands) == [made.results[0]]]
        for reader in sums if len(readers) > 1 else []:
            if reader.parent is block and len(reader.results) == 1 and (joined := _joined(made, reader)) is not None:
                names = Name(name_of_fusion(reader)), Name(name_of_fusion(made))
                notes.append(Decision(What.SAME_FUSION, names[:1], names[1]).line())
                joined = _with_first_steps(joined, reader.results[0])
                block.insert_op_before(joined, made)
                Rewriter.replace_op(reader, (), (joined.results[1],))
                Rewriter.replace_op(made, (), (joined.results[0],))
                break
    return notes


def _joined(made: FusionOp, reader: FusionOp) -> FusionOp | None:
    """Both as one fusion over the same rows; None if they are none."""
    if not any(is_reduction(op) for op in made.body.block.ops) or isinstance(row_space(made.body.block), str):
        return None
    body = Block(arg_types=[arg.type for arg in made.body.block.args])
    rows = _append(made, list(body.args), body)
    (found,) = _append(reader, rows, body)
    body.add_op(ReturnOp([*rows, found]))
    space, before = row_space(body), row_space(made.body.block)
    if isinstance(space, str) or isinstance(before, str) or space.shape != before.shape:
        return None
    return with_body(made, list(made.operands), Region(body))


def _with_first_steps(joined: FusionOp, result: SSAValue) -> FusionOp:
    """The fusion with what the only reader of its last result, `result` so far, makes of that alone."""
    use = result.get_unique_use()
    if use is None or not isinstance(use.operation, FusionOp):
        return joined
    parameter, terminator = use.operation.body.block.args[use.index], joined.body.block.last_op
    assert terminator is not None
    while (inner := parameter.get_unique_use()) is not None and _is_of_one(inner.operation):
        step = inner.operation
        copy = step.clone({parameter: list(terminator.operands)[-1]})
        joined.body.block.insert_op_before(copy, terminator)
        terminator.operands = [*list(terminator.operands)[:-1], copy.results[0]]
        parameter = Rewriter.replace_value_with_new_type(parameter, step.results[0].type)
        Rewriter.replace_op(step, (), (parameter,))
    body = joined.body.block
    joined.body.detach_block(body)
    new = with_body(joined, list(joined.operands), Region(body))
    joined.erase()
    return new


def _is_of_one(op: Operation) -> bool:
    """Is it arithmetic on the elements of one operand?"""
    return has_spec(op.name) and is_elementwise(op) and len(op.operands) == 1


def _append(fusion: FusionOp, given: list[SSAValue], block: Block) -> list[SSAValue]:
    """Copies what a fusion computes of these values to the end of a block; its results."""
    known: dict[SSAValue, SSAValue] = dict(zip(fusion.body.block.args, given, strict=True))
    terminator = fusion.body.block.last_op
    assert terminator is not None
    for op in fusion.body.block.ops:
        if op is not terminator:
            copy: Operation = op.clone(known)
            block.add_op(copy)
    return [known[value] for value in terminator.operands]
