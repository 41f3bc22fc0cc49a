"""The page of the instruction set: every instruction is on it, and its formulas are those of the timing model."""

from math import ceil

import numpy as np
import pytest
from drawn import by_name, codes, draw
from native_cases import CHIP

from hlo2tx8.dev.isa_page import cycles_text, isa_text, row
from hlo2tx8.device import timing
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Engine, Instruction, Operands
from hlo2tx8.device.isa.encoding import Record, encode_records
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KcAffine
from hlo2tx8.device.isa.tdma import TdmaTensor
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.program import Program

TIMED = [cls for cls in by_name() if cls not in (*KC_CONTROL, KcAffine) and cls.ENGINE is not Engine.DTE]  # whose links are shared


@pytest.mark.parametrize("cls", TIMED, ids=lambda c: c.MNEMONIC)
def test_formula_is_the_model(cls: type[Instruction]) -> None:
    """For all formats an instruction takes; strides are dense, so that no run is short."""
    chip = load_chip()
    for fmt, fmt2, rounding in codes(cls):
        fields = draw(cls, np.random.default_rng(int(fmt)), fmt, fmt2)
        if cls.ENGINE in (Engine.RDMA, Engine.WDMA, Engine.TDMA):
            for f in cls.FIELDS:
                if f.name in ("count", "run_bytes", "n"):
                    fields[f.name] = 640
                elif f.default is not None:
                    fields[f.name] = f.default
        code, origins = encode_records([Record(cls, fields, fmt, fmt2, rounding)])
        report = timing.model(Program(code, (), (), origins, CHIP.spm_bytes), chip)
        operands = Operands(fields, fmt, fmt2)
        widest = max([f.num_bytes(operands) for f in cls.FIELDS if f.num_bytes] or [8])
        if issubclass(cls, TdmaTensor):
            widest = cls.moved_bytes(operands, chip.cycles.tdma_min_run_bytes)
        rate = chip.cycles.ne_int8_speedup if fmt2 is Format.INT8 else 1
        values = fields | {"bytes": widest, "share": chip.ddr_bytes_per_cycle / chip.tiles, "rate": rate, "ceil": ceil, "max": max}
        values |= {"padded": lambda channels, fmt2=fmt2: Blocked(fmt2, 1, 1, channels).aligned_channels}
        cycles = eval(cycles_text(cls, chip), {"__builtins__": {}}, values)
        issue = 0 if cls.ENGINE is Engine.KC else chip.cycles.issue
        assert report.cycles == pytest.approx(chip.cycles.launch + issue + cycles)


def test_every_instruction_is_listed() -> None:
    text = isa_text()
    for cls in by_name():
        cells = row(cls, load_chip())
        assert all(cells[i] for i in (0, 1, 2, 6, 7))
        assert text.count(f"| {cls.OPCODE} | `{cls.MNEMONIC}` | {cls.ENGINE.name} |") == 1
