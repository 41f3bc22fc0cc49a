"""The LOOPS of a registered kernel: the module that its text is, and where that stores the result."""

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, scf, tensor
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.tensor import InsertOp
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hlo2tx8.dialects.hlo import LibraryOp, origin
from hlo2tx8.dialects.xla import ENTRY, LoopOp, Xla, YieldOp
from hlo2tx8.errors import CompileError


def loops_of(library: LibraryOp) -> ModuleOp:
    """The module at level LOOPS that computes a coarse op, without what is behind it.

    CompileError E1016 if the kernel's text is no such module, or its entry takes and gives something else than the op.
    """
    assert isinstance(library.code, StringAttr)
    where = f"kernel {library.kernel.data} for {library.fusion_name.data}"
    try:
        module = Parser(_context(), library.code.data, library.kernel.data).parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        raise CompileError("E1016", f"{where} cannot be read: {error}", origin=origin(library)) from None
    op = computed_by_kernel(library)
    inputs, results = [v.type for v in op.operands], [v.type for v in op.results]
    wanted = FunctionType.from_lists([*inputs, *results], results)
    entries = [f for f in module.body.block.ops if isinstance(f, FuncOp) and ENTRY in f.attributes]
    if len(entries) != 1 or entries[0].function_type != wanted:
        found = ", ".join(str(entry.function_type) for entry in entries) or "none"
        hint = f"one of type {wanted} with {ENTRY}"
        raise CompileError("E1016", f"{where} has the entry {found}", origin=origin(library), hint=hint)
    return module


def computed_by_kernel(library: LibraryOp) -> Operation:
    """The op with the operands and results of the kernel itself: the first in the body where there is an epilogue."""
    if library.epilogue is None:
        return library
    first = library.body.block.first_op
    assert first is not None
    return first


def entry_of(module: ModuleOp) -> FuncOp:
    """The function that writes the results."""
    return next(f for f in module.body.block.ops if isinstance(f, FuncOp) and ENTRY in f.attributes)


def written(entry: FuncOp) -> list[SSAValue] | None:
    """What is the only result of an entry at some time: its last argument, then what loops carry and stores give; None if one of
    those is read, or handed to something else than loops and stores."""
    found: dict[SSAValue, None] = {entry.body.block.args[-1]: None}
    for value in (values := list(found)):
        for use in value.uses:
            op, number = use.operation, use.index
            match op:
                case InsertOp() if number == 1:
                    new = [op.result]
                case LoopOp():
                    number -= len(op.dims)
                    new = [op.iter_block_args[number], op.res[number]] if number >= 0 else []
                case scf.ForOp() if number >= 3:
                    new = [op.body.block.args[number - 2], op.results[number - 3]]
                case YieldOp() | scf.YieldOp() if (around := op.parent_op()) is not None:
                    new = [around.results[number]]
                case func.ReturnOp():
                    new = []
                case _:
                    return None
            fresh = [other for other in new if other not in found]
            found.update(dict.fromkeys(fresh))
            values += fresh
    return values


def _context() -> Context:
    context = Context()
    for dialect in (builtin.Builtin, func.Func, scf.Scf, arith.Arith, math.Math, tensor.Tensor, Xla):
        context.load_dialect(dialect)
    return context
