"""IREE's end-to-end tests of StableHLO on the emulator: `python tests/corpora/iree.py CHECKOUT [--only=RE] [--log=FILE]`.

CHECKOUT is a checkout of the IREE repository; every function of `tests/e2e/stablehlo_ops` and `tests/e2e/stablehlo_models` that
checks something is a case. They are written with two ops of IREE's: constants that may not be folded, and `check` ops, which become
those of StableHLO's tests.
"""

import re
import sys
from pathlib import Path
from typing import Any

from pool import parser_of
from stablehlo import judge, skip_cause

FOLDERS = ("tests/e2e/stablehlo_ops", "tests/e2e/stablehlo_models")
SKIPPED = (
    ("ops of other dialects", re.compile(r"linalg\.|cf\.")),
    ("random numbers of IREE's own", re.compile(r"stablehlo\.rng")),
)
_FUNCTION = re.compile(r"^(?= *func\.func )", re.MULTILINE)
_CHECK_OF_CONSTANT = re.compile(r"check\.expect_(\w+)\(\s*(%[\w#]+),\s*(dense<.*?)\s*\)\s*: *tensor<[^\n]*>", re.DOTALL)
_CHECK_OF_TWO = re.compile(r"check\.expect_(\w+)\((%[\w#]+), (%[\w#]+)\)")


def translated(text: str) -> str:
    """A function of IREE's with the ops of StableHLO and of its `check` dialect."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"\b(?:util.unfoldable_constant|arith.constant(?= dense))", "stablehlo.constant", text)
    text = _CHECK_OF_TWO.sub(r"check.expect_\1 \2, \3", text)
    return _CHECK_OF_CONSTANT.sub(r"check.expect_\1 \2, \3", text)


def cause(text: str) -> str:
    """Why a case is not for this runner; empty if it is."""
    return next((cause for cause, pattern in SKIPPED if pattern.search(text)), "") or skip_cause(text)


def cases(checkout: Path, only: str) -> list[dict[str, Any]]:
    """A request per function that checks something and whose file and name match, with the functions that it calls."""
    found: list[dict[str, Any]] = []
    for folder in FOLDERS:
        for path in sorted((checkout / folder).glob("*.mlir")):
            functions = [part for part in _FUNCTION.split(path.read_text()) if "func.func" in part]
            named = {part.split("@", 1)[1].split("(", 1)[0].strip(): part for part in functions}
            for name, part in named.items():
                case = f"{path.relative_to(checkout)}@{name}"
                if "check." in part and re.search(only, case):
                    called = [named[callee] for callee in re.findall(r"call @(\w+)", part) if callee in named]
                    found.append({"case": case, "folder": folder, "text": translated("\n".join([part, *called]))})
    return found


def main() -> int:
    """Run the cases, print the table."""
    arguments = parser_of(__doc__, "FILE@FUNCTION", timeout=60).parse_args()
    return judge(cases(arguments.checkout, arguments.only), cause, arguments)


if __name__ == "__main__":
    sys.exit(main())
