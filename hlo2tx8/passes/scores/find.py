"""Scores: products much larger than their operands, what arithmetic and reductions of rows make of them, and who reads that."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.precision import are_factors_alike
from hlo2tx8.partitioner.instruction import is_elementwise, is_free, is_splat_constant, shape_of, tensor_type
from hlo2tx8.schedule.costs import Costs

DOT = "stablehlo.dot_general"
MUCH = 4.0
"""How many times as long memory takes to write and read scores as the matrix engine to multiply them."""
LARGER = 1.5
"""How many times as large as what they are made of scores are at least."""
LITTLE = 8
"""So many times smaller than scores is what products may share of memory, a mask of all heads say: it is turned there for them."""
MOST_STEPS = 4
"""Of arithmetic on numbers of elements that is done again, as for a causal mask; not for random numbers."""
LEAST_KERNELS = 4
"""Scores that memory takes less time for than as many kernels start in are not worth a second product."""


@dataclass
class Scores:
    """The `wide` values of a block, [*batches, rows, columns], made of scores, and those that are `made` of them in any shape: of
    rows, and of rows for each column. `by_rows` are products of wide values along their columns, `by_columns` along their rows,
    with the number of that operand. `anywhere` says how many steps it takes to make what is made of scalars and numbers of
    elements alone."""

    wide: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    made: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    by_rows: dict[Operation, int] = field(default_factory=dict[Operation, int])
    by_columns: dict[Operation, int] = field(default_factory=dict[Operation, int])
    anywhere: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def is_made_anew(self, value: SSAValue) -> bool:
        """Has every product its own copy of a value: is it made of scores, or in a few steps of nothing in memory?"""
        return value in self.made or value.owner in self.anywhere

    def behind(self, value: SSAValue) -> list[Operation]:
        """The instructions that make a value of scores, those scores, and what is free of what they read, in order."""
        found: dict[Operation, None] = {}
        waiting = [value]
        while waiting:
            op = waiting.pop().owner
            if not isinstance(op, Operation) or op in found or not self.is_made_anew(op.results[0]):
                continue
            found[op] = None
            if op.name != DOT:
                waiting += op.operands
        block = value.owner.parent
        return [op for op in ops_of(block) if op in found] if isinstance(block, Block) else []


def find_scores(block: Block, costs: Costs) -> Scores:
    """The scores of a block and their readers."""
    found = Scores()
    for op in ops_of(block):
        steps = _steps_from_nothing(found, op)
        if steps is not None and steps <= MOST_STEPS:
            found.anywhere[op] = steps
        elif op.name == DOT and _is_of_scores(op, costs):
            found.wide[op.results[0]] = found.made[op.results[0]] = None
        elif op.name == DOT:
            _add_reader(found, op)
        elif len(op.results) == 1 and any(value in found.made for value in op.operands):
            _add_made(found, op)
    return found


def _steps_from_nothing(found: Scores, op: Operation) -> int | None:
    """How many steps of arithmetic an instruction is from scalars, numbers of elements and what is broadcast of little; None if it
    takes other things too."""
    if op.name == "stablehlo.broadcast_in_dim" and prod(shape_of(op.operands[0])) * LITTLE <= prod(shape_of(op.results[0])):
        return 0
    before = [0 if shape_of(value) == () else found.anywhere.get(cast(Operation, value.owner)) for value in op.operands]
    known = [steps for steps in before if steps is not None]
    if len(known) < len(before) or not (is_free(op) or is_splat_constant(op) or is_elementwise(op)):
        return None
    return max(known, default=0) + is_elementwise(op)


def _is_of_scores(op: Operation, costs: Costs) -> bool:
    """Is it a product of two matrices, or batches of them, that takes memory much longer than the matrix engine?"""
    lhs_batch, _, lhs_contract, rhs_contract = numbers_of(attributes_of(op))
    (result,) = op.results
    is_float = all(
        isinstance(tensor_type(v).element_type, BFloat16Type | Float16Type | Float32Type) for v in (*op.operands, result)
    )
    ranks = [len(shape_of(value)) - len(lhs_batch) - 1 for value in op.operands]
    if not is_float or not are_factors_alike(op) or len(lhs_contract) != 1 or len(rhs_contract) != 1 or ranks != [1, 1]:
        return False
    time = costs.transfer(result)
    is_large = time > LEAST_KERNELS * costs.rates.kernel and time > LARGER * sum(map(costs.transfer, op.operands))
    return is_large and 2 * time > MUCH * costs.products(op) and all(map(_is_plain, (*op.operands, result)))


def _is_plain(value: SSAValue) -> bool:
    return is_row_major(tensor_type(value))


def _add_made(found: Scores, op: Operation) -> None:
    """Adds an instruction on what is made of scores, if it is arithmetic, a reduction of rows, or gives rows another shape."""
    (result,) = op.results
    wide = [value for value in op.operands if value in found.wide]
    if not _is_plain(result):
        return
    if is_elementwise(op):
        if wide:
            found.wide[result] = None
        found.made[result] = None
    elif op.name == "stablehlo.reduce" and len(op.operands) == 2 and wide == [op.operands[0]]:
        if list(attributes_of(op)["dimensions"]) == [len(shape_of(wide[0])) - 1]:
            found.made[result] = None
    elif op.name == "stablehlo.reshape" and not wide:
        found.made[result] = None
    elif op.name == "stablehlo.broadcast_in_dim" and not wide:
        dims = list(attributes_of(op)["broadcast_dimensions"])
        if dims == sorted(dims):  # else it transposes rows
            found.made[result] = None


def _add_reader(found: Scores, op: Operation) -> None:
    """Adds a product of a wide value and something else."""
    sides = [number for number, value in enumerate(op.operands) if value in found.wide]
    if len(sides) != 1 or not are_factors_alike(op) or op.operands[1 - sides[0]] in found.made:
        return
    numbers = numbers_of(attributes_of(op))
    batch, contract, rank = numbers[sides[0]], numbers[2 + sides[0]], len(shape_of(op.operands[sides[0]]))
    if list(batch) != list(range(rank - 2)) or len(contract) != 1:
        return
    if contract[0] == rank - 1:
        found.by_rows[op] = sides[0]
    elif contract[0] == rank - 2:
        found.by_columns[op] = sides[0]


def are_shared(ops: Iterable[Operation], others: Iterable[Operation]) -> bool:
    """Have two ways to a product scores in common?"""
    return not {op for op in ops if op.name == DOT}.isdisjoint(others)
