"""The shape that an op makes of its inputs' shapes, in tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hlo2tx8.netlist.model import FusedOp, Op, ScheduledOp
from hlo2tx8.netlist.ops import KINDS
from hlo2tx8.netlist.shapes import TILE, Blocked, Shape
from hlo2tx8.netlist.tms import shape_after


def input_shape(op: Op, number: int, shape: Shape) -> Shape:
    """Of an input after unpad, manipulations and pad; ValueError where they do not fit."""
    if unpad := op.unpads.get(number):
        shape = Shape(shape.z, shape.rt - unpad.rt, shape.ct - unpad.ct)
        if shape.rt < 1 or shape.ct < 1:
            raise ValueError(f"input_{number}_unpad leaves nothing")
    shape = shape_after(op.tms.get(number, ()), shape)
    pad = op.pads.get(number)
    return Shape(shape.z, shape.rt + pad.rt, shape.ct + pad.ct) if pad else shape


def output_shape(op: Op, inputs: Sequence[Shape], fused: Mapping[str, FusedOp]) -> Shape:
    """Of what the op makes of inputs that are ready for it; ValueError says which rule they break."""
    x = inputs[0] if inputs else op.shape
    match op.type:
        case "matmul" if op.attributes.get("identity"):
            return _identity_shape(op, inputs)
        case "matmul":
            return _matmul_shape(op, inputs)
        case "reduce":
            return reduce_shape(x, op.attributes["dim"], op.attributes.get("z", x.z))
        case "depthwise":
            return _depthwise_shape(op, inputs)
        case "splice":
            return _splice_shape(op, inputs)
        case "embedding":
            return _embedding_shape(op, x)
        case "topk":
            _same(inputs)
            return replace(x, ct=op.grid_size[1] * -(-op.attributes["k"] // TILE))
        case "fused_op":
            return fused_shapes(op, inputs, fused[op.attributes["fused_op_id"]])[-1]
        case "drainer":
            return op.shape
        case _:
            if KINDS[op.type].family in ("binary", "quant"):
                _same(inputs)
            return x


def _same(inputs: Sequence[Shape]) -> None:
    if len({*inputs}) > 1:
        raise ValueError(f"inputs differ in shape: {' and '.join(map(str, inputs))}")


def _matmul_shape(op: Op, inputs: Sequence[Shape]) -> Shape:
    x, y, *others = inputs
    _product_fits(x, y, op.attributes)
    z = x.z
    if op.attributes.get("accumulate"):
        group = op.attributes.get("z", z)
        if z % group:
            raise ValueError(f"attribute z {group} does not divide z {z}")
        z //= group
    made = Shape(z, x.rt, y.ct)
    for other in others:
        if other != made:
            raise ValueError(f"bias or scale of {other} for a product of {made}")
    return made


def _product_fits(x: Shape, y: Shape, attributes: Mapping[str, int]) -> None:
    if x.ct != y.rt:
        raise ValueError(f"input 0 has {x.ct} tile columns and input 1 {y.rt} tile rows")
    if (steps := attributes["m_k"] * attributes["u_kt"]) != y.rt:
        raise ValueError(f"m_k {attributes['m_k']} times u_kt {attributes['u_kt']} is {steps}, not the {y.rt} tile rows of input 1")
    if x.z > y.z:
        raise ValueError(f"input 0 has z {x.z}, input 1 z {y.z}")


def _identity_shape(op: Op, inputs: Sequence[Shape]) -> Shape:
    weights, activations, encoding, *bias = inputs
    (rows, columns), slabs = op.grid_size, op.attributes.get("fracture_factor", 1)
    if columns % slabs:
        raise ValueError(f"fracture_factor {slabs} does not divide the {columns} grid columns")
    for what, shape in (("weights", weights), ("encoding", encoding)):
        if shape.rt % rows or shape.ct % slabs:
            raise ValueError(f"{what} of {shape} do not split into {rows}x{slabs} slabs")
    if activations.ct != op.shape.ct:
        raise ValueError(f"activations have {activations.ct} tile columns, the op {op.shape.ct}")
    if bias and bias[0] != op.shape:
        raise ValueError(f"bias of {bias[0]} for a product of {op.shape}")
    return op.shape


def reduce_shape(x: Shape, dim: str, group: int) -> Shape:
    """Of a maximum over rows (r), columns (c), both (rc) or groups of z."""
    if dim == "z":
        if x.z % group:
            raise ValueError(f"attribute z {group} does not divide z {x.z}")
        return replace(x, z=x.z // group)
    return replace(x, **{{"r": "rt", "c": "ct"}[d]: 1 for d in dim})


def _depthwise_shape(op: Op, inputs: Sequence[Shape]) -> Shape:
    x, w, *bias = inputs
    if w.rt != op.attributes["m_k"] or x.ct != w.rt * w.ct or x.z > w.z:
        raise ValueError(
            f"inputs of {x} and {w} for m_k {op.attributes['m_k']}: input 0 needs m_k times the tile columns of input 1"
        )
    made = Shape(x.z, x.rt, w.ct)
    if bias and bias[0] != made:
        raise ValueError(f"bias of {bias[0]} for a product of {made}")
    return made


def splice_units(op: Blocked, shape: Shape, granularity: str) -> int:
    """Units of an input: z slices, or in each z the ublocks of one core's share; ValueError if it cannot be blocked."""
    if granularity == "t":
        return shape.z
    rows, columns = op.grid_size[0] * op.ublock[0], op.grid_size[1] * op.ublock[1]
    if shape.z != op.t or shape.rt % rows or shape.ct % columns:
        raise ValueError(f"an input of {shape} is no grid of {op.grid_size[0]}x{op.grid_size[1]} with ublocks of {op.ublock}")
    return (shape.rt // rows) * (shape.ct // columns)


def _splice_shape(op: Op, inputs: Sequence[Shape]) -> Shape:
    granularity = op.attributes.get("granularity", "ublock")
    for shape in inputs:
        if granularity == "t" and (shape.rt, shape.ct) != (op.shape.rt, op.shape.ct):
            raise ValueError(f"an input of {shape} for an output of {op.shape}")
    splice_order(op, [splice_units(op, shape, granularity) for shape in inputs])
    return op.shape


def splice_order(op: Op, counts: Sequence[int]) -> list[tuple[int, int, int]]:
    """(input, first unit, number of units) of what is copied, in order; ValueError where an input is too short or not used up."""
    granularity = op.attributes.get("granularity", "ublock")
    total = op.shape.z if granularity == "t" else op.mblock[0] * op.mblock[1]
    rules: list[tuple[int, int, int]] = []
    for number, count in enumerate(counts):
        if (rule := op.attributes.get(f"input{number}")) is None:
            raise ValueError(f"has no attribute input{number}")
        index, length, stride = rule
        if length < 1 or stride < length or index + length > count or index + stride > count or count % (index + stride):
            raise ValueError(f"attribute input{number} {list(rule)} does not fit the {count} units of that input")
        rules.append(rule)
    found: list[tuple[int, int, int]] = []
    at = [0] * len(counts)
    filled = 0
    while filled < total:
        for number, (index, length, stride) in enumerate(rules):
            if filled >= total:
                break
            if at[number] + index + length > counts[number]:
                raise ValueError(f"input {number} is used up before the output is full")
            found.append((number, at[number] + index, length))
            at[number] += index + stride
            filled += length
    if filled != total or any(used != count for used, count in zip(at, counts, strict=True)):
        raise ValueError(f"the inputs are not used up when the {total} units of the output are full")
    return found


def _embedding_shape(op: Op, table: Shape) -> Shape:
    indices = op.attributes["num_indices"]
    if indices % TILE or indices // TILE != op.mblock[0] or op.ublock[0] != 1:
        raise ValueError(f"num_indices {indices} is not 32 times the {op.mblock[0]} mblock rows, with ublock rows of 1")
    return Shape(1, op.grid_size[0] * indices // TILE, table.ct)


def fused_shapes(op: Op, inputs: Sequence[Shape], fused: FusedOp) -> list[Shape]:
    """Of what each step makes; the last is what the fused op makes. ValueError names the step."""
    known = {f"input{number}": shape for number, shape in enumerate(inputs)}
    made: list[Shape] = []
    for step in fused.steps:
        try:
            shapes = [
                shape_after(step.tms.get(number, ()), known[name]) for number, name in enumerate(step.inputs) if name in known
            ]
            if len(shapes) != len(step.inputs):
                raise ValueError(f"{next(name for name in step.inputs if name not in known)} holds nothing")
            known[step.output] = _step_shape(step, shapes)
        except ValueError as error:
            raise ValueError(f"fused op {fused.name}, op {step.name}: {error}") from None
        made.append(known[step.output])
    if not made or fused.steps[-1].output != "output":
        raise ValueError(f"fused op {fused.name}: its last op does not write output")
    return made


def _step_shape(step: ScheduledOp, shapes: Sequence[Shape]) -> Shape:
    match KINDS[step.type].family:
        case "matmul":
            _product_fits(shapes[0], shapes[1], {"m_k": 1, "u_kt": 1} | dict(step.attributes))
            return Shape(shapes[0].z, shapes[0].rt, shapes[1].ct)
        case "reduce":
            return reduce_shape(shapes[0], step.attributes.get("dim", "r"), shapes[0].z)
        case _:
            _same(shapes)
            return shapes[0]
