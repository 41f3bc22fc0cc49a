"""One op on tensors, by numpy: what its inputs become on the way to it, the op, and what its output becomes.

Float formats are rounded where the format's reference model rounds them, and nowhere else: tensors that carry Bfp4 or Bfp2, Float32
where it becomes Tf32, and outputs in Int8, Int32, Bfp4 or Bfp2.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hlo2tx8.netlist import products, rearrange
from hlo2tx8.netlist.elementwise import BINARY, UNARY, Attributes, relu
from hlo2tx8.netlist.formats import FORMATS, Array, Format, round_to
from hlo2tx8.netlist.fused import run_steps
from hlo2tx8.netlist.model import FusedOp, Op
from hlo2tx8.netlist.ops import KINDS
from hlo2tx8.netlist.shapes import FULL_TILE
from hlo2tx8.netlist.tensors import Tensor, corner, vectors
from hlo2tx8.netlist.tms import apply_tms, pad, unpad

NARROW = ("Bfp4", "Bfp4_b", "Bfp2", "Bfp2_b")
OF_OUTPUT = ("Int8", "Int32", *NARROW)
TF32_ARCHES = ("wormhole", "wormhole_b0")
MOVED = ("splice", "embedding", "topk", "tilizer")
"""What they make is in the op's own format, not in that of input 0."""


@dataclass(frozen=True)
class Rules:
    """How a netlist is computed: for an architecture, in float32 with its roundings; `exact` is float64 without those of floats."""

    arch: str
    fused: Mapping[str, FusedOp]
    exact: bool = False

    def real(self, data: Array) -> Array:
        """Values as what arithmetic is done in."""
        return data.astype(np.float64 if self.exact else np.float32, copy=False)

    def rounded(self, data: Array, format: Format) -> Array:
        """Rounded to a format, unless it is one of floats and the rules are exact."""
        return data if self.exact and not format.is_integer else self.real(round_to(data, format))


def run_op(op: Op, sources: Sequence[tuple[Tensor, tuple[int, int]]], rules: Rules, before: Array | None) -> Tensor:
    """What an op makes of its sources, each with its tile size; `before` is what it made before if it sums up.

    ValueError where it has no answer, as for the root of a negative number.
    """
    inputs = [_input(op, number, source, rules) for number, (source, _) in enumerate(sources)]
    dims = [_turned(op, number, dim) for number, (_, dim) in enumerate(sources)]
    with np.errstate(all="ignore"):
        made = _computed(op, inputs, dims, rules)
        if before is not None:
            made = before + made
        if op.type != "fused_op":
            made = relu(made, op.attributes)
    format = op.out_df if op.type in MOVED or op.attributes.get("identity") or not inputs else inputs[0].format
    if op.out_df.name in OF_OUTPUT:
        format = FORMATS["Int8"] if op.type in ("quantization", "requantization") or op.attributes.get("requant") else op.out_df
        made = rules.rounded(made, format)
    return Tensor(made, format)


def _input(op: Op, number: int, source: Tensor, rules: Rules) -> Tensor:
    data, tms = source.data, op.tms.get(number, ())
    if cut := op.unpads.get(number):
        data = unpad(data, cut.rt, cut.ct)
    data = apply_tms(tms, data)
    if more := op.pads.get(number):
        data = pad(data, more.rt, more.ct, more.pad_value)
    format = source.format
    if format.name == "Float32" and rules.arch in TF32_ARCHES:
        format = FORMATS["Tf32"]
    elif format.name not in NARROW:
        return Tensor(data, format)
    is_turned = sum(tm.name == "transpose" for tm in tms) % 2  # rows of a block are those before tiles are turned
    rounded = rules.rounded(data.swapaxes(1, 2) if is_turned else data, format)
    return Tensor(rounded.swapaxes(1, 2) if is_turned else rounded, format)


def _turned(op: Op, number: int, dim: tuple[int, int]) -> tuple[int, int]:
    """The tile size of an input after its transposes."""
    return (dim[1], dim[0]) if sum(tm.name == "transpose" for tm in op.tms.get(number, ())) % 2 else dim


def _computed(op: Op, inputs: Sequence[Tensor], dims: Sequence[tuple[int, int]], rules: Rules) -> Array:
    family = KINDS[op.type].family
    datas = [source.data for source in inputs]
    if family == "copy":
        return _cornered(op, datas[0], dims)
    if op.type in _OTHERS:
        return _OTHERS[op.type](op, datas)
    if op.type == "embedding":
        return rules.real(rearrange.embedding(op, datas[0], datas[1]))
    if op.type == "fused_op":
        return run_steps(op, rules.fused[op.attributes["fused_op_id"]], [rules.real(data) for data in datas], rules.rounded)
    is_raw = [source.format.family == "raw" and family == "matmul" for source in inputs]
    reals = [data if raw else rules.real(data) for data, raw in zip(datas, is_raw, strict=True)]
    is_integer = any(source.format.name in ("Int8", "Int32") for source in inputs)
    match family:
        case "sfpu":
            mode = _mode(op.attributes, dims[0])
            made = vectors(UNARY[op.type](vectors(reals[0], mode), op.attributes), mode)
            return _cornered(op, made, dims)
        case "binary" | "quant":
            made = BINARY[op.type](reals[0], reals[1], op.attributes.get("zero_point", 0.0))
            return _cornered(op, made, dims)
        case "matmul":
            reals[:2] = [corner(data, *dim) for data, dim in zip(reals[:2], dims[:2], strict=True)]
            return corner(products.matmul(op, reals, is_integer), *op.tile_dim)
        case "reduce":
            return products.reduce(reals[0], op.attributes)
        case _:
            return products.depthwise(op, reals)


def _cornered(op: Op, made: Array, dims: Sequence[tuple[int, int]]) -> Array:
    return corner(made, min(dims[0][0], op.tile_dim[0]), min(dims[0][1], op.tile_dim[1]))


def _mode(attributes: Attributes, dim: tuple[int, int]) -> str:
    """Which part of a tile an op on vectors computes."""
    return attributes.get("vector") or ("rc" if dim == FULL_TILE else "c" if dim == (32, 16) else "r")


def _tilized(op: Op, datas: Sequence[Array]) -> Array:
    return rearrange.untile(datas[0])


_OTHERS: Mapping[str, Callable[[Op, Sequence[Array]], Array]] = {
    "splice": rearrange.splice,
    "tilizer": _tilized,
    "topk": lambda op, datas: rearrange.topk(op, datas[0], datas[1]),
    "drainer": lambda op, datas: datas[0],
}
