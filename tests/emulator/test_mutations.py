"""Programs broken as a compiler with a mistake would: where that changes a result, strict mode faults."""

from pathlib import Path

import pytest

from hlo2tx8.dev.mutate import Subject, Verdict, judge, small_chip
from hlo2tx8.device.chip import load_chip
from hlo2tx8.options import Options

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
PATHS = ("integers/saturate_s8.hlo", "shaping/pad_slice_bf16.hlo", "elementwise/select_clamp_f16.hlo")
SEEDS = range(4)


@pytest.mark.parametrize("name", PATHS)
def test_what_changes_a_result_faults(name: str, tmp_path: Path) -> None:
    chip_file = small_chip(tmp_path)
    subject = Subject(name, SAMPLES / name, Options(chip=chip_file))
    verdicts: list[Verdict] = [v for seed in SEEDS for v in judge(subject, load_chip(chip_file), seed)]
    changed = [v for v in verdicts if v.is_changed]
    assert len(changed) >= len(SEEDS)
    assert [(v.kind, v.subject) for v in changed if not v.fault] == []
