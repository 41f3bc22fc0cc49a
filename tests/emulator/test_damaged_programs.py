"""The native decoder survives any words: damaged programs run in a child process, so that a crash is a failed test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hlo2tx8.device import native

NUM_SEEDS = 2000


@pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")
def test_damaged_programs_end_or_fault() -> None:
    script = Path(__file__).with_name("mutate.py")
    run = subprocess.run(
        [sys.executable, str(script), "0", str(NUM_SEEDS)], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    outcomes = json.loads(run.stdout)
    assert sum(outcomes.values()) == NUM_SEEDS
    # The damage must hit all of the decoder's checks, and leave enough that runs.
    for outcome in ("ends", "faults ILLEGAL_OPCODE", "faults BAD_DESCRIPTOR", "faults OUT_OF_BOUNDS", "faults RUNAWAY"):
        assert outcomes[outcome] >= NUM_SEEDS // 250
    assert outcomes.get("stopped", 0) <= NUM_SEEDS // 200
