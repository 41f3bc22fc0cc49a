"""`hlo2tx8 compile --emit`: what is written of a program for the vendor's flow: its module in tx8be, or a chip folder."""

from functools import partial
from typing import Any

from hlo2tx8.errors import InputError, writing
from hlo2tx8.options import Options
from hlo2tx8.tools.before_run import check_folder, check_writable

KINDS = ("tx8be", "chip")


def add_emit(parser: Any) -> None:
    """The flag of `compile`."""
    text = "write for the vendor's flow: the module in tx8be (to stdout without -o), or a folder -o DIR with its data"
    parser.add_argument("--emit", choices=KINDS, help=text)


def emit(args: Any, options: Options) -> int:
    """Write what --emit asks for; returns 0, or raises an Hlo2tx8Error."""
    from hlo2tx8.compiler.driver import chip_of
    from hlo2tx8.device.program import SlotKind
    from hlo2tx8.hlo import evaluate
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.tools.arguments import random_arguments, seeded
    from hlo2tx8.tools.flags import given_inputs, load_given
    from hlo2tx8.vendor.grouped import grouped_module
    from hlo2tx8.vendor.write_folder import write_folder

    load = partial(load_given, args, args.file)
    if args.emit == "chip" and args.output is None:
        raise InputError("E1004", "--emit=chip writes a folder", hint="-o DIR says where")
    (check_folder if args.emit == "chip" else check_writable)(args.output)
    module, executable = grouped_module(load, options)
    if args.emit == "tx8be":
        if args.output is None:
            print(module)
        else:
            with writing(args.output):
                args.output.write_text(str(module) + "\n")
        return 0
    plain = load()
    signature, given = signature_of(plain), given_inputs(args)
    arrays = (
        random_arguments(plain, signature, seeded(0, different_seeds=False), large_floats=False)
        if given is None
        else signature.check(given)
    )
    results = evaluate(plain, *arrays, max_steps=options.max_steps)
    scratch = sum(slot.size_bytes for slot in executable.program.slots_of(SlotKind.SCRATCH))
    write_folder(args.output, module, signature, arrays, results, chip_of(options), scratch)
    return 0
