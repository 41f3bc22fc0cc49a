"""What a full search takes is never slower than what is taken without it, nor slower with more of a resource."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import hlo2tx8
from hlo2tx8 import Options
from hlo2tx8.errors import InputError
from hlo2tx8.pjrt.configuration import override
from hlo2tx8.runtime.compile import compile_source
from tests.unit.schedule.test_scaled_chips import chip, text

TOLERANCE = 1.005
"""Of parts of a kernel that are chosen one by one, and of times that steady states are extrapolated to."""
SCALED = (("softmax", "DDR"), ("gemm 1024", "SPM"), ("convolution", "DDR"), ("column sum", "DDR"), ("column sum", "SPM"))


def cycles(sample: str, options: Options) -> float:
    return hlo2tx8.compile(text(sample), options).report.cycles


@cache
def searched(sample: str, description: str) -> float:
    """Cycles with a full search for a chip of that description."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chip.yaml"
        path.write_text(description)
        return cycles(sample, Options(chip=path, search="full"))


@pytest.mark.parametrize("sample", ["softmax", "convolution", "column sum", "gemm and gelu", "small tanh"])
def test_a_full_search_is_never_slower(sample: str):
    assert searched(sample, yaml.safe_dump(chip("DDR", 1))) <= cycles(sample, Options())


@pytest.mark.parametrize(("sample", "resource"), SCALED)
def test_more_is_never_slower(sample: str, resource: str):
    found = [searched(sample, yaml.safe_dump(chip(resource, factor))) for factor in (0.5, 1, 2)]
    assert found[1] <= TOLERANCE * found[0] and found[2] <= TOLERANCE * found[1]


def test_programs_are_the_same_each_time():
    options = Options(search="full", explain=True)
    first, second = (hlo2tx8.compile(text("small tanh"), options) for _ in range(2))
    assert first.program.code.tobytes() == second.program.code.tobytes() and first.explanation == second.explanation


def test_progress_is_told():
    """Which fusion is searched for, and a share that never falls."""
    told: list[tuple[float, str]] = []
    compile_source(text("small tanh"), Options(search="full"), watch=lambda share, what: told.append((share, what)))
    assert {"search for tanh_fusion", "search for dot_general_fusion"} <= {what for _, what in told}
    shares = [share for share, _ in told]
    assert shares == sorted(shares) and shares[-1] <= 1


def test_jax_has_the_options(tmp_path: Path):
    assert override(Options(), {"search": "full", "search_cache": str(tmp_path)}) == Options(search="full", search_cache=tmp_path)


def test_another_word_is_refused():
    word: Any = "slow"
    with pytest.raises(InputError, match="no search 'slow'"):
        Options(search=word)
