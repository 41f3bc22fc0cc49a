"""What the plans of a group by rows ask of a member: found once, whatever rows a step computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue

from hlo2tx8.device.alike_loads import is_spread
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.vector_instructions import is_difference_of_exponents, is_exponential_as_factor, unconverted
from hlo2tx8.dialects.xla_dot import PASSES
from hlo2tx8.hlo import Kind, numpy_dtype
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.indexing import Dim, Expr
from hlo2tx8.partitioner.contraction import num_products
from hlo2tx8.partitioner.instruction import kind_of, tensor_type
from hlo2tx8.partitioner.reduction_order import joins_apart
from hlo2tx8.partitioner.reduction_paths import is_reduction
from hlo2tx8.schedule.costs import cycles_per_element, size_bytes
from hlo2tx8.schedule.row_group import RowGroupSplit
from hlo2tx8.schedule.row_group_member import RowGroupMember


@dataclass(frozen=True)
class Loads:
    """What a member reads from DDR: `row_bytes` per row, `batch_bytes` of each batch that all of its rows read; of those there are
    `num_batches`: batches may share them. `reads_rows`: are the rows of its product among it?"""

    row_bytes: int
    batch_bytes: int
    num_batches: int
    reads_rows: bool

    def is_spread(self, split: RowGroupSplit, rates: Rates) -> bool:
        """Do all tiles read the same of all batches, so that each loads a part of it?"""
        return self.num_batches == 1 and is_spread(self.batch_bytes, min(split.num_chunks, rates.tiles), rates)


@dataclass(frozen=True)
class RowMemberCosts:
    """Of a member: what it reads from DDR (`loads`), in all `parameter_bytes`; `vector_cycles` that the vector engine of one tile
    takes for all of it; `macs` of the matrix engine, for all passes of its dot; `instructions` of a step. An element of the dot is
    a sum of `depth` products of factors of `operand_bytes` in SPM, which are numbers in so many `parts`. An element of the result
    has `element_bytes`, and per element of it `alive_bytes` are in SPM at once: vectors, or what a dot makes and adds up."""

    member: RowGroupMember
    loads: Loads
    parameter_bytes: int
    vector_cycles: float
    macs: int
    instructions: int
    depth: int
    parts: int
    operand_bytes: int
    element_bytes: int
    alive_bytes: int

    @classmethod
    def of(
        cls, member: RowGroupMember, parameters: Sequence[BlockArgument], batches: Sequence[int], rows: int, rates: Rates
    ) -> "RowMemberCosts":
        """Of a member that reads the parameters from DDR, in a group of so many rows of each of the batches."""
        dot, function = member.dot, member.partitioned.functions[0]
        depth, parts = (num_products(dot), num_parts(dot)) if dot is not None else (0, 1)
        return cls(
            member=member,
            loads=_loads(member, parameters, batches, rows, depth),
            parameter_bytes=sum(map(size_bytes, parameters)),
            vector_cycles=vector_cycles(member, rates),
            macs=prod(member.shape) * depth * len(PASSES[parts]),
            instructions=sum(kind_of(op) in (Kind.ELEMENTWISE, Kind.REDUCE, Kind.DOT) for op in function.instructions) + 2,
            depth=depth,
            parts=parts,
            operand_bytes=0 if dot is None else _width(dot.operands[0]) * (1 + (parts > 1)),
            element_bytes=_width(function.roots[0]),
            alive_bytes=_alive_bytes(member) if dot is None else 2 * _width(dot.results[0]) + (4 if parts > 1 else 0),
        )

    def product_cycles(self, split: RowGroupSplit | None, rates: Rates) -> float:
        """Cycles that the matrix engine of one tile takes for all of it, by steps of a split, which may leave rows of it idle."""
        idle = 1.0 if split is None else -(-split.step_rows // rates.product_rows) * rates.product_rows / split.step_rows
        return idle * self.macs / rates.products


def moves_of_statistics(member: RowGroupMember, split: RowGroupSplit, rates: Rates) -> float:
    """Cycles of moves that give each element of a step the statistics of its row: out of the reduction's blocks, to a block of each
    row, and that to all of a row's blocks."""
    root = member.partitioned.functions[0].roots[0]
    cells = 0 if member.dot is not None else split.step_rows * member.columns * _width(root)
    return len(member.reductions) * (3 * rates.move_start + cells / rates.move) if cells else 0.0


