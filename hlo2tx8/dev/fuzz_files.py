"""Damaged files, to show that none does harm: `python -m hlo2tx8.dev.fuzz_files --kind=hlo --count=1000`.

Every seed is one mutant of a sample: HLO text, StableHLO text or a compiled program with tokens, words or bytes changed. It is
loaded; every tenth module that can be is compiled and run, every program is run for a moment. A mutant fails if anything but one
of our errors is raised, if its process dies or is silent for longer than the limit, or if a result holds what other programs left
in memory. Exit code 1 if one did; `--record` lists seeds and failures.
"""

import argparse
import io
import json
import random
import re
import selectors
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.host_memory import RECYCLED_BYTES, allocate
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.hlo.signature import dtype_of
from hlo2tx8.runtime import container
from hlo2tx8.runtime.executable import Executable

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
LARGEST_SAMPLE_BYTES = 6000
LIMIT_SECONDS = 30.0
RUN_SECONDS = 0.5
PER_PROCESS = 500
MOST_ELEMENTS = 1 << 16
MOST_PROGRAMS = 12
CANARY = 0xA5
TOKEN = re.compile(r"[A-Za-z_][\w.-]*|-?\d+|\s+|.")
NUMBERS = ("0", "-1", "1", "2147483648", "9223372036854775807", "99999999999999999999", "1e400", "nan", "?")

VALUES: tuple[Any, ...] = (0, -1, 1, 2**31, 2**63, 2**70, 0.5, float("nan"), "", "float32", None, [], {}, [2**40], True)


class StoppedError(Exception):
    """A run was stopped, which is no failure: it could be."""


def damaged_text(text: str, rng: random.Random) -> bytes:
    """Text in which a few tokens are lost, doubled, exchanged, taken from elsewhere or made extreme; now and then bytes instead."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(7):
            case 0:
                del tokens[at : at + rng.choice((1, 1, 3, 20))]
            case 1:
                tokens[at:at] = tokens[at : at + rng.choice((1, 3, 30))]
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = tokens[other]
            case 4 | 5:
                numbers = [i for i, token in enumerate(tokens) if token.lstrip("-").isdigit()] or [at]
                tokens[rng.choice(numbers)] = rng.choice(NUMBERS)
            case _:
                tokens[at] = rng.choice("{}()[]<>\"'%@#,:=\\\0\n\u00ff")
        tokens = tokens or [" "]
    data = "".join(tokens).encode()
    return damaged_bytes(data, rng) if rng.random() < 0.2 else data


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes of which a few are changed, or the end or a part is missing."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not found:
            break
        at = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                del found[at:]
            case 1:
                del found[at : at + rng.randrange(1, 9)]
            case _:
                found[at] = rng.randrange(256)
    return bytes(found)


def damaged_program(data: bytes, rng: random.Random) -> bytes:
    """A `.tx8x` with its bytes, a member's bytes, a value of its manifest or words of its program changed."""
    kind = rng.randrange(8)
    if kind == 0:
        return damaged_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    if kind <= 3:
        manifest = json.loads(members["manifest.json"])
        for _ in range(rng.choice((1, 1, 3))):
            _damage_value(manifest, rng)
        members["manifest.json"] = json.dumps(manifest).encode()
    elif kind == 4:
        name = rng.choice(sorted(members))
        members[name] = damaged_bytes(members[name], rng)
    else:
        words = np.frombuffer(members["program.bin"], "<u8").copy()
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(words))
            words[at] ^= np.uint64(1 << rng.randrange(64)) if rng.random() < 0.7 else np.uint64(rng.getrandbits(64))
        members["program.bin"] = words.tobytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return packed.getvalue()


def _damage_value(manifest: Any, rng: random.Random) -> None:
    """Replace, double or remove one value somewhere in a JSON document, in place."""
    while True:
        places: list[Any] = list(manifest) if hasattr(manifest, "keys") else list(range(len(manifest)))
        if not places:
            return
        place = rng.choice(places)
        inner: Any = manifest[place]
        if hasattr(inner, "__setitem__") and inner and rng.random() < 0.8:
            manifest = inner
            continue
        match rng.randrange(4):
            case 0:
                del manifest[place]
            case 1 if hasattr(manifest, "append"):
                manifest.append(manifest[place])
            case _:
                manifest[place] = rng.choice(VALUES)
        return


@cache
def samples(suffix: str) -> tuple[str, ...]:
    """The small samples of that kind."""
    texts = (path.read_text() for path in sorted(SAMPLES.rglob(f"*{suffix}")))
    return tuple(text for text in texts if len(text) < LARGEST_SAMPLE_BYTES)


