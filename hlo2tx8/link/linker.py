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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcCall,
    KcEnd,
    KcEndIf,
    KcExit,
    KcFunction,
    KcIf,
    KcLoop,
    KcReturn,
)
from hlo2tx8.dialects.launch import CaseOp, KernelOp, RepeatOp, UpdateOp, ViewOp, WhileOp
from hlo2tx8.errors import CompileError, LevelError
from hlo2tx8.hlo.liveness import Liveness
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.hlo.regions import captured, terminator_of
from hlo2tx8.link.assemble import code_of
from hlo2tx8.link.barriers import Call, LaunchWork, LinkedCode, Scalars
from hlo2tx8.link.builder import PieceBuilder, origin_of
from hlo2tx8.link.counted import Counted, counted, is_unread, unset_states
from hlo2tx8.link.moves import Move
from hlo2tx8.link.place import PlacedStep, placed
from hlo2tx8.link.records import meet, written_by
from hlo2tx8.link.selectors import FOUND, NO_BRANCH, SELECTOR, in_range, is_selected
from hlo2tx8.link.slots import Slots
from hlo2tx8.link.swapped import Swapped, swapped
from hlo2tx8.link.views import LAST_REGISTER, Begin, SlotViews, are_enough
from hlo2tx8.link.written_parts import written_parts
from hlo2tx8.lower.encode.encode import NO_BASES, EncodedKernel, ViewBase

Bases: TypeAlias = Mapping[int, ViewBase]
"""Where arguments begin in their slots, by number."""
CodeKey: TypeAlias = tuple[str, Rectangle | None, tuple[tuple[int, ViewBase], ...]]
FOREVER = (1 << 63) - 1
TURN = Register(2)


class LinkedFunction(NamedTuple):
    """The number of a function, and the slots of what it takes and gives."""

    number: int
    given: Sequence[int]
    results: Sequence[int]


