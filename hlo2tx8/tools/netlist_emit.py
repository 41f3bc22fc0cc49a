"""`hlo2tx8 netlist emit MODEL -o X.yaml`: a module as a netlist, with the arrays that it runs on beside it."""

import argparse
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo2tx8.errors import InputError, UnsupportedError, writing
from hlo2tx8.netlist.checks import refuse_broken
from hlo2tx8.netlist.compare import compare
from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.formats import FLOATS, Array
from hlo2tx8.netlist.golden import run_golden
from hlo2tx8.netlist.model import ARCHES
from hlo2tx8.netlist.writer import write_netlist
from hlo2tx8.tools.flags import add_switch, whole
from hlo2tx8.tools.netlist_input import UNSUPPORTED, read_arrays

if TYPE_CHECKING:
    from hlo2tx8.netlist.emit.emit import Emitted


def grid(text: str) -> tuple[int, int]:
    """A type of flags: rows and columns of cores, as 8x8."""
    if not (found := re.fullmatch(r"([1-9]\d{0,2})x([1-9]\d{0,2})", text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not ROWSxCOLUMNS")
    return int(found[1]), int(found[2])


def add_emit_parser(commands: Any) -> None:
    """The subcommand."""
    parser = commands.add_parser("emit", help="write a module as a netlist")
    parser.set_defaults(function=emit_file)
    parser.add_argument("file", help=".hlo, .mlir, .mlirbc, .pb, .onnx or .pt2 module, - for stdin")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help=".yaml netlist; its arrays are in FILE's .npz"
    )
    parser.add_argument("--arch", type=str.lower, choices=ARCHES, default="wormhole_b0", help="architecture (wormhole_b0)")
    parser.add_argument("--grid", type=grid, metavar="RxC", help="rows and columns of cores (10x12 of grayskull, else 8x8)")
    parser.add_argument("--format", choices=FLOATS, default="", help="data format of all floats (that of their element type)")
    parser.add_argument("--microbatch_size", type=whole(1), default=1, metavar="N", help="inputs of an execution (1)")
    parser.add_argument("--microbatches", type=whole(1), default=1, metavar="N", help="executions (1)")
    parser.add_argument("--inputs", type=Path, help=".npz with arg0, arg1, .., alone or one for each input [n, ..] (random)")
    add_switch(parser, "sparse", "list what is multiplied by mostly zeros, as in convolutions, also where that is not much")
    add_switch(parser, "check", "run the netlist by numpy, and compare with the module's reference")


def emit_file(args: Any) -> int:
    """Write the netlist and its arrays; 1 if a result is not near enough, 3 if ops are not supported."""
    from hlo2tx8.compiler.driver import load_source
    from hlo2tx8.hlo.evaluator import evaluate
    from hlo2tx8.netlist.emit.emit import emit

    load = partial(load_source, args.file)
    given = {"arch": args.arch, "grid": args.grid, "format": args.format, "sparse": args.sparse}
    try:
        made = emit(load(), **given, tensors=args.microbatch_size, turns=args.microbatches)
    except UnsupportedError as error:
        print(error, file=sys.stderr)
        return UNSUPPORTED
    refuse_broken(made.netlist, args.arch)
    arguments = arguments_of(args, load(), args.microbatch_size * args.microbatches)
    inputs = made.host_inputs({name: [one[int(name[3:])] for one in arguments] for name in made.inputs})
    arrays = args.output.with_suffix(".npz")
    with writing(args.output):
        args.output.write_text(write_netlist(made.netlist))
    with writing(arrays), arrays.open("wb") as file:
        np.savez(file, **inputs)  # pyright: ignore[reportArgumentType]
    ops = sum(len(graph.ops) for graph in made.netlist.graphs.values())
    print(f"{args.output}: {len(made.netlist.graphs)} graphs, {ops} ops; {arrays}: {len(inputs)} arrays")
    return judge(made, args.arch, inputs, [evaluate(load(), *one) for one in arguments]) if args.check else 0


def arguments_of(args: Any, module: Any, count: int) -> list[tuple[Array, ...]]:
    """The module's arguments, as often as inputs are run."""
    from hlo2tx8.hlo.signature import signature_of
    from hlo2tx8.tools.arguments import random_arguments, seeded

    signature = signature_of(module)
    if not args.inputs:
        return [random_arguments(module, signature, seeded(number, different_seeds=False)) for number in range(count)]
    found = read_arrays(args.inputs)
    names = [f"arg{number}" for number in range(len(signature.inputs))]
    if missing := [name for name in names if name not in found]:
        raise InputError("E1004", f"{args.inputs}: has no {missing[0]}")
    pairs = [(found[name], port) for name, port in zip(names, signature.inputs, strict=True)]
    each = [signature.check([a if a.shape == p.shape else a[n % max(1, len(a))] for a, p in pairs]) for n in range(count)]
    return [tuple(one) for one in each]


def judge(made: "Emitted", arch: str, inputs: dict[str, Array], expected: list[list[Array]]) -> int:
    """Print how near each result is to the one expected; 1 if one is not near enough."""
    from hlo2tx8.netlist.emit.emit import packed
    from hlo2tx8.netlist.emit.layout import plain

    results = made.results(run_golden(made.netlist, arch, inputs, {}))
    config, status = (made.netlist.test_config or TestConfig()).comparison, 0
    for number, (name, port) in enumerate(made.outputs.items()):
        pairs = zip(results[name], [one[number] for one in expected], strict=True)
        found, wanted = zip(*[[packed(a.astype(np.float32), plain(port.shape)) for a in pair] for pair in pairs], strict=True)
        verdict = compare(np.stack(found), np.stack(wanted), config)
        status |= not verdict.agrees
        print(
            f"{name} {port}: {verdict.agreeing} of {verdict.tiles} tiles agree, largest difference {verdict.largest_difference:.3g}"
        )
    return status
