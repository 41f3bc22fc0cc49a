"""`to_tx8be`: a module at level HLO as ops of tx8be, ungrouped.

The op is the published one where that says all that an HLO op does, else the one with StableHLO's attributes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, f32, i8, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import BitcastOp, CopyOp, FusionOp, GroupOp, LiteralAttr, minor_to_major, name_of, origin
from hlo2tx8.dialects.tx8be import OPS, Tx8beOp
from hlo2tx8.dialects.tx8be_attributes import ParallelAttr
from hlo2tx8.dialects.tx8be_rows import BY_HLO
from hlo2tx8.dialects.tx8be_shapes import FEATURE, PRODUCT_TYPES, shape_of, tensor_of
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.module import find_main
from hlo2tx8.passes.expand_bitcast import expand_type
from hlo2tx8.spmd.chip_parallel import mode_of
from hlo2tx8.spmd.partition_module import TILES

RETURNS = ("func.return", "stablehlo.return")
Fit = tuple[str, Sequence[SSAValue], dict[str, Any]]
"""Name, operands of the HLO module, attributes."""


@dataclass(frozen=True)
class FlatModule:
    """@main's block in tx8be, ending in Return. `loc` of an op is that of the HLO op that it is."""

    block: Block

    @property
    def results(self) -> Sequence[SSAValue]:
        """What the module gives."""
        assert self.block.last_op is not None
        return self.block.last_op.operands


def to_tx8be(module: ModuleOp) -> FlatModule:
    """The module's @main; calls and fusions are what is in them. CompileError names an op without one in tx8be, and its place."""
    module = module.clone()
    rewrite_named(module, {"hlo.bitcast": expand_type})
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
    block = _Writer(functions).block(find_main(module).body.block)
    for op in reversed([*block.ops]):
        if op.name != "tx8be.Return" and not any(result.uses for result in op.results):
            op.detach()
            op.erase()
    return FlatModule(block)


def given_parallel(counts: Sequence[int]) -> ParallelAttr:
    """chip_parallel of an array that is a part already; the whole has so many in each dimension."""
    return ParallelAttr.of(parallel=mode_of(counts), sharding_is_given=True, shape_spatial_sharding=tuple(counts))


def plain(type_: Attribute) -> Attribute:
    """The type without a layout: data in the vendor's files is dense."""
    tensor = cast("TensorType[Attribute]", type_)
    return TensorType(tensor.get_element_type(), tensor.get_shape()) if isinstance(type_, TensorType) else type_


