"""A busy matrix engine runs at the published peak in the model."""

import pytest

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcEnd, KcHalt, KcLoop
from hlo2tx8.device.isa.ne import NE_RESULTS, NeGemm
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model

SIZE, TURNS = 512, 1000
PEAK = {fmt: (256 if fmt is Format.INT8 else 128) * 10**12 for fmt in NE_RESULTS}
"""Operations per second, as published."""


@pytest.mark.parametrize("fmt", NE_RESULTS, ids=lambda f: f.name)
def test_peak(fmt: Format) -> None:
    chip = load_chip()
    fields = {"left": 0, "right": SIZE * SIZE * 4, "psum": 0, "dst": SIZE * SIZE * 8, "rows": SIZE, "columns": SIZE, "depth": SIZE}
    fields |= {"batch": 1, "transpose_left": 0, "transpose_right": 0, "accumulate": 0}
    gemm = Record(NeGemm, fields, NE_RESULTS[fmt][0], fmt)
    loop = Record(KcLoop, {"rd": Register(2), "lo": 0, "hi": TURNS, "step": 1})
    code, origins = encode_records([loop, gemm, Record(KcEnd), Record(KcHalt)])
    report = model(Program(code, (), (), origins, chip.spm_bytes), chip)
    operations = 2 * SIZE**3 * TURNS * chip.tiles
    assert report.bound == "NE"
    assert operations / report.seconds == pytest.approx(PEAK[fmt], rel=0.02)


def test_cycles_of_one_gemm() -> None:
    """32 of startup, then 2 x 1 x 3 steps of 8 x 8 x 16 on four arrays, per batch; INT8 takes half as many."""
    chip = load_chip()
    fields = {"left": 0, "right": 1 << 18, "psum": 0, "dst": 1 << 19, "rows": 9, "columns": 8, "depth": 33, "batch": 20}
    for fmt, cycles in ((Format.BF16, 32 + 20 * 6 / 4), (Format.INT8, 32 + 20 * 6 / 8)):
        record = Record(NeGemm, fields | {"transpose_left": 0, "transpose_right": 0, "accumulate": 0}, fmt, fmt)
        code, origins = encode_records([record, Record(KcHalt)])
        assert model(Program(code, (), (), origins, chip.spm_bytes), chip).busy == {"NE": cycles}
