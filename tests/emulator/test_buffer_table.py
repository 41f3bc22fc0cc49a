"""The table of named buffers of compiled programs: every SPM operand is in it, files keep it, buffers alive at once are apart."""

from itertools import combinations
from pathlib import Path

import pytest

import hlo2tx8
from hlo2tx8.device.isa import Role
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.program import Buffer
from hlo2tx8.driver import compile_source

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
PATHS = tuple(SAMPLES / name for name in ("converts/chlo.mlir", "diamonds/chain_f32.hlo", "dot/gemm_bf16.hlo"))


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_every_operand_has_a_buffer(path: Path, tmp_path: Path) -> None:
    executable = compile_source(path)
    program = executable.program
    records = decode_records(program.code, program.origins)
    spm = (Role.SPM_READ, Role.SPM_WRITE)
    assert sorted((use.record, use.operand) for use in program.uses) == [
        (i, k) for i, record in enumerate(records) for k, f in enumerate(record.kind.FIELDS) if f.role in spm
    ]
    assert all(0 <= b.first_record <= b.last_record < len(records) for b in program.buffers)
    for a, b in combinations(program.buffers, 2):
        assert a.last_record < b.first_record or b.last_record < a.first_record or end(a) <= b.address or end(b) <= a.address
    executable.save(tmp_path / "saved.tx8x")
    loaded = hlo2tx8.load(tmp_path / "saved.tx8x").program
    assert (loaded.buffers, loaded.uses) == (program.buffers, program.uses)


def end(buffer: Buffer) -> int:
    return buffer.address + (buffer.copies - 1) * buffer.stride_bytes + buffer.size_bytes
