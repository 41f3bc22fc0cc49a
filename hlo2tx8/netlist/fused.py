"""Fused ops step by step, whole tensors at a time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo2tx8.netlist import products
from hlo2tx8.netlist.elementwise import BINARY, UNARY, relu
from hlo2tx8.netlist.formats import FORMATS, Array, Format
from hlo2tx8.netlist.model import FusedOp, Op, ScheduledOp
from hlo2tx8.netlist.ops import KINDS
from hlo2tx8.netlist.tensors import Tensor, vectors
from hlo2tx8.netlist.tms import apply_tms

if TYPE_CHECKING:
    from hlo2tx8.netlist.evaluate import Rules


def run_steps(op: Op, fused: FusedOp, inputs: Sequence[Tensor], rules: "Rules") -> Array:
    """What the last step writes. Only fused ops of integers round between steps."""
    held = {f"input{number}": source.data for number, source in enumerate(inputs)}
    formats = {f"input{number}": source.format for number, source in enumerate(inputs)}
    is_integer = op.acc_df.name == "Int32"
    for step in fused.steps:
        data = [apply_tms(step.tms.get(number, ()), held[name]) for number, name in enumerate(step.inputs)]
        if KINDS[step.type].family == "matmul":
            factors = [rules.factor(x, formats.get(name, op.intermed_df)) for x, name in zip(data, step.inputs, strict=True)]
            made = products.product(factors[0], factors[1])
        else:
            made = _step(step, [rules.real(x) for x in data])
        made = relu(made, step.attributes)
        if step.output == "output":
            made = relu(made, op.attributes)
        if is_integer and (format := _format(op, step)).is_integer:
            made = rules.rounded(made, format)
        held[step.output] = made
    return held["output"]


def _step(step: ScheduledOp, data: Sequence[Array]) -> Array:
    match KINDS[step.type].family:
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
