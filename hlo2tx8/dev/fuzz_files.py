"""Damaged files, to show that none does harm: `python -m hlo2tx8.dev.fuzz_files --kind=hlo --count=1000`.

Every seed is one mutant of a sample: HLO text, StableHLO text or bytecode, a compiled program, a chip's description, a file of
arrays, a netlist or a chip folder, with tokens, words or bytes changed. It is loaded; every tenth text that can be is compiled and
run, every program is run for a moment, and a sample is compiled and run for every fifth chip. A mutant fails if anything but one
of our errors is raised, if its process dies or is silent for longer than the limit, or if a result holds what other programs left
in memory.
Exit code 1 if one did; `--record` lists seeds and failures, `--jobs` and `--scheduler` say where they are tried.
"""

import argparse
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from hlo2tx8.compiler.driver import chip_of, load_source
from hlo2tx8.dev.damage import damaged_bytes, damaged_program, damaged_text
from hlo2tx8.device.chip import DEFAULT_PATH
from hlo2tx8.device.host_memory import RECYCLED_BYTES, allocate
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.chip_folder import ChipFolder
from hlo2tx8.frontend.tx8be_text import is_tx8be
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.signature import dtype_of, signature_of
from hlo2tx8.netlist.checks import problems_of
from hlo2tx8.netlist.golden import run_golden
from hlo2tx8.netlist.reader import read_netlist
from hlo2tx8.netlist.show import show_netlist
from hlo2tx8.netlist.writer import write_netlist
from hlo2tx8.options import Options
from hlo2tx8.runtime import container
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.tensors import decode_tensors, encode_tensors
from hlo2tx8.sweep.child import serve
from hlo2tx8.sweep.farm import TaskFarm
from hlo2tx8.vendor.grouped import grouped_module
from hlo2tx8.vendor.write_folder import FolderContent, write_folder

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
LARGEST_SAMPLE_BYTES = 6000
LIMIT_SECONDS = 30.0
RUN_SECONDS = 0.5
MOST_ELEMENTS = 1 << 16
MOST_PROGRAMS = 12
MOST_TURNS = 64
CANARY = 0xA5


class StoppedError(Exception):
    """A run was stopped, which is no failure: it could be."""


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
        executable = compile_source(text)
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


@cache
def bytecodes() -> tuple[bytes, ...]:
    """The StableHLO samples as MLIR bytecode."""
    texts = (text for text in samples(".mlir") if not is_tx8be(text))
    return tuple(shim.bytecode(shim.parse_module(text, shim.make_context())) for text in texts)


def try_mlirbc(seed: int) -> None:
    """Load a mutant of a StableHLO sample's bytecode."""
    rng = random.Random(seed)
    load_source(damaged_bytes(rng.choice(bytecodes()), rng), format="mlirbc")


def _try_module(format: str, suffix: str, seed: int) -> None:
    rng = random.Random(seed)
    data = damaged_text(rng.choice(samples(suffix)), rng)
    load_source(data, format=format)
    if seed % 10 == 0:
        _run(compile_source(data, format=format))


def try_tx8x(seed: int) -> None:
    """Load a mutant of a compiled sample and run it."""
    rng = random.Random(seed)
    _run(container.read_file(io.BytesIO(damaged_program(rng.choice(programs()), rng)), "mutant"))


