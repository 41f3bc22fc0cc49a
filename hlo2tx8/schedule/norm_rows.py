"""Work split of a normalization whose rows tiles of the mesh send each other: which rows a tile has, and what that costs.

    8 sequences of 197 rows: tile 5 has the last 98 of sequence 2, mesh row 1 all of the sequences 2 and 3

A tile's rows are a run of whole rows, as in any group by rows; those of the tiles of a mesh row are the rows that they multiply.
"""

from dataclasses import dataclass, replace
from math import prod

from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.schedule.costs import size_bytes
from hlo2tx8.schedule.row_group import RowGroupSplit
from hlo2tx8.schedule.row_group_member import BLOCK, RowGroupMember, row_group_member
from hlo2tx8.schedule.row_member_costs import moves_of_statistics, vector_cycles
from hlo2tx8.schedule.work_split import Target

MOST_STEPS = 12
"""Of a tile's rows that are tried."""


def norm_member(norm: FusionOp, target: Target) -> RowGroupMember | str:
    """The member of a group by rows that a normalization is, or why tiles cannot send its rows."""
    member = row_group_member(norm.body.block, target)
    if isinstance(member, RowGroupMember) and (member.dot is not None or not member.reductions or not member.block):
        return "its rows are no whole blocks of the matrix engine"
    return member


@dataclass(frozen=True)
class NormPlan:
    """The rows of a tile and its steps; estimated `cycles` of a normalization whose rows are sent, and `cycles_apart` of one that
    is a kernel by itself and of the loads of what it has stored."""

    split: RowGroupSplit
    cycles: float
    cycles_apart: float


def plan_norm(norm: FusionOp, target: Target) -> NormPlan | str:
    """The plan of least estimated cycles, or why tiles cannot send the rows of a normalization."""
    member = norm_member(norm, target)
    if isinstance(member, str):
        return member
    split = _split(member, target.rates)
    if split is None:
        return "its rows are no equal parts of whole rows"
    splits = [replace(split, step_rows=-(-split.chunk_rows // steps)) for steps in range(1, MOST_STEPS + 1)]
    return min((_plan(member, own, norm, target.rates) for own in splits), key=lambda plan: plan.cycles)


def _split(member: RowGroupMember, rates: Rates) -> RowGroupSplit | None:
    """The rows of each tile, as many runs as there are tiles; None if those of a mesh row are not its part of all rows."""
    *outer, rows, _ = member.shape
    batches = prod(outer)
    per_batch = max(1, rates.tiles // batches)
    chunk = -(-rows // per_batch)
    of_mesh_row, rest = divmod(batches * rows, rates.mesh_rows)
    if rest or batches * per_batch % rates.tiles or (per_batch - 1) * chunk >= rows:
        return None
    turns = batches * per_batch // rates.tiles
    firsts = [number * rates.mesh_columns * turns for number in range(rates.mesh_rows)]
    if any(n // per_batch * rows + n % per_batch * chunk != of_mesh_row * number for number, n in enumerate(firsts)):
        return None
    return RowGroupSplit(tuple(outer), rows, chunk, chunk, rates.tiles)


def _plan(member: RowGroupMember, split: RowGroupSplit, norm: FusionOp, rates: Rates) -> NormPlan:
    """The plan with a split: each step is a chain of vector instructions and moves, beside loads of the next one and sends of the
    one before."""
    steps = split.num_turns * split.num_steps
    read, result = sum(map(size_bytes, norm.operands)), size_bytes(norm.results[0])
    sent = (rates.mesh_columns - 1) * split.step_rows * BLOCK * _width(member)
    send = member.columns // BLOCK * (rates.link_start + sent / rates.link)
    vectors = vector_cycles(member, rates) / rates.tiles
    chain = vectors / steps + moves_of_statistics(member, split, rates)
    load = read / steps / rates.ddr
    together = load + chain + (steps - 1) * max(load, chain, send) + send
    apart = max((read + result) / rates.ddr, vectors) + result / rates.ddr + rates.kernel
    return NormPlan(split, together, apart)


def _width(member: RowGroupMember) -> int:
    """Bytes of an element of what is sent."""
    return numpy_dtype(tensor_type(member.partitioned.functions[0].roots[0]).element_type).itemsize
