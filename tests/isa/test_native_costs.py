"""What instructions cost in the timing model's core, which has rules of its own, against the definition in Python."""

from dataclasses import replace

import numpy as np
import pytest
from drawn import by_name, record

from hlo2tx8.device import native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Instruction
from hlo2tx8.device.isa.encoding import Operand, Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KcAffine, KcEnd, KcExit, KcLoadScalar, KcLoop
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing.model import follow
from hlo2tx8.device.timing.native import time_program

CHIP = load_chip()
TIMED = [cls for cls in by_name() if cls not in (*KC_CONTROL, KcExit)]
pytestmark = pytest.mark.skipif(not native.available(), reason="no native core on this machine")


def registers(rng: np.random.Generator) -> list[Record]:
    """Some registers of numbers, some of each turn and tile, one of which nobody knows what is in it."""
    made = [Record(KcLoadScalar, {"rd": 9, "address": 0}, Format.INT32)]
    for rd in range(10, 64):
        terms: dict[str, Operand] = {"r1": Register(int(rng.integers(10))), "k1": int(rng.integers(3))}
        made.append(Record(KcAffine, {"rd": rd, "c": int(rng.integers(1, 50)), **terms}))
    return made


def drawn(cls: type[Instruction], rng: np.random.Generator) -> Record:
    """One whose operands are in registers that are not zero, as divisors."""
    found = record(cls, rng)
    fields = {n: Register(max(o.number, 9)) if isinstance(o, Register) else o for n, o in found.fields.items()}
    return replace(found, fields=fields)


@pytest.mark.parametrize("cls", TIMED, ids=lambda c: c.MNEMONIC)
def test_every_instruction(cls: type[Instruction]) -> None:
    rng = np.random.default_rng(cls.OPCODE)
    records = [r for _ in range(6) for r in (*registers(rng), drawn(cls, rng))]
    loop = Record(KcLoop, {"rd": 4, "lo": 0, "hi": 3, "step": 1})
    code, origins = encode_records([loop, *records, Record(KcEnd)])
    ((_, _, wanted),) = follow(Program(code, (), (), origins, CHIP.spm_bytes), CHIP)
    found = time_program(code, CHIP)
    assert found is not None
    ((_, _, timed),) = found
    assert timed.cycles == pytest.approx(wanted.cycles, rel=1e-12)
    np.testing.assert_allclose(timed.records, wanted.records, rtol=1e-12)
    np.testing.assert_allclose(timed.counters, wanted.counters, rtol=1e-12)
