"""The ops of the dialect `tx8be` in one table: what they take, their attributes, and the HLO op that they mean.

Names and the operands of Gemm and BatchNorm_Inference are published, as are the attributes of Group; what else an op has is chosen
here. An op of StableHLO that has no published name is `tx8be.` and its name in capitals, with StableHLO's attributes: Exponential,
ReduceWindow, DotGeneral for a product that is no Gemm.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.dialects.tx8be_attributes import DevAttr, GemmModeAttr, MemScopeAttr, ParallelAttr, RegionAttr

NO_DEFAULT: Any = object()


@dataclass(frozen=True)
class Property:
    """An attribute: bool, int, float, str, list (of integers), any (`object`) or a class of attributes, and its default; NO_DEFAULT
    where it must be there, None where it may be missing."""

    kind: type
    default: Any = None


@dataclass(frozen=True)
class Tx8beRow:
    """An op. `operands` are names, with ? where `tx8be.None` may stand, with * for any number; the same of `results`.

    `hlo` is the op of StableHLO or chlo that it means, "" for ops that only move data, groups and functions; `renamed` has the
    attributes that it takes from this op's: by its own name, this op's. `is_value`: the result is the operand.
    """

    name: str
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ("output",)
    properties: Mapping[str, Property] = field(default_factory=dict[str, Property])
    hlo: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    is_value: bool = False
    num_regions: int = 0


COMMON: Mapping[str, Property] = {
    "layout_str": Property(str, "Unknown"),
    "chip_parallel": Property(ParallelAttr),
    "tile_parallel": Property(ParallelAttr),
    "dev_info": Property(DevAttr),
    "mem_scope": Property(MemScopeAttr),
}
"""What every op may have."""
FACTORS = ("bias?", "scale?")
"""Behind the operands of Gemm and Conv: added to the sum per column or output channel, then what that is multiplied with."""

PUBLISHED: tuple[Tx8beRow, ...] = (
    Tx8beRow("Input", ("input",), is_value=True),
    Tx8beRow("Output", ("input",), is_value=True),
    Tx8beRow("Tuple", ("inputs*",), properties={"input_nums": Property(int)}),
    Tx8beRow("None"),
    Tx8beRow(
        "Gemm",
        ("left", "right", *FACTORS),
        properties={
            "op_mode": Property(GemmModeAttr),
            "sparse_en": Property(bool, False),
            "transL": Property(bool, False),
            "transR": Property(bool, False),
        },
        hlo="stablehlo.dot_general",
    ),
    Tx8beRow(
        "Conv",
        ("input", "weight", *FACTORS),
        properties={
            "strides": Property(list, (1, 1)),
            "dilations": Property(list, (1, 1)),
            "pads": Property(list, (0, 0, 0, 0)),  # top, bottom, left, right
            "groups": Property(int, 1),
        },
        hlo="stablehlo.convolution",
    ),
    Tx8beRow(
        "BatchNorm_Inference",
        ("input", "scale", "offset", "mean", "variance"),
        properties={"epsilon": Property(float, 1e-6)},
        hlo="stablehlo.batch_norm_inference",
    ),
    Tx8beRow("Constant", properties={"value": Property(object, NO_DEFAULT)}, hlo="stablehlo.constant", renamed={"value": "value"}),
    Tx8beRow(
        "LoadConst",
        properties={"const_map_id": Property(int, NO_DEFAULT), "offset": Property(int), "bypasscodegen": Property(bool, False)},
    ),
    Tx8beRow("LoadVar", ("input",), is_value=True),
    Tx8beRow("StoreVar", ("input",), is_value=True),
    Tx8beRow("ChannelNorm", ("input",), is_value=True),
    Tx8beRow("Unpack", ("inputs*",), ("outputs*",)),
    Tx8beRow(
        "Transpose",
        ("input",),
        properties={"permutation": Property(list, NO_DEFAULT)},
        hlo="stablehlo.transpose",
        renamed={"permutation": "permutation"},
    ),
    Tx8beRow("Reshape", ("input",), hlo="stablehlo.reshape"),
    Tx8beRow(
        "Broadcast",
        ("input",),
        properties={"broadcast_dimensions": Property(list)},
        hlo="stablehlo.broadcast_in_dim",
        renamed={"broadcast_dimensions": "broadcast_dimensions"},
    ),
    Tx8beRow("Add", ("left", "right"), hlo="stablehlo.add"),
    Tx8beRow("Sub", ("left", "right"), hlo="stablehlo.subtract"),
    Tx8beRow("Mul", ("left", "right"), hlo="stablehlo.multiply"),
    Tx8beRow("Div", ("left", "right"), hlo="stablehlo.divide"),
    Tx8beRow(
        "Group",
        ("operands*",),
        ("results*",),
        properties={
            "pipeline_parallel": Property(bool, False),
            "sp_stage_num": Property(int, 1),
            "dev_region": Property(RegionAttr),
            "spm_alloc_size": Property(int),
            "group_tag": Property(int),
            "stream_online_check": Property(list),
            "stream_offline": Property(list),
            "need_barrier": Property(bool, True),
            "group_id": Property(int, -1),
            "template_id": Property(int, -1),
        },
        num_regions=1,
    ),
    Tx8beRow(
        "Subgraph",
        results=(),
        properties={"sym_name": Property(str, NO_DEFAULT), "function_type": Property(object, NO_DEFAULT)},
        num_regions=1,
    ),
    Tx8beRow(
        "Call", ("operands*",), ("results*",), properties={"callee": Property(object, NO_DEFAULT), "group_id": Property(int, -1)}
    ),
    Tx8beRow("Return", ("operands*",), ()),
)


def _named(hlo: str) -> str:
    return "".join(part.capitalize() for part in hlo.replace("-", "_").split("_"))


def _derived() -> Iterator[Tx8beRow]:
    """Rows of the other ops: Chlo stands before a name of chlo that StableHLO has too."""
    taken = {row.name for row in PUBLISHED} | {"Subtract", "Multiply", "Divide"}
    for dialect, declarations in (("stablehlo", stablehlo.DECLARATIONS), ("chlo", chlo.DECLARATIONS)):
        for name, attributes in declarations:
            word = _named(name)
            if name == "broadcast" or (word in taken and dialect == "stablehlo"):
                continue
            word = f"Chlo{word}" if word in taken else word
            taken.add(word)
            properties = {key: Property(object) for key in attributes}
            yield Tx8beRow(
                word, ("inputs*",), ("outputs*",), properties, f"{dialect}.{name}", {a: a for a in attributes}, num_regions=-1
            )


DERIVED: tuple[Tx8beRow, ...] = tuple(_derived())
"""Of StableHLO's and chlo's other ops, and of those whose published op does not say all that they may: any operands and regions."""
ROWS: Mapping[str, Tx8beRow] = {row.name: row for row in (*PUBLISHED, *DERIVED)}
BY_HLO: Mapping[str, Tx8beRow] = {row.hlo: row for row in (*PUBLISHED, *DERIVED) if row.hlo}
"""The op that says all of an HLO op: the published one where there is no other."""
