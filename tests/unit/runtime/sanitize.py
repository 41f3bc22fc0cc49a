"""Builds libtx8runtime with sanitizers: `python -m tests.unit.runtime.sanitize --count=20000` gives it damaged programs, and many
threads one sound program. A crash, an access out of bounds, undefined behaviour, a leak, a race or a wrong run fails.
"""

import argparse
import io
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import hlo2tx8
from hlo2tx8.dev.damage import damaged_bytes, damaged_program
from hlo2tx8.device.native import generate
from hlo2tx8.runtime import container, native
from hlo2tx8.runtime.executable import Executable

ROOT = Path(__file__).parents[3]
CORES = ROOT / "hlo2tx8" / "device" / "native"
OPTIONS = ("-O1", "-g1", "-std=gnu11", "-D_GNU_SOURCE", "-Wno-psabi", "-pthread", "-fno-sanitize-recover=all")
PROGRAMS = ("elementwise/gelu_bf16_small.hlo", "elementwise/rank0.hlo")


def build(directory: Path, sanitizers: str) -> Path:
    """The program of sanitize.c."""
    program, headers = directory / f"sanitize_{sanitizers.partition(',')[0]}", directory / "generated"
    generate.write(headers)
    sources = [*sorted(native.folder().glob("*.c")), Path(__file__).with_suffix(".c")]
    folders = [f"-I{folder}" for folder in (native.folder(), CORES, headers)]
    compiler = os.environ.get("CC", "cc")
    command = [compiler, *OPTIONS, f"-fsanitize={sanitizers}", *folders, *map(str, sources), "-ldl", "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def saved(name: str) -> bytes:
    """The container of a sample's program, without IR."""
    compiled, data = hlo2tx8.compile(str(ROOT / "hlo_samples" / name)), io.BytesIO()
    assert isinstance(compiled, Executable)
    container.write_file(compiled, data, ())
    return data.getvalue()


def main() -> int:
    """Exit code: 0 if nothing was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=20_000, help="damaged programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "sanitize", help="where to build")
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    rng, sound = random.Random(args.seed), [*map(saved, PROGRAMS), Path(__file__).with_name("format_4.tx8x").read_bytes()]
    damaged, program = args.directory / "damaged", args.directory / "sound.tx8x"
    program.write_bytes(sound[0])
    with damaged.open("wb") as file:
        for number in range(args.count):
            data = (damaged_program if number % 3 else damaged_bytes)(rng.choice(sound), rng)
            file.write(struct.pack("<I", len(data)) + data)
    address, thread = build(args.directory, "address,undefined"), build(args.directory, "thread")
    no_leaks = {"ASAN_OPTIONS": "detect_leaks=0"}  # of the threads' arrays, which stay
    runs = (address, "damaged", damaged, {}), (address, "threads", program, no_leaks), (thread, "threads", program, {})
    return max(subprocess.run([path, CORES, *what], env=os.environ | env, check=False).returncode for path, *what, env in runs)


if __name__ == "__main__":
    sys.exit(main())
