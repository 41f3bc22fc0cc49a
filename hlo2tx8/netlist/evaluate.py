"""One op on tensors, of numpy or traced with jax: what its inputs become on the way to it, the op, and what its output becomes.

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
"""What they make is in the op's own format, not in that of input 0; as is what makes numbers of integers."""


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
        if self.exact and not format.is_integer:
            return data
        return self.real(round_to(data if format.family == "raw" else self.real(data), format))

    def factor(self, data: Array, format: Format) -> Array:
        """What a product or a maximum takes, where sums are in float32 anyway; values are exact in `format`."""
        return self.real(data)

    def kept(self, made: Tensor, format: Format) -> Tensor:
        """An op's output until it is read; `format` is the op's out_df, which the reference model leaves alone."""
        return made

    def listed(self, op: Op, weights: Array, encoding: Array) -> Sequence[Array]:
        """The products of a sparse matmul; see `products.listed`."""
        return products.listed(op, weights, encoding)


def run_op(op: Op, sources: Sequence[tuple[Tensor, tuple[int, int]]], rules: Rules, before: Array | None) -> Tensor:
    """What an op makes of its sources, each with its tile size; `before` is what it made before if it sums up.

    ValueError where it has no answer, as for the root of a negative number.
    """
    inputs = [input_of(op, number, source, rules) for number, (source, _) in enumerate(sources)]
    dims = [_turned(op, number, dim) for number, (_, dim) in enumerate(sources)]
    with np.errstate(all="ignore"):
        made = _computed(op, inputs, dims, rules)
        if before is not None:
            made = before + made
        if op.type != "fused_op" and op.attributes.get("relu_en"):
            made = relu(rules.real(made), op.attributes)
    is_own = op.type in (*MOVED, "dequantization") or any(op.attributes.get(name) for name in ("identity", "dequant"))
    format = op.out_df if is_own or not inputs else inputs[0].format
    if op.out_df.name in OF_OUTPUT:
        format = FORMATS["Int8"] if op.type in ("quantization", "requantization") or op.attributes.get("requant") else op.out_df
        made = rules.rounded(made, format)
    return Tensor(made, format)


def input_of(op: Op, number: int, source: Tensor, rules: Rules) -> Tensor:
    """What an op takes of a source: unpadded, manipulated, padded, rounded."""
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
        return run_steps(op, rules.fused[op.attributes["fused_op_id"]], inputs, rules)
    is_product = family in ("matmul", "reduce") or op.type == "depthwise"
    reals = [rules.factor(x.data, x.format) if is_product and i < 2 else rules.real(x.data) for i, x in enumerate(inputs)]
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
            lists = rules.listed(op, datas[0], datas[2]) if op.attributes.get("identity") else None
            return corner(products.matmul(op, reals, lists, is_integer), *op.tile_dim)
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
