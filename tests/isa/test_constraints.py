"""Each constraint in both polarities: the verifier and the definition refuse what violates it, and take its edge."""

import numpy as np
import pytest
from drawn import by_name, codes, draw
from native_cases import CHIP, IMAGE_BYTES
from xdsl.dialects.builtin import IndexType, TensorType, f32, i32
from xdsl.dialects.test import TestOp as SourceOp
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.device import interpret, native
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import BufferType, Instruction, Operands, Role
from hlo2tx8.device.isa.base import constraints, violation
from hlo2tx8.device.isa.ct_arith import CtAddVuV, CtAddVuVLoop, CtAddVV
from hlo2tx8.device.isa.ct_move import CtConvert
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KcAffine
from hlo2tx8.device.isa.kc_function import KcVReducePrecision
from hlo2tx8.device.isa.kc_move import KcVIota
from hlo2tx8.device.isa.lsu import MOST_ELEMENTS, Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.isa.tdma import TdmaConcat, TdmaPad, TdmaTranspose, TdmaUnfold
from hlo2tx8.device.program import Program, Slot, SlotKind

FP32 = Format.FP32
VUV = {"dst": 0, "a": 256, "unit": 4096, "n": 8, "u": 64}
LOOP = VUV | {"n": 128, "full_n": 384, "full_u": 192}
DMA = {"slot": 0, "offset": 0, "count": 4}
TDMA = {"dst": 0, "src": 4096, "run_bytes": 4}
IOTA = {"dst": 0, "n": 8, "start": 0, "step": 1, "div": 1, "mod": 8}
PRECISION = {"dst": 0, "src": 256, "n": 8, "exponent": 8, "mantissa": 23}
IMAGE = {"dst": 0, "src": 8192, "batch": 1, "h": 4, "w": 5, "c": 2}
JOIN = {"dst": 0, "a": 8192, "b": 16384, "batch": 1, "h": 4, "w": 5, "c": 2, "extent": 1, "dim": 2}
PADS = {"pad_top": 0, "pad_bottom": 0, "pad_left": 0, "pad_right": 0}
UNFOLD = IMAGE | PADS | {"kernel_h": 4, "kernel_w": 3, "stride_h": 9, "stride_w": 1, "dilation_h": 1, "dilation_w": 2}

