"""Random programs of address arithmetic, branches and loops: the native core, which keeps such records in a form of their own,
leaves the registers as the definition does."""

from collections.abc import Iterator

import numpy as np
import pytest
from native_cases import run_both

from hlo2tx8.device import native
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcAffine, KcEnd, KcEndIf, KcFloorDiv, KcIf, KcLess, KcLoop, KcMax, KcMin, KcMod, KcMul
from hlo2tx8.device.isa.lsu import TdmaMemset

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

NUM_REGISTERS = 8  # of those that programs use; 0 stays 0
IMAGE_BYTES = 4096
NUMBERS = (0, 1, -1, 2, 3, 7, -5, 64, 100, 1 << 31, 1 << 32, -(1 << 40), (1 << 62) + 12345, (1 << 63) - 1, -(1 << 63))
SCALARS = (KcMin, KcMax, KcMul, KcLess, KcFloorDiv, KcMod)
DIVISORS = (1, 2, 3, 64, 170, 1 << 33, -7, -1)


def operand(rng: np.random.Generator, registers: float = 0.5) -> int | Register:
    return Register(int(rng.integers(NUM_REGISTERS))) if rng.random() < registers else NUMBERS[rng.integers(len(NUMBERS))]


def random_scalar(rng: np.random.Generator) -> Record:
    rd = Register(int(rng.integers(NUM_REGISTERS)))
    if rng.random() < 0.4:
        num = int(rng.integers(5))
        products = {f"r{i}": operand(rng, 0.8) if i <= num else 0 for i in range(1, 5)}
        factors = {f"k{i}": operand(rng, 0.1) if i <= num else 0 for i in range(1, 5)}
        return Record(KcAffine, {"rd": rd, "c": operand(rng, 0.2), **products, **factors}, Format.INT8)
    kind = SCALARS[rng.integers(len(SCALARS))]
    divides = kind in (KcFloorDiv, KcMod)
    other = DIVISORS[rng.integers(len(DIVISORS))] if divides else operand(rng)
    return Record(kind, {"rd": rd, "a": operand(rng), "b": other}, Format.INT8)


def random_block(rng: np.random.Generator, depth: int) -> Iterator[Record]:
    for _ in range(int(rng.integers(1, 8))):
        choice = rng.random()
        if depth and choice < 0.15:
            counter = Register(int(rng.integers(NUM_REGISTERS)))
            low, step = int(rng.integers(-3, 4)), int(rng.integers(1, 4))
            yield Record(KcLoop, {"rd": counter, "lo": low, "hi": low + int(rng.integers(-1, 6)), "step": step}, Format.INT8)
            yield from random_block(rng, depth - 1)
            yield Record(KcEnd, {}, Format.INT8)
        elif depth and choice < 0.35:
            yield Record(KcIf, {"value": operand(rng, 0.9)}, Format.INT8)
            yield from random_block(rng, depth - 1)
            yield Record(KcEndIf, {}, Format.INT8)
        else:
            yield random_scalar(rng)


@pytest.mark.parametrize("seed", range(4))
def test_equals_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        records = list(random_block(rng, 3))
        for i in range(NUM_REGISTERS):
            dense = {"n": 1, "s1": 0, "n1": 1, "s2": 0, "n2": 1}
            records.append(Record(TdmaMemset, {"dst": 8 * i, "value": Register(i), **dense}, Format.INT64))
        expected, actual = run_both(records, np.zeros(IMAGE_BYTES, np.uint8))
        listing = "\n".join(f"{r.kind.MNEMONIC} {r.fields}" for r in records)
        assert expected.tobytes() == actual.tobytes(), listing
