"""From encoded kernels and @main's launches to one program.

Every launch contributes its kernel's records with the slots renumbered. Before it all engines of its tile have finished, and the
tiles have met at a barrier where it may read what another tile wrote: see `pieces`. Loops and branches stay rolled:

    launch.while (%x = %0) cond { c } do { b }        launch.case %i {a, b}

        copy %0 to the home of %x                         read i back
        KC_loop                                           KC_if i = 0
          c; read its result back                           a; copy its results; i = none
          KC_exit                                         KC_endif
          b; copy its results to the homes                KC_if i = 1
        KC_end                                              b; copy its results; i = none
                                                          KC_endif

    func.func @f(%p) {b} ... %x = func.call @f(%a)

        KC_function 0                                copy %a to the slot of %p
          b; copy its results to slots of f          KC_call 0
        KC_return                                    copy the results

Copies are left out where the value is made in its place. What a function keeps is in slots of its own.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import EncodingError, Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFunction,
    KcHalt,
    KcIf,
    KcLoadScalar,
    KcLoop,
    KcReturn,
)
from hlo2tx8.device.program import Buffer, BufferUse, Program, Slot, SlotKind
from hlo2tx8.device.timing import model
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.launch import CaseOp, KernelOp, RepeatOp, UpdateOp, ViewOp, WhileOp, kernels
from hlo2tx8.errors import CapacityError, LevelError
from hlo2tx8.hlo.liveness import Liveness
from hlo2tx8.hlo.module import find_main, program_functions
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.hlo.regions import captured, terminator_of
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.link.assemble import Assembled, assemble, code_of, sequence
from hlo2tx8.link.barriers import Call, LaunchWork, LinkedCode, Nest, Piece, Scalars
from hlo2tx8.link.boxes import Start, box_of, box_place, distances, read_starts, start_places, write_box
from hlo2tx8.link.donation import taken_over
from hlo2tx8.link.load_ahead import load_ahead
from hlo2tx8.link.moves import Move, in_order
from hlo2tx8.link.named import LinkerBuffer, table_of
from hlo2tx8.link.place import PlacedStep, placed
from hlo2tx8.link.records import copy_place, copy_slot, meet, read_back, scalar_place
from hlo2tx8.link.selectors import FOUND, NO_BRANCH, SELECTOR, in_range, is_selected
from hlo2tx8.link.slots import Slots
from hlo2tx8.link.stay import stay
from hlo2tx8.lower.encode.encode import EncodedKernel, encode

FOREVER = (1 << 63) - 1
TURN = Register(2)
SELECTORS: Mapping[str, Format] = {"bool": Format.PRED} | {f.name.lower(): f for f in KcLoadScalar.FORMATS}
"""Formats of what decides a branch or a place, by dtype name."""


def link(module: ModuleOp, encoded: Mapping[str, EncodedKernel], chip: Chip) -> Program:
    """The program of a module whose kernels are encoded, for a chip whose SPM they fit."""
    linker = _Linker(chip, encoded)
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
    nested = kernels(module)

    def moved(name: str, far: Sequence[int]) -> LinkedCode:
        kernel = encode(nested[name], far)
        return replace(linker.code(name), records=_own(kernel), buffers=kernel.buffers, uses=kernel.uses)

    change = partial(load_ahead, chip=chip, moved=moved)
    return _program(linker.pieces, chip, tuple(slots.table), tuple(slots.constants), change)


def link_alone(kernel: EncodedKernel, chip: Chip) -> tuple[Program, bool]:
    """A program that launches one kernel, with no slots: it cannot run, but takes as long as the kernel does elsewhere; and whether
    one tile alone has work in it, which need not meet the others."""
    code = _code(kernel, chip)
    numbers = range(kernel.num_arguments + len(kernel.scratch))
    return _program([LaunchWork(code, code.footprint, numbers)], chip, (), ()), code.footprint.is_alone


def _program(
    pieces: Sequence[Piece],
    chip: Chip,
    slots: tuple[Slot, ...],
    constants: tuple[np.ndarray, ...],
    change: Callable[[Sequence[Piece]], None] = lambda pieces: None,
) -> Program:
    made = assemble(pieces, chip.tiles, change)
    program = _encoded(made, slots, constants)
    sizes = {number: slot.size_bytes for number, slot in enumerate(slots) if slot.kind is SlotKind.SCRATCH}
    if not any(isinstance(piece, LaunchWork) and piece.tiles for piece in pieces) or not stay(pieces, sizes, chip):
        return program
    staying = _encoded(sequence(pieces, chip.tiles), slots, constants)
    return min(program, staying, key=lambda program: model(program, chip).cycles)


def _encoded(made: Assembled, slots: tuple[Slot, ...], constants: tuple[np.ndarray, ...]) -> Program:
    try:
        code, origins = encode_records((*made.records, meet()[0], Record(KcHalt)))
    except EncodingError as error:  # blocks are too deep inside each other
        raise CapacityError("E1005", str(error)) from None
    code.flags.writeable = False
    return Program(
        code=code,
        slots=slots,
        constants=constants,
        origins=origins,
        spm_bytes=max((b.end for b in made.buffers), default=0),
        buffers=tuple(made.buffers),
        uses=tuple(made.uses),
        launches=tuple(made.launches),
    )


def _code(kernel: EncodedKernel, chip: Chip) -> LinkedCode:
    """The kernel's code, without the barrier at its end."""
    return replace(code_of(_own(kernel), kernel.buffers, kernel.uses, chip.tiles), lives=kernel.lives)


