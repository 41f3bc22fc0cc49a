"""chlo ops that broadcast along dimensions they name: the smaller operand is broadcast in front of them.

%2 = chlo.broadcast_add %0, %1 {broadcast_dimensions = [0]} : (tensor<2x7xf32>, tensor<2xf32>)
    ⟶    %2 = chlo.broadcast_add %0, (stablehlo.broadcast_in_dim %1, dims = [0]) : (tensor<2x7xf32>, tensor<2x7xf32>)
"""

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.nested import nested_ops


def expand_broadcasts(module: ModuleOp) -> None:
    """Changes the module in place: no chlo op names dimensions, so that all of them broadcast along leading ones."""
    named = (op for op in nested_ops(module) if op.name.startswith("chlo.broadcast_"))
    for op in [op for op in named if "broadcast_dimensions" in op.properties]:
        dims, e = decode_attributes(op)["broadcast_dimensions"], Expansion(op)
        shape = as_tensor(op.results[0].type).get_shape()
        for number, operand in enumerate(op.operands):
            if len(as_tensor(operand.type).get_shape()) == len(dims) < len(shape):
                spread = {"broadcast_dimensions": int_array(dims)}
                op.operands[number] = e.emit("broadcast_in_dim", [operand], e.like(operand, shape), **spread)
        del op.properties["broadcast_dimensions"]
