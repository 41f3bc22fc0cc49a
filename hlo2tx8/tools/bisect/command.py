"""`hlo2tx8 bisect FILE`: finds the level and the pass at which a module goes wrong, and a smaller module that goes wrong in the
same way.

Runs the module at every level and in every mode of the emulator on random inputs against the reference, names the first that
differs, and writes the smallest part that differs there in the same way, with its inputs. Exit code 1 if anything differs.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo2tx8.errors import writing
from hlo2tx8.options import Level
from hlo2tx8.tools.before_run import check_folder, check_writable
from hlo2tx8.tools.combinations import check_flags, rules_of_bisect
from hlo2tx8.tools.flags import add_compiler_flags, add_switch, load_given, options_of, whole

if TYPE_CHECKING:
    from hlo2tx8.runtime.levels import LevelRun
    from hlo2tx8.tools.bisect.part import ModulePart


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `bisect`."""
    parser.set_defaults(function=bisect, different_random_seeds=False, random_init_input_literals=True)
    parser.add_argument("file", help=".hlo, .mlir or .mlirbc module")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the smaller module (bisect.hlo); its inputs go beside it")
    parser.add_argument("--iterations", type=whole(1), default=1, metavar="N", help="inputs to try until something differs (1)")
    parser.add_argument("--max_steps", type=int, default=0, metavar="N", help="end each run after N turns of loops (0: never)")
    add_switch(parser, "use_large_float_range", "floats over the dtype's whole range, log-uniform")
    add_compiler_flags(parser)


def bisect(args: Any) -> int:
    """Print what was found and write the smaller module; 0 if there is nothing wrong."""
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.runtime.levels import RUNS
    from hlo2tx8.tools.bisect.levels import first_wrong, first_wrong_pass
    from hlo2tx8.tools.bisect.part import ModulePart
    from hlo2tx8.tools.bisect.reduce import reduce
    from hlo2tx8.tools.run import inputs_of

    check_flags(args, rules_of_bisect(args))
    options = options_of(args)
    if args.write is not None:
        check_folder(args.write.parent)
        check_writable(args.write if args.write.parent.is_dir() else None)
    module = load_given(args, args.file)
    for iteration in range(args.iterations):
        arrays = inputs_of(module, signature_of(module), args, iteration)
        wrong = first_wrong(module, arrays, options)
        if wrong is not None:
            break
    else:
        print(f"nothing differs: {', '.join(run.name for run in RUNS)}")
        return 0
    right = [run.name for run in RUNS[: RUNS.index(wrong.run)]]
    print(f"right:       {', '.join(right) or 'no level'}")
    print(f"first wrong: {wrong.run.name}, {first_wrong_pass(module, arrays, options, wrong)}")
    print(f"             {wrong.kind}: {wrong.message}", flush=True)

    def still_fails(part: ModulePart) -> bool:
        return wrong.is_like(first_wrong(part.module(), part.arrays, options, (wrong.run,)))

    whole = ModulePart.of(module, arrays)
    smallest = reduce(whole, still_fails)
    print(f"smallest:    {len(smallest.instructions)} of {len(whole.instructions)} instructions")
    again = first_wrong(smallest.module(), smallest.arrays, options)
    if again is not None and not again.is_like(wrong):
        print(f"             of these {again.run.name} is wrong first: {again.kind}: {again.message}")
    written = _write(smallest, args.write or Path("bisect.hlo"), f"{wrong.run.name}: {wrong.kind}: {wrong.message}")
    print(f"             {written}, inputs in {written.with_suffix('.safetensors')}")
    if not _file_fails(written, smallest, still_fails):
        print("             (read again from the file it does not fail: layouts are lost in the text)")
    print(f"again:       hlo2tx8 run {_flags(wrong.run)} --input_literals_file={written.with_suffix('.safetensors')} {written}")
    return 1


def _write(part: "ModulePart", path: Path, comment: str) -> Path:
    """The part as HLO text, or as StableHLO where jaxlib has no HLO for it; and its inputs."""
    from hlo2tx8.frontend import to_hlo_text, to_mlir_text
    from hlo2tx8.runtime.tensors import write_tensors

    module = part.module()
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    note = "".join(f"// {line}\n" for line in comment.splitlines())
    try:
        text = to_hlo_text(module)
    except Exception:  # jaxlib raises what it likes
        path, text = path.with_suffix(".mlir"), to_mlir_text(module)
    with writing(path):
        path.write_text(note + text)
    write_tensors(path.with_suffix(".safetensors"), {f"input{i}": array for i, array in enumerate(part.arrays)})
    return path


def _file_fails(path: Path, part: "ModulePart", still_fails: Callable[["ModulePart"], bool]) -> bool:
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.tools.bisect.part import ModulePart

    return still_fails(ModulePart.of(load_source(path), part.arrays))


def _flags(run: "LevelRun") -> str:
    return f"--mode={run.mode}" if run.level is Level.PROGRAM else f"--level={run.level.name.lower()}"
