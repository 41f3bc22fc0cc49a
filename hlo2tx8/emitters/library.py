"""Coarse ops with a registered kernel: its records are launched as they are, its LOOPS are lowered as those of emitters.

%1 = hlo.library "softmax"(%0) {kernel = "by_hand 1"}    ⟶    %1 = launch.kernel @softmax(%0)
                                                              launch.library @softmax {records} { what it computes }
"""

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, scf, tensor
from xdsl.dialects.builtin import DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hlo2tx8.dialects.hlo import LibraryOp, origin
from hlo2tx8.dialects.launch import LibraryKernelOp
from hlo2tx8.dialects.xla import ENTRY, Xla
from hlo2tx8.errors import CompileError


def library_kernel(op: LibraryOp, name: str) -> Operation:
    """The kernel `name` of a coarse op: records, or a module at level LOOPS.

    CompileError E1016 if that is no such module, or its entry takes and gives something else than the op.
    """
    if isinstance(op.code, DictionaryAttr):
        body = op.detach_region(op.body)
        facts = {"sym_name": StringAttr(name), "kernel": op.kernel, **op.code.data}
        return LibraryKernelOp.create(properties=facts, regions=[body])
    where = f"kernel {op.kernel.data} for {op.fusion_name.data}"
    try:
        module = Parser(_loops(), op.code.data, op.kernel.data).parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        raise CompileError("E1016", f"{where} cannot be read: {error}", origin=origin(op)) from None
    entries = [f for f in module.body.block.ops if isinstance(f, FuncOp) and ENTRY in f.attributes]
    inputs, results = [v.type for v in op.operands], [v.type for v in op.results]
    wanted = FunctionType.from_lists([*inputs, *results], results)
    if len(entries) != 1 or entries[0].function_type != wanted:
        found = ", ".join(str(entry.function_type) for entry in entries) or "none"
        raise CompileError("E1016", f"{where} has the entry {found}", origin=origin(op), hint=f"one of type {wanted} with {ENTRY}")
    return ModuleOp([inner.clone() for inner in module.body.block.ops], sym_name=StringAttr(name))


def _loops() -> Context:
    context = Context()
    for dialect in (builtin.Builtin, func.Func, scf.Scf, arith.Arith, math.Math, tensor.Tensor, Xla):
        context.load_dialect(dialect)
    return context
