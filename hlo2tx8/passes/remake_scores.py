"""Pass remake-scores: each product with what was made of scores has scores of its own, which then need not go through memory.

Before, attention and its gradient:                          After:
    %s = dot %q, %k        [rows, columns]                       %s, %p, %o as before
    %p = softmax %s                                              %s1 = dot %q, %k;  %m, %l = maximum and sum of its rows
    %o = dot %p, %v                                              %ds1 = %p1 * (%g1 - sum(%p1 * %g1)), of %s1 and %g1 = dot %do, %v
    %g = dot %do, %v                                             %dq = dot %ds1, %k
    %ds = %p * (%g - sum(%p * %g))                               %s2 = dot %k, %q  [columns, rows];  %p2 = exp(%s2 - %m) / %l
    %dq = dot %ds, %k                                            %dv = dot %p2, %do
    %dk = dot transposed %ds, %q                                 %ds3 of %k, %q, %v, %do, %m, %l and the sum, turned likewise
    %dv = dot transposed %p, %do                                 %dk = dot %ds3, %q

Scores are as many as rows times columns, and their products have few terms: memory takes longer to write and read them than the
matrix engine to multiply them again. Each of the four products can then be one kernel by rows of scores with what they are made of.
A product along the rows has its scores turned, so that it goes along columns; what is known of each row it reads.

All elements are computed by the same instructions, so not a bit of the results changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, dot_numbers, fused
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.regions import CONTROL, put_in_order
from hlo2tx8.notes import add_notes
from hlo2tx8.partitioner.equal_ops import erase_unread
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.passes.scores.find import DOT, Scores, are_shared, find_scores
from hlo2tx8.passes.scores.rows import ScoreRows, in_shape
from hlo2tx8.passes.scores.turned import NotTurnedError, Turned
from hlo2tx8.schedule.costs import Costs, size_bytes

LEAST_ROWS = 16
ALIVE_BYTES = 16
"""Rows that are computed at once, and bytes that are alive of each of their elements."""


@dataclass(frozen=True)
class RemakeScoresPass(ModulePass):
    """Rewrites @main, other functions and the regions of their control flow; see the module docstring."""

    name = "remake-scores"

    chip: str = ""
    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        costs, notes = Costs(Rates.of(load_chip(self.chip))), list[str]()
        for function in defined_functions(op):
            blocks = [region.block for inner in nested_ops(function) if inner.name in CONTROL for region in inner.regions]
            for block in (function.body.block, *blocks):
                notes += _remake(block, costs)
        if self.explain:
            add_notes(op, notes)


@dataclass(frozen=True)
class _Remade:
    """What was made of scores for a product, in order, in front of the product and what brings that into its order, `behind`; and
    what was turned in memory for it."""

    made: list[Operation]
    behind: list[Operation]
    in_memory: list[Operation]

    def read_rows(self, copies: Mapping[SSAValue, SSAValue]) -> None:
        """Lets it read these copies of what is known of rows, in the shapes that it read those in."""
        for op in self.made:
            for number, value in enumerate(op.operands):
                if (copy := copies.get(value)) is not None:
                    is_any = op.name == "stablehlo.reshape"  # reads any shape
                    op.operands[number] = copy if is_any else in_shape(Expansion(op), copy, shape_of(value))

    def fuse(self, name: str) -> None:
        """Makes fusions of it: of each product of scores alone, but of the last one with what follows if no rows are reduced."""
        products = [op for op in self.made if op.name == DOT]
        is_of_rows = any(op.regions for op in self.made)
        alone = products if is_of_rows else products[:-1]
        for op in alone:
            fused([op], op.results, "scores_fusion", op)
        if rest := [op for op in self.made if op not in alone]:
            given = [value for op in rest for value in op.results if any(use.operation not in rest for use in value.uses)]
            given.sort(key=lambda value: -prod(shape_of(value)))
            fused(rest, given, name, self.behind[0])


def _remake(block: Block, costs: Costs) -> list[str]:
    """Gives the products of a block their own scores; a line about those that have scores in common."""
    scores, notes = find_scores(block, costs), list[str]()
    by_rows = {op: scores.behind(op.operands[side]) for op, side in scores.by_rows.items()}
    by_columns = {op: scores.behind(op.operands[side]) for op, side in scores.by_columns.items()}
    while by_columns:
        first = next(iter(by_columns))
        family = [op for op, own in by_columns.items() if op is first or are_shared(own, by_columns[first])]
        behind = [op for own in family for op in by_columns.pop(own)]
        turned = [_turned(op, scores) for op in family] if _fit([*behind, *family], scores, costs) else [None]
        found = [own for own in turned if own is not None]
        if len(found) < len(turned):
            for own in found:
                _erase([*own.in_memory, *own.made, *own.behind])
            continue
        readers = [op for op, own in by_rows.items() if are_shared(own, behind)]
        copies: dict[SSAValue, SSAValue] = {}
        again = [_made_again(op, scores.by_rows[op], by_rows[op], copies) for op in readers[1:] or readers]
        for op, own in zip(family, found, strict=True):
            own.read_rows({value: copy for value, copy in copies.items() if value in scores.made})
            _move_behind_rows([*own.made, *own.behind])
            Rewriter.replace_op(op, [], [own.behind[-1].results[0]])
        for own in again:
            own.fuse("rows_of_scores_fusion")
        for own in found:
            own.fuse("turned_scores_fusion")
        notes.append(f"{len(again) + len(found)} products of what was made of scores have scores of their own")
    if notes:
        put_in_order(block)
        erase_unread(block)
    return notes


def _fit(ops: Sequence[Operation], scores: Scores, costs: Costs) -> bool:
    """Do some rows of scores, and what all rows of a batch read, fit the scratchpad in either order?"""
    products = [op for op in ops if op.name == DOT]
    wide = next(value for op in products for value in (*op.results, *op.operands) if value in scores.wide)
    *batches, rows, columns = shape_of(wide)
    read = {value for op in products for value in op.operands if value not in scores.wide}
    whole = sum(map(size_bytes, read)) // prod(batches)
    return whole // 2 + LEAST_ROWS * max(rows, columns) * ALIVE_BYTES <= costs.rates.spm_bytes  # in each order one side is whole


def _turned(op: Operation, scores: Scores) -> _Remade | None:
    """The product of turned scores, in front of the one along their rows; None if something would have to be turned in memory."""
    e, before, side = Expansion(op), op.prev_op, scores.by_columns[op]
    (result,), numbers, rank = op.results, numbers_of(attributes_of(op)), len(shape_of(op.operands[side]))
    build = Turned(e, scores)
    try:
        turned = build.of(op.operands[side])
    except NotTurnedError:
        _erase(e.built_since(before))
        return None
    batch, new = list(range(rank - 2)), e.built_since(before)
    dims = dot_numbers(batch, numbers[1 - side], [rank - 1], numbers[3 - side])
    shape, order = shape_of(result), list(range(len(shape_of(result))))
    if side == 1:  # the columns of the scores are its last dimension
        shape, order = (*shape[: rank - 2], shape[-1], *shape[rank - 2 : -1]), [*batch, *order[rank - 1 :], rank - 2]
    properties = {**op.properties, "dot_dimension_numbers": dims}
    e.transpose(e.emit("dot_general", [turned, op.operands[1 - side]], e.like(result, shape), **properties), order)
    return _Remade([own for own in new if own not in build.in_memory], e.built_since(new[-1]), build.in_memory)


def _made_again(op: Operation, side: int, behind: Sequence[Operation], copies: dict[SSAValue, SSAValue]) -> _Remade:
    """Lets a product read scores of its own, made in front of it; `copies` gets what there is anew of what there was."""
    before, e = op.prev_op, Expansion(op)
    rows = ScoreRows(e, shape_of(op.operands[side])[:-1])
    for own in behind:
        copies[own.results[0]] = rows.made(own, copies)
    op.operands[side] = copies[op.operands[side]]
    return _Remade(e.built_since(before), [op], [])


def _move_behind_rows(made: Sequence[Operation]) -> None:
    """Moves instructions, the last of which is made of all others, behind those that make what they read."""
    block = made[0].parent_block()
    assert block is not None
    read = {value.owner for op in made for value in op.operands if value.owner not in made}
    behind = made[-1]
    for op in block.ops:
        if op in read and made[-1].is_before_in_block(op):
            behind = op
    if behind is not made[-1]:
        for op in reversed(made):
            op.detach()
            block.insert_op_after(op, behind)


def _erase(ops: Sequence[Operation]) -> None:
    for op in reversed(ops):
        Rewriter.erase_op(op)
