"""Did a change alter any compiled program? `python -m hlo2tx8.dev.replay --base REVISION`.

Compiles every sample with the package of the base revision and with the present one, and prints the differences of the
listings: nothing at all for a change that should change nothing. Exit code 1 if there are any.
"""

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "hlo_samples"


def listings(directory: Path) -> dict[str, str]:
    """Sample → listing, written there by `write_listings` of some revision."""
    return {str(f.relative_to(directory)): f.read_text() for f in sorted(directory.rglob("*.txt"))}


def write_listings(directory: Path) -> None:
    """Compile every sample and write its listing, or the error it gives, below the directory."""
    from hlo2tx8.errors import Hlo2tx8Error
    from hlo2tx8.runtime.compile import compile_source

    for sample in sorted([*SAMPLES.rglob("*.hlo"), *SAMPLES.rglob("*.mlir")]):
        try:
            text = compile_source(str(sample)).as_text()
        except Hlo2tx8Error as error:
            text = str(error)
        path = directory / sample.relative_to(SAMPLES).with_suffix(".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare two revisions; 1 if a listing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="HEAD", help="revision to compare with (HEAD)")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.write is not None:
        write_listings(args.write)
        return 0
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-replay-") as name:
        base, before, after = Path(name, "base"), Path(name, "before"), Path(name, "after")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(base), args.base], cwd=ROOT, check=True)
        try:
            _compile_with(base, before)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)
        _compile_with(ROOT, after)
        old, new = listings(before), listings(after)
    changed = [sample for sample in sorted({*old, *new}) if old.get(sample) != new.get(sample)]
    for sample in changed:
        was, now = (side.get(sample, "").splitlines() for side in (old, new))
        print("\n".join(difflib.unified_diff(was, now, f"{args.base}/{sample}", f"here/{sample}", lineterm="", n=2)))
    print(f"{len(changed)} of {len(new)} programs changed", file=sys.stderr)
    return int(bool(changed))


def _compile_with(package: Path, out: Path) -> None:
    """Write the listings of today's samples as the package at that root compiles them; this file runs, wherever that one has it."""
    environment = os.environ | {"PYTHONPATH": str(package)}
    subprocess.run([sys.executable, "-P", __file__, "--write", str(out)], env=environment, cwd=package, check=True)


if __name__ == "__main__":
    sys.exit(main())
