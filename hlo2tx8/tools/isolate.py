"""Each instruction of the entry computation as a module of its own: finds the one whose lowering is wrong."""

from functools import partial

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.errors import InputError
from hlo2tx8.module import find_main
from hlo2tx8.tools.platforms import Source

CONSTANT = "stablehlo.constant"


def isolate(whole: Source) -> tuple[Source, ...]:
    """One source per instruction with operands; constants it reads come along, other operands become parameters."""
    module = whole.load()
    main = find_main(module)
    ops = [op for op in main.body.block.ops if op.operands and not isinstance(op, ReturnOp)]
    if not ops:
        raise InputError("E1004", f"{whole.name} has no instruction with operands to isolate")
    return tuple(Source(f"{whole.name}#{i} {op.name}", partial(isolated, module, op)) for i, op in enumerate(ops))


def isolated(module: ModuleOp, op: Operation) -> ModuleOp:
    """A module whose @main is that one op; other functions of the module come along."""
    read = tuple(dict.fromkeys(op.operands))
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
