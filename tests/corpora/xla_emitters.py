"""XLA's emitter tests on the emulator: `python tests/corpora/xla_emitters.py CHECKOUT [--only=RE] [--log=FILE]`.

CHECKOUT is a checkout of XLA: every .hlo file in a folder `emitters/tests` is one fusion. It is compiled as that fusion, run on
inputs drawn as `hlo2tx8 run` draws them, and compared with XLA:CPU. The table has a row per folder, which is the emitter XLA
picks, and says which emitters were picked here.
"""

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

from pool import report, run_cases


def main() -> int:
    """Run the cases, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="a regular expression over folder/file")
    parser.add_argument("--log", type=Path, help="a JSON line per case goes there")
    parser.add_argument("--timeout", type=float, default=120, help="seconds per case")
    arguments = parser.parse_args()
    paths = sorted(arguments.checkout.glob("**/emitters/tests/**/*.hlo"), key=lambda path: (path.parent.name, path.name))
    names = [(f"{path.parent.name}/{path.name}", path) for path in paths]
    requests = [
        {"case": name, "folder": path.parent.name, "text": path.read_text()}
        for name, path in names
        if re.search(arguments.only, name)
    ]
    if not requests:
        parser.error(f"no emitters/tests/**/*.hlo under {arguments.checkout}")
    outcomes = []
    log = arguments.log.open("w") if arguments.log else None
    for outcome in run_cases(Path(__file__).with_name("xla_emitters_child.py"), requests, arguments.timeout):
        outcomes.append(outcome)
        if log is not None:
            print(json.dumps({key: value for key, value in outcome.items() if key != "text"}), file=log, flush=True)
        if outcome["outcome"] == "failed":
            print(f"{outcome['case']}: {outcome['cause']}", file=sys.stderr, flush=True)
    print(report(outcomes, lambda outcome: outcome["folder"]))
    picked = Counter((o["folder"], emitter) for o in outcomes for emitter in o.get("emitters", ()))
    print("\nemitters picked, by folder")
    print("\n".join(f"{folder:30} {emitter:30} {count:4}" for (folder, emitter), count in sorted(picked.items())))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
