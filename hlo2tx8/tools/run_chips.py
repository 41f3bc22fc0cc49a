"""`hlo2tx8 run` of a module on several chips, or with infeed and outfeed: every chip's results, compared with the reference.

Names in files of literals: `input0`, `result0`; `infeed0_1` is array 1 of the first infeed; `input0@2` is that of chip 2 alone (of
replica 2, if each replica's arrays are sharded).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, ModuleOp

from hlo2tx8.errors import InputError
from hlo2tx8.hlo.host_ops import HOST_OPS
from hlo2tx8.hlo.signature import Port, Signature
from hlo2tx8.options import Level, Options
from hlo2tx8.tools.arguments import random_arguments, random_array, seeded, zeros
from hlo2tx8.tools.before_run import at_most
from hlo2tx8.tools.chip_data import ChipData
from hlo2tx8.tools.compare import Mismatch, compare, describe_difference, named
from hlo2tx8.tools.flags import whole
from hlo2tx8.tools.literals import numbered
from hlo2tx8.tools.reference import Reference

if TYPE_CHECKING:
    from hlo2tx8.spmd.chips import ChipsExecutable
    from hlo2tx8.spmd.chips_module import ChipsModule
    from hlo2tx8.spmd.feeds import Infeed
    from hlo2tx8.spmd.reference import Expected

Array = npt.NDArray[Any]
MODES = ("fast", "strict", "definition")


def add_flags(parser: Any, *, feeds: bool = False) -> None:
    """The flags that say how many chips there are."""
    group = parser.add_argument_group("several chips; the module's own numbers without these flags")
    group.add_argument("--replicas", "--num_replicas", type=whole(1), default=0, metavar="N", help="how often the module runs")
    group.add_argument(
        "--partitions", "--num_partitions", type=whole(1), default=0, metavar="N", help="over how many chips each is spread"
    )
    if feeds:
        text = "what is fed: infeed0, infeed1, ... (.safetensors); random without it"
        group.add_argument("--infeed", type=Path, metavar="FILE", help=text)
    group.add_argument("--chips", type=whole(1), default=0, metavar="N", help="partitions of a sharded module, else replicas")


def counts_of(args: Any) -> tuple[int, int]:
    """The numbers of replicas and partitions that the flags give, 0 for what they leave open."""
    if not args.chips:
        return args.replicas, args.partitions
    if args.replicas and args.partitions:
        raise InputError("E1004", "--chips is --replicas times --partitions", hint="leave one of the three out")
    if args.chips % (args.replicas or args.partitions or 1):
        raise InputError("E1004", f"--chips={args.chips} cannot be shared by {args.replicas or args.partitions}")
    if args.partitions:
        return args.chips // args.partitions, args.partitions
    return (args.replicas, args.chips // args.replicas) if args.replicas else (0, 0)


def run_if_for_chips(file: str, module: ModuleOp, options: Options, args: Any, iteration: int, number: int) -> list[str] | None:
    """As `run_chips`; None if the module of the file names no other devices, nor talks to the host."""
    counts = (module.attributes.get(name) for name in ("mhlo.num_replicas", "mhlo.num_partitions"))
    is_for_several = any(isinstance(count, IntegerAttr) and count.value.data > 1 for count in counts)
    talks = any(op.name in HOST_OPS for op in module.walk())
    if not (args.chips or any(counts_of(args)) or is_for_several or talks):
        if args.infeed is not None:
            raise InputError("E1004", f"--infeed is what a module is fed, and {file} has no infeed")
        return None
    found = chips_module(file, options, args)
    return None if found is None else run_chips(found, options, args, iteration, number, ChipData.of(file, args.given))


def chips_module(file: str, options: Options, args: Any) -> "ChipsModule | None":
    """The module of a file for as many chips as the flags and the module say; None if it is for one chip without feeds."""
    from hlo2tx8.spmd.chips_module import module_for_chips
    from hlo2tx8.tools.flags import given_inputs

    replicas, partitions = counts_of(args)
    return module_for_chips(
        file, options, replicas, partitions, chips=args.chips, args=given_inputs(args), format=args.input_format
    )


def run_chips(
    module: "ChipsModule", options: Options, args: Any, iteration: int, number: int, folder: ChipData | None = None
) -> list[str]:
    """Runs a module once, the run of that number, on the data of a chip folder if it is from one; the mismatches, as lines that
    have been printed.
    """
    from hlo2tx8.runtime.progress_bar import shown
    from hlo2tx8.spmd.chips import compile_chips_module
    from hlo2tx8.spmd.reference import expected_of
    from hlo2tx8.tools.chips_report import describe_chips
    from hlo2tx8.tools.platforms import platform_of

    _check(args)
    replicas, partitions = module.counts
    if module.num_chips > 1:
        print(f"{module.num_chips} chips: {replicas} replicas of {partitions} partitions", file=sys.stderr)
    with shown() as watch:
        executable = compile_chips_module(module, options, watch)
    inputs = inputs_of_chips(module, args, iteration, folder)
    infeed = _infeed(args, iteration)
    modes = MODES if args.level is None else (options.mode,)
    wrong: list[str] = []
    expected: Expected | None = None
    results: list[list[Array]] = []
    for mode in modes:
        if mode != options.mode:
            executable = compile_chips_module(module, replace(options, mode=mode))
        with at_most(args.timeout, "tx8"):
            results = executable.execute_all(inputs, infeed)
        if args.reference_platform:
            name = platform_of(args.reference_platform)
            if expected is None:
                expected = expected_of(module, inputs, infeed, is_xla=name == "cpu")
                expected = _of_cpu(module, inputs, expected) if name == "cpu" else expected
            wrong += _compare(executable, results, expected, args, f"tx8, {mode}", name)
    if folder is not None and (expected is not None or args.abs_error_bound is not None or args.rel_error_bound is not None):
        wrong += _worst_of_folder(folder, results, expected, args)
    if args.print_literals or args.output_literals_file is not None:
        _tell(executable, inputs, results, expected, args, number)
    if args.report or args.print_program:
        sys.stdout.write(describe_chips(executable, program=args.print_program, report=args.report))
    return wrong


def _check(args: Any) -> None:
    """InputError for flags that are of one chip."""
    named_flags = {
        "--compare_each": args.compare_each,
        "--dump_results": args.dump_results,
        "--check_values": args.check_values,
        "--isolate_instructions": args.isolate_instructions,
        "--trace": args.trace,
        "--explain": args.explain,
        "--reference_platform=tx8": args.reference_platform == "tx8",
        "--platform": args.platform != "tx8",
        "--level": args.level not in (None, Level.PROGRAM),
    }
    for flag, value in named_flags.items():
        if value:
            raise InputError("E1004", f"{flag} is for modules on one chip without infeed", hint="--partitions=1 --replicas=1")


def _worst_of_folder(folder: ChipData, results: Sequence[Sequence[Array]], bounds: "Expected | None", args: Any) -> list[str]:
    """What ChipData.worst says of every chip."""
    wrong: list[str] = []
    for chip, own in enumerate(results):

        def reference(stored: list[Array], chip: int = chip) -> Reference:
            if bounds is None or args.abs_error_bound is not None or args.rel_error_bound is not None:
                return Reference.within(stored, args.abs_error_bound, args.rel_error_bound)
            limits = bounds.limits[chip]
            return Reference(stored, lambda: limits)

        wrong += folder.worst(own, reference, chip)
    return wrong


def inputs_of_chips(
    module: "ChipsModule", args: Any, iteration: int = 0, folder: ChipData | None = None
) -> list[tuple[Array, ...]]:
    """The arrays of every chip, or replica: those of the file or of the chip folder, else such as `run` draws."""
    groups, signature = range(module.num_groups), module.signature
    if folder is not None:
        return [folder.arrays(signature, chip) for chip in groups]
    if args.input_literals_file is not None:
        stored = _stored(args.input_literals_file)
        names = [f"input{n}" for n in range(len(signature.inputs))]
        return [signature.check([_of_chip(stored, name, group) for name in names]) for group in groups]
    draws = {"random_init_input_literals": True, "different_random_seeds": False, "use_large_float_range": False}
    is_random, is_seeded, is_large = (getattr(args, name, default) for name, default in draws.items())
    if not is_random:
        return [zeros(signature) for _ in groups]
    whole: ModuleOp = (module.load_whole or module.load)()
    seeds = [seeded(iteration * len(groups) + group, different_seeds=is_seeded) for group in groups]
    return [random_arguments(whole, signature, rng, large_floats=is_large) for rng in seeds]


def _infeed(args: Any, iteration: int) -> "Infeed":
    """What is fed: from the file, or random numbers, others for each chip and each time."""
    if args.infeed is not None:
        stored = _stored(args.infeed)

        def take(device: int, number: int, ports: Sequence[Port]) -> Sequence[Array]:
            names = [f"infeed{number}"] if len(ports) == 1 and f"infeed{number}" in stored else []
            return [_of_chip(stored, name, device) for name in names or [f"infeed{number}_{n}" for n in range(len(ports))]]

        return take

    def draw(device: int, number: int, ports: Sequence[Port]) -> Sequence[Array]:
        if not args.random_init_input_literals:
            return zeros(Signature(tuple(ports), ()))
        rng = np.random.default_rng((2, iteration, device, number))
        return [random_array(port, rng, large_floats=args.use_large_float_range) for port in ports]

    return draw


def _stored(path: Any) -> Mapping[str, Array]:
    from hlo2tx8.runtime.tensors import read_tensors

    return read_tensors(path)


def _of_chip(stored: Mapping[str, Array], name: str, chip: int) -> Array:
    """An array of a chip: its own, else that of all."""
    for key in (f"{name}@{chip}", name):
        if key in stored:
            return stored[key]
    raise InputError("E1004", f"no {name} for chip {chip} in the file; it has {', '.join(stored) or 'nothing'}")


def _of_cpu(module: "ChipsModule", inputs: Sequence[Sequence[Array]], bounds: "Expected") -> "Expected":
    """XLA:CPU's results, within what both are off."""
    from hlo2tx8.frontend import to_mlir_text
    from hlo2tx8.tools.xla_cpu import run_on_cpus

    if any(bounds.outfed) or any(op.name == "stablehlo.infeed" for op in module.load().walk()):
        raise InputError("E1004", "XLA:CPU is not fed here", hint="--reference_platform=interpreter")
    if module.load_whole is not None:
        module = replace(module, tiles=None, counts=(module.counts[0], 1), load=module.load_whole)
    results = run_on_cpus(to_mlir_text(module.load()), inputs, module.counts)
    return replace(bounds, results=results, limits=[[1.5 * limit for limit in own] for own in bounds.limits])