@dataclass
class _Writer:
    functions: Mapping[str, func.FuncOp]
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def block(self, source: Block) -> Block:
        block = Block(arg_types=[plain(arg.type) for arg in source.args])
        self.values.update(zip(source.args, block.args, strict=True))
        returned = self.ops(source, block)
        block.add_op(OPS["Return"]([self.values[v] for v in returned]))
        return block

    def ops(self, source: Block, block: Block) -> Sequence[SSAValue]:
        """Append the block's ops; what it returns."""
        for op in source.ops:
            if op.name in RETURNS:
                return op.operands
            if isinstance(op, CopyOp):
                self.values[op.results[0]] = self.values[op.operands[0]]
            elif isinstance(op, BitcastOp):
                self.values[op.results[0]] = self.bitcast(op, block)
            elif op.name == TUPLE:
                continue  # who reads an element of it reads that value
            elif op.name == ELEMENT and (whole := _owner(op.operands[0], TUPLE)):
                self.values[op.results[0]] = self.values[whole.operands[attributes_of(op)["index"]]]
            elif isinstance(op, FusionOp | GroupOp | func.CallOp):
                inner = self.functions[op.callee.string_value()].body.block if isinstance(op, func.CallOp) else op.body.block
                self.values.update(zip(inner.args, (self.values[v] for v in op.operands), strict=True))
                self.values.update(zip(op.results, [self.values[v] for v in self.ops(inner, block)], strict=True))
            else:
                self.op(op, block)
        raise AssertionError("a block ends with its return")

    def op(self, op: Operation, block: Block) -> None:
        fit = next((found for fits in FITS.get(op.name, ()) if (found := fits(op)) is not None), None)
        if fit is None and op.name not in BY_HLO:
            raise CompileError("E1002", f"tx8be has no op for {name_of(op)}", origin=origin(op))
        regions = [Region(self.block(region.block)) for region in op.regions] if fit is None else []
        name, operands, attributes = fit or _whole(op)
        values = [self.operand(v, name, number, block, origin(op)) for number, v in enumerate(operands)]
        made = OPS[name](values, [plain(r.type) for r in op.results], attributes, regions)
        self.append(made, block, op)
        self.values.update(zip(op.results, made.results, strict=True))

    def append(self, made: Tx8beOp, block: Block, source: Operation) -> Tx8beOp:
        if "loc" in source.attributes:
            made.attributes["loc"] = source.attributes["loc"]
        if isinstance(tiles := source.attributes.get(TILES), StringAttr) and len(made.results) == 1:
            made.attributes["chip_parallel"] = given_parallel([int(n) for n in tiles.data.split(",")])
        block.add_op(made)
        return made

    def bitcast(self, op: Operation, block: Block) -> SSAValue:
        """The operand in its order in memory, reshaped, and back from the result's order; what would change nothing is left out."""
        value = self.values[op.operands[0]]
        source, result = tensor_of(op.operands[0]), tensor_of(op.results[0])
        outer, inner = (tuple(reversed(minor_to_major(type_))) for type_ in (source, result))
        back = tuple(inner.index(d) for d in range(len(inner)))
        stored = [source.get_shape()[d] for d in outer], [result.get_shape()[d] for d in inner]
        steps = (("Transpose", stored[0], outer), ("Reshape", stored[1], ()), ("Transpose", result.get_shape(), back))
        for name, shape, order in steps:
            type_ = TensorType(result.get_element_type(), shape)
            if order != tuple(sorted(order)) or type_ != value.type:
                attributes = {"permutation": order} if order else {}
                value = self.append(OPS[name]([value], [type_], attributes), block, op).results[0]
        return value

    def operand(self, value: SSAValue, name: str, number: int, block: Block, place: str) -> SSAValue:
        """An operand; parameters of a batch norm become 1x1x1xC in f32."""
        found = self.values[value]
        if name != "BatchNorm_Inference" or not number:
            return found
        size = shape_of(found)[-1]
        wanted = TensorType(f32, [1, 1, 1, size])
        if isinstance(found.owner, Tx8beOp) and found.owner.ROW.name == "Reshape" and found.owner.operands[0].type == wanted:
            return found.owner.operands[0]
        if tensor_of(found).get_element_type() != f32:
            block.add_op(made := OPS["Convert"]([found], [TensorType(f32, [size])]))
            found = made.results[0]
        block.add_op(made := OPS["Reshape"]([found], [wanted]))
        return made.results[0]


def _whole(op: Operation) -> Fit:
    row = BY_HLO[op.name]
    return row.name, op.operands, {own: op.properties[key] for key, own in row.renamed.items() if key in op.properties}


def _is_default(op: Operation) -> bool:
    """Does the op ask for no other precision than the default, and is it of one element type?"""
    attributes = attributes_of(op)
    kinds = {tensor_of(v).get_element_type() for v in (*op.operands, *op.results)}
    precision = attributes.get("precision_config") or ()
    return len(kinds) == 1 and all(word == "DEFAULT" for word in precision) and "algorithm" not in attributes


def _gemm(op: Operation) -> Fit | None:
    """A product of matrices whose other dimensions are batches of both, or rows of the left."""
    dims = attributes_of(op)["dot_dimension_numbers"]
    left, right = (len(shape_of(v)) for v in op.operands)
    batch = tuple(dims.lhs_batching_dimensions), tuple(dims.rhs_batching_dimensions)
    inner = tuple(dims.lhs_contracting_dimensions), tuple(dims.rhs_contracting_dimensions)
    is_batched = right > 2
    wanted = tuple(range(left - 2)) if is_batched else ()
    if min(left, right) < 2 or (is_batched and left != right) or batch != (wanted, wanted) or len(inner[0]) != 1:
        return None
    transposed = inner[0][0] - (left - 1), inner[1][0] - (right - 2)  # -1 or 0, 0 or 1
    if transposed[0] not in (-1, 0) or transposed[1] not in (0, 1):
        return None
    return "Gemm", op.operands, {"transL": bool(transposed[0]), "transR": bool(transposed[1])}


def _dot(op: Operation) -> Fit | None:
    element = tensor_of(op.results[0]).get_element_type()
    return _gemm(op) if _is_default(op) and element in PRODUCT_TYPES and element != i8 else None


def _owner(value: SSAValue, name: str) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) and value.owner.name == name else None


