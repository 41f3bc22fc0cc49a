"""Pass ready-updates: a dynamic_update_slice is prepared for the program, which writes bytes into the tensor in place.

dynamic_update_slice %x, %u, %i, %j    ⟶    %v = hlo.copy %u                          in the layout of %x
                                            %k = convert (minimum %j, room)           where %j is a ui64
                                            %r = dynamic_update_slice %x, %v, %i, %k  in the layout of %x
                                            hlo.copy %r                               in the layout that was asked for
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import CopyOp
from hlo2tx8.dialects.layout import as_tensor, minor_to_major
from hlo2tx8.hlo.types import numpy_dtype


@dataclass(frozen=True)
class ReadyUpdatesPass(ModulePass):
    """Changes dynamic_update_slice ops in place; see the module docstring."""

    name = "ready-updates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.dynamic_update_slice": ready_update})


def ready_update(op: Operation) -> None:
    """Change the op in place; start indices of types that no kernel core can load are clamped and converted first."""
    e = Expansion(op)
    tensor, update, *starts = op.operands
    outer, inner = as_tensor(tensor.type), as_tensor(update.type)
    if _order(inner) != _order(inner, outer):
        type_ = TensorType(inner.element_type, inner.get_shape(), outer.encoding)
        op.operands[1] = e.insert(CopyOp(operands=[[update]], result_types=[[type_]])).results[0]
    for number, start in enumerate(starts):
        if numpy_dtype(as_tensor(start.type).element_type).name == "uint64":
            op.operands[2 + number] = _signed(e, start, outer.get_shape()[number] - inner.get_shape()[number])
    wanted = op.results[0].type
    if wanted != outer:
        result = Rewriter.replace_value_with_new_type(op.results[0], outer)
        copy = CopyOp(operands=[[result]], result_types=[[wanted]])
        result.replace_all_uses_with(copy.results[0])
        copy.operands = [result]
        Rewriter.insert_op(copy, InsertPoint.after(op))


def _order(type_: TensorType[Attribute], of: TensorType[Attribute] | None = None) -> list[int]:
    """The dimensions of more than one element, minor first; in the order of another type of that rank."""
    return [dim for dim in minor_to_major(of or type_) if type_.get_shape()[dim] > 1]


def _signed(e: Expansion, start: SSAValue, room: int) -> SSAValue:
    unsigned = as_tensor(start.type)
    clamped = e.emit("minimum", [start, e.splat(room, unsigned)], unsigned)
    return e.emit("convert", [clamped], TensorType(i64, ()))
