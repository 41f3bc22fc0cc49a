"""Arrays of any kind are bound to slots; runs of a program share what does not change, and nothing else."""

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.emulator import Emulator, LaunchError
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

CHIP = replace(load_chip(), tiles=2, mesh=(1, 2))
SHAPE = (4, 6)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


MAKERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda a: a,
    "read only": read_only,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
}


def copying(dtype: str, constant: np.ndarray) -> Program:
    """output 0 = the input, through scratch; output 1 = the constant."""
    width = np.dtype(getattr(ml_dtypes, dtype, dtype)).itemsize
    size = width * constant.size
    kinds = ((SlotKind.INPUT, 0), (SlotKind.OUTPUT, 0), (SlotKind.OUTPUT, 1), (SlotKind.SCRATCH, 0), (SlotKind.CONSTANT, 0))
    records: list[Record] = []
    for source, target in ((0, 3), (3, 1), (4, 2)):
        records.append(Record(Rdma, {"dst": 0, "slot": source, "offset": 0, "count": size}, Format.UINT8))
        records.append(Record(Wdma, {"src": 0, "slot": target, "offset": 0, "count": size}, Format.UINT8))
    code, origins = encode_records(records)
    code.flags.writeable = False
    return Program(code, tuple(Slot(kind, i, dtype, SHAPE, size) for kind, i in kinds), (constant,), origins, CHIP.spm_bytes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int4"])
@pytest.mark.parametrize("make", MAKERS)
def test_arrays(make: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    constant, *arrays = (rng.integers(0, 2, SHAPE).astype(getattr(ml_dtypes, dtype, dtype)) for _ in range(4))
    program, emulator = copying(dtype, constant), Emulator(CHIP)
    found = [emulator.run(program, [MAKERS[make](array.copy())]) for array in arrays]
    for array, (copied, kept) in zip(arrays, found, strict=True):
        assert np.array_equal(copied, array)
        assert np.array_equal(kept, constant)


def test_sizes() -> None:
    program, emulator = copying("float32", np.zeros(SHAPE, np.float32)), Emulator(CHIP)
    for size in (23, 25, 0):
        with pytest.raises(LaunchError, match=f"input 0 has {4 * size} bytes, the program wants 96"):
            emulator.run(program, [np.zeros(size, np.float32)])
    assert emulator.run(program, [np.ones(24, np.float32)])[0].sum() == 24
