"""Rules of single ops: inputs, formats, cores, what the architecture has."""

from collections.abc import Iterator

from hlo2tx8.netlist.checks import Examined
from hlo2tx8.netlist.model import NetGraph, Op
from hlo2tx8.netlist.ops import KINDS
from hlo2tx8.netlist.shapes import FULL_TILE

DEST_TILES = 8
"""Tiles of an ublock at most, of 16 bits each."""
ROW_MAJOR = ("Float16", "Float16_b", "Float32", "Int8", "Int32")
GRADIENTS = ("matmul", "multiply", "datacopy", "nop")


def check_ops(subject: Examined) -> None:
    """Every op by itself, and the cores of a graph."""
    for graph in subject.netlist.graphs.values():
        taken: dict[tuple[int, int], str] = {}
        for op in graph.ops:
            for core in op.cores:
                if core in taken:
                    subject.add(f"op {op.name}: shares core {list(core)} with op {taken[core]} in graph {graph.name}", op.line)
                    break
                taken[core] = op.name
            for check in (_inputs, _attributes, _formats, _outputs, _architecture):
                for message in check(subject, graph, op):
                    subject.add(f"op {op.name}: {message}", op.line)


def _inputs(subject: Examined, graph: NetGraph, op: Op) -> Iterator[str]:
    least, most = KINDS[op.type].inputs
    if op.type == "fused_op":
        least = most = subject.netlist.fused_ops[op.attributes["fused_op_id"]].inputs
    elif op.type == "matmul":
        scaled = op.attributes.get("requant", False) or op.attributes.get("dequant", False)
        least = most = 2 + op.attributes.get("identity", False) + op.attributes.get("bias", False) + scaled
    elif op.type == "depthwise":
        least = most = 2 + op.attributes.get("bias", False)
    if not least <= len(op.inputs) <= most:
        yield f"field inputs: {len(op.inputs)} instead of {least if least == most else f'{least} to {most}'}"
    if len(op.in_df) != len(op.inputs):
        yield f"field in_df: {len(op.in_df)} formats for {len(op.inputs)} inputs"
    if len(op.grid_loc) != 2 and op.type != "ethernet_datacopy":
        yield "field grid_loc: is not [row, column]"
    for number, name in enumerate(op.inputs):
        other = subject.graph_of.get(name)
        if other is not None and other.name != graph.name and other.target_device == graph.target_device:
            yield f"field inputs: {name} is an op of graph {other.name} on the same device"
        transposes = [tm for tm in op.tms.get(number, ()) if tm.name == "transpose"]
        if transposes and not _may_transpose(subject, op, number):
            yield f"field input_{number}_tms: no transpose of input {number} of {op.type}"
        if sum(tm.name == "pad" for tm in op.tms.get(number, ())) > 1:
            yield f"field input_{number}_tms: more than one pad"
        if any(tm.name == "tile_broadcast" for tm in op.tms.get(number, ())):
            yield f"field input_{number}_tms: tile_broadcast is for ops of fused ops"
        if op.type == "tilizer" and op.tms.get(number):
            yield f"field input_{number}_tms: the input of a tilizer has no manipulations"
        source = subject.ops.get(name)
        if source is not None and source.untilize_output:
            yield f"field inputs: {name} has untilize_output and feeds one queue only"


def _may_transpose(subject: Examined, op: Op, number: int) -> bool:
    family = KINDS[op.type].family
    is_int32 = bool(op.in_df) and op.in_df[0].name == "Int32"
    if family in ("binary", "quant"):
        return number == 0 and subject.arch != "grayskull" and not is_int32
    return number == 1 if family == "matmul" else number == 0 and family in ("copy", "sfpu") and not is_int32


def _attributes(subject: Examined, graph: NetGraph, op: Op) -> Iterator[str]:
    given = op.attributes
    once = dict.fromkeys(given.get("single_tile", ()), 1)
    for name in ("kernel_broadcast", "kernel_broadcast_per_t"):
        for number in {**given.get(name, {}), **(once if name == "kernel_broadcast" else {})}:
            if not any(tm.name == "broadcast" for tm in op.tms.get(number, ())):
                yield f"attribute {name if number not in once else 'single_tile'}: input_{number}_tms has no broadcast"
    if op.type == "matmul" and op.ublock_order != "r":
        yield "field ublock_order: is r for matmul"
    if given.get("identity") and len(op.in_df) > 2 and op.in_df[2].family != "raw":
        yield f"field in_df: the encoding is {op.in_df[2].name} instead of a raw format"
    names = list(given)
    if "accumulate" in given and "z" in given and op.type == "matmul" and names.index("z") < names.index("accumulate"):
        yield "attribute z: stands before accumulate"
    if given.get("z") and ((op.type == "matmul" and not given.get("accumulate")) or (op.type == "reduce" and given["dim"] != "z")):
        yield "attribute z: is for matmul with accumulate and reduce of dimension z"
    if given.get("relu_en") and op.type == "fused_op" and op.gradient_op:
        yield "attribute relu_en: not with gradient_op of a fused op"
    if op.type == "depthwise" and given["u_kt"] != 1:
        yield "attribute u_kt: is 1 for depthwise"
    if given.get("requant") and given.get("dequant"):
        yield "attribute requant: not together with dequant"
    if len(given.get("num_nz_strips", ())) not in (0, op.grid_size[0] * op.grid_size[1]):
        yield "attribute num_nz_strips: is not one for each core"