Case = tuple[type[Instruction], dict[str, int]]
# What holds, at the edge, written by hand: a constraint cannot be wrong and its test agree.
ALLOWED: tuple[Case, ...] = (
    (CtAddVuV, VUV | {"u": 1}),
    (CtAddVuV, VUV | {"u": 64, "n": 1}),
    (CtAddVuV, VUV | {"n": 0}),
    (CtAddVuVLoop, LOOP),
    (CtAddVuVLoop, LOOP | {"n": 100, "full_n": 300}),
    (CtAddVuVLoop, LOOP | {"full_n": 0, "full_u": 0}),
    (Rdma, DMA | {"dst": 0}),
    (Rdma, DMA | {"dst": 3, "s1": 0, "n1": 9}),
    (Wdma, DMA | {"src": 0, "s3": 4, "n3": 2}),
    (TdmaGatherScatter, TDMA | {"rn1": 6, "rs1": 8, "wn1": 2, "ws1": 4, "wn3": 3, "ws3": 100}),
    (TdmaMemset, {"dst": 0, "value": 1, "n": 0}),
    (TdmaMemset, {"dst": 0, "value": 1, "n": 2, "s2": 0, "n2": 4}),
    (KcVIota, IOTA),
    (KcVReducePrecision, PRECISION | {"exponent": 1, "mantissa": 0}),
    (KcVReducePrecision, PRECISION | {"exponent": 11, "mantissa": 99}),
    (TdmaUnfold, UNFOLD),
    (TdmaPad, IMAGE | PADS),
)
REFUSED: tuple[tuple[type[Instruction], dict[str, int], str], ...] = (
    (CtAddVV, {"dst": 0, "a": 0, "b": 0, "n": -1}, "C1: n >= 0"),
    (CtAddVuV, VUV | {"u": 0}, "C2: 1 <= u <= 64"),
    (CtAddVuV, VUV | {"u": 65}, "C2: 1 <= u <= 64"),
    (CtAddVuVLoop, LOOP | {"n": 0}, "C1: n >= 1"),
    (CtAddVuVLoop, LOOP | {"u": 32}, "C2: u = 64"),
    (CtAddVuVLoop, LOOP | {"full_u": 128}, "C5: full_n / full_u = n / u"),
    (CtAddVuVLoop, LOOP | {"n": 128, "full_n": 320, "full_u": 160}, "C6: full_n is a multiple of n"),
    (Rdma, DMA | {"dst": 0, "count": 0}, "C1: count >= 1"),
    (Rdma, DMA | {"dst": 0, "s1": -1}, "C2: s1 >= 0"),
    (Wdma, DMA | {"src": 0, "n1": 0}, "C3: n1 >= 1"),
    (Wdma, DMA | {"src": 0, "n3": -2}, "C7: n3 >= 1"),
    (TdmaGatherScatter, TDMA | {"run_bytes": 0}, "C1: run_bytes >= 1"),
    (TdmaGatherScatter, TDMA | {"rs2": -4}, "C4: rs2 >= 0"),
    (TdmaGatherScatter, TDMA | {"rn1": 6, "wn1": 5}, r"C14: rn1 \* rn2 \* rn3 = wn1 \* wn2 \* wn3"),
    (TdmaGatherScatter, TDMA | {"rn1": MOST_ELEMENTS, "wn1": MOST_ELEMENTS}, r"C15: run_bytes"),
    (TdmaMemset, {"dst": 0, "value": 0, "n": -1}, "C1: n >= 0"),
    (TdmaMemset, {"dst": 0, "value": 0, "n": 1, "n2": 0}, "C5: n2 >= 1"),
    (TdmaMemset, {"dst": 0, "value": 0, "n": 2, "n2": MOST_ELEMENTS}, r"C6: n \* n1 \* n2"),
    (KcVIota, IOTA | {"div": 0}, "C2: div >= 1"),
    (KcVIota, IOTA | {"mod": -1}, "C3: mod >= 1"),
    (KcVReducePrecision, PRECISION | {"exponent": 0}, "C2: 1 <= exponent <= 11"),
    (KcVReducePrecision, PRECISION | {"exponent": 12}, "C2: 1 <= exponent <= 11"),
    (KcVReducePrecision, PRECISION | {"mantissa": -1}, "C3: mantissa >= 0"),
    (TdmaTranspose, IMAGE | {"h": 0}, "C2: 1 <= h <= 4096"),
    (TdmaTranspose, IMAGE | {"c": 16385}, "C4: 1 <= c <= 16384"),
    (TdmaConcat, JOIN | {"extent": 0}, "C5: 1 <= extent <= 16384"),
    (TdmaConcat, JOIN | {"dim": 3}, "C6: 0 <= dim <= 2"),
    (TdmaPad, IMAGE | PADS | {"pad_left": 1024}, "C7: 0 <= pad_left <= 1023"),
    (TdmaUnfold, UNFOLD | {"stride_w": 0}, "C8: 1 <= stride_w <= 1023"),
    (TdmaUnfold, UNFOLD | {"kernel_h": 5}, r"C15: \(kernel_h - 1\) \* dilation_h < h"),
    (TdmaUnfold, UNFOLD | {"dilation_w": 3}, r"C16: \(kernel_w - 1\) \* dilation_w < w"),
)
TIERS = ["definition", pytest.param("native", marks=pytest.mark.skipif(not native.available(), reason=str(native.why_not())))]


def run(records: list[Record], tier: str) -> None:
    code, origins = encode_records(records)
    slot = Slot(SlotKind.INPUT, 0, "uint8", (IMAGE_BYTES,), IMAGE_BYTES)
    program = Program(code, (slot,), (), origins, CHIP.spm_bytes)
    data = [np.zeros(IMAGE_BYTES, np.uint8)]
    if tier == "native":
        native.run(program, data, CHIP)
    else:
        interpret.run(program, data, CHIP)


@pytest.mark.parametrize("tier", TIERS)
def test_edges_are_taken(tier: str) -> None:
    for cls, fields in ALLOWED:
        cls.make(fmt=FP32, **fields).verify()
        run([Record(cls, fields, FP32)], tier)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("cls", "fields", "label"), REFUSED)
def test_violations_are_refused(cls: type[Instruction], fields: dict[str, int], label: str, tier: str) -> None:
    with pytest.raises(VerifyException, match=f"{cls.MNEMONIC}: {label}.* does not hold for "):
        cls.make(fmt=FP32, **fields).verify()
    with pytest.raises(Fault) as caught:
        run([Record(cls, fields, FP32)], tier)
    assert caught.value.kind is FaultKind.BAD_DESCRIPTOR


