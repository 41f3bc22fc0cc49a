"""TT-BUDA's netlists: `python tests/corpora/netlists.py CHECKOUT [--on=WHAT] [--sample=N] [--tiles=N] [--only=RE] [--log=FILE]`.

CHECKOUT is a checkout of the BUDA back end: every .yaml file that is a netlist is a case, run on its own stimulus and compared
as its comparison-config says: with numpy against float64 without roundings,
and where that differs against XLA:CPU in the netlist's formats; on tx8 or from the blobs of its streams against numpy. A case
is left out that breaks a rule of all its architectures, whose programs cannot go on, that has no streams, or that is too large.
"""

import random
import re
import sys
from pathlib import Path

from pool import parser_of, report, run_and_tell


def main() -> int:
    """Run the cases, print the table."""
    parser = parser_of(__doc__, "path", timeout=120)
    parser.add_argument("--on", choices=("golden", "tx8", "streams"), default="golden", help="what runs them (golden)")
    parser.add_argument(
        "--placement", choices=("netlist", "chip"), default="netlist", help="which tiles run an op on tx8 (netlist)"
    )
    parser.add_argument("--sample", type=int, default=0, help="so many files, drawn at random; 0 for all")
    parser.add_argument("--tiles", type=int, default=512, help="most tiles of a tensor; what has more is left out (512)")
    arguments = parser.parse_args()
    paths = sorted(path for path in arguments.checkout.glob("**/*.yaml") if "\nprograms" in path.read_text(errors="replace"))
    paths = [path for path in paths if re.search(arguments.only, str(path.relative_to(arguments.checkout)))]
    if arguments.sample:
        paths = sorted(random.Random(1).sample(paths, min(arguments.sample, len(paths))))
    if not paths:
        parser.error(f"no netlist under {arguments.checkout}")
    how = {"on": arguments.on, "tiles": arguments.tiles, "placement": arguments.placement}
    requests = [{"case": str(path.relative_to(arguments.checkout)), "path": str(path), **how} for path in paths]
    outcomes = run_and_tell(Path(__file__).with_name("netlists_child.py"), requests, arguments)
    print(report(outcomes, lambda outcome: "/".join(outcome["case"].split("/")[:2])))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
