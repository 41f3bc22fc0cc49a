"""torch's own samples of its ops on the emulator: `python tests/corpora/torch_opinfo.py [--kind=RE] [--only=RE] [--log=FILE]`.

The samples are those of torch.testing's OpInfo entries (kind op) and of torch.nn's modules (kind nn). Of each entry `--samples` are
taken, spread over all that it has, of f32, int64 and bool, whichever of them it takes; each is exported, compiled, run and compared
with torch itself. An entry passes if all its samples do. Left out, with a count: ops that draw random numbers, and samples in which
the result's shape, or Python's way, depends on what is computed.
"""

# pyright: basic

import argparse
import re
import sys
from pathlib import Path

from pool import add_farm_flags, report, run_and_tell

RANDOM = re.compile(
    r"bernoulli|cauchy|dropout|exponential|geometric|log_normal|multinomial|(^|_)normal|rand|uniform|rrelu|fractional_max_pool"
    r"|empty|svd_lowrank|pca_lowrank"
)
OTHERS = re.compile(r"allclose|^equal$|partial_views|ctc_loss|jiterator|sparse|multi_head_attention_forward|^argsort")
"""Results of Python or sparse ones, memory behind a tensor, dropout inside, the order of equal elements."""


def entries(kind: str) -> list[str]:
    """Names of entries by kind: op/NAME[.VARIANT] and nn/NAME."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    found: list[str] = []
    if re.fullmatch(kind, "op"):
        found += [f"op/{op.name}" + (f".{op.variant_test_name}" if op.variant_test_name else "") for op in op_db]
    if re.fullmatch(kind, "nn"):
        found += [f"nn/{info.name}" for info in module_db]
    return list(dict.fromkeys(found))


def skip_cause(name: str) -> str:
    """Why an entry is not for this runner; empty if it is."""
    short = name.partition("/")[2]
    if name.startswith("op/") and RANDOM.search(short):
        return "draws random numbers, or gives memory as it is"
    if name.startswith("op/") and OTHERS.search(short):
        return "results of Python, sparse ones, or such as are not determined"
    return ""


def main() -> int:
    """Run the samples, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="op", help="a regular expression over kinds (op)")
    parser.add_argument("--only", default="", help="a regular expression over KIND/NAME")
    parser.add_argument("--log", type=Path, help="a JSON line per entry goes there")
    parser.add_argument("--timeout", type=float, default=120, help="seconds per entry")
    parser.add_argument("--every", type=int, default=1, help="each N-th entry only")
    parser.add_argument("--samples", type=int, default=3, help="samples per entry and dtype")
    add_farm_flags(parser)
    arguments = parser.parse_args()
    names = [name for name in entries(arguments.kind) if re.search(arguments.only, name)][:: arguments.every]
    if not names:
        parser.error("no such entries")
    outcomes = [{"case": name, "outcome": "skipped", "cause": skip_cause(name)} for name in names if skip_cause(name)]
    wanted = [{"case": name, "samples": arguments.samples} for name in names if not skip_cause(name)]
    outcomes += run_and_tell(Path(__file__).with_name("torch_opinfo_child.py"), wanted, arguments)
    print(report(outcomes, lambda outcome: re.split(r"[./_]", outcome["case"].partition("/")[2])[0]))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
