"""A module of one op of another module: for finding the op whose lowering is wrong or missing."""

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.hlo.module import find_main
from hlo2tx8.hlo.regions import captured

CONSTANT = "stablehlo.constant"


def single_op(module: ModuleOp, op: Operation) -> ModuleOp:
    """A module whose @main is that one op. Constants that it reads are copied, other operands become parameters; functions that it
    calls come too.
    """
    read = tuple(dict.fromkeys((*op.operands, *captured(op))))
    constants = [v.owner for v in read if isinstance(v.owner, Operation) and v.owner.name == CONSTANT]
    given = [v for v in read if v.owner not in constants]
    block = Block(arg_types=[v.type for v in given])
    mapping: dict[SSAValue, SSAValue] = dict(zip(given, block.args, strict=True))
    block.add_ops([constant.clone(mapping) for constant in constants])
    copy = op.clone(mapping)
    block.add_ops([copy, ReturnOp(*copy.results)])
    main = FuncOp("main", ([v.type for v in given], list(op.result_types)), Region(block))
    others = [f.clone() for f in module.body.block.ops if f is not find_main(module)]
    name = op.name.partition(".")[2]
    return ModuleOp([main, *others], sym_name=StringAttr(name))
