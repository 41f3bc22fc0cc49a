"""Each instruction of the entry computation as a module of its own: finds the one whose lowering is wrong."""

from functools import partial

from xdsl.dialects.func import ReturnOp

from hlo2tx8.compiler.single_op import single_op
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.module import find_main
from hlo2tx8.tools.platforms import Source


def isolate(whole: Source) -> tuple[Source, ...]:
    """One source per instruction of the entry computation that has operands."""
    module = whole.load()
    main = find_main(module)
    ops = [op for op in main.body.block.ops if op.operands and not isinstance(op, ReturnOp)]
    if not ops:
        raise InputError("E1004", f"{whole.name} has no instruction with operands to isolate")
    return tuple(Source(f"{whole.name}#{i} {op.name}", partial(single_op, module, op)) for i, op in enumerate(ops))
