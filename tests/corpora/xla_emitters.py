"""XLA's emitter tests on the emulator: `python tests/corpora/xla_emitters.py CHECKOUT [--only=RE] [--log=FILE]`.

CHECKOUT is a checkout of XLA: every .hlo file in a folder `emitters/tests` is one fusion. It is compiled as that fusion, run on
inputs drawn as `hlo2tx8 run` draws them, and compared with XLA:CPU. The table has a row per folder, which is the emitter XLA
picks, and says which emitters were picked here.
"""

import re
import sys
from collections import Counter
from pathlib import Path

from pool import parser_of, report, run_and_tell


def main() -> int:
    """Run the cases, print the table."""
    parser = parser_of(__doc__, "folder/file", timeout=120)
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
    outcomes = run_and_tell(Path(__file__).with_name("xla_emitters_child.py"), requests, arguments)
    print(report(outcomes, lambda outcome: outcome["folder"]))
    picked = Counter((o["folder"], emitter) for o in outcomes for emitter in o.get("emitters", ()))
    print("\nemitters picked, by folder")
    print("\n".join(f"{folder:30} {emitter:30} {count:4}" for (folder, emitter), count in sorted(picked.items())))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