@pytest.mark.parametrize("cls", by_name(), ids=lambda c: c.MNEMONIC)
def test_bounds_of_every_field(cls: type[Instruction]) -> None:
    """One below the least and one above the most violates, in every field that has bounds; the edge itself does not."""
    values = draw(cls, np.random.default_rng(3))
    for f in cls.FIELDS:
        least = 0 if f.least is None and f.role in (Role.COUNT, Role.STRIDE) else f.least
        for edge, beyond in ((least, -1), (f.most, 1)):
            if edge is None:
                continue
            refused = violation(cls, Operands(values | {f.name: edge + beyond}, FP32, Format.INT8))
            assert refused and f.name in refused.partition(" does not hold")[0]
            taken = violation(cls, Operands({f.name: edge}, FP32, Format.INT8))
            assert taken is None


def test_what_is_not_known_yet_is_not_judged() -> None:
    """A field that is an SSA value has no value before the program runs; then the emulator judges it."""
    size = SourceOp(result_types=[IndexType()]).results[0]
    CtAddVuV.make(fmt=FP32, **VUV | {"u": size}).verify()
    with pytest.raises(VerifyException, match="C1: n >= 0"):
        CtAddVuV.make(fmt=FP32, **VUV | {"u": size, "n": -1}).verify()


def test_types_of_values() -> None:
    types = (BufferType(), IndexType(), TensorType(f32, [4]), i32)
    buffer, index, tensor, number = SourceOp(result_types=types).results
    Rdma.make(fmt=FP32, **DMA | {"dst": buffer, "slot": tensor, "offset": index}).verify()
    Rdma.make(fmt=FP32, **DMA | {"dst": index}).verify()
    wrong = {"dst": tensor, "slot": index, "offset": buffer, "count": number}
    for name, value in wrong.items():
        with pytest.raises(VerifyException, match=f"RDMA_load: {name} is the .*, not a {value.type}"):
            Rdma.make(fmt=FP32, **DMA | {"dst": 0, name: value}).verify()


def test_formats_are_verified() -> None:
    with pytest.raises(VerifyException, match="CGRATensor_ArithOp_V_VV_add does not take INT32 rounded NEAREST_EVEN"):
        CtAddVV.make(fmt=Format.INT32, dst=0, a=0, b=0, n=0).verify()
    with pytest.raises(VerifyException, match="does not take FP64 from FP32"):
        CtConvert.make(fmt=Format.FP64, fmt2=FP32, dst=0, src=0, n=0).verify()


def test_conversions_of_the_machine() -> None:
    """36 pairs, and the rounding operand where the machine's headers have one."""
    pairs = {(fmt2.name, fmt.name) for fmt, fmt2, _ in codes(CtConvert)}
    assert len(pairs) == 36
    assert all({a, b} & {"FP16", "BF16", "FP32", "TF32"} and a != b for a, b in pairs)
    rounded = {(fmt2.name, fmt.name) for fmt, fmt2, rounding in codes(CtConvert) if rounding is Rounding.TOWARD_POSITIVE}
    published = {
        "INT16": ("BF16", "FP32", "TF32"),
        "INT32": ("FP16", "BF16", "FP32", "TF32"),
        "BF16": ("INT16", "INT32"),
        "FP16": ("INT8", "INT16", "INT32", "BF16"),
        "TF32": ("INT8", "INT16", "INT32", "BF16"),
        "FP32": ("INT8", "INT16", "INT32", "FP16", "BF16", "TF32"),
    }
    assert rounded == {(source, target) for source, targets in published.items() for target in targets}


def test_vector_instructions_bound_their_count() -> None:
    for cls in by_name():
        if cls not in KC_CONTROL and "n" in {f.name for f in cls.FIELDS}:
            assert constraints(cls)[0].text in ("n >= 0", "n >= 1", "n >= 8")


@pytest.mark.parametrize("tier", TIERS)
def test_counts_in_registers_are_checked_when_they_run(tier: str) -> None:
    unit = Record(CtAddVuV, VUV | {"u": Register(9)}, FP32)
    run([Record(KcAffine, {"rd": 9, "c": 64}), unit], tier)
    with pytest.raises(Fault) as caught:
        run([Record(KcAffine, {"rd": 9, "c": 65}), unit], tier)
    assert caught.value.kind is FaultKind.BAD_DESCRIPTOR
    assert caught.value.place.record == 1
