"""Builds the native core with sanitizers and feeds it random and mutated programs: `python sanitize.py --count=1000000`.

A program must end, fault or be stopped; a crash, an access out of bounds, undefined behaviour or a hang fails, and names the seed.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from mutate import base_program

from hlo2tx8.device.isa.encoding import encode_records
from hlo2tx8.device.native import generate

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "hlo2tx8" / "device" / "native"
OPTIONS = ("-O1", "-g1", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv")
OPTIONS += ("-fno-strict-aliasing", "-Wno-psabi", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LEVEL = ("-march=native", "-DTX8_LEVEL=3")
NUM_PROGRAMS = 400


def build(directory: Path) -> Path:
    """The program that feeds the core."""
    program, headers = directory / "fuzz_core", directory / "generated"
    generate.write(headers)
    sources = [*sorted(NATIVE.glob("*.c")), HERE / "fuzz_core.c"]
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, *OPTIONS, *LEVEL, f"-I{NATIVE}", f"-I{headers}", *map(str, sources), "-lm", "-o", str(program)], check=True
    )
    return program


def write_corpus(path: Path) -> None:
    """Programs that are damaged, as fuzz_core.c reads them."""
    found: list[np.ndarray] = []
    for seed in range(NUM_PROGRAMS):
        try:
            found.append(encode_records(base_program(np.random.default_rng(seed)))[0])
        except ValueError:
            continue
    parts = [np.uint64(len(found)).tobytes(), *(np.uint64(len(code)).tobytes() + code.tobytes() for code in found)]
    path.write_bytes(b"".join(parts))


def main() -> int:
    """Exit code of the run, 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="number of programs")
    parser.add_argument("--seed", type=int, default=0, help="first seed; every seed is one program")
    parser.add_argument("--directory", type=Path, default=Path("build/sanitize"), help="where to build")
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    corpus = args.directory / "corpus"
    write_corpus(corpus)
    command = [str(build(args.directory)), str(corpus), str(args.seed), str(args.seed + args.count)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
