"""`hlo2tx8 opcase`: random uses of an op as chip folders, and their replay on everything that runs programs."""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from hlo2tx8.errors import Hlo2tx8Error, HostError, InputError, writing
from hlo2tx8.frontend.chip_folder import ChipFolder, is_chip_folder
from hlo2tx8.options import Options
from hlo2tx8.tools.before_run import check_folder
from hlo2tx8.tools.flags import add_switch, whole

if TYPE_CHECKING:
    from hlo2tx8.vendor.op_cases import OpCase
    from hlo2tx8.vendor.platforms import Platform

Array = npt.NDArray[Any]
CASE = "case.json"
"""Which use of which op a folder has: op, element type, seed, number, sizes."""
PRINTED = 0.001
"""Cycles of a main program are printed with three decimals."""


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `opcase`."""
    parser.set_defaults(function=opcase)
    parser.add_argument("ops", nargs="*", metavar="OP", help="an op of StableHLO, chlo or tx8be, or a name that --list gives")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="write a folder for each case there")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="equal seeds give equal cases (0)")
    parser.add_argument("--count", type=whole(1), default=10, metavar="N", help="cases of each op (10)")
    parser.add_argument("--dtype", default="", metavar="D", help="element type of all cases, as bfloat16 (drawn)")
    parser.add_argument(
        "--fix", type=sizes, default={}, metavar="NAME=V,..", help="sizes that are not drawn, as M=64,K=128, or shape=2x3"
    )
    parser.add_argument(
        "--run", type=Path, metavar="DIR", help="replay every case in a folder; 1 if one differs from its reference"
    )
    parser.add_argument("--platform", default="", metavar="P,..", help="where --run runs them too: Cmodel, riscv")
    add_switch(parser, "list", "list ops, and the names of their sizes")


def sizes(text: str) -> dict[str, int | str]:
    """A type of flags: sizes by name."""
    pairs = [word.partition("=") for word in text.split(",")]
    if any(not name or not value for name, _, value in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE,..")
    return {name: int(value) if re.fullmatch(r"\d{1,9}", value) and name != "shape" else value for name, _, value in pairs}


def opcase(args: Any) -> int:
    """List, write or replay; 1 if a case that is replayed fails."""
    drawing = [f"--{name}" for name in ("seed", "count", "dtype", "fix", "output") if name in args.given]
    asked = [f"--{name}" for name in ("list", "run") if name in args.given] + (["OP"] if args.ops else [])
    if len(asked) != 1 or (drawing and asked != ["OP"]):
        given = ", ".join([*asked, *drawing]) or "nothing"
        raise InputError("E1004", f"{given}: one of OP, --run and --list", hint="opcase OP -o DIR writes, opcase --run DIR replays")
    if args.platform and args.run is None:
        raise InputError("E1004", "--platform is where --run runs cases")
    if args.run is not None:
        from hlo2tx8.vendor.platforms import missing, platform_named

        platforms = [platform_named(name) for name in args.platform.split(",") if name]
        if lacking := [text for platform in platforms if (text := missing(platform))]:
            raise HostError("E1010", lacking[0])
        return replay(args.run, platforms)
    if args.list:
        from hlo2tx8.vendor.op_cases import case_names, open_sizes

        print("".join(f"{name}  {open_sizes(name)}\n" for name in case_names()), end="")
        return 0
    if args.output is None:
        raise InputError("E1004", "opcase OP writes folders", hint="-o DIR says where")
    return write(args)


def write(args: Any) -> int:
    """Write the cases that the flags ask for."""
    from hlo2tx8.vendor.op_cases import draw_case, find_op

    check_folder(args.output)
    ops = [find_op(name) for name in args.ops]
    for op in dict.fromkeys(ops):
        for number in range(args.count):
            write_case(draw_case(op, args.seed, number, args.dtype, args.fix), args.output)
        print(f"{op}: {args.count} cases in {args.output}", file=sys.stderr)
    return 0


def write_case(case: "OpCase", folder: Path) -> Path:
    """Write a case below a folder: a chip folder with its description beside; that folder."""
    import numpy as np

    from hlo2tx8.compiler.driver import chip_of, load_source
    from hlo2tx8.hlo import evaluate
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.tools.arguments import random_arguments
    from hlo2tx8.vendor.grouped import grouped_module
    from hlo2tx8.vendor.write_folder import FolderContent, write_folder

    load, options = partial(load_source, case.text, format="stablehlo"), Options()
    plain = load()
    signature = signature_of(plain)
    arrays = random_arguments(plain, signature, np.random.default_rng((case.seed, case.number)))
    module, programs = grouped_module(load, options)
    place = folder / case.name
    content = FolderContent(module, signature, [arrays], [evaluate(plain, *arrays)], programs, main=programs[0])
    write_folder(place, content, chip_of(options))
    described = {key: value for key, value in asdict(case).items() if key != "text"}
    with writing(place):
        (place / CASE).write_text(json.dumps(described, indent=1) + "\n")
    return place


def replay(folder: Path, platforms: Sequence["Platform"] = ()) -> int:
    """Run every case in the folder, a line for each, and compare; 1 if one is off by more than it may be, or cannot be read."""
    cases = list(_cases_in(folder))
    agreed = 0
    for case in cases:
        try:
            verdict, note = _replay(case, platforms)
        except Hlo2tx8Error as error:
            verdict, note = "FAILED", str(error).replace("\n", " ")
        agreed += verdict == "agrees"
        print(f"{case.name}  {verdict}  {note}", flush=True)
    print(f"{agreed} of {len(cases)} cases agree")
    return int(agreed < len(cases))


def _cases_in(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise InputError("E1004", f"there is no folder {folder}")
    found = [folder] if is_chip_folder(folder) else sorted((p for p in folder.iterdir() if p.is_dir()), key=_by_numbers)
    if not found:
        raise InputError("E1004", f"{folder} has no cases", hint="opcase OP -o DIR writes some")
    yield from found


def _by_numbers(path: Path) -> list[Any]:
    return [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", path.name)]


def _replay(path: Path, platforms: Sequence["Platform"]) -> tuple[str, str]:
    """The verdict and a note."""
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.hlo.error_bounds import evaluate_with_bounds
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.tools.chip_data import ChipData
    from hlo2tx8.tools.compare import compare
    from hlo2tx8.tools.reference import Reference
    from hlo2tx8.vendor.platforms import run_program

    described = _description(path)
    data = ChipData(ChipFolder.of(path))
    load = partial(load_source, path)
    module = load()
    arrays = data.arrays(signature_of(module))
    expected = [stored.read() for _, stored in data.folder.references() if stored.label.endswith("_ref.bin")]
    if len(expected) != len(data.folder.chips[0].outputs):
        raise InputError("E1004", f"{path} has {len(expected)} references of {len(data.folder.chips[0].outputs)} outputs")
    reference = Reference(expected, lambda: evaluate_with_bounds(module, *arrays)[1])
    executable = compile_module(load, Options())
    first: Sequence[Array] | None = None
    ran = executable
    for mode in ("definition", "fast", "strict"):
        ran = replace(executable, options=replace(executable.options, mode=mode))
        actual = ran.execute(*arrays)
        if wrong := reference.mismatches(actual):
            return "DIFFERS", f"{described}: {mode}: {wrong[0].line}"
        first = actual if first is None else first
        if wrong := compare(actual, first, [_zeros(array) for array in actual]):
            return "DIFFERS", f"{described}: {mode} from definition: {wrong[0].line}"
    assert first is not None
    for platform in platforms:
        actual, cycles = run_program(executable, arrays, platform)
        if wrong := compare(actual, first, [_zeros(array) for array in actual]):
            return "DIFFERS", f"{described}: {platform.name} from definition: {wrong[0].line}"
        if abs(cycles - (modelled := ran.time.report.cycles)) > PRINTED:
            return "DIFFERS", f"{described}: {platform.name} takes {cycles:,} cycles, and the emulator {modelled:,}"
    return "agrees", f"{described}: {reference.describe(first)}"


def _zeros(array: Array) -> Array:
    import numpy as np

    return np.zeros(array.shape)


def _description(path: Path) -> str:
    """What case.json says; "" without one."""
    try:
        found = json.loads((path / CASE).read_bytes().decode())
        return " ".join([str(found["dtype"]), *(f"{name}={value}" for name, value in found["sizes"].items())])
    except FileNotFoundError:
        return "no case.json"
    except OSError as error:
        raise InputError("E1004", f"{path / CASE}: {error.strerror}") from None
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InputError("E1004", f"{path / CASE}: {error}") from None
