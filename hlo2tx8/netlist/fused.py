"""Fused ops step by step, whole tensors at a time."""

from collections.abc import Callable, Sequence

from hlo2tx8.netlist import products
from hlo2tx8.netlist.elementwise import BINARY, UNARY, relu
from hlo2tx8.netlist.formats import FORMATS, Array, Format
from hlo2tx8.netlist.model import FusedOp, Op, ScheduledOp
from hlo2tx8.netlist.ops import KINDS
from hlo2tx8.netlist.tensors import vectors
from hlo2tx8.netlist.tms import apply_tms


def run_steps(op: Op, fused: FusedOp, inputs: Sequence[Array], rounded: Callable[[Array, Format], Array]) -> Array:
    """What the last step writes. `rounded` rounds to a format; only fused ops of integers do so between steps."""
    held = {f"input{number}": data for number, data in enumerate(inputs)}
    is_integer = op.acc_df.name == "Int32"
    for step in fused.steps:
        data = [apply_tms(step.tms.get(number, ()), held[name]) for number, name in enumerate(step.inputs)]
        made = _step(step, data, is_integer)
        made = relu(made, step.attributes)
        if step.output == "output":
            made = relu(made, op.attributes)
        if is_integer and (format := _format(op, step)).is_integer:
            made = rounded(made, format)
        held[step.output] = made
    return held["output"]


def _step(step: ScheduledOp, data: Sequence[Array], is_integer: bool) -> Array:
    match KINDS[step.type].family:
        case "matmul":
            return products.product(data[0], data[1], is_integer)
        case "reduce":
            return products.reduce(data[0], {"dim": "r"} | dict(step.attributes))
        case "binary" | "quant":
            is_swapped = step.type == "dequantization" and step.inputs[1] == "dest"
            x, y = (data[1], data[0]) if is_swapped else (data[0], data[1])
            return BINARY[step.type](x, y, step.zero_point)
        case _:
            rest = data[0] if step.output == step.inputs[0] else None
            mode = step.attributes.get("vector", "rc")
            return vectors(UNARY[step.type](vectors(data[0], mode), step.attributes), mode, rest)


def _format(op: Op, step: ScheduledOp) -> Format:
    """What a step of an integer fused op writes."""
    if step.type in ("quantization", "requantization"):
        return FORMATS["Int8"]
    return {"output": op.out_df, "dest": op.acc_df}.get(step.output, op.intermed_df)