@dataclass
class Linker:
    """Walks the functions of a module and appends a piece for each thing that they do."""

    chip: Chip
    encoded: Mapping[str, EncodedKernel]
    pieces: PieceBuilder
    encoded_at: Callable[[str, Bases], EncodedKernel]
    """The same of kernels some of whose arguments do not begin where their slots do."""
    codes: dict[CodeKey, LinkedCode] = field(default_factory=dict[CodeKey, LinkedCode])
    """Of the kernels that have been launched."""
    liveness: Liveness = field(default_factory=Liveness)
    functions: dict[str, LinkedFunction] = field(default_factory=dict[str, "LinkedFunction"])
    swapped: dict[SSAValue, tuple[int, Begin]] = field(default_factory=dict[SSAValue, "tuple[int, Begin]"])
    """Where the turns of loops write states that have two places: the slot, and where in it."""
    written: set[Operation] = field(default_factory=set[Operation])
    """Updates that kernels have done themselves."""

    @cached_property
    def views(self) -> SlotViews:
        """Those that do not begin where their slots do."""
        return SlotViews(self.pieces)

    @property
    def slots(self) -> Slots:
        """Where values are."""
        return self.pieces.slots

    def function(self, function: FuncOp) -> None:
        """Append a function, which reads and writes slots that are nobody else's."""
        block = function.body.block
        number, slots = len(self.functions), self.slots
        given = [slots.put_anew(arg) for arg in block.args]
        results = [slots.scratch(value.type, is_new=True) for value in terminator_of(block).operands]
        for slot in results:
            slots.hold(slot)
        with self.pieces.nest(Record(KcFunction, {"number": number}, origin=origin_of(function)), Record(KcReturn)):
            self.region(block, results)
        slots.hold_all()
        self.functions[function.sym_name.data] = LinkedFunction(number, given, results)

    def call(self, op: CallOp) -> None:
        """Append a call of a function, with copies of what it takes and gives."""
        callee = self.functions[op.callee.string_value()]
        self.pieces.bring(op.operands, callee.given, op)
        self.pieces.add(Call(Record(KcCall, {"number": callee.number}, origin=origin_of(op))))
        pairs = zip(callee.results, op.results, strict=True)
        self.pieces.copy([Move(slot, self.slots.place(value), value.type) for slot, value in pairs], op)

    def region(self, block: Block, targets: Sequence[int], counter: Counted | None = None) -> None:
        """Append a block, and copies that bring the values of its terminator into the slots `targets`; the next number of a counter
        is only made if its slot was read."""
        terminator = terminator_of(block)
        self.slots.want(block, list(targets))
        last = counter.next if counter is not None else None
        self.block(block, last)
        if counter is not None and last is not None:
            home = self.slots.of[counter.value]
            if counter.value in self.pieces.read:
                self.launch(last, [])
            else:
                self.slots.put(last.results[0], home)
        self.pieces.bring(terminator.operands, targets, terminator)
        self.slots.end(self.liveness.of(block)[terminator])

    def block(self, block: Block, but: Operation | None = None) -> None:
        """Append the operations of a block, without its terminator, and without one that is not to be done there."""
        dying = self.liveness.of(block)
        step = PlacedStep(self.chip.mesh)
        for op in block.ops:
            self.slots.end(step.begun_by(op))
            match op:
                case _ if op is but or is_unread(op):
                    pass
                case KernelOp():
                    self.launch(op, dying[op])
                case WhileOp() | RepeatOp():
                    self.loop(op, dying[op])
                case CaseOp():
                    self.branches(op)
                case CallOp():
                    self.call(op)
                case UpdateOp():
                    if op not in self.written:
                        self.pieces.update(op, is_last_use=op.tensor in dying[op])
                case ViewOp():
                    self.views.add(op)
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
        rectangle = Rectangle.of(op)
        parts = written_parts(op, self.views) if rectangle is None and not op.updated and is_lowered(op) else {}
        code, operands, temporary = self.with_views(op, rectangle, parts)
        tiles = rectangle.tiles(self.chip.mesh) if rectangle is not None else ()
        numbers = op.replaces.get_values() if op.replaces and not tiles else ()  # others may read what a placed one overwrites
        replaced = [op.operands[n] for n in numbers if op.operands[n] in dying and op.operands[n] not in self.views.begins]
        results = self.updated(op, dying) or [
            self.part(parts[number][0]) if number in parts else self.place(v, replaced) for number, v in enumerate(op.results)
        ]
        first = len(temporary)
        for type_ in kernel.scratch:
            temporary.append(self.slots.scratch(type_))
            self.slots.hold(temporary[-1])
        numbers = (*operands, *results, *temporary[first:])
        footprint = code.footprint.renumbered(numbers)
        self.pieces.add(LaunchWork(code, footprint, numbers, op.callee.string_value(), origin_of(op), tiles=tiles))
        for slot in temporary:
            self.slots.release(slot)

    def with_views(
        self, op: KernelOp, rectangle: Rectangle | None, parts: dict[int, tuple[UpdateOp, Begin]]
    ) -> tuple[LinkedCode, list[int], list[int]]:
        """The code of an op's kernel, and its operands' slots, some of which are copies of views, which are held. It writes `parts`
        in their places; those that it cannot are taken out."""
        name, shown = op.callee.string_value(), {v: self.views.begins[v] for v in op.operands if v in self.views.begins}
        operands = [self.slots.of[v] for v in op.operands]
        places = {len(operands) + n: self.swapped[v][1] for n, v in enumerate(op.results) if v in self.swapped}
        if parts and not are_enough([*shown.values(), *places.values(), *(begin for _, begin in parts.values())]):
            parts.clear()
        if not shown and not parts and not places:
            return self.code(name, rectangle), operands, []
        of_parts = {len(operands) + number: begin for number, (_, begin) in parts.items()}
        if is_lowered(op) and are_enough([*shown.values(), *places.values()]) and not shown.keys() & op.updated.values():
            wanted = {n: shown[v] for n, v in enumerate(op.operands) if v in shown} | of_parts | places
            try:
                return self.code(name, rectangle, self.bases(wanted, op)), operands, []
            except CompileError:  # it needs the registers itself
                pass
        parts.clear()
        copies: dict[SSAValue, int] = {}
        for value, begin in shown.items():
            copies[value] = self.slots.scratch(value.type)
            self.slots.hold(copies[value])
            self.views.copy(value, begin, copies[value], value, op)
        code = self.code(name, rectangle, self.bases(places, op))
        return code, [copies.get(v, self.slots.of[v]) for v in op.operands], list(copies.values())

    def bases(self, begins: Mapping[int, Begin], op: Operation) -> Bases:
        """Where arguments begin, with registers."""
        return dict(zip(begins, self.views.bases(list(begins.values()), op), strict=True))

    def place(self, value: SSAValue, replaced: "list[SSAValue]") -> int:
        """Choose the slot of a kernel's result: that of the state which it is in the next turn, if that has two places."""
        if value not in self.swapped:
            return self.slots.replace(value, replaced)
        slot, self.views.begins[value] = self.swapped[value]
        self.slots.put(value, slot)
        return slot

    def part(self, update: UpdateOp) -> int:
        """The slot that an update's result is in, of which a kernel writes the part itself."""
        assert update.parent is not None
        is_last_use = update.tensor in self.liveness.of(update.parent)[update]
        old = self.slots.of[update.tensor]
        target = self.slots.over(update.result, update.tensor, is_last_use=is_last_use)
        self.pieces.copy([Move(old, target, update.tensor.type)], update)
        self.written.add(update)
        return target

    def updated(self, op: KernelOp, dying: Sequence[SSAValue]) -> list[int]:
        """The slots of a kernel's results that update operands, which are copied there where they are needed elsewhere; [] if they
        update none.
        """
        moves: list[Move] = []
        for result, old in op.updated.items():
            is_last_use = old in dying and tuple(op.operands).count(old) == 1
            slot = self.slots.of[old]
            moves.append(Move(slot, self.slots.over(result, old, is_last_use=is_last_use), old.type))
        self.pieces.copy(moves, op)
        return [move.target for move in moves]

    def code(self, name: str, tiles: Rectangle | None = None, bases: Bases = NO_BASES) -> LinkedCode:
        """The code of the kernel of that name, on some tiles, with arguments that begin there; each is prepared once."""
        key = name, tiles, tuple(bases.items())
        if key not in self.codes:
            kernel = self.encoded_at(name, bases) if bases else self.encoded[name]
            if tiles is not None:
                kernel = placed(kernel, tiles, self.chip.mesh, own_records(kernel))
            self.codes[key] = replace(kernel_code(kernel, self.chip), bases=key[-1])
        return self.codes[key]

    def loop(self, op: WhileOp | RepeatOp, dying: Sequence[SSAValue]) -> None:
        """Append a loop. Each loop variable has one slot, which holds its initial value first and then what the body yields."""
        slots, inside = self.slots, captured(op)
        homes: list[int] = []
        unset = unset_states(op)
        shown = {number for value in inside if value in self.views.begins for number in self.views.begins[value].numbers}
        found = swapped(op, len(shown), unset, self.is_free) if isinstance(op, RepeatOp) else ()
        swaps = {own.number: own for own in found}
        for number, (start, result) in enumerate(zip(op.operands, op.results, strict=True)):
            is_last_use = start in dying and start not in inside
            if number in swaps:
                homes.append(slots.scratch(swaps[number].type))
            elif number in unset:
                homes.append(slots.home_of_new(result, homes, start if is_last_use else None))
            else:
                homes.append(slots.home(start, result, homes, is_last_use=is_last_use))
            slots.hold(homes[-1])
        starts = [number for number in range(len(homes)) if number not in unset]
        self.pieces.bring([op.operands[number] for number in starts], [homes[number] for number in starts], op)
        slots.end([v for v in dying if v not in inside])
        hi = op.count.value.data if isinstance(op, RepeatOp) else FOREVER
        begin = Record(KcLoop, {"rd": TURN, "lo": 0, "hi": hi, "step": 1}, origin=origin_of(op))
        with self.pieces.nest(begin, Record(KcEnd)):
            if isinstance(op, WhileOp):
                self.condition(op, homes)
            for arg, home in zip(op.body.block.args, homes, strict=True):
                slots.put(arg, home)
            counter = counted(op) if isinstance(op, RepeatOp) else None
            if counter is not None:
                self.views.count(counter, TURN)
            if swaps:
                self.swap(list(swaps.values()), homes)
            self.region(op.body.block, homes, counter)
        for number, (result, home) in enumerate(zip(op.results, homes, strict=True)):
            if number in swaps and hi % 2:
                size = swaps[number].size_bytes
                self.pieces.copy_part(home, ViewBase(size), slots.place(result), size, op)
            else:
                slots.put(result, home)
            slots.release(home)

    def swap(self, states: Sequence[Swapped], homes: Sequence[int]) -> None:
        """Note where the turns of a loop read and write states that have two places, at the beginning of its body."""
        turn = states[0].old
        self.views.swap(turn, TURN)
        for own in states:
            self.views.begins[own.old], begin = own.begins(turn)
            self.swapped[own.new] = homes[own.number], begin

    def is_free(self, op: KernelOp, places: Mapping[int, ViewBase]) -> bool:
        """Does a kernel leave the last register of views alone, if some arguments have these places?"""
        name = op.callee.string_value()
        if LAST_REGISTER in written_by(self.encoded[name].records):
            return False
        try:
            return is_lowered(op) and bool(self.code(name, None, places))
        except CompileError:  # it needs the registers itself
            return False

    def condition(self, op: WhileOp, homes: Sequence[int]) -> None:
        """Append the loop's condition and the exit that depends on it; the loop variables stay in their slots `homes`."""
        block = op.condition.block
        for arg, result, home in zip(block.args, op.results, homes, strict=True):
            self.slots.put(arg, home)
            self.slots.put(result, home)
        self.block(block)
        terminator = terminator_of(block)
        (decision,) = terminator.operands
        self.pieces.read_back(decision, FOUND, op)
        self.pieces.add(Scalars([Record(KcExit, {"value": FOUND}, origin=origin_of(op))]))
        self.slots.end([*self.liveness.of(block)[terminator], *op.results])

    def branches(self, op: CaseOp) -> None:
        """Append the branches one behind the other, each under the test that its number is selected."""
        slots = self.slots
        self.pieces.read_back(op.selector, SELECTOR, op)
        self.pieces.add(Scalars(in_range(len(op.branches))))
        targets: list[int] = []
        for result in op.results:
            targets.append(slots.place(result))
            slots.hold(targets[-1])
        slots.end(list(op.results))  # until a branch has written them
        for number, region in enumerate(op.branches):
            self.pieces.add(Scalars(is_selected(number)))
            with self.pieces.nest(Record(KcIf, {"value": FOUND}, origin=origin_of(op)), Record(KcEndIf)):
                self.region(region.block, targets)
                self.pieces.add(Scalars([Record(KcAffine, {"rd": SELECTOR, "c": NO_BRANCH})]))
        for result, target in zip(op.results, targets, strict=True):
            slots.put(result, target)
            slots.release(target)


def is_lowered(op: KernelOp) -> bool:
    """Is its kernel lowered by us? The records of others are given."""
    return isinstance(op.kernel(), ModuleOp)


def kernel_code(kernel: EncodedKernel, chip: Chip) -> LinkedCode:
    """The code of a kernel, without the barrier at its end, for a chip."""
    return replace(code_of(own_records(kernel), kernel.buffers, kernel.uses, chip.tiles), lives=kernel.lives)


def own_records(kernel: EncodedKernel) -> Sequence[Record]:
    """The kernel's records without the barrier at its end."""
    return kernel.records[:-2] if kernel.records[-2:] == meet() else kernel.records
