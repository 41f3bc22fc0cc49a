"""`hlo2tx8 check FILE`: does a module compile, op by op and fusion by fusion, without running it?

Every kind of op is compiled as a module of its own, so that everything that is not supported is named at once, with its places;
then the whole module, fusion by fusion. Exit code 0 if all of it compiles.
"""

import argparse
import json
import sys
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from hlo2tx8.hlo.host_ops import FEEDS
from hlo2tx8.options import Options
from hlo2tx8.tools.combinations import check_flags, rules_of_check
from hlo2tx8.tools.flags import add_compiler_flags, load_given, options_of
from hlo2tx8.tools.run_chips import add_flags, chips_module
from hlo2tx8.tools.saved import is_saved

if TYPE_CHECKING:
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.spmd.chips_module import ChipsModule

PLACES = 3
"""Shown of an op's places."""


@dataclass(frozen=True)
class OpUse:
    """All ops of a module with one name, ranks, element types and modes. `engines` is "" where they are refused for `reason`."""

    name: str
    types: str
    count: int
    places: tuple[str, ...]
    engines: str
    reason: str = ""


@dataclass(frozen=True)
class FusionUse:
    """A kernel: the emitter that takes it and why, how often the program launches it, on which engines it computes."""

    name: str
    emitter: str
    hero: str
    launches: int
    engines: str
    place: str


