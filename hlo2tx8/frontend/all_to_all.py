"""HLO's all-to-all of several operands: operand i of a device goes to member i of its group.

%2, %3 = mhlo.all_to_all %0, %1    ⟶    %4 = all_to_all (concatenate %0, %1), along a new dimension of which %2 and %3 are the parts
"""

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import UnknownOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.nested import nested_ops


def expand_all_to_alls(module: ModuleOp) -> None:
    """Changes the module in place."""
    for op in [op for op in nested_ops(module) if isinstance(op, UnknownOp) and op.op_name.data == "mhlo.all_to_all"]:
        if len({value.type for value in op.operands}) == 1:
            _expand(op)


def _expand(op: Operation) -> None:
    e, count = Expansion(op), len(op.operands)
    shape = list(as_tensor(op.operands[0].type).get_shape())
    rows = [e.emit("reshape", [value], e.like(value, [1, *shape])) for value in op.operands]
    zero = IntegerAttr(0, i64)
    joined = e.emit("concatenate", rows, e.like(rows[0], [count, *shape]), dimension=zero)
    properties = {key: value for key, value in op.attributes.items() if key in ("replica_groups", "channel_handle")}
    properties |= {"split_dimension": zero, "concat_dimension": zero, "split_count": IntegerAttr(count, i64)}
    moved = e.insert(stablehlo.OPS["all_to_all"]([joined], [joined.type], properties)).results[0]
    e.replace(*(_part(e, moved, number, shape) for number in range(count)))


def _part(e: Expansion, rows: SSAValue, number: int, shape: list[int]) -> SSAValue:
    starts, limits = [number] + [0] * len(shape), [number + 1, *shape]
    bounds = {"start_indices": int_array(starts), "limit_indices": int_array(limits), "strides": int_array([1] * len(limits))}
    return e.emit("reshape", [e.emit("slice", [rows], e.like(rows, [1, *shape]), **bounds)], e.like(rows, shape))