def _formats(subject: Examined, graph: NetGraph, op: Op) -> Iterator[str]:
    limit = dest_tiles(op, subject.arch)
    if op.ublock[0] * op.ublock[1] > limit:
        yield f"field ublock: {op.ublock[0]}x{op.ublock[1]} tiles do not fit into dest, which holds {limit}"
    integers = [format for format in op.in_df if format.name in ("Int8", "UInt8", "Int32")]
    if integers and KINDS[op.type].family in ("matmul", "binary") and op.acc_df.name != "Int32":
        yield f"field acc_df: is Int32 for inputs of {integers[0].name}"
    if integers and KINDS[op.type].family in ("matmul", "binary") and op.math_fidelity != "HiFi4":
        yield f"field math_fidelity: is HiFi4 for inputs of {integers[0].name}"
    if op.type in ("quantization", "requantization", "dequantization") and op.acc_df.name != "Int32":
        yield f"field acc_df: is Int32 for {op.type}"
    if op.type == "splice" and len({format.name for format in op.in_df}) > 1:
        yield "field in_df: inputs of a splice are of one format"
    if op.type == "reduce" and op.in_df and not op.in_df[0].wide and op.acc_df.name == "Float32":
        yield f"field acc_df: Float32 for a maximum of {op.in_df[0].name}"


def dest_tiles(op: Op, arch: str) -> int:
    """Tiles that fit into half of dest."""
    return DEST_TILES // (2 if op.acc_df.name in ("Float32", "Int32") else 1) * (4 if arch == "wormhole" else 1)


def _outputs(subject: Examined, graph: NetGraph, op: Op) -> Iterator[str]:
    feeds = subject.fed_by.get(op.name, ())
    if op.untilize_output:
        read_by = [other.name for other in subject.ops.values() if op.name in other.inputs]
        if len(feeds) != 1 or read_by:
            yield "field untilize_output: the op feeds one queue, and no op"
        if op.ublock_order != "r":
            yield "field ublock_order: is r with untilize_output"
        if op.out_df.name not in ROW_MAJOR[: 3 if subject.arch == "grayskull" else 5]:
            yield f"field out_df: {op.out_df.name} cannot be untilized"
    if op.gradient_op:
        if not feeds:
            yield "field gradient_op: the op feeds no queue"
        if op.intermed_df != op.out_df:
            yield f"field intermed_df: {op.intermed_df.name} is not out_df {op.out_df.name}, which gradient_op needs"
        if op.type == "maximum" or op.acc_df.name == "Int32":
            yield f"field gradient_op: not for {op.type} with acc_df {op.acc_df.name}"
        turned = [number for number, tms in op.tms.items() if any(tm.name == "transpose" for tm in tms)]
        if turned and op.type not in ("matmul", "datacopy", "nop"):
            yield f"field input_{turned[0]}_tms: no transpose of {op.type} with gradient_op"
        if subject.arch == "grayskull" and op.type not in GRADIENTS:
            yield f"field gradient_op: grayskull has it for {', '.join(GRADIENTS)}, not {op.type}"
    if op.intermed_df.name.startswith(("Bfp2", "Bfp4")) and (op.gradient_op or (op.type == "matmul" and op.attributes["m_k"] > 1)):
        yield f"field intermed_df: sums are not kept in {op.intermed_df.name}"


def _architecture(subject: Examined, graph: NetGraph, op: Op) -> Iterator[str]:
    if subject.arch != "grayskull":
        return
    if op.tile_dim != FULL_TILE:
        yield "field tile_dim: grayskull has tiles of 32x32 only"
    if op.acc_df.name in ("Float32", "Int32"):
        yield f"field acc_df: grayskull has no {op.acc_df.name} in dest"
    for name, idle in (("stoch_rnd_mode", "none"), ("srnd_fpu_en", False), ("l1_acc", False), ("sfpu_execution_thread", "math")):
        if op.attributes.get(name, idle) != idle:
            yield f"attribute {name}: grayskull has no {op.attributes[name]}"