def _compare(
    executable: "ChipsExecutable", results: Sequence[Sequence[Array]], expected: "Expected", args: Any, test: str, reference: str
) -> list[str]:
    """Lines about what differs, on stderr too."""
    wrong: list[str] = []
    is_named = args.abs_error_bound is not None or args.rel_error_bound is not None

    def judge(where: str, actual: Sequence[Array], wanted: Sequence[Array], limits: Sequence[Array]) -> None:
        allowed = named(wanted, args.abs_error_bound, args.rel_error_bound) if is_named else limits
        found: Sequence[Mismatch] = compare(actual, wanted, allowed)
        wrong.extend(f"{where}: {mismatch.line}" for mismatch in found)
        for mismatch in found:
            print(f"{where}: {mismatch}", file=sys.stderr)

    word = "replica" if executable.module.tiles is not None else "chip"
    for number, own in enumerate(results):
        judge(f"{word} {number}", own, expected.results[number], expected.limits[number])
    for chip, own in enumerate(executable.outfeed):
        if len(own) != len(expected.outfed[chip]):
            wrong.append(f"chip {chip}: {len(own)} outfeeds instead of {len(expected.outfed[chip])}")
            print(wrong[-1], file=sys.stderr)
        for turn, (actual, wanted, limits) in enumerate(
            zip(own, expected.outfed[chip], expected.outfed_limits[chip], strict=False)
        ):
            judge(f"chip {chip}, outfeed {turn}", actual, wanted, limits)
    if not wrong:
        print(f"\n** Results on {test} and {reference} are close enough. **", file=sys.stderr)
        actual, wanted, limits = (list(chain(*sets)) for sets in (results, expected.results, expected.limits))
        if actual:
            print(describe_difference(actual, wanted, limits), file=sys.stderr)
    return wrong


def _tell(
    executable: "ChipsExecutable",
    inputs: Sequence[Sequence[Array]],
    results: Sequence[Sequence[Array]],
    expected: "Expected | None",
    args: Any,
    number: int,
) -> None:
    """Prints and writes what went in and came out."""
    from hlo2tx8.runtime.tensors import write_tensors

    groups = {"input": inputs, "result": results, "reference": expected.results if expected is not None else ()}
    found = {
        f"{kind}{i}" + (f"@{n}" if len(sets) > 1 else ""): array
        for kind, sets in groups.items()
        for n, arrays in enumerate(sets)
        for i, array in enumerate(arrays)
    }
    for chip, turns in enumerate(executable.outfeed):
        for turn, arrays in enumerate(turns):
            for i, array in enumerate(arrays):
                name = f"outfeed{turn}" + (f"_{i}" if len(arrays) > 1 else "")
                found[name + (f"@{chip}" if executable.num_chips > 1 else "")] = array
    if args.print_literals:
        with np.printoptions(threshold=64, edgeitems=3):
            for name, array in found.items():
                print(f"\n** {name} **\n{Port(array.shape, array.dtype.name)} {array}")
    if args.output_literals_file is not None:
        write_tensors(numbered(args.output_literals_file, number), found)
