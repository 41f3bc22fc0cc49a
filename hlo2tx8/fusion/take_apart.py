"""Takes a group apart: into two groups of its fusions, or fusions where a part is one.

%2 = hlo.group rows [512, 128] (%q, %k, %v) { scores, softmax, products }   at 2
⟶
%1 = hlo.group rows [512, 128] (%q, %k) { scores, softmax }
%2 = hlo.fusion "dot_general_fusion.1"(%1, %v)
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import CopyOp, FusionOp, GroupOp
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.fusion.band_chains import make_band_group, regroup
from hlo2tx8.fusion.build_group import build_group, dissolve
from hlo2tx8.schedule.band_group_member import BandGroupMember, band_group_member
from hlo2tx8.schedule.plan_band_group import PHASE_SHARES, BandChain
from hlo2tx8.schedule.work_split import Target


def num_fusions(group: GroupOp) -> int:
    """The fusions of a group, and the groups in it, apart from copies for several of them."""
    return sum(isinstance(op, GroupOp) or (isinstance(op, FusionOp) and not _is_copy(op)) for op in group.body.block.ops)


def parts_of(group: GroupOp, at: int, target: Target) -> list[Operation]:
    """Copies of the two parts of a group with `at` fusions in the first, in a function of their own."""
    block = Block(arg_types=[value.type for value in group.operands])
    copy = cloned(group, dict(zip(group.operands, block.args, strict=True)))
    block.add_ops([copy, ReturnOp(*copy.results)])
    FuncOp("main", ([arg.type for arg in block.args], list(copy.result_types)), Region(block))
    return take_apart(copy, at, target)


def take_apart(group: GroupOp, at: int, target: Target) -> list[Operation]:
    """Puts two groups of its fusions, or fusions, in a group's place, `at` of them in the first; what stands there now.
    Phases are taken apart one by one."""
    body, rows = group.body.block, group.row_split
    inner = [op for op in body.ops if isinstance(op, FusionOp | GroupOp)]
    band, is_of_phases = group.band_rows, group.phases is not None
    dissolve(group, body)
    if is_of_phases:
        return list(inner)
    fusions = [op for op in inner if isinstance(op, FusionOp)]
    for op in [op for op in fusions if _is_copy(op)]:
        fusions.remove(op)
        Rewriter.replace_op(op, (), op.operands)
    found: list[Operation] = []
    for part in (fusions[:at], fusions[at:]):
        if len(part) == 1:
            found += part
        elif rows is not None:
            found.append(build_group(part, {"rows": rows}))
        else:
            assert band is not None
            found.append(_band_group(part, band.value.data, target))
    return found


def take_apart_bands(group: GroupOp, target: Target) -> list[Operation]:
    """Makes the groups by bands anew that are phases of a group, so that they take less room; at last, so that half as many keep
    what they make for the next one. What stands in the group's place now."""
    inner = [op for op in group.body.block.ops if isinstance(op, GroupOp)]
    attempt = group.attempt + 1
    dissolve(group, group.body.block)
    fusions = [op for own in inner for op in own.body.block.ops if isinstance(op, FusionOp)]
    for own in inner:
        dissolve(own, own.body.block)
    for op in [op for op in fusions if _is_copy(op)]:
        fusions.remove(op)
        Rewriter.replace_op(op, (), op.operands)
    is_last = attempt == len(PHASE_SHARES)
    return regroup(fusions, target, attempt - 1 if is_last else attempt, -(-len(inner) // 2) if is_last else 0)


def take_apart_in_runs(group: GroupOp, runs: Sequence[Sequence[FusionOp | GroupOp]]) -> list[Operation]:
    """Puts groups of phases, or fusions, in a group's place, one for each run of its fusions; what stands there now."""
    dissolve(group, group.body.block)
    return [run[0] if len(run) == 1 else build_group(run, {"phases": UnitAttr()}) for run in runs]


def take_off_projection(group: GroupOp) -> list[Operation]:
    """Puts a normalization and attention, as phases, and the projection behind them in the place of a group of all of them."""
    norm, inner, *_ = group.body.block.ops
    assert isinstance(norm, FusionOp) and isinstance(inner, GroupOp)
    attention, projection, *_ = inner.body.block.ops
    assert isinstance(attention, GroupOp)
    dissolve(group, group.body.block)
    dissolve(inner, inner.body.block)
    return [build_group((norm, attention), {"phases": UnitAttr()}), projection]


def _band_group(fusions: list[FusionOp], rows: int, target: Target) -> GroupOp:
    members = [band_group_member(op.body.block, target) for op in fusions]
    known = tuple(member for member in members if isinstance(member, BandGroupMember))
    assert len(known) == len(fusions), "members of a group are members of its parts"
    return make_band_group(BandChain(tuple(fusions), known, target.rates), rows)


def _is_copy(fusion: FusionOp) -> bool:
    """Is its result what it reads, in the same layout?"""
    first = fusion.body.block.first_op
    return (
        isinstance(first, CopyOp)
        and first.next_op is fusion.body.block.last_op
        and fusion.operands[0].type == fusion.results[0].type
    )
