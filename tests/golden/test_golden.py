"""Programs and their modelled cost as stored: a change of either shows in a diff, and is meant (`make golden`) or a defect."""

from pathlib import Path

import pytest

import hlo2tx8

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "hlo_samples"

STORED = (
    "elementwise/gelu_bf16",  # the pipeline of loads, CT and stores
    "elementwise/select_clamp_f16",
    "diamonds/log_diamond_f32",  # several functions
    "integers/bits_u32",  # kernel core
    "reduce/sum_rows_f32",
    "reduce/max_columns_bf16",
    "reduce/softmax_f32",
    "shaping/transpose_tails_f32",  # DMA of tails
    "shaping/pad_slice_bf16",
    "dot/gemm_bf16",
    "control/doubling_f32",  # a counted loop
)


def listing(sample: str) -> str:
    """What the chip would do with a sample: cost in cycles and bytes, then the program."""
    executable = hlo2tx8.compile(str(SAMPLES / f"{sample}.hlo"))
    cost, memory = executable.cost_analysis(), executable.memory_analysis()
    numbers = {
        "cycles": f"{cost['cycles']:,.0f}",
        "bound": f"{cost['bound']}, then {cost['next_bound']}",
        "DDR bytes": f"{cost['bytes accessed']:,}",
        "SPM peak, bytes": f"{memory['spm_size_in_bytes']:,}",
        "temporaries in DDR, bytes": f"{memory['temp_size_in_bytes']:,}",
        "program, bytes": f"{memory['generated_code_size_in_bytes']:,}",
    }
    head = "".join(f"{name}: {value}\n" for name, value in numbers.items())
    text = executable.as_text("program").replace(f"{SAMPLES}/", "")
    return head + "\n" + "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.parametrize("sample", STORED)
def test_program_and_cost(sample: str, request: pytest.FixtureRequest) -> None:
    path = HERE / f"{sample.replace('/', '_')}.txt"
    found = listing(sample)
    if request.config.getoption("--update-golden"):
        path.write_text(found)
    assert found == path.read_text(), "run `make golden` if this change of program or cost is meant"
