import os
import signal
import sys
from pathlib import Path

import pytest

LONG = {
    "cli": "bounded_runs files flag_pairs netlist_command netlist_flags netlist_report samples",
    "corpora": "corpora",
    "emulator": "native_timing simulation",
    "end_to_end": (
        "batch_norm complex control convolutions cumulative donation fft gemm in_place indexed_reads indexed_writes "
        "large_mesh linear_algebra models op_programs opaque_types random reductions rows select_apart shared_loads "
        "small_types sort strict_samples top_k widen_narrow_types windows"
    ),
    "isa": "assembly ne ne_conv status",
    "mutation": "no_ops run_finds_mutations",
    "pjrt": "checks examples exit processes",
    "property": "fuzz",
    "recipes": "recipes",
    "unit/compiler": "found_plans",
    "unit/emitters": "all_ops",
    "unit/frontend": "custom_calls lapack",
    "unit/hlo": "hlo_references",
    "unit/netlist": "netlist_emit",
    "unit/schedule": "full_search scaled_chips size_steps",
    "unit": "fuzz_farm op_engines",
}
"""By folder the files test_NAME.py that take longer than about 7 seconds each: marked `long`."""

# Hundreds of processes import the package; none shall compile it again, whatever the environment says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Before numpy is imported: its threads, and those of the other worker, would wait for one another on the same cores, up to a
# hundred times as long as the product takes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so it is in a shell's background, and children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store today's listings and numbers under tests/golden")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.stem.removeprefix("test_") in LONG.get(item.path.parent.relative_to(here).as_posix(), "").split():
            item.add_marker(pytest.mark.long)
