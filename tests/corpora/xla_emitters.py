"""XLA's emitter tests and benchmarks on the emulator: `python tests/corpora/xla_emitters.py CHECKOUT [--only=RE] [--log=FILE]`.

CHECKOUT is a checkout of XLA: every .hlo file in a folder `emitters/tests`, `tiled/tests` or `triton/tests` is one fusion, every
one in `benchmarks/hlo` a module. It is compiled, run on inputs drawn as `hlo2tx8 run` draws them, and compared with XLA:CPU. The
table has a row per folder, which is the emitter XLA picks, and says which emitters were picked here.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pool import parser_of, report, run_and_tell

TESTS = ("emitters", "tiled", "triton")
BENCHMARKS = "benchmarks/hlo"


def folder_of(parts: Sequence[str]) -> str:
    """The row of a file in these folders, "" if it is none of the cases."""
    for kind in TESTS:
        for place in range(len(parts) - 1):
            if parts[place : place + 2] == (kind, "tests"):
                return "/".join(parts[place + 2 :] if kind == "emitters" else (kind, *parts[place + 2 :]))
    return BENCHMARKS if "/".join(parts).endswith(BENCHMARKS) else ""


def main() -> int:
    """Run the cases, print the table."""
    parser = parser_of(__doc__, "folder/file", timeout=120)
    arguments = parser.parse_args()
    found = [(path, folder_of(path.relative_to(arguments.checkout).parts[:-1])) for path in arguments.checkout.glob("**/*.hlo")]
    requests = [
        {"case": f"{folder}/{path.name}", "folder": folder, "text": path.read_text(), "is_fusion": folder != BENCHMARKS}
        for path, folder in sorted(found, key=lambda case: (case[1], case[0].name))
        if folder and re.search(arguments.only, f"{folder}/{path.name}")
    ]
    if not requests:
        parser.error(f"no {'/tests, '.join(TESTS)}/tests or {BENCHMARKS} under {arguments.checkout}")
    outcomes = run_and_tell(Path(__file__).with_name("xla_emitters_child.py"), requests, arguments)
    print(report(outcomes, lambda outcome: outcome["folder"]))
    picked = Counter((o["folder"], emitter) for o in outcomes for emitter in o.get("emitters", ()))
    print("\nemitters picked, by folder")
    print("\n".join(f"{folder:30} {emitter:30} {count:4}" for (folder, emitter), count in sorted(picked.items())))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