@cache
def programs() -> tuple[bytes, ...]:
    """A few compiled samples as files: some without large arrays."""
    found: list[bytes] = []
    texts = samples(".hlo")
    for text in texts[:: max(1, len(texts) // MOST_PROGRAMS)]:
        executable = hlo2tx8.compile(text)
        if _num_elements(executable) <= MOST_ELEMENTS:
            stream = io.BytesIO()
            container.write_file(executable, stream)
            found.append(stream.getvalue())
    return tuple(found)


def try_hlo(seed: int) -> None:
    """Load a mutant of an HLO sample, and perhaps run it."""
    _try_module("hlo", ".hlo", seed)


def try_mlir(seed: int) -> None:
    """Load a mutant of a StableHLO sample, and perhaps run it."""
    _try_module("stablehlo", ".mlir", seed)


def _try_module(format: str, suffix: str, seed: int) -> None:
    rng = random.Random(seed)
    data = damaged_text(rng.choice(samples(suffix)), rng)
    load_source(data, format=format)
    if seed % 10 == 0:
        _run(hlo2tx8.compile(data, format=format))


def try_tx8x(seed: int) -> None:
    """Load a mutant of a compiled sample and run it."""
    rng = random.Random(seed)
    _run(container.read_file(io.BytesIO(damaged_program(rng.choice(programs()), rng)), "mutant"))


def _run(executable: Executable) -> None:
    """Run for a moment on zeros, if its arrays are small; RuntimeError if a result holds what was left in memory."""
    if _num_elements(executable) > MOST_ELEMENTS:
        return
    inputs = [np.zeros(port.shape, dtype_of(port.dtype)) for port in executable.signature.inputs]
    deadline = time.monotonic() + RUN_SECONDS

    def stop(_: object) -> None:
        if time.monotonic() > deadline:
            raise StoppedError

    for array in [allocate(RECYCLED_BYTES) for _ in range(4)]:
        array[...] = CANARY
    results = executable.launch(executable.signature.check(inputs), stop)
    holds_no_secret([np.ascontiguousarray(result).tobytes() for result in results])


def holds_no_secret(results: Sequence[bytes]) -> None:
    """RuntimeError if a result has a stretch of what memory held before."""
    if any(bytes([CANARY] * 16) in result for result in results):
        raise RuntimeError("a result holds what another program left in memory")


def _num_elements(executable: Executable) -> float:
    ports = (*executable.signature.inputs, *executable.signature.outputs)
    return sum(float(np.prod(port.shape, dtype=np.float64)) for port in ports)


KINDS: Mapping[str, Callable[[int], None]] = {"hlo": try_hlo, "mlir": try_mlir, "tx8x": try_tx8x}


def worker(kind: str, first: int, count: int) -> None:
    """Try these seeds; a line for each before it is tried, and one for what went wrong."""
    for seed in range(first, first + count):
        print(f"at {seed}", flush=True)
        try:
            KINDS[kind](seed)
        except (Hlo2tx8Error, StoppedError):
            pass
        except BaseException as error:  # whatever a user would see
            print(f"failed {seed} {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)


def failures(kind: str, first: int, count: int) -> Iterator[str]:
    """What went wrong with these seeds, a line each; a process for every few hundred, and after each one that died."""
    last = first + count
    while first < last:
        some = min(PER_PROCESS, last - first)
        command = [sys.executable, "-m", __spec__.name, f"--kind={kind}", f"--seed={first}", f"--worker={some}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace") as process:
            tried = yield from _watch(process, first)
        if tried == first - 1:
            raise RuntimeError(f"no worker starts: {' '.join(command)}")
        first = tried + 1


def _watch(process: "subprocess.Popen[str]", first: int) -> Generator[str, None, int]:
    """The last seed that a worker tried; what it says went wrong on the way. Killed when it is silent for too long."""
    assert process.stdout is not None
    at, seconds = first - 1, LIMIT_SECONDS + 60
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(seconds):
                process.kill()
                yield f"failed {at} hang: nothing for {seconds:.0f} s"
                return at
            line = process.stdout.readline()
            if not line:
                break
            word, _, rest = line.partition(" ")
            at, seconds = (int(rest), LIMIT_SECONDS) if word == "at" else (at, seconds)
            if word == "failed":
                yield line.strip()
    if process.wait():
        yield f"failed {at} crash: exit code {process.returncode}"
    return at


def main(argv: Sequence[str] | None = None) -> int:
    """Try mutants and print what went wrong; 0 if nothing did."""
    parser = argparse.ArgumentParser(prog="python -m hlo2tx8.dev.fuzz_files", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--seed", type=int, default=0, help="first seed; every seed is one mutant")
    parser.add_argument("--count", type=int, default=1000, help="number of mutants")
    parser.add_argument("--record", type=Path, help="add the seeds to this list of what was tried (.json)")
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        worker(args.kind, args.seed, args.worker)
        return 0
    found: list[str] = []
    for line in failures(args.kind, args.seed, args.count):
        found.append(line)
        print(line, flush=True)
    print(f"{len(found)}/{args.count} mutants of {args.kind} failed")
    if args.record is not None:
        old: list[Any] = json.loads(args.record.read_text()) if args.record.is_file() else []
        entry = {"kind": args.kind, "seed": args.seed, "count": args.count, "failed": found}
        args.record.write_text("[\n" + ",\n".join(f" {json.dumps(e)}" for e in [*old, entry]) + "\n]\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
