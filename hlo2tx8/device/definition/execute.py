"""The definition: what each instruction does, in numpy. The native core must equal it bit for bit."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from hlo2tx8.device import status
from hlo2tx8.device.arithmetic import float_rules, kernel_core_convert, stochastic
from hlo2tx8.device.definition import packed, remote, tensor
from hlo2tx8.device.definition import tdma as definition_tdma
from hlo2tx8.device.definition.tile_machine import TileMachine
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import forms, tdma
from hlo2tx8.device.isa.base import Instruction, unpublished, violation
from hlo2tx8.device.isa.ct_activation import CtExpLowPrecision, CtLeakyRelu, CtSatRelu
from hlo2tx8.device.isa.ct_arith import CtAbs, CtNeg
from hlo2tx8.device.isa.ct_auxiliary import CtBitToFloat, CtCount, CtExtreme
from hlo2tx8.device.isa.ct_function import Transcendental
from hlo2tx8.device.isa.ct_logic import CtBitsBinary, CtBitsNot, CtBitsUnit, CtBitsUnitLoop
from hlo2tx8.device.isa.ct_move import CtConvert, CtMaskMove
from hlo2tx8.device.isa.ct_pool import CtPool, CtPoolForm, CtPoolIndexed
from hlo2tx8.device.isa.ct_reduce import CtReduce
from hlo2tx8.device.isa.dte import DteForm, DteGather
from hlo2tx8.device.isa.encoding import Record
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.kc_function import KcFunction, KcVReducePrecision
from hlo2tx8.device.isa.kc_move import KcVConvert, KcVGather, KcVIota, KcVScatter, KcVSelect
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, TdmaMemset, Wdma
from hlo2tx8.device.isa.ne import NeGemmForm
from hlo2tx8.device.isa.ne_conv import NeConvForm


def execute(machine: TileMachine, record: Record, operands: Operands) -> None:
    """Executes one engine or kernel-core vector instruction."""
    if record.kind.LAW and machine.laws.get(record.kind.LAW) is None:
        raise Fault(FaultKind.UNPUBLISHED, unpublished(record.kind), machine.place)
    violated = violation(record.kind, operands)
    if violated:
        raise Fault(FaultKind.BAD_DESCRIPTOR, violated, machine.place)
    run = _definition_of(record.kind)
    if run is None:
        raise Fault(FaultKind.ILLEGAL_OPCODE, f"{record.kind.MNEMONIC} has no definition", machine.place)
    with np.errstate(all="ignore"):
        run(machine, record, operands)


# ------------------------------------------------------------------------------------------------------------ CT


def _ct_arith(m: TileMachine, record: Record, o: Operands, values: Sequence[np.ndarray]) -> None:
    wide = [float_rules.widen(v, o.fmt) for v in values]
    odd = record.kind.EXACT.odd if record.rounding is not Rounding.NEAREST_EVEN else None
    if odd is not None:
        x, y = (v.astype(np.float64) for v in (wide[0], wide[-1]))
        rounded = stochastic.round_by(odd(x, y), o.fmt, record.rounding)
        if m.keeps_status:
            m.status |= status.of_elements(record.kind, wide, rounded)
        m.write(o["dst"], rounded, o.fmt)
        return
    result = record.kind.COMPUTE(*wide)
    truth = result.dtype == np.bool_
    rounded = float_rules.round_to(result.astype(np.float32) if truth else result, o.fmt)
    if m.keeps_status:
        m.status |= status.of_elements(record.kind, wide, rounded)
    if record.kind.FORM == "RELATION_BITS":
        m.write(o["dst"], np.packbits(result, bitorder="little"), Format.BOOL)
        return
    m.write(o["dst"], rounded, o.fmt)


def _ct_v(m: TileMachine, record: Record, o: Operands) -> None:
    x = m.read(o["src"], o["n"], o.fmt)
    if record.kind in (CtAbs, CtNeg):
        bits = float_rules.to_bits(x)
        m.write(o["dst"], record.kind.COMPUTE(bits, 1 << (8 * o.fmt.bytes - 1)).view(x.dtype), o.fmt)
        return
    _ct_arith(m, record, o, [x])


def _ct_function(m: TileMachine, record: Record, o: Operands) -> None:
    from hlo2tx8.device import approx

    x = m.read(o["src"], o["n"], o.fmt)
    if record.rounding is Rounding.NEAREST_EVEN:
        value = float_rules.canonical_nan(approx.evaluate(record.kind.FUNCTION, x, fmt_name=o.fmt.name), o.fmt)
    else:
        wide = approx.evaluate(record.kind.FUNCTION, x.astype(np.float64), fmt_name=Format.FP64.name)
        value = stochastic.round_by(wide, o.fmt, record.rounding)
    if m.keeps_status:
        m.status |= status.of_elements(record.kind, [x], value)
    m.write(o["dst"], value, o.fmt)


def _ct_vv(m: TileMachine, record: Record, o: Operands) -> None:
    _ct_arith(m, record, o, [m.read(o["a"], o["n"], o.fmt), m.read(o["b"], o["n"], o.fmt)])


def _ct_vs(m: TileMachine, record: Record, o: Operands) -> None:
    imm = np.array([o["imm"] & 0xFFFFFFFF], np.uint32).view(np.float32)
    a = float_rules.widen(m.read(o["a"], o["n"], o.fmt), o.fmt)
    _ct_arith(m, record, o, [a, np.broadcast_to(float_rules.round_to(imm, o.fmt).astype(np.float32), a.shape)])


def _ct_vuv(m: TileMachine, record: Record, o: Operands) -> None:
    n = o["n"]
    unit = m.read(o["unit"], o["u"], o.fmt)
    _ct_arith(m, record, o, [m.read(o["a"], n, o.fmt), np.resize(unit, n)])


def _ct_vuv_loop(m: TileMachine, record: Record, o: Operands) -> None:
    n, u, full_n, full_u = o["n"], o["u"], o["full_n"], o["full_u"]
    unit = m.read(o["unit"], full_u, o.fmt).reshape(-1, u)
    spread = np.concatenate([np.resize(row, n) for row in unit]) if full_n else unit.reshape(-1)
    _ct_arith(m, record, o, [m.read(o["a"], full_n, o.fmt), spread])


def _ct_convert(m: TileMachine, record: Record, o: Operands) -> None:
    x = m.read(o["src"], o["n"], o.fmt2)
    wide = float_rules.widen(x, o.fmt2) if o.fmt2.is_float else x.astype(np.float64) - o["zp"]
    if record.rounding is Rounding.STOCHASTIC:
        value = stochastic.convert(wide.astype(np.float64), o.fmt, o["seed"])
    elif o.fmt.is_float:
        value = float_rules.round_to(wide, o.fmt, record.rounding)
    else:
        value = float_rules.float_to_integer(wide, o.fmt.numpy_dtype, record.rounding)
    if m.keeps_status:
        m.status |= status.of_conversion(wide, o.fmt, value)
    m.write(o["dst"], value, o.fmt)


def _ct_mask_move(m: TileMachine, record: Record, o: Operands) -> None:
    old = m.read(o["dst"], o["n"], o.fmt)
    mask = m.read(o["mask"], o["n"], o.fmt2)
    m.write(o["dst"], np.where(mask != 0, m.read(o["src"], o["n"], o.fmt), old), o.fmt)


# ------------------------------------------------------------------------------------------------------------ KC


def _kc_v(m: TileMachine, record: Record, o: Operands) -> None:
    x = m.read(o["src"], o["n"], o.fmt)
    m.write(o["dst"], record.kind.COMPUTE(x, o.fmt), o.fmt)


def _kc_test(m: TileMachine, record: Record, o: Operands) -> None:
    m.write(o["dst"], record.kind.COMPUTE(m.read(o["src"], o["n"], o.fmt), o.fmt), Format.PRED)


def _kc_reduce_precision(m: TileMachine, record: Record, o: Operands) -> None:
    x = m.read(o["src"], o["n"], o.fmt)
    m.write(o["dst"], kernel_core_convert.reduce_precision(x, o.fmt, o["exponent"], o["mantissa"]), o.fmt)


def _kc_vv(m: TileMachine, record: Record, o: Operands) -> None:
    a, b = m.read(o["a"], o["n"], o.fmt), m.read(o["b"], o["n"], o.fmt)
    m.write(o["dst"], record.kind.COMPUTE(a, b, o.fmt), o.fmt)


def _kc_compare(m: TileMachine, record: Record, o: Operands) -> None:
    a, b = m.read(o["a"], o["n"], o.fmt), m.read(o["b"], o["n"], o.fmt)
    m.write(o["dst"], record.kind.COMPUTE(a, b, o.fmt, bool(o["total"])), Format.PRED)


def _kc_select(m: TileMachine, record: Record, o: Operands) -> None:
    pred = m.read(o["pred"], o["n"], Format.PRED)
    a, b = m.read(o["a"], o["n"], o.fmt), m.read(o["b"], o["n"], o.fmt)
    m.write(o["dst"], np.where(pred != 0, a, b), o.fmt)


def _kc_convert(m: TileMachine, record: Record, o: Operands) -> None:
    m.write(o["dst"], kernel_core_convert.convert(m.read(o["src"], o["n"], o.fmt2), o.fmt2, o.fmt), o.fmt)


def _kc_iota(m: TileMachine, record: Record, o: Operands) -> None:
    m.spm.check(o["dst"], o["n"] * o.fmt.bytes, m.place)
    value = o["start"] + (np.arange(o["n"], dtype=np.int64) // o["div"] % o["mod"]) * o["step"]
    m.write(o["dst"], kernel_core_convert.convert(value, Format.INT64, o.fmt), o.fmt)


def _kc_gather(m: TileMachine, record: Record, o: Operands) -> None:
    index = m.read(o["index"], o["n"], Format.INT32).astype(np.int64)
    if not index.size:
        return
    low, high = int(index.min()), int(index.max())
    if low < 0:
        raise Fault(FaultKind.OUT_OF_BOUNDS, f"gather index {low}", m.place)
    size = o.fmt.bytes
    m.spm.check(o["src"], (high + 1) * size, m.place)
    m.spm.check(o["dst"], o["n"] * size, m.place)
    span = np.arange(size)
    sources = (o["src"] + index[:, None] * size + span).reshape(-1)
    targets = np.arange(o["dst"], o["dst"] + o["n"] * size)
    m.spm.move(targets, sources, m.place)


def _kc_scatter(m: TileMachine, record: Record, o: Operands) -> None:
    index = m.read(o["index"], o["n"], Format.INT32).astype(np.int64)
    values = m.read(o["src"], o["n"], o.fmt)
    for i, value in zip(index.tolist(), values, strict=True):
        if i < 0:
            raise Fault(FaultKind.OUT_OF_BOUNDS, f"scatter index {i}", m.place)
        m.write(o["dst"] + i * o.fmt.bytes, np.asarray(value, o.fmt.numpy_dtype).reshape(1), o.fmt)


# ----------------------------------------------------------------------------------------------------------- LSU


def strided_offsets(strides: Sequence[int], counts: Sequence[int]) -> np.ndarray:
    """Offsets of all turns of nested levels, innermost first in the arguments, outermost slowest in the result."""
    offsets = np.zeros(1, np.int64)
    for stride, count in zip(strides, counts, strict=True):
        offsets = (np.arange(count, dtype=np.int64)[:, None] * stride + offsets[None, :]).reshape(-1)
    return offsets


def _levels(o: Operands, stride: str, count: str, num: int = 3) -> tuple[list[int], list[int]]:
    return [o[f"{stride}{i + 1}"] for i in range(num)], [o[f"{count}{i + 1}"] for i in range(num)]


def _extent(strides: Sequence[int], counts: Sequence[int], run: int) -> int:
    """From the first to behind the last of what nested levels of runs reach."""
    return run + sum((c - 1) * s for s, c in zip(strides, counts, strict=True))


def _dma_bytes(m: TileMachine, o: Operands, address: int) -> tuple[np.ndarray, np.ndarray]:
    """(slot bytes, byte index of every byte of the transfer) after all checks, those of SPM at `address` too."""
    size, run = o.fmt.bytes, o["count"]
    strides, counts = _levels(o, "s", "n")
    data = m.ddr.slot(o["slot"], o["offset"], o["offset"] + _extent(strides, counts, run) * size, m.place)
    m.spm.check(address, forms.DMA_BYTES(o), m.place)
    starts = o["offset"] + strided_offsets(strides, counts) * size
    return data, (starts[:, None] + np.arange(run * size)[None, :]).reshape(-1)


def _rdma(m: TileMachine, record: Record, o: Operands) -> None:
    data, index = _dma_bytes(m, o, o["dst"])
    m.spm.write(o["dst"], data[index], m.place)


def _wdma(m: TileMachine, record: Record, o: Operands) -> None:
    data, index = _dma_bytes(m, o, o["src"])
    data[index] = m.spm.read(o["src"], index.size, m.place)


def _gather_scatter(m: TileMachine, record: Record, o: Operands) -> None:
    run = o["run_bytes"]
    read, read_turns = _levels(o, "rs", "rn")
    write, write_turns = _levels(o, "ws", "wn")
    m.spm.check(o["src"], _extent(read, read_turns, run), m.place)
    m.spm.check(o["dst"], _extent(write, write_turns, run), m.place)
    span = np.arange(run)
    sources = (strided_offsets(read, read_turns)[:, None] + span).reshape(-1)
    targets = (strided_offsets(write, write_turns)[:, None] + span).reshape(-1)
    m.spm.move(o["dst"] + targets, o["src"] + sources, m.place)


def _memset(m: TileMachine, record: Record, o: Operands) -> None:
    size = o.fmt.bytes
    strides, counts = _levels(o, "s", "n", num=2)
    m.spm.check(o["dst"], _extent(strides, counts, o["n"]) * size, m.place)
    value = (o["value"] & ((1 << 64) - 1)).to_bytes(8, "little")[:size]
    line = np.tile(np.frombuffer(value.ljust(size, b"\0"), np.uint8), o["n"])
    for start in strided_offsets(strides, counts).tolist() if o["n"] else ():
        m.spm.write(o["dst"] + start * size, line, m.place)


Run = Callable[[TileMachine, Record, Operands], None]
# The first form an instruction derives from decides: special ones first.
_FORMS: tuple[tuple[type, Run], ...] = (
    (Transcendental, _ct_function),
    (CtConvert, _ct_convert),
    (CtMaskMove, _ct_mask_move),
    (CtSatRelu, packed.activation),
    (CtLeakyRelu, packed.activation),
    (CtExpLowPrecision, packed.exp_low_precision),
    (CtBitsNot, packed.bits_not),
    (CtBitsBinary, packed.bits_binary),
    (CtBitsUnit, packed.bits_unit),
    (CtBitsUnitLoop, packed.bits_unit_loop),
    (CtBitToFloat, packed.bit_to_float),
    (CtCount, packed.count),
    (CtExtreme, packed.extreme),
    (CtReduce, tensor.reduce),
    (CtPool, tensor.pool),
    (CtPoolIndexed, tensor.pool),
    (CtPoolForm, tensor.unpool),
    (NeGemmForm, tensor.gemm),
    (NeConvForm, tensor.convolution),
    (forms.CtV, _ct_v),
    (forms.CtVV, _ct_vv),
    (forms.CtVS, _ct_vs),
    (forms.CtVuV, _ct_vuv),
    (forms.CtVuVLoop, _ct_vuv_loop),
    (KcFunction, _ct_function),
    (KcVReducePrecision, _kc_reduce_precision),
    (forms.KcV, _kc_v),
    (forms.KcVV, _kc_vv),
    (forms.KcTest, _kc_test),
    (forms.KcCompareVV, _kc_compare),
    (KcVSelect, _kc_select),
    (KcVConvert, _kc_convert),
    (KcVIota, _kc_iota),
    (KcVGather, _kc_gather),
    (KcVScatter, _kc_scatter),
    (Rdma, _rdma),
    (Wdma, _wdma),
    (TdmaGatherScatter, _gather_scatter),
    (TdmaMemset, _memset),
    (tdma.TdmaPermute, definition_tdma.permute),
    (tdma.TdmaConcat, definition_tdma.concat),
    (tdma.TdmaPad, definition_tdma.pad),
    (tdma.TdmaChannelNorm, definition_tdma.channel_norm),
    (tdma.TdmaUnfold, definition_tdma.unfold),
    (DteGather, remote.gather),
    (DteForm, remote.send),
)


@cache
def _definition_of(kind: type[Instruction]) -> Run | None:
    return next((run for form, run in _FORMS if issubclass(kind, form)), None)
