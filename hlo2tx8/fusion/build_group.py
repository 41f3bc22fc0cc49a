"""Puts fusions of a block into an `hlo.group`."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.stablehlo import ReturnOp

SEARCHED_SLACK = 1.5
"""How many times the cycles of its fusions a group may be estimated to take, if it is compared with them later."""


def build_group(fusions: Sequence[FusionOp], properties: Mapping[str, Attribute]) -> GroupOp:
    """The group of fusions in order of execution, whose last one's results are the group's, at the place of that one;
    `properties` say how it goes in steps."""
    last = fusions[-1]
    results = {value for fusion in fusions for value in fusion.results}
    read = list(dict.fromkeys(value for fusion in fusions for value in fusion.operands if value not in results))
    body = Block(arg_types=[value.type for value in read])
    group = GroupOp.create(operands=read, result_types=last.result_types, properties=dict(properties), regions=[Region(body)])
    group.attributes |= {key: value for key, value in last.attributes.items() if key == "loc"}
    parent = last.parent_block()
    assert parent is not None
    parent.insert_op_before(group, last)
    for old, new in zip(last.results, group.outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    known: dict[SSAValue, SSAValue] = dict(zip(read, body.args, strict=True))
    for fusion in fusions:
        fusion.detach()
        fusion.operands = [known.get(value, value) for value in fusion.operands]
        body.add_op(fusion)
    body.add_op(ReturnOp(list(last.results)))
    return group


def name_of_fusion(fusion: FusionOp) -> str:
    """The name that the source or the fusion plan gave it."""
    given = fusion.properties.get("fusion_name")
    return given.data if isinstance(given, StringAttr) else "fusion"


def dissolve(group: Operation, body: Block) -> None:
    """Move a group's ops in front of it and let them stand for its results."""
    terminator = body.last_op
    assert terminator is not None
    results = tuple(terminator.operands)
    Rewriter.erase_op(terminator)
    Rewriter.inline_block(body, InsertPoint.before(group), tuple(group.operands)[: len(body.args)])
    renamed: dict[SSAValue, SSAValue] = dict(zip(body.args, group.operands, strict=False))
    Rewriter.replace_op(group, (), tuple(renamed.get(v, v) for v in results))
