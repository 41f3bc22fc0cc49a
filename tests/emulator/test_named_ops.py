"""Operators of the vendor by name: what the assembler writes for them does what they say, in every mode."""

import numpy as np
import pytest

from hlo2tx8.device.assembler import Assembler
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.emulator import Emulator, Mode
from hlo2tx8.device.faults import Fault
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.kc_control import KcEndIf, KcIf, KcLess
from hlo2tx8.device.isa.lsu import TdmaMemset
from hlo2tx8.device.isa.tdma import TdmaChannelNorm
from hlo2tx8.device.layouts import Blocked

MODES: tuple[Mode, ...] = ("definition", "fast", "strict")
DATA, SCRATCH, RESULT = 0x10000, 0x20000, 0x30000


def only_on_tile_0(tx8: Assembler):
    """The program so far, then what follows runs on tile 0."""
    rd = tx8.register()
    tx8(KcLess, rd=rd, a=tx8.tile, b=1)
    tx8(KcIf, value=rd)


def run(tx8: Assembler, mode: Mode, *arrays: np.ndarray) -> list[np.ndarray]:
    tx8(KcEndIf)
    return Emulator(load_chip(), mode).run(tx8.program(spm_bytes=0x40000), arrays)


@pytest.mark.parametrize("mode", MODES)
def test_load_const_load_var_and_store(mode: Mode):
    constant, given = np.arange(12, dtype=np.int16), np.arange(24, dtype=np.int16).reshape(4, 6) * 3
    tx8 = Assembler()
    x, y, z = tx8.input("int16", (4, 6)), tx8.output("int16", (12,)), tx8.output("int16", (4, 2))
    c = tx8.constant(constant)
    only_on_tile_0(tx8)
    tx8.op_loadConst(Format.INT16, dst=DATA, slot=c, count=12)
    tx8.op_dma_store(Format.INT16, slot=y, src=DATA, count=12)
    tx8.op_loadVar(Format.INT16, dst=SCRATCH, slot=x, offset=4, count=2, s1=6, n1=4)
    tx8.op_dma_store(Format.INT16, slot=z, src=SCRATCH, count=8)
    copied, columns = run(tx8, mode, given)
    assert (copied == constant).all()
    assert (columns == given[:, 2:4]).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index_fmt", [Format.INT32, Format.INT64, Format.UINT8])
def test_rows_are_gathered_and_scattered_by_a_list(mode: Mode, index_fmt: Format):
    indices = np.array([4, 0, 4, 2, 1], index_fmt.numpy_dtype)
    table = np.arange(35, dtype=np.float32).reshape(5, 7)
    tx8 = Assembler()
    i, t = tx8.input(indices.dtype.name, (5,)), tx8.input("float32", (5, 7))
    g, s = tx8.output("float32", (5, 7)), tx8.output("float32", (5, 7))
    only_on_tile_0(tx8)
    tx8.op_loadVar(index_fmt, dst=DATA, slot=i, count=5)
    tx8.op_rdmaGather(Format.FP32, dst=SCRATCH, slot=t, rows=5, row=7, indices=DATA, index_fmt=index_fmt)
    tx8.op_dma_store(Format.FP32, slot=g, src=SCRATCH, count=35)
    tx8.op_loadVar(Format.FP32, dst=RESULT, slot=t, count=35)
    tx8.op_dma_store(Format.FP32, slot=s, src=RESULT, count=35)
    tx8.op_wdmaScatter(Format.FP32, slot=s, src=RESULT, rows=5, row=7, indices=DATA, index_fmt=index_fmt)
    gathered, scattered = run(tx8, mode, indices, table)
    assert (gathered == table[indices.astype(int)]).all()
    expected = table.copy()
    for row, index in enumerate(indices.astype(int)):
        expected[index] = table[row]
    assert (scattered == expected).all()


def test_an_index_that_is_out_of_range_faults():
    tx8 = Assembler()
    i, t = tx8.input("int32", (1,)), tx8.input("float32", (5, 7))
    only_on_tile_0(tx8)
    tx8.op_loadVar(Format.INT32, dst=DATA, slot=i, count=1)
    tx8.op_rdmaGather(Format.FP32, dst=SCRATCH, slot=t, rows=1, row=7, indices=DATA)
    with pytest.raises(Fault, match="tile"):
        run(tx8, "definition", np.array([5], np.int32), np.zeros((5, 7), np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("fmt", "shape", "result"),
    [
        (Format.FP16, (2, 1, 2, 131), (1, 2, 131, 2)),
        (Format.BF16, (1, 3, 5, 33), (3, 1, 11, 15)),
        (Format.FP32, (2, 4, 1, 64), (1, 1, 4, 128)),
        (Format.INT8, (1, 2, 2, 129), (2, 1, 2, 129)),
    ],
)
def test_a_reshape_goes_from_blocks_to_blocks(mode: Mode, fmt: Format, shape, result):
    count = int(np.prod(shape))
    data = (np.arange(count) % 113).astype(fmt.numpy_dtype).reshape(shape)
    n, h, w, c = result
    own = Blocked(fmt, n, h * w, c)
    size = own.size_bytes
    tx8 = Assembler()
    x, y = tx8.input(data.dtype.name, shape), tx8.output("uint8", (size,))
    only_on_tile_0(tx8)
    tx8.op_loadVar(fmt, dst=SCRATCH, slot=x, count=count)
    tx8(TdmaChannelNorm, fmt, dst=DATA, src=SCRATCH, **dict(zip(("batch", "h", "w", "c"), shape, strict=True)))
    tx8(TdmaMemset, Format.INT8, dst=SCRATCH, value=0, n=count * fmt.bytes)  # nothing is left of the dense data
    tx8(TdmaMemset, Format.INT8, dst=RESULT, value=0, n=size)  # what lies between batches is stored too
    tx8.op_reshape(fmt, dst=RESULT, src=DATA, scratch=SCRATCH, shape=shape, result=result)
    tx8.op_dma_store(Format.UINT8, slot=y, src=RESULT, count=size)
    (raw,) = run(tx8, mode, data)
    dense = data.reshape(n, h * w, c)
    for batch in range(n):
        for block in own.blocks():
            start = batch * own.batch_stride_bytes + block.offset * fmt.bytes
            stored = raw[start : start + h * w * block.width * fmt.bytes].view(data.dtype).reshape(h * w, block.width)
            assert (stored[:, : block.channels] == dense[batch, :, block.first : block.first + block.channels]).all()


def test_wrong_slots_and_shapes_are_refused():
    tx8 = Assembler()
    x, c = tx8.input("float32", (4,)), tx8.constant(np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="is input, not constant"):
        tx8.op_loadConst(Format.FP32, dst=DATA, slot=x, count=4)
    with pytest.raises(ValueError, match="is constant, not input"):
        tx8.op_loadVar(Format.FP32, dst=DATA, slot=c, count=4)
    with pytest.raises(ValueError, match="different numbers"):
        tx8.op_reshape(Format.FP32, dst=DATA, src=DATA, scratch=SCRATCH, shape=(1, 1, 2, 3), result=(1, 1, 1, 5))
