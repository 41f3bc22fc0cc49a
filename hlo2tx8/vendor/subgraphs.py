"""`share_groups`: groups of the same ops with the same figures, as layers of a model have, are written once.

"tx8be.Group"(%1, %2) ({ops}) {group_id = 3}        "tx8be.Subgraph"() ({"tx8be.Group"(..) ({ops}) {template_id = 0}; Return})
"tx8be.Group"(%4, %5) ({ops}) {group_id = 7}   ⟶                       {sym_name = "subgraph_0", function_type = ..}
                                                    "tx8be.Call"(%1, %2) {callee = @subgraph_0, group_id = 3}
                                                    "tx8be.Call"(%4, %5) {callee = @subgraph_0, group_id = 7}
"""

from xdsl.dialects.builtin import FunctionType, ModuleOp, SymbolRefAttr
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.tx8be import OPS, Tx8beOp
from hlo2tx8.hlo.module import find_main

NUMBER = "group_id"


def share_groups(module: ModuleOp) -> None:
    """Turns such groups of @main into Calls of Subgraphs, which stand in front of it."""
    alike: dict[str, list[Tx8beOp]] = {}
    for op in find_main(module).body.block.ops:
        if isinstance(op, Tx8beOp) and op.ROW.name == "Group":
            alike.setdefault(str(_subgraph(op, 0)), []).append(op)
    shared = [groups for groups in alike.values() if len(groups) > 1]
    for number, groups in enumerate(shared):
        module.body.block.insert_op_before(subgraph := _subgraph(groups[0], number), find_main(module))
        for group in groups:
            attributes = {"callee": SymbolRefAttr(subgraph["sym_name"]), NUMBER: group.attributes[NUMBER]}
            Rewriter.replace_op(group, OPS["Call"](group.operands, [v.type for v in group.results], attributes))


def _subgraph(group: Tx8beOp, number: int) -> Tx8beOp:
    """A function of a copy of the group, whose template has that number."""
    block = Block(arg_types=[v.type for v in group.operands])
    attributes = {key: value for key, value in group.attributes.items() if key != NUMBER} | {"template_id": number}
    types = [v.type for v in group.results]
    block.add_op(made := OPS["Group"](block.args, types, attributes, [group.regions[0].clone()]))
    block.add_op(OPS["Return"](made.results))
    given = {"sym_name": f"subgraph_{number}", "function_type": FunctionType.from_lists([v.type for v in block.args], types)}
    return OPS["Subgraph"]([], [], given, [Region(block)])
