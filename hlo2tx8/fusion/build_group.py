"""Puts fusions of a block into an `hlo.group`."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.nested import cloned, ops_of
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.hlo.regions import captured, terminator_of

SEARCHED_SLACK = 1.5
"""How many times the cycles of its fusions a group may be estimated to take, if it is compared with them later."""


def build_group(fusions: Sequence[FusionOp | GroupOp], properties: Mapping[str, Attribute]) -> GroupOp:
    """The group of fusions, or of groups of them, in order of execution, at the place of the last one; its results are those that
    others read, and what of these is in front of it moves behind. `properties` say how it goes in steps."""
    last, members = fusions[-1], set[Operation](fusions)
    made = [value for fusion in fusions for value in fusion.results]
    given = [value for value in made if value in last.results or any(use.operation not in members for use in value.uses)]
    read = list(dict.fromkeys(value for fusion in fusions for value in fusion.operands if value not in made))
    body = Block(arg_types=[value.type for value in read])
    types = [value.type for value in given]
    group = GroupOp.create(operands=read, result_types=types, properties=dict(properties), regions=[Region(body)])
    group.attributes |= {key: value for key, value in last.attributes.items() if key == "loc"}
    parent = last.parent_block()
    assert parent is not None
    parent.insert_op_before(group, last)
    for old, new in zip(given, group.outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_uses_with_if(new, lambda use: use.operation not in members)
    known: dict[SSAValue, SSAValue] = dict(zip(read, body.args, strict=True))
    for fusion in fusions:
        fusion.detach()
        fusion.operands = [known.get(value, value) for value in fusion.operands]
        body.add_op(fusion)
    body.add_op(ReturnOp(given))
    _move_behind(group)
    return group


def group_of_one(fusion: FusionOp, properties: Mapping[str, Attribute]) -> GroupOp:
    """A group of a copy of one fusion, which is in no block."""
    body, types = Block(arg_types=[value.type for value in fusion.operands]), [value.type for value in fusion.results]
    copy = cloned(fusion)
    copy.operands = list(body.args)
    body.add_ops([copy, ReturnOp(list(copy.results))])
    return GroupOp.create(operands=fusion.operands, result_types=types, properties=dict(properties), regions=[Region(body)])


def _move_behind(group: GroupOp) -> None:
    """Moves what reads a group's results, and what reads that, behind it."""
    block, place, late = group.parent_block(), group, set(group.outputs)
    assert block is not None
    for op in ops_of(block):
        if op is group:
            return
        is_isolated = isinstance(op, FusionOp | GroupOp)  # as its parameters say
        if not late.isdisjoint(op.operands if is_isolated else (*op.operands, *captured(op))):
            late.update(op.results)
            op.detach()
            block.insert_op_after(op, place)
            place = op


def name_of_fusion(fusion: FusionOp) -> str:
    """The name that the source or the fusion plan gave it."""
    given = fusion.properties.get("fusion_name")
    return given.data if isinstance(given, StringAttr) else "fusion"


def with_body(old: FusionOp, operands: Sequence[SSAValue], body: Region) -> FusionOp:
    """A fusion of another body, with results as that gives them, of the name and place in the source of an old one."""
    types = [value.type for value in terminator_of(body.block).operands]
    new = FusionOp(list(operands), types, old.kind.data, body, name_of_fusion(old))
    new.attributes |= {key: value for key, value in old.attributes.items() if key == "loc"}
    return new


def dissolve(group: Operation, body: Block) -> None:
    """Move a group's ops in front of it and let them stand for its results."""
    terminator = body.last_op
    assert terminator is not None
    results = tuple(terminator.operands)
    Rewriter.erase_op(terminator)
    Rewriter.inline_block(body, InsertPoint.before(group), tuple(group.operands)[: len(body.args)])
    renamed: dict[SSAValue, SSAValue] = dict(zip(body.args, group.operands, strict=False))
    Rewriter.replace_op(group, (), tuple(renamed.get(v, v) for v in results))