def _saturated(op: Operation) -> Fit | None:
    """i8 of a product of i8 in i32, between -128 and 127."""
    clamp = _owner(op.operands[0], "stablehlo.clamp")
    product = clamp and _owner(clamp.operands[1], "stablehlo.dot_general")
    if not product or clamp is None or tensor_of(op.results[0]).get_element_type() != i8:
        return None
    kinds = [tensor_of(v).get_element_type() for v in (*product.operands, *product.results)]
    limits = [_owner(v, "stablehlo.constant") for v in (clamp.operands[0], clamp.operands[2])]
    values = [limit.properties["value"] for limit in limits if limit is not None]
    numbers = [value.array.item() for value in values if isinstance(value, LiteralAttr) and not value.array.ndim]
    return _gemm(product) if kinds == [i8, i8, i32] and numbers == [-128, 127] else None


def _norm(op: Operation) -> Fit | None:
    """A batch norm of channels that are last; its parameters are made f32."""
    attributes, source = attributes_of(op), tensor_of(op.operands[0])
    rank = source.get_num_dims()
    if not 2 <= rank <= 4 or attributes["feature_index"] != rank - 1 or source.get_element_type() not in PRODUCT_TYPES[:3]:
        return None
    return "BatchNorm_Inference", op.operands, {"epsilon": float(attributes["epsilon"])}


def _narrow_norm(op: Operation) -> Fit | None:
    """A batch norm in f32 of an input that was widened, rounded to the input's type."""
    norm = _owner(op.operands[0], "stablehlo.batch_norm_inference")
    widened = norm and _owner(norm.operands[0], "stablehlo.convert")
    if not norm or not widened or plain(widened.operands[0].type) != plain(op.results[0].type):
        return None
    fit = _norm(norm) if tensor_of(op.results[0]).get_element_type() in PRODUCT_TYPES[:2] else None
    return fit and (fit[0], [widened.operands[0], *norm.operands[1:]], fit[2])


def _conv(op: Operation) -> Fit | None:
    """A convolution over two dimensions, neither dilated nor reversed."""
    attributes = attributes_of(op)
    dims, rank = attributes["dimension_numbers"], len(shape_of(op.operands[0]))
    if rank != 4 or not _is_default(op) or tensor_of(op.results[0]).get_element_type() not in PRODUCT_TYPES[:3]:
        return None
    pads = [int(n) for n in attributes["padding"].reshape(-1)] if "padding" in attributes else [0] * 4
    plainly = tuple(attributes.get("lhs_dilation", (1, 1))) == (1, 1) and not any(attributes.get("window_reversal", ()))
    if not plainly or attributes.get("batch_group_count", 1) != 1 or min(pads) < 0:
        return None
    layouts = [["?"] * 4 for _ in range(3)]
    for layout, side, letters in zip(layouts, ("input", "kernel", "output"), (FEATURE[::3], "OI", FEATURE[::3]), strict=True):
        outer = ("output_feature", "input_feature") if side == "kernel" else ("batch", "feature")
        places = [getattr(dims, f"{side}_{word}_dimension") for word in outer] + list(getattr(dims, f"{side}_spatial_dimensions"))
        for place, letter in zip(places, (*letters, "H", "W"), strict=True):
            layout[place] = letter
    found: dict[str, Any] = {
        "layout_str": "-".join("".join(layout) for layout in layouts),
        "strides": attributes.get("window_strides", (1, 1)),
        "dilations": attributes.get("rhs_dilation", (1, 1)),
        "pads": pads,
        "groups": attributes.get("feature_group_count", 1),
    }
    return "Conv", op.operands, found


def _listed(op: Operation) -> Fit | None:
    """A published op whose attributes are lists of integers."""
    row = PUBLISHED[op.name]
    return row, op.operands, {key: value for key, value in attributes_of(op).items() if isinstance(value, tuple)}


TUPLE, ELEMENT = "stablehlo.tuple", "stablehlo.get_tuple_element"
PUBLISHED = {"stablehlo.transpose": "Transpose", "stablehlo.broadcast_in_dim": "Broadcast"}
FITS: Mapping[str, Sequence[Callable[[Operation], Fit | None]]] = {
    "stablehlo.dot_general": (_dot,),
    "stablehlo.convert": (_saturated, _narrow_norm),
    "stablehlo.batch_norm_inference": (_norm,),
    "stablehlo.convolution": (_conv,),
    "stablehlo.broadcast": (lambda op: ("Broadcast", op.operands, {}),),  # whose operand has the last dimensions
    **dict.fromkeys(PUBLISHED, (_listed,)),
}
"""What finds the published op of an HLO op and its attributes, None where that cannot say all of it."""
