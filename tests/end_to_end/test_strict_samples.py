"""The samples in strict mode: no fault, and the definition's bits."""

from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.device.emulator import Emulator
from hlo2tx8.hlo.signature import dtype_of
from hlo2tx8.runtime.compile import compile_source

SAMPLES = sorted(p for p in Path(__file__).parents[2].joinpath("hlo_samples").rglob("*.*") if p.suffix in (".hlo", ".mlir"))
MOST_BYTES = 1 << 20


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_sample(path: Path) -> None:
    executable = compile_source(path)
    if sum(slot.size_bytes for slot in executable.program.slots) > MOST_BYTES:
        return  # numpy is slow, and a smaller sample has the same code
    rng = np.random.default_rng(0)
    ports = executable.signature.inputs
    inputs = [(rng.normal(size=p.shape) * 3 > 1 if p.dtype == "bool" else rng.normal(size=p.shape) * 3) for p in ports]
    inputs = [x.astype(dtype_of(p.dtype)) for x, p in zip(inputs, ports, strict=True)]
    expected = Emulator(executable.chip, "definition").run(executable.program, inputs)
    actual = Emulator(executable.chip, "strict").run(executable.program, inputs)
    assert [a.tobytes() for a in actual] == [e.tobytes() for e in expected]
