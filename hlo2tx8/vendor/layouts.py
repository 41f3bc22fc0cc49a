"""`set_layouts`: layout_str of every op, from products and convolutions forwards and backwards as far as it follows."""

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Block, SSAValue

from hlo2tx8.dialects.tx8be import Tx8beOp
from hlo2tx8.dialects.tx8be_shapes import ON_SPREAD, conv_layouts, dense_layout, inferred_layout, shape_of

UNKNOWN = "Unknown"


def set_layouts(block: Block) -> dict[SSAValue, str]:
    """The layout of every tensor of a block of ungrouped ops, written to the ops too."""
    ops = [op for op in block.ops if isinstance(op, Tx8beOp)]
    found: dict[SSAValue, str] = {}
    for op in ops:  # where products and convolutions say it
        if op.ROW.name == "Conv":
            for value, layout in zip((op.operands[0], op.operands[1], op.results[0]), conv_layouts(op), strict=True):
                found.setdefault(value, layout)
        elif op.ROW.name == "Gemm":
            for value in (*op.operands, *op.results):
                found.setdefault(value, dense_layout(shape_of(value)))
    for op in ops:
        layouts = [found.get(value, UNKNOWN) for value in op.operands]
        for result in op.results:
            if (layout := inferred_layout(op, layouts)) != UNKNOWN:
                found.setdefault(result, layout)
    for op in reversed(ops):
        layout = found.get(op.results[0], UNKNOWN) if op.results else UNKNOWN
        for value in op.operands if op.ROW.name not in (*ON_SPREAD, "Transpose", "Gemm", "Conv") and layout != UNKNOWN else ():
            if isinstance(value.type, TensorType) and shape_of(value) == shape_of(op.results[0]):
                found.setdefault(value, layout)
    for value in (*block.args, *(result for op in ops for result in op.results)):
        if isinstance(value.type, TensorType):
            found.setdefault(value, dense_layout(shape_of(value)))
    for op in ops:
        if op.results and op.ROW.name != "Conv":
            op.attributes["layout_str"] = StringAttr(found.get(op.results[0], UNKNOWN))
    return found