def vector_cycles(member: RowGroupMember, rates: Rates) -> float:
    """Cycles that the vector engine of one tile would take for all of a member."""
    is_by_blocks = bool(member.block)
    return sum(
        cycles_per_element(op, rates) * prod(tensor_type(op.results[0]).get_shape())
        for op in member.partitioned.functions[0].instructions
        if op is not member.dot and not (is_by_blocks and _is_by_products(op))
    )


def _is_by_products(op: Operation) -> bool:
    """Does the matrix engine compute it, in next to no time: a sum of exponentials or the difference that they are of?"""
    if is_reduction(op):
        return joins_apart(op, 0) == "add" and is_exponential_as_factor(unconverted(op.operands[0]))
    result = op.results[0]
    converted = unconverted(result)
    is_for_sum = converted is not result and is_exponential_as_factor(converted)
    return is_difference_of_exponents(op) or (is_for_sum and all(is_reduction(use.operation) for use in result.uses))


def _width(value: SSAValue) -> int:
    return numpy_dtype(tensor_type(value).element_type).itemsize


def _alive_bytes(member: RowGroupMember) -> int:
    """Bytes per element of the vectors that are alive at once, with one that repeats a statistic of the rows."""
    function = member.partitioned.functions[0]
    whole = [op for op in function.instructions if tensor_type(op.results[0]).get_shape() == member.shape]
    last: dict[SSAValue, Operation] = {operand: op for op in function.instructions for operand in op.operands}
    alive: dict[SSAValue, int] = {}
    most = 0
    for op in function.instructions:
        if op in whole and kind_of(op) is Kind.ELEMENTWISE:
            alive[op.results[0]] = _width(op.results[0])
        most = max(most, sum(alive.values()))
        for operand in op.operands:
            if last[operand] is op:
                alive.pop(operand, None)
    return most + 2 * max(map(_width, (op.results[0] for op in whole)), default=0)


def _loads(member: RowGroupMember, parameters: Sequence[BlockArgument], batches: Sequence[int], num_rows: int, depth: int) -> Loads:
    """What a member with a dot over so many products, or without one, reads from DDR."""
    per_row = per_batch = 0
    count = shared = prod(batches)
    rows = _behind(member.dot.operands[member.contraction.rows]) if member.dot and member.contraction else set[SSAValue]()
    for parameter in parameters:
        size = size_bytes(parameter)
        if member.dot is None:
            of_row, of_batch = _parts_of(member, parameter)
            per_row, per_batch = per_row + of_row, per_batch + of_batch
        elif parameter in rows:
            per_row += size // (count * num_rows)
        else:
            part = min(depth * member.columns * _width(parameter), size)
            shared = min(shared, -(-size // part))
            per_batch += part
    return Loads(per_row, per_batch, shared, not rows.isdisjoint(parameters))


def _parts_of(member: RowGroupMember, parameter: BlockArgument) -> tuple[int, int]:
    """Bytes that each row of a member without a dot reads of a parameter, and those that all rows of a batch do, where it does not
    depend on the row; one of the two is 0."""
    rank, shape = len(member.shape), tensor_type(parameter).get_shape()
    places = [
        member.index_of(op, number)
        for op in member.partitioned.functions[0].instructions
        for number, operand in enumerate(op.operands)
        if operand is parameter
    ]
    of_row = of_batch = 0
    for index in places:
        leaves = [set[Expr]() for _ in shape] if index is None else [expr.leaves() for expr in index]
        is_of_row = Dim(rank - 2) in set[Expr]().union(*leaves)
        outer = {Dim(dim) for dim in range(rank - 1 if is_of_row else rank - 2)}
        part = prod(size for size, own in zip(shape, leaves, strict=True) if not own & outer) * _width(parameter)
        of_row, of_batch = max(of_row, part * is_of_row), max(of_batch, part * (not is_of_row))
    return (of_row, 0) if of_row else (0, of_batch)


def _behind(value: SSAValue) -> set[SSAValue]:
    """The values that a value is computed of, and itself."""
    operands = value.owner.operands if isinstance(value.owner, Operation) else ()
    return {value}.union(*(_behind(operand) for operand in operands))
