"""The instruction groups of the machine, written down here from what its public headers name, and the classes that exist."""

from collections.abc import Iterator

import pytest

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Engine
from hlo2tx8.device.isa.ct_move import CtConvert

ARITHMETIC = ("max", "min", "add", "sub", "mul", "div")
RELATIONS = ("eq", "ne", "ge", "gt", "le", "lt")
FLOATS = ("FP16", "BF16", "FP32", "TF32")


def _ct(function: str, *operations: str) -> list[str]:
    return [f"CGRATensor_{function}_{operation}" for operation in operations]


def _forms(function: str, result: str, operations: tuple[str, ...], immediate: bool = True) -> Iterator[str]:
    """VV, VS, VuV and VuV_loop of each."""
    for operation in operations:
        yield f"CGRATensor_{function}_{result}_VV_{operation}"
        if immediate:
            yield f"CGRATensor_{function}_{result}_VS_{operation}"
        yield f"CGRATensor_{function}_{result}_VuV_{operation}"
        yield f"CGRATensor_{function}_{result}_VuV_{operation}_loop"


def _packed_logic() -> Iterator[str]:
    yield "CGRATensor_LogicOp_bV_bV_not"
    for operation in ("and", "or", "xor"):
        yield f"CGRATensor_LogicOp_bV_bVbV_{operation}"
        yield f"CGRATensor_LogicOp_bV_bVubV_{operation}"
        yield f"CGRATensor_LogicOp_bV_bVubV_{operation}_loop"