def _own(kernel: EncodedKernel) -> Sequence[Record]:
    return kernel.records[:-2] if kernel.records[-2:] == meet() else kernel.records


class LinkedFunction(NamedTuple):
    """The number of a function, and the slots of what it takes and gives."""

    number: int
    given: Sequence[int]
    results: Sequence[int]


@dataclass
class _Linker:
    chip: Chip
    encoded: Mapping[str, EncodedKernel]
    slots: Slots = field(default_factory=Slots)
    pieces: list[Piece] = field(default_factory=list[Piece])
    """Of the loop or branch that is being filled."""
    codes: dict[tuple[str, Rectangle | None], LinkedCode] = field(default_factory=dict[tuple[str, "Rectangle | None"], LinkedCode])
    """Of the kernels that have been launched."""
    liveness: Liveness = field(default_factory=Liveness)
    functions: dict[str, LinkedFunction] = field(default_factory=dict[str, "LinkedFunction"])

    def function(self, function: FuncOp) -> None:
        """Append a function, which reads and writes slots that are nobody else's."""
        block = function.body.block
        number, slots = len(self.functions), self.slots
        given = [slots.put_anew(arg) for arg in block.args]
        results = [slots.scratch(value.type, is_new=True) for value in terminator_of(block).operands]
        for slot in results:
            slots.hold(slot)
        with self.nest(Record(KcFunction, {"number": number}, origin=origin_of(function)), Record(KcReturn)):
            self.region(block, results)
        slots.hold_all()
        self.functions[function.sym_name.data] = LinkedFunction(number, given, results)

    def call(self, op: CallOp) -> None:
        """Append a call of a function, with copies of what it takes and gives."""
        callee = self.functions[op.callee.string_value()]
        self.copy(self.moves(op.operands, callee.given), op)
        self.pieces.append(Call(Record(KcCall, {"number": callee.number}, origin=origin_of(op))))
        pairs = zip(callee.results, op.results, strict=True)
        self.copy([Move(slot, self.slots.place(value), value.type) for slot, value in pairs], op)

    def region(self, block: Block, targets: Sequence[int]) -> None:
        """Append a block, and copies that bring the values of its terminator into the slots `targets`."""
        terminator = terminator_of(block)
        self.slots.want(block, list(targets))
        self.block(block)
        self.copy(self.moves(terminator.operands, targets), terminator)
        self.slots.end(self.liveness.of(block)[terminator])

    def block(self, block: Block) -> None:
        """Append the operations of a block, without its terminator."""
        dying = self.liveness.of(block)
        step = PlacedStep(self.chip.mesh)
        for op in block.ops:
            self.slots.end(step.begun_by(op))
            match op:
                case KernelOp():
                    self.launch(op, dying[op])
                case WhileOp() | RepeatOp():
                    self.loop(op, dying[op])
                case CaseOp():
                    self.branches(op)
                case CallOp():
                    self.call(op)
                case UpdateOp():
                    self.update(op, is_last_use=op.tensor in dying[op])
                case ViewOp():
                    self.slots.put(op.result, self.slots.of[op.tensor])
                case _ if op is block.last_op:
                    return
                case _ if op.name == "stablehlo.constant":
                    self.slots.add_constant(op)
                case _:
                    raise LevelError("E1006", f"{op.name} cannot be linked")
            if Rectangle.of(op) is None:
                self.slots.end(dying[op])
            else:
                step.dying += dying[op]

    def launch(self, op: KernelOp, dying: Sequence[SSAValue]) -> None:
        """Append a launch of the op's kernel; slots of the values `dying` may be reused for its results."""
        kernel = self.encoded[op.callee.string_value()]
        operands = [self.slots.of[v] for v in op.operands]
        rectangle = Rectangle.of(op)
        tiles = rectangle.tiles(self.chip.mesh) if rectangle is not None else ()
        numbers = op.replaces.get_values() if op.replaces and not tiles else ()  # others may read what a placed one overwrites
        replaced = [op.operands[n] for n in numbers if op.operands[n] in dying]
        results = self.updated(op, dying) or [self.slots.replace(v, replaced) for v in op.results]
        temporary: list[int] = []
        for type_ in kernel.scratch:
            temporary.append(self.slots.scratch(type_))
            self.slots.hold(temporary[-1])
        numbers = (*operands, *results, *temporary)
        code = self.code(op.callee.string_value(), rectangle)
        footprint = code.footprint.renumbered(numbers)
        self.pieces.append(LaunchWork(code, footprint, numbers, op.callee.string_value(), origin_of(op), tiles=tiles))
        for slot in temporary:
            self.slots.release(slot)

    def updated(self, op: KernelOp, dying: Sequence[SSAValue]) -> list[int]:
        """The slots of a kernel's results that update operands, which are copied there where they are needed elsewhere; [] if they
        update none.
        """
        moves: list[Move] = []
        for result, old in op.updated.items():
            is_last_use = old in dying and tuple(op.operands).count(old) == 1
            slot = self.slots.of[old]
            moves.append(Move(slot, self.slots.over(result, old, is_last_use=is_last_use), old.type))
        self.copy(moves, op)
        return [move.target for move in moves]

    def code(self, name: str, tiles: Rectangle | None = None) -> LinkedCode:
        """The code of the kernel of that name, on some tiles; each kernel is prepared once for them."""
        if (name, tiles) not in self.codes:
            kernel = self.encoded[name]
            if tiles is not None:
                kernel = placed(kernel, tiles, self.chip.mesh, _own(kernel))
            self.codes[name, tiles] = _code(kernel, self.chip)
        return self.codes[name, tiles]

    def update(self, op: UpdateOp, *, is_last_use: bool) -> None:
        """Append the records that write the box, and before them a copy of the old value if it is still needed."""
        source, old = self.slots.of[op.update], self.slots.of[op.tensor]
        target = self.slots.over(op.result, op.tensor, is_last_use=is_last_use)
        self.copy([Move(old, target, op.tensor.type)], op)
        outer, inner = port_of(op.tensor.type), port_of(op.update.type)
        if 0 in inner.shape:
            return
        order = outer.layout[::-1] or tuple(range(len(outer.shape)))
        item_bytes = outer.size_bytes // prod(outer.shape)
        steps = distances(outer.shape, order, item_bytes)
        starts = [
            self.start(value, step, room - size)
            for value, step, room, size in zip(op.starts, steps, outer.shape, inner.shape, strict=True)
        ]
        box = box_of(inner.shape, outer.shape, order, item_bytes)
        origin = origin_of(op)
        reading = read_starts(starts, self.chip, origin), start_places(starts, self.chip)
        writing = write_box(source, target, box, self.chip, origin), [box_place(box, self.chip)]
        self.append([reading, writing], "update", op)

    def start(self, value: SSAValue, distance: int, room: int) -> Start:
        """The start of an update along one dimension, whose indices are `distance` bytes apart and must stay in 0..room."""
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == "stablehlo.constant":
            return Start(int(decode_attributes(owner)["value"]), None, distance, room)
        return Start(self.slots.of[value], SELECTORS[port_of(value.type).dtype], distance, room)

    # ------------------------------------------------------------------------------------------------ control

    @contextmanager
    def nest(self, begin: Record, end: Record) -> Generator[None]:
        """A context: everything that is appended in it becomes the body of one loop or branch."""
        outer, self.pieces = self.pieces, []
        yield
        self.pieces = [*outer, Nest(begin, end, self.pieces)]

    def loop(self, op: WhileOp | RepeatOp, dying: Sequence[SSAValue]) -> None:
        """Append a loop. Each loop variable has one slot, which holds its initial value first and then what the body yields."""
        slots, inside = self.slots, captured(op)
        homes: list[int] = []
        for start, result in zip(op.operands, op.results, strict=True):
            is_last_use = start in dying and start not in inside
            homes.append(slots.home(start, result, homes, is_last_use=is_last_use))
            slots.hold(homes[-1])
        self.copy(self.moves(op.operands, homes), op)
        slots.end([v for v in dying if v not in inside])
        hi = op.count.value.data if isinstance(op, RepeatOp) else FOREVER
        begin = Record(KcLoop, {"rd": TURN, "lo": 0, "hi": hi, "step": 1}, origin=origin_of(op))
        with self.nest(begin, Record(KcEnd)):
            if isinstance(op, WhileOp):
                self.condition(op, homes)
            for arg, home in zip(op.body.block.args, homes, strict=True):
                slots.put(arg, home)
            self.region(op.body.block, homes)
        for result, home in zip(op.results, homes, strict=True):
            slots.put(result, home)
            slots.release(home)

    def condition(self, op: WhileOp, homes: Sequence[int]) -> None:
        """Append the loop's condition and the exit that depends on it; the loop variables stay in their slots `homes`."""
        block = op.condition.block
        for arg, result, home in zip(block.args, op.results, homes, strict=True):
            self.slots.put(arg, home)
            self.slots.put(result, home)
        self.block(block)
        terminator = terminator_of(block)
        (decision,) = terminator.operands
        self.read_back(decision, FOUND, op)
        self.pieces.append(Scalars([Record(KcExit, {"value": FOUND}, origin=origin_of(op))]))
        self.slots.end([*self.liveness.of(block)[terminator], *op.results])

    def branches(self, op: CaseOp) -> None:
        """Append the branches one behind the other, each under the test that its number is selected."""
        slots = self.slots
        self.read_back(op.selector, SELECTOR, op)
        self.pieces.append(Scalars(in_range(len(op.branches))))
        targets: list[int] = []
        for result in op.results:
            targets.append(slots.place(result))
            slots.hold(targets[-1])
        slots.end(list(op.results))  # until a branch has written them
        for number, region in enumerate(op.branches):
            self.pieces.append(Scalars(is_selected(number)))
            with self.nest(Record(KcIf, {"value": FOUND}, origin=origin_of(op)), Record(KcEndIf)):
                self.region(region.block, targets)
                self.pieces.append(Scalars([Record(KcAffine, {"rd": SELECTOR, "c": NO_BRANCH})]))
        for result, target in zip(op.results, targets, strict=True):
            slots.put(result, target)
            slots.release(target)

    def read_back(self, value: SSAValue, register: Register, op: Operation) -> None:
        fmt = SELECTORS[port_of(value.type).dtype]
        records = read_back(self.slots.of[value], fmt, register, self.chip, origin_of(op))
        self.append([(records, [scalar_place(fmt, self.chip)])], "", op, decides=True)

    def append(
        self, parts: Sequence[tuple[Iterable[Record], Sequence[LinkerBuffer]]], name: str, op: Operation, *, decides: bool = False
    ) -> None:
        """Append records that belong to no kernel, with the SPM ranges that they use."""
        records: list[Record] = []
        buffers: list[Buffer] = []
        uses: list[BufferUse] = []
        for part, places in parts:
            new = list(part)
            tables = table_of(new, places, len(records), len(buffers))
            records += new
            buffers += tables[0]
            uses += tables[1]
        code = code_of(records, buffers, uses, self.chip.tiles)
        self.pieces.append(LaunchWork(code, code.footprint, None, name, origin_of(op), decides))

    def moves(self, values: Sequence[SSAValue], targets: Sequence[int]) -> list[Move]:
        return [Move(self.slots.of[value], target, value.type) for value, target in zip(values, targets, strict=True)]

    def copy(self, moves: Sequence[Move], op: Operation) -> None:
        """Append copies that have the effect of happening all at once: ordered, and through a scratch slot where two values change
        places.
        """
        held: list[int] = []

        def aside(type_: Attribute) -> int:
            held.append(self.slots.scratch(type_))
            self.slots.hold(held[-1])
            return held[-1]

        parts: list[tuple[Iterable[Record], Sequence[LinkerBuffer]]] = []
        for number, move in enumerate(in_order(moves, aside)):
            size = port_of(move.type).size_bytes
            records = copy_slot(move.source, move.target, size, number, self.chip, origin_of(op))
            parts.append((records, [copy_place(size, number, self.chip)]))
        if parts:
            self.append(parts, "copy", op)
        for slot in held:
            self.slots.release(slot)


def origin_of(op: Operation) -> str:
    """The source location of an op of @main, or of the op around it; "" if there is none."""
    inner: Operation | None = op
    while inner is not None:
        loc = inner.attributes.get("loc")
        if isinstance(loc, StringAttr) and loc.data:
            return loc.data
        inner = inner.parent_op()
    return ""