@dataclass(frozen=True)
class Findings:
    """The result of `check`; `error` says why the whole module does not compile, "" if it does."""

    ops: tuple[OpUse, ...]
    fusions: tuple[FusionUse, ...]
    error: str = ""

    @property
    def refused(self) -> tuple[OpUse, ...]:
        return tuple(use for use in self.ops if not use.engines)


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `check`."""
    parser.set_defaults(function=check_file)
    parser.add_argument("file", help=".hlo, .mlir, .mlirbc or .pb module, .tx8x program, - for stdin")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how it is printed (text)")
    add_flags(parser)
    add_compiler_flags(parser)


def check_file(args: Any) -> int:
    """Print what was found; 1 if anything is refused."""
    check_flags(args, rules_of_check(args))
    options = options_of(args)
    chips = None if is_saved(args.file) else chips_module(args.file, options, args)
    found = check(partial(load_given, args, args.file), options, chips)
    sys.stdout.write(json.dumps(asdict(found), indent=1) + "\n" if args.format == "json" else text_of(found))
    return int(bool(found.error))


def check(load: Callable[[], ModuleOp], options: Options, chips: "ChipsModule | None" = None) -> Findings:
    """Ops and fusions of the module that `load` gives, or of that for several chips."""
    from hlo2tx8.errors import Hlo2tx8Error

    options = replace(options, dump_dir=None)
    ops = _ops(load() if chips is None else chips.load(), options, chips)
    try:
        return Findings(ops, _fusions(load, options, chips))
    except Hlo2tx8Error as error:
        return Findings(ops, (), str(error))


def _ops(module: ModuleOp, options: Options, chips: "ChipsModule | None") -> tuple[OpUse, ...]:
    from hlo2tx8.compiler.refusals import kind_of, ops_of
    from hlo2tx8.dialects.hlo import name_of, origin

    uses: dict[Hashable, list[Operation]] = {}
    for function in module.body.block.ops:
        if isinstance(function, FuncOp):
            for op in ops_of(function.body.blocks):
                uses.setdefault(kind_of(op), []).append(op)
    found: list[OpUse] = []
    for ops in uses.values():
        engines, reason = _alone(module, ops[0], options, chips)
        places = tuple(dict.fromkeys(place for op in ops if (place := origin(op))))
        found.append(OpUse(name_of(ops[0]), _types(ops[0]), len(ops), places, engines, reason))
    return tuple(sorted(found, key=lambda use: (bool(use.engines), use.name, use.types)))


def _alone(module: ModuleOp, op: Operation, options: Options, chips: "ChipsModule | None") -> tuple[str, str]:
    """(engines, "") of a program of that op alone, or ("", why there is none); of ops between chips `links`, and what combines."""
    from hlo2tx8.compiler.refusals import ENDS_A_PROGRAM
    from hlo2tx8.compiler.single_op import single_op
    from hlo2tx8.errors import Hlo2tx8Error, UnsupportedError
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.spmd.segments import is_host_op
    from hlo2tx8.tools.engines import engines_of

    if is_host_op(op) and chips is None:
        return "", ENDS_A_PROGRAM
    try:
        if is_host_op(op):
            assert chips is not None
            return _between_chips(op, options, chips), ""
        return engines_of(compile_module(lambda: single_op(module, op), options).program), ""
    except UnsupportedError as error:
        return "", error.ops[0].reason or "no emitter and no instruction does this"
    except Hlo2tx8Error as error:
        return "", error.message


def _between_chips(op: Operation, options: Options, chips: "ChipsModule") -> str:
    from hlo2tx8.hlo.host_ops import COLLECTIVES
    from hlo2tx8.spmd.chips import chip_for, mesh_for
    from hlo2tx8.spmd.link_plan import is_reshard
    from hlo2tx8.spmd.link_step import link_step
    from hlo2tx8.tools.engines import NOTHING, engines_of

    if op.name not in COLLECTIVES and not is_reshard(op):
        return "host" if op.name in FEEDS else NOTHING
    step = link_step(op, chips.counts, mesh_for(chips, options), chip_for(chips, options), partial(_compiled, options=options))
    return "+".join(["links", *dict.fromkeys(engines_of(each.program) for each in step.programs.values())])


def _compiled(module: ModuleOp, options: Options) -> "Executable":
    from hlo2tx8.runtime.compile import compile_module

    return compile_module(module.clone, options)


def _types(op: Operation) -> str:
    ins, outs = (", ".join(map(_type, types)) for types in ([v.type for v in op.operands], op.result_types))
    return f"{ins} → {outs}" if ins else outs


def _type(type_: Attribute) -> str:
    """`f32[,]`: element type and rank, as shapes do not matter."""
    from hlo2tx8.dialects.layout import as_tensor, is_tensor
    from hlo2tx8.errors import CompileError
    from hlo2tx8.hlo import numpy_dtype
    from hlo2tx8.hlo.signature import short_dtype

    if not is_tensor(type_):
        return str(type_)
    tensor = as_tensor(type_)
    try:
        element = short_dtype(numpy_dtype(tensor.element_type).name)
    except CompileError:
        element = str(tensor.element_type)
    return f"{element}[{',' * (tensor.get_num_dims() - 1)}]" if tensor.get_num_dims() else element


def _fusions(load: Callable[[], ModuleOp], options: Options, chips: "ChipsModule | None") -> tuple[FusionUse, ...]:
    from hlo2tx8.runtime.compile import compile_module
    from hlo2tx8.spmd.chips import compile_chips_module

    options = replace(options, explain=True)
    if chips is None:
        return _fusions_of(compile_module(load, options))
    programs = compile_chips_module(chips, options).local.programs
    return tuple(use for executable, _ in programs for use in _fusions_of(executable))


def _fusions_of(executable: "Executable") -> tuple[FusionUse, ...]:
    from hlo2tx8.emitters import TAKEN
    from hlo2tx8.tools.engines import launched

    notes = (TAKEN.fullmatch(note) for note in executable.explanation)
    chosen = {note["kernel"]: (note["emitter"], note["hero"]) for note in notes if note is not None}
    places: dict[str, str] = {}
    for launch in executable.program.launches:
        places.setdefault(launch.name, launch.origin)
    return tuple(
        FusionUse(name, *chosen.get(name, ("linker", "no fusion")), times, engines, places[name])
        for name, (times, engines) in launched(executable.program).items()
    )


def text_of(found: Findings) -> str:
    """The findings as text: refused ops, other ops, fusions, and a line that sums up."""
    from hlo2tx8.tools.table import Table

    refused = [(u.name, u.types, str(u.count), u.reason, _places(u)) for u in found.refused]
    fine = [(u.name, u.types, str(u.count), u.engines, _places(u)) for u in found.ops if u.engines]
    fusions = [(f.name, f.emitter, f.hero, str(f.launches), f.engines, _short(f.place)) for f in found.fusions]
    parts: list[str] = []
    for header, rows in (
        (("refused", "types", ">uses", "reason", "places"), refused),
        (("operation", "types", ">uses", "engines", "places"), fine),
        (("fusion", "emitter", "hero", ">launches", "engines", "place"), fusions),
    ):
        if rows:
            parts.append(Table(header, rows).text(is_terminal=False))
    if found.error and not refused:
        parts.append(f"{found.error}\n")
    count = sum(u.count for u in found.refused)
    total = sum(u.count for u in found.ops)
    verdict = "compiles" if not found.error else "does not compile"
    parts.append(f"{verdict}: {count} of {total} operations refused\n")
    return "\n".join(parts)


def _places(use: OpUse) -> str:
    """The first few, without the folders of their files."""
    shown = ", ".join(_short(place) for place in use.places[:PLACES])
    return f"{shown}, ... {len(use.places) - PLACES} more" if len(use.places) > PLACES else shown


def _short(place: str) -> str:
    file, colon, rest = place.partition(":")
    return file.rpartition("/")[2] + colon + rest