def try_chip(seed: int) -> None:
    """Load a mutant of a chip's description, and perhaps compile a sample for it and run that."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{seed}.yaml"
        path.write_bytes(damaged_text(DEFAULT_PATH.read_text(), rng))
        options = Options(chip=path)
        chip_of(options)
        if seed % 5 == 0:
            _run(compile_source(rng.choice(samples(".hlo")), options))


def try_netlist(seed: int) -> None:
    """Read a mutant of a netlist, name the rules it breaks, draw it, write it so that it reads back equal; run a small one."""
    rng = random.Random(seed)
    netlist = read_netlist(damaged_text(rng.choice(samples(".yaml")), rng), "mutant")
    problems = [problem for arch in netlist.devices.arches for problem in problems_of(netlist, arch)]
    show_netlist(netlist)
    if read_netlist(write_netlist(netlist), "again") != netlist:
        raise RuntimeError("what was written reads back differently")
    sizes = [blocked.shape.num_tiles for blocked in (*netlist.queues.values(), *netlist.ops.values())]
    sizes += [graph.input_count for graph in netlist.graphs.values()]
    if not problems and max(sizes) <= MOST_TURNS:
        run_golden(netlist, netlist.devices.arches[0], None, {}, max_steps=MOST_TURNS)


@cache
def chip_files() -> Mapping[str, bytes]:
    """The files of a small chip folder, by their names in it."""
    with tempfile.TemporaryDirectory() as name:
        load = partial(load_source, next(text for text in samples(".mlir") if is_tx8be(text)))
        (module, _), plain, chip = grouped_module(load, Options()), load(), chip_of(Options())
        signature = signature_of(plain)
        inputs = [np.zeros(port.shape, dtype_of(port.dtype)) for port in signature.inputs]
        write_folder(folder := Path(name), FolderContent(module, signature, [inputs], [evaluate(plain, *inputs)]), chip)
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def try_folder(seed: int) -> None:
    """Read a chip folder with a mutant of one of its files, and the data in it."""
    rng = random.Random(seed)
    files = dict(chip_files())
    texts = [name for name in files if name.endswith((".json", ".mlir"))]
    damaged = rng.choice(texts if rng.random() < 0.8 else [*files])
    files[damaged] = damaged_text(files[damaged].decode(), rng) if damaged in texts else damaged_bytes(files[damaged], rng)
    with tempfile.TemporaryDirectory() as name:
        for path, data in files.items():
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_bytes(data)
        folder = ChipFolder.of(Path(name))
        folder.check(signature_of(load_source(name)))
        for tensor in (*folder.chips[0].inputs, *(stored for _, stored in folder.references())):
            tensor.read()


def try_literals(seed: int) -> None:
    """Read a mutant of a file with arrays of several dtypes."""
    rng = random.Random(seed)
    dtypes = rng.sample(("f4", "i1", "?", "bfloat16", "float8_e4m3fn", "int4", "c8"), 3)
    arrays = {f"input{i}": np.zeros((rng.randrange(3), 5), dtype_of(dtype)) for i, dtype in enumerate(dtypes)}
    for array in decode_tensors(damaged_bytes(encode_tensors(arrays), rng)).values():
        array.tobytes()


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


KINDS: Mapping[str, Callable[[int], None]] = {
    "hlo": try_hlo,
    "mlir": try_mlir,
    "mlirbc": try_mlirbc,
    "tx8x": try_tx8x,
    "chip": try_chip,
    "literals": try_literals,
    "netlist": try_netlist,
    "folder": try_folder,
}


def harm(kind: str, seed: int) -> str:
    """What is wrong with a mutant's end, "" if it is loaded or refused as it should be."""
    try:
        KINDS[kind](seed)
    except (Hlo2tx8Error, StoppedError):
        pass
    except BaseException as error:  # whatever a user would see
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def failures(kind: str, seeds: Sequence[int], jobs: int = 1, scheduler: str = "") -> Iterator[str]:
    """What went wrong with these seeds, a line each; they are tried by processes here, or by a scheduler's workers."""
    with TaskFarm(["-m", __spec__.name, "--serve"], jobs=jobs, scheduler=scheduler, limit=LIMIT_SECONDS) as farm:
        for number, answered in farm.run([[kind, seed] for seed in seeds]):
            found: dict[str, str] = answered.answers[-1] if answered.answers else {}
            if why := answered.lost or found.get("lost") or found["harm"]:
                yield f"failed {seeds[number]} {why}"


def main(argv: Sequence[str] | None = None) -> int:
    """Try mutants and print what went wrong; 0 if nothing did."""
    parser = argparse.ArgumentParser(prog="python -m hlo2tx8.dev.fuzz_files", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--seed", type=int, default=0, help="first seed; every seed is one mutant")
    parser.add_argument("--count", type=int, default=1000, help="number of mutants")
    parser.add_argument("--record", type=Path, help="add the seeds to this list of what was tried (.json)")
    parser.add_argument("--jobs", type=int, default=1, help="processes; 0: one per processor (1)")
    parser.add_argument("--scheduler", default="", help="tcp://HOST:PORT of a Dask scheduler, whose workers have the same hlo2tx8")
    args = parser.parse_args(argv)
    found: list[str] = []
    for line in failures(args.kind, range(args.seed, args.seed + args.count), args.jobs, args.scheduler):
        found.append(line)
        print(line, flush=True)
    print(f"{len(found)}/{args.count} mutants of {args.kind} failed")
    if args.record is not None:
        old: list[Any] = json.loads(args.record.read_text()) if args.record.is_file() else []
        entry = {"kind": args.kind, "seed": args.seed, "count": args.count, "failed": found}
        args.record.write_text("[\n" + ",\n".join(f" {json.dumps(e)}" for e in [*old, entry]) + "\n]\n")
    return 1 if found else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve(lambda task: {"harm": harm(*task)})
    else:
        sys.exit(main())