GROUPS: dict[str, tuple[Engine, list[str]]] = {
    "arithmetic of one operand": (Engine.CT, _ct("ArithOp_V_V", "abs", "recip", "square", "sqrt", "rsqrt", "neg")),
    "arithmetic": (Engine.CT, [*_forms("ArithOp", "V", ARITHMETIC)]),
    "relations": (Engine.CT, [*_forms("RelaOp", "V", RELATIONS)]),
    "relations as packed bools": (Engine.CT, [*_forms("RelaOp", "bV", RELATIONS)]),
    "logic": (Engine.CT, ["CGRATensor_LogicOp_V_V_not", *_forms("LogicOp", "V", ("and", "or", "xor"), immediate=False)]),
    "logic of packed bools": (Engine.CT, [*_packed_logic()]),
    "transcendental": (Engine.CT, _ct("TransOp_V_V", "log2", "ln", "pow2", "exp", "exp_lp", "sin", "cos")),
    "activation": (Engine.CT, _ct("ActOp_V_V", "tanh", "sigmoid", "relu", "satrelu", "leakyrelu", "softplus")),
    "reduction": (Engine.CT, _ct("ReduceOp_T_T", "sum", "avg", "max", "min")),
    "pooling": (
        Engine.CT,
        [
            *_ct("PoolOp_T_T", "max", "min", "sum", "avg", "max_indexed", "min_indexed"),
            *_ct("UnpoolOp_T_T", "unpool", "unpool_avg", "unpool_indexed"),
        ],
    ),
    "conversion": (Engine.CT, _ct("ConvertOp_V_V", "convert")),
    "moves": (Engine.CT, _ct("DataMoveOp_V", "V_maskmove", "V_maskgather", "bV_maskgather")),
    "auxiliary": (
        Engine.CT,
        [
            *_ct("PeriOp_V_V", "argmax", "argmin", "bit2fp", "fp32_factorize", "lut16", "lut32", "elem_mask"),
            *_ct("PeriOp", "S_V_count", "S_bV_bitcount", "T_T_bilinear", "V_rand_gen"),
        ],
    ),
    "matrix engine": (Engine.NE, [
            f"NE_{name}"
            for name in (
                "gemm", "conv", "depthwise", "conv_backward_image", "conv_backward_weight",
                "gemm_quantised", "conv_quantised", "depthwise_quantised",
            )
        ]),
    "loads": (Engine.RDMA, ["RDMA_load"]),
    "stores": (Engine.WDMA, ["WDMA_store"]),
    "moves in SPM": (
        Engine.TDMA,
        [
            f"TDMA_{name}"
            for name in (
                "gatherScatter", "transpose", "mirror", "rotate90", "rotate180", "rotate270", "nchw2nhwc", "nhwc2nchw",
                "concat", "pad", "channelnorm", "img2col", "memset",
            )
        ],
    ),
    "between tiles": (Engine.DTE, ["DTE_unicast", "DTE_multicast", "DTE_gather"]),
    "control": (
        Engine.KC,
        [
            *(f"KC_{name}" for name in ("loop", "end", "if", "endif", "exit", "function", "return", "call")),
            *(f"KC_{name}" for name in ("halt", "wait", "barrier", "affine", "load_scalar")),
        ],
    ),
    "indexed access": (Engine.KC, ["KC_V_gather", "KC_V_scatter"]),
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_every_instruction_of_the_group_has_a_class(group: str) -> None:
    engine, names = GROUPS[group]
    classes = {cls.MNEMONIC: cls for cls in INSTRUCTIONS}
    assert not [name for name in names if name not in classes]
    assert {classes[name].ENGINE for name in names} == {engine}


def test_no_instruction_of_ct_is_outside_of_the_groups() -> None:
    named = {name for _, names in GROUPS.values() for name in names}
    assert {cls.MNEMONIC for cls in INSTRUCTIONS if cls.ENGINE in (Engine.CT, Engine.TDMA)} - named == set()


def test_ct_computes_floats_only() -> None:
    """Packed bools apart, and look-up tables, which move entries."""
    for cls in INSTRUCTIONS:
        if cls.ENGINE is Engine.CT and cls is not CtConvert and "lut" not in cls.MNEMONIC:
            names = {fmt.name for fmt in cls.FORMATS}
            assert names in ({*FLOATS}, {"BOOL"}, {"FP32"}), cls.MNEMONIC


# Source -> targets that take a rounding, and those that take none.
CONVERSIONS = {
    "INT8": ("", "FP16 BF16 FP32 TF32"),
    "INT16": ("BF16 FP32 TF32", "FP16"),
    "INT32": ("FP16 BF16 FP32 TF32", ""),
    "BF16": ("INT16 INT32", "INT8 FP16 FP32 TF32"),
    "FP16": ("INT8 INT16 INT32 BF16", "FP32 TF32"),
    "TF32": ("INT8 INT16 INT32 BF16", "FP16 FP32"),
    "FP32": ("INT8 INT16 INT32 FP16 BF16 TF32", ""),
}


def test_conversions() -> None:
    assert sum(len(f"{rounded} {plain}".split()) for rounded, plain in CONVERSIONS.values()) == 36
    for source in Format:
        rounded, plain = CONVERSIONS.get(source.name, ("", ""))
        for target in Format:
            taken = {rounding for rounding in Rounding if CtConvert.takes(target, source, rounding)}
            nearest: set[Rounding] = {Rounding.NEAREST_EVEN} if target.name in plain.split() else set()
            assert taken == ({*Rounding} if target.name in rounded.split() else nearest), (source.name, target.name)


KERNEL_CORE = {
    "KC_VV_add": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 BF16 FP32 FP64 PRED",
    "KC_VV_div": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 BF16 FP32 FP64",
    "KC_VV_rem": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 BF16 FP32 FP64",
    "KC_VV_shl": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64",
    "KC_VV_and": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 PRED",
    "KC_V_clz": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64",
    "KC_VV_lt": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 BF16 FP32 FP64 PRED",
    "KC_V_exp": "FP16 BF16 FP32 FP64",
    "KC_V_gather": "INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 BF16 FP32 FP64 PRED RAW8 RAW128",
}


@pytest.mark.parametrize("name", KERNEL_CORE)
def test_kernel_core_has_what_ct_has_not(name: str) -> None:
    """Integers of every width and FP64."""
    cls = next(cls for cls in INSTRUCTIONS if name == cls.MNEMONIC)
    assert {fmt.name for fmt in cls.FORMATS} >= {*KERNEL_CORE[name].split()}
