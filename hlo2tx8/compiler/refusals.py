"""Everything in a module that cannot be compiled, found by compiling each kind of op alone.

The first op that fails ends a compilation, so a user would meet one refusal after the other. What is supported is a
fact of emitters and instruction selection; asking them is the only list that cannot be wrong. Costs nothing until a
compilation fails.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation

from hlo2tx8.compiler.single_op import single_op
from hlo2tx8.dialects.hlo import name_of, origin
from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.errors import CompileError, UnsupportedError, UnsupportedOp
from hlo2tx8.hlo.host_ops import HOST_OPS
from hlo2tx8.hlo.regions import CONTROL

_TRANSPARENT = ("hlo.fusion", "hlo.group", "hlo.library", *CONTROL)
"""Ops that are supported if all ops inside them are."""
ENDS_A_PROGRAM = "the host does it: use run or compile"
_TERMINATORS = ("stablehlo.return", "hlo.return")


def is_refusal(error: CompileError) -> bool:
    """True if the error says that an op is not supported, False if something went wrong."""
    return error.code == "E1001" or error.code.startswith("E32")


def unsupported_ops(module: ModuleOp, compile_alone: Callable[[ModuleOp], object]) -> list[UnsupportedOp]:
    """Every op of a module at level HLO that `compile_alone` refuses as a module of its own, one entry per use."""
    reasons: dict[Hashable, str | None] = {}
    found: list[UnsupportedOp] = []
    for function in module.body.block.ops:
        if not isinstance(function, FuncOp):
            continue
        for op in ops_of(function.body.blocks):
            key = kind_of(op)
            if key not in reasons:
                reasons[key] = refusal_of(module, op, compile_alone)
            reason = reasons[key]
            if reason is not None:
                found.append(UnsupportedOp(name_of(op), (origin(op),), reason))
    return found


def ops_of(blocks: Sequence[Block]) -> Iterator[Operation]:
    """All ops of the blocks, also those inside of fusions and control flow, without terminators and calls."""
    for block in blocks:
        for op in block.ops:
            if op.name in _TRANSPARENT:
                for region in op.regions:
                    yield from ops_of(region.blocks)
            if op.name not in (*_TRANSPARENT, *_TERMINATORS) and not isinstance(op, (ReturnOp, CallOp)):
                yield op


def refusal_of(module: ModuleOp, op: Operation, compile_alone: Callable[[ModuleOp], object]) -> str | None:
    """Why `compile_alone` refuses the op: a reason, "" if the op is unknown, None if it is not refused."""
    if op.name in HOST_OPS:
        return ENDS_A_PROGRAM
    try:
        compile_alone(single_op(module, op))
    except UnsupportedError as error:
        return error.ops[0].reason
    except CompileError as error:
        if not is_refusal(error):
            return None
        return "" if error.message == f"{name_of(op)} is not supported" else error.message
    return None


def kind_of(op: Operation) -> Hashable:
    """A key that is equal for ops that are supported or refused together: name, element types, ranks and modes, but not sizes."""
    modes = tuple((k, v) for k, v in sorted(op.properties.items()) if isinstance(v, StringAttr))
    return (op.name, tuple(_element(v.type) for v in op.operands), tuple(_element(t) for t in op.result_types), modes)


def _element(type_: Attribute) -> Hashable:
    if not is_tensor(type_):
        return type_
    tensor = as_tensor(type_)
    return (tensor.get_num_dims(), tensor.element_type)
