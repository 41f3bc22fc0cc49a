"""`hlo2tx8 compile --emit`: what is written of a program for the vendor's flow: its module in tx8be, main.c, or a chip folder."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo2tx8.errors import InputError, writing
from hlo2tx8.options import Options
from hlo2tx8.tools.before_run import check_folder, check_writable
from hlo2tx8.tools.saved import is_saved

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from hlo2tx8.device.program import Program
    from hlo2tx8.spmd.chips_module import ChipsModule

KINDS = ("tx8be", "chip", "main.c")


def add_emit(parser: Any) -> None:
    """The flag of `compile`."""
    text = "write for the vendor's flow: the module in tx8be or main program in C (to stdout without -o), a folder -o DIR of all"
    parser.add_argument("--emit", choices=KINDS, help=text)
    parser.add_argument("--platform", type=_platform, help="compile the folder's main program for Cmodel or riscv")


def _platform(text: str) -> Any:
    from hlo2tx8.vendor.platforms import platform_named

    return platform_named(text)


def emit(args: Any, options: Options) -> int:
    """Write what --emit asks for; returns 0, or raises an Hlo2tx8Error."""
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.spmd.chips_module import ChipsModule
    from hlo2tx8.tools.flags import load_given
    from hlo2tx8.tools.run_chips import chips_module
    from hlo2tx8.vendor.grouped import grouped_module
    from hlo2tx8.vendor.main_c import main_c
    from hlo2tx8.vendor.platforms import build, link_flags

    if args.emit == "chip" and args.output is None:
        raise InputError("E1004", "--emit=chip writes a folder", hint="-o DIR says where")
    (check_folder if args.emit == "chip" else check_writable)(args.output)
    if args.platform is not None:  # what is not there is told before anything is written
        link_flags(args.platform)
    chips = None if is_saved(args.file) else chips_module(args.file, options, args)
    chips = chips or ChipsModule((1, 1), partial(load_given, args, args.file))
    if chips.num_chips > 1 and (args.emit == "main.c" or args.platform is not None):
        flag = "--emit=main.c" if args.platform is None else "--platform"
        raise InputError("E1004", f"{flag} is of main.c, which is for one chip, and the module is for {chips.num_chips}")
    if args.emit == "main.c":
        executable = compile_module(chips.load, options)
        return _print(main_c(executable.program, executable.chip, executable.name), args.output)
    module, programs = grouped_module(
        chips.load_marked or chips.load, options, chips.counts, () if chips.tiles is None else chips.tiles.argument_tiles
    )
    if args.emit == "tx8be":
        return _print(str(module) + "\n", args.output)
    _write(args, options, chips, module, programs)
    if args.platform is not None:
        print(f"built {build(args.output, args.platform)}")
    return 0


def _print(text: str, output: Path | None) -> int:
    """To a file, or to stdout."""
    if output is None:
        sys.stdout.write(text)
    else:
        with writing(output):
            output.write_text(text)
    return 0


def _main_program(load: "Callable[[], ModuleOp]", module: "ModuleOp", options: Options) -> "Program":
    """What main.c of a folder is of: arrays of a folder are row by row, as the module in tx8be has them."""
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.runtime.compile import compile_module

    signature = signature_of(load())
    has_layout = any(port.layout for port in (*signature.inputs, *signature.outputs))
    return compile_module(partial(load_source, str(module)) if has_layout else load, options).program


def _write(args: Any, options: Options, chips: "ChipsModule", module: "ModuleOp", programs: "Sequence[Program]") -> None:
    """The folder, with inputs that are drawn or given and what the evaluator makes of them."""
    from hlo2tx8.compiler.driver import chip_of
    from hlo2tx8.device.chip_links import ChipMesh
    from hlo2tx8.hlo import evaluate
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.spmd.chips import mesh_for
    from hlo2tx8.spmd.link_plan import link_packets
    from hlo2tx8.spmd.reference import expected_of
    from hlo2tx8.tools.run_chips import inputs_of_chips
    from hlo2tx8.vendor.write_folder import FolderContent, write_folder

    chip = chip_of(options)
    mesh = mesh_for(chips, options) if chips.num_chips > 1 else ChipMesh(1, 1)
    if mesh.columns * mesh.rows != chips.num_chips:
        raise InputError("E1004", f"{chips.num_chips} chips do not fill the chip_mesh of {mesh.columns} x {mesh.rows}")
    local = chips.load()
    inputs = inputs_of_chips(chips, args)
    if chips.num_chips > 1:
        results = expected_of(chips, inputs, None).results
    else:
        results = [evaluate(local, *inputs[0], max_steps=options.max_steps)]
    parts, found = chips.parts_of(inputs), chips.result_parts_of(results)
    packets = link_packets(local, chips.counts, mesh, chip)
    main = _main_program(chips.load, module, options) if chips.num_chips == 1 else None
    content = FolderContent(module, signature_of(local), parts, found, programs, mesh, packets, main)
    write_folder(args.output, content, chip)
