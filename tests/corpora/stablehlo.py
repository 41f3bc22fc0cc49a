"""StableHLO's own tests on the emulator: `python tests/corpora/stablehlo.py CHECKOUT [--only=RE] [--log=FILE]`.

CHECKOUT is a checkout of the StableHLO repository; its folders tests/interpret and tests/math (modules with `check` ops) and
testdata (jax functions with their results) are read. A case is one module between `// -----` lines. Its constant tensors
become inputs, so that nothing is folded away, and what it checks its outputs. Inputs bind
dynamic shapes; a module that has them and checks nothing is compared with XLA:CPU. Left out, with a count: several devices, what
StableHLO does not run itself.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pool import parser_of, report, run_and_tell

FOLDERS = ("tests/interpret", "tests/math", "testdata")
SKIPPED = (
    (
        "several devices",
        re.compile(r"interpreter\.run_parallel|stablehlo\.(?:partition_id|replica_id|infeed|outfeed|send|recv)\b"),
    ),
    ("tests of the interpreter itself", re.compile(r"interpreter\.(?:probe|print)|check\.expect_serialized_eq")),
)


def cases(checkout: Path, only: str) -> list[dict[str, Any]]:
    """A request per case of the checkout whose file and number match."""
    root = checkout / "stablehlo" if (checkout / "stablehlo").is_dir() else checkout
    found: list[dict[str, Any]] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.mlir")):
            for number, text in enumerate(path.read_text().split("// -----")):
                name = f"{path.relative_to(root)}#{number}"
                if re.search(only, name) and "func.func" in text:
                    found.append({"case": name, "folder": folder, "text": text})
    return found


def skip_cause(text: str) -> str:
    """Why a case is not for this runner; empty if it is."""
    if "RUN-DISABLED" in text:
        return "disabled by StableHLO"
    code = re.sub(r"//.*", "", text)
    return next(
        (cause for cause, pattern in SKIPPED if pattern.search(code)),
        "" if re.search(r"expect_|@check\.eq|tensor<[\dx]*\?", code) else "checks nothing",
    )


def judge(requests: Sequence[dict[str, Any]], cause: Callable[[str], str], arguments: argparse.Namespace) -> int:
    """Runs what `cause` does not leave out, prints the table; 1 if a case failed."""
    causes = {request["case"]: cause(request["text"]) for request in requests}
    outcomes = [{**r, "outcome": "skipped", "cause": causes[r["case"]]} for r in requests if causes[r["case"]]]
    wanted = [r for r in requests if not causes[r["case"]]]
    outcomes += run_and_tell(Path(__file__).with_name("stablehlo_child.py"), wanted, arguments)
    print(report(outcomes, lambda outcome: outcome["folder"]))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


def main() -> int:
    """Run the cases, print the table."""
    parser = parser_of(__doc__, "FILE#NUMBER", timeout=60)
    parser.add_argument("--every", type=int, default=1, help="each N-th case only")
    arguments = parser.parse_args()
    requests = cases(arguments.checkout, arguments.only)[:: arguments.every]
    if not requests:
        parser.error(f"no cases under {arguments.checkout}")
    return judge(requests, skip_cause, arguments)


if __name__ == "__main__":
    sys.exit(main())
