"""Programs that fault when they run are timed all the same, in bounded time: some in a process of their own, which may hang."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import INSTRUCTIONS
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.fields import Role
from hlo2tx8.device.isa.kc_control import KcAffine
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model

CHIP = load_chip()
WINDOWED = [kind for kind in INSTRUCTIONS if any(f.name == "stride_h" for f in kind.FIELDS)]
SCRIPT = """
import sys, time
import numpy as np
from mutate import CHIP, base_program, damage
from hlo2tx8.device.isa.encoding import EncodingError, encode_records
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model
for seed in range(120):
    rng = np.random.default_rng(seed)
    try:
        code, origins = encode_records(base_program(rng))
    except ValueError:
        continue
    try:
        model(Program(damage(code, rng), (), (), origins, CHIP.spm_bytes), CHIP)
    except EncodingError:
        pass
"""


@pytest.mark.parametrize("value", [0, -1, 1 << 40, 1 << 62])
@pytest.mark.parametrize("kind", WINDOWED, ids=lambda kind: kind.MNEMONIC)
def test_windows_that_no_operand_may_have(kind: type[Instruction], value: int) -> None:
    none = {f"{letter}{i}": 0 for letter in "rk" for i in range(1, 5)}
    fields = {f.name: Register(5) for f in kind.FIELDS if f.role is not Role.REGISTER}
    records = [Record(KcAffine, {"rd": Register(5), "c": value, **none}, Format.INT8)]
    records.append(Record(kind, fields, kind.FORMATS[0], kind.FORMATS2[0] if kind.FORMATS2 else Format.INT8))
    code, origins = encode_records(records)
    assert model(Program(code, (), (), origins, CHIP.spm_limit), CHIP).cycles > CHIP.cycles.launch


def test_sizes_at_which_the_clock_stands_still() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], cwd=Path(__file__).parent, timeout=120, check=False, env=_environment())
    assert run.returncode == 0


def _environment() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join((root, str(Path(__file__).parent)))}
