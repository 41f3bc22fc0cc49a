"""From a module and its encoded kernels to one program."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.encoding import EncodingError, Record, encode_records
from hlo2tx8.device.isa.kc_control import KcHalt
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.device.timing import model
from hlo2tx8.dialects.launch import kernels
from hlo2tx8.dialects.xla import STAYS
from hlo2tx8.errors import CapacityError
from hlo2tx8.hlo.module import find_main, program_functions
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.link.assemble import Assembled, assemble, sequence
from hlo2tx8.link.barriers import LaunchWork, LinkedCode, Piece
from hlo2tx8.link.builder import PieceBuilder
from hlo2tx8.link.donation import taken_over
from hlo2tx8.link.keep_across_turns import keep_across_turns, keeping
from hlo2tx8.link.library import registered_kernels
from hlo2tx8.link.linker import Linker, kernel_code, own_records
from hlo2tx8.link.load_ahead import load_ahead
from hlo2tx8.link.records import meet
from hlo2tx8.link.reroll import reroll
from hlo2tx8.link.stay import stay
from hlo2tx8.lower.encode.encode import EncodedKernel, encode


def link(module: ModuleOp, encoded: Mapping[str, EncodedKernel], chip: Chip, *, rerolls: bool = True) -> Program:
    """The program of a module whose kernels are encoded, for a chip whose SPM they fit. `rerolls`: are equal runs of launches in it
    once?"""
    nested = kernels(module)
    linker = Linker(chip, encoded, PieceBuilder(chip), lambda name, bases: encode(nested[name], bases=bases))
    slots = linker.slots
    function = find_main(module)
    main = function.body.block
    donors = taken_over(function, linker.liveness)
    for i, arg in enumerate(main.args):
        slots.put(arg, slots.add(SlotKind.INPUT, i, arg.type))
    outputs = [slots.add(SlotKind.OUTPUT, i, v.type, donors.get(i)) for i, v in enumerate(terminator_of(main).operands)]
    for output, donor in donors.items():
        slots.end([main.args[donor]])
        slots.put(main.args[donor], outputs[output])
    for callee in program_functions(module)[:-1]:
        linker.function(callee)
    linker.region(main, outputs)

    def moved(name: str, code: LinkedCode, far: Sequence[int]) -> LinkedCode:
        kernel = encode(nested[name], far, dict(code.bases))
        return replace(code, records=own_records(kernel), buffers=kernel.buffers, uses=kernel.uses)

    counting = {name for name, kernel in nested.items() if STAYS in kernel.attributes}
    keep_across_turns(linker.pieces.made, chip, moved, counting)
    change = partial(load_ahead, chip=chip, moved=moved)
    program = _program(linker.pieces.made, chip, tuple(slots.table), tuple(slots.constants), change, rerolls=rerolls)
    return replace(program, library=registered_kernels(module))


def link_alone(kernel: EncodedKernel, chip: Chip, stays: Container[int] = ()) -> tuple[Program, bool]:
    """A program that launches one kernel, with no slots: it cannot run, but takes as long as the kernel does elsewhere; and whether
    one tile alone has work in it, which need not meet the others. It finds what is made of arguments of these numbers as an
    earlier launch left it."""
    code = kernel_code(kernel, chip)
    if stays:
        code = keeping(code, [number in stays for number in range(kernel.num_arguments + len(kernel.scratch))])
    numbers = range(kernel.num_arguments + len(kernel.scratch))
    return _program([LaunchWork(code, code.footprint, numbers)], chip, (), ()), code.footprint.is_alone


def _program(
    pieces: Sequence[Piece],
    chip: Chip,
    slots: tuple[Slot, ...],
    constants: tuple[np.ndarray, ...],
    change: Callable[[Sequence[Piece]], None] = lambda pieces: None,
    *,
    rerolls: bool = False,
) -> Program:
    made = assemble(pieces, chip.tiles, change)
    if not any(isinstance(piece, LaunchWork) and piece.tiles for piece in pieces):
        return _encoded(*(reroll(made, slots) if rerolls else (made, slots)), constants)
    program = _encoded(made, slots, constants)
    sizes = {number: slot.size_bytes for number, slot in enumerate(slots) if slot.kind is SlotKind.SCRATCH}
    if not stay(pieces, sizes, chip):
        return program
    staying = _encoded(sequence(pieces, chip.tiles), slots, constants)
    return min(program, staying, key=lambda program: model(program, chip).cycles)


def _encoded(made: Assembled, slots: Sequence[Slot], constants: tuple[np.ndarray, ...]) -> Program:
    try:
        code, origins = encode_records((*made.records, meet()[0], Record(KcHalt)))
    except EncodingError as error:  # blocks are too deep inside each other
        raise CapacityError("E1005", str(error)) from None
    code.flags.writeable = False
    return Program(
        code=code,
        slots=tuple(slots),
        constants=constants,
        origins=origins,
        spm_bytes=max((b.end for b in made.buffers), default=0),
        buffers=tuple(made.buffers),
        uses=tuple(made.uses),
        launches=tuple(made.launches),
    )
