"""The table of named buffers of compiled programs: every SPM operand is in it, files keep it, buffers alive at once are apart."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.emulator import Emulator
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.isa import Role
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.program import Buffer, SlotKind
from hlo2tx8.runtime.compile import compile_source

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
PATHS = tuple(SAMPLES / name for name in ("converts/chlo.mlir", "diamonds/chain_f32.hlo", "dot/gemm_bf16.hlo"))
LINKED = tuple(
    SAMPLES / name
    for name in (
        *("indexing/update_in_place_bf16.hlo", "control/cache_f32.mlir", "control/case_if.mlir", "control/swap_counted_s32.mlir"),
    )
)


@pytest.mark.parametrize("path", [*PATHS, *LINKED], ids=lambda p: p.stem)
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


@pytest.mark.parametrize(("path", "name"), [(LINKED[2], "copy"), (LINKED[2], "scalar"), (LINKED[0], "update")])
def test_what_the_linker_moves_stays_in_its_buffers(path: Path, name: str) -> None:
    executable = compile_source(path)
    program, chip = executable.program, executable.chip
    inputs = [np.zeros(slot.size_bytes, np.uint8) for slot in program.slots_of(SlotKind.INPUT)]
    Emulator(chip, "strict").run(program, inputs)
    smaller = tuple(replace(b, size_bytes=b.size_bytes - 1) if b.name == name else b for b in program.buffers)
    with pytest.raises(Fault, match=f"its buffer {name} is") as fault:
        Emulator(chip, "strict").run(replace(program, buffers=smaller), inputs)
    assert fault.value.kind is FaultKind.OUT_OF_BUFFER
