"""Pass emit-fusions: every fusion becomes the launch of a kernel module; equal fusions share one kernel.

    %1 = hlo.fusion "gelu"(%0) {...}    ⟶    %1 = launch.kernel @gelu(%0) {group = 0}
    %2 = hlo.fusion "gelu.1"(%1) {...}       %2 = launch.kernel @gelu(%1) {group = 1}
                                             builtin.module @gelu { func.func @gelu(...) {...} }

Fusions that only say another shape become views. Control flow and updates become those of `launch`; a condition region of a loop
whose turns are known goes.
Equal means: the same ops on the same values with the same attributes and types, up to names and locations.
"""

import re
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, GroupOp, LibraryOp, origin
from hlo2tx8.dialects.launch import CaseOp, KernelOp, LaunchYieldOp, RepeatOp, UpdateOp, ViewOp, WhileOp
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.dialects.xla import ENTRY, STAYS, updated_operands
from hlo2tx8.emitters.band_phases import is_of_bands
from hlo2tx8.emitters.choose_plan import FirstThatFits, Judge, Named, trust
from hlo2tx8.emitters.counters import NO_FACTS, LoopFacts, loop_facts
from hlo2tx8.emitters.head_phases import is_of_heads
from hlo2tx8.emitters.library import library_kernel
from hlo2tx8.emitters.norm_phases import is_of_norm
from hlo2tx8.emitters.product_phases import is_of_products, parts_of_products, runs_of_products
from hlo2tx8.emitters.projection_phases import ProjectionApartError, is_of_projection
from hlo2tx8.emitters.search_kernels import KernelSearch, Timer, emit
from hlo2tx8.emitters.stays import stays_at, stays_of
from hlo2tx8.errors import CapacityError, CompileError, UnsupportedError, UnsupportedOp
from hlo2tx8.fusion.build_group import dissolve
from hlo2tx8.fusion.in_place import read_once, replaceable
from hlo2tx8.fusion.library_epilogues import without_epilogue
from hlo2tx8.fusion.take_apart import num_fusions, take_apart, take_apart_bands, take_apart_in_runs, take_off_projection
from hlo2tx8.fusion.views import ViewPlace, view_place
from hlo2tx8.hlo.fingerprint import HashedOnce, fingerprint
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.hlo.ops.dot import numbers_of
from hlo2tx8.hlo.placement import num_tiles, of_part, tiles_of
from hlo2tx8.hlo.regions import CONTROL, UPDATE, terminator_of
from hlo2tx8.notes import Decision, Name, What, add_notes
from hlo2tx8.passes.rules.loops import TRIP_COUNT
from hlo2tx8.schedule.work_split import Stays, Target


@dataclass(frozen=True)
class EmitFusionsPass(ModulePass):
    """Outline all fusions of @main for a chip; unsupported ops of all of them are reported together.

    step_elements: wanted elements per step, 0 for the split's choice. chip: file of the description, "" for the built-in one.
    judge: lowers a candidate's kernel in memory and says whether it can be taken. search: finds the fastest plans; without it, the
    first that can be taken are, or the fastest of a few by `time` where estimates are rough. watch: hears which share of the
    fusions is done. hear: gets all notes.
    """

    name = "emit-fusions"

    step_elements: int = 0
    chip: str = ""
    explain: bool = False
    judge: Judge = trust
    search: KernelSearch | None = None
    time: Timer | None = None
    watch: Callable[[float], None] = lambda share: None
    hear: Callable[[Sequence[str]], None] = lambda notes: None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chip = load_chip(self.chip)
        target = Target(Rates.of(chip), self.step_elements)
        blocks = [function.body.block for function in program_functions(op)]
        emitted: dict[Hashable, tuple[str, tuple[int, ...], Sequence[int]]] = {}
        apart: dict[Hashable, str] = {}
        unsupported: list[UnsupportedOp] = []
        notes: list[str] = []
        facts, stays = loop_facts(blocks), stays_of(blocks, target.rates, _Keeping(target, chip))
        pending, done = _numbered(blocks)[::-1], 0
        while pending:
            self.watch(done / (done + len(pending)))
            done += 1
            group, fusion = pending.pop()
            if (view := view_place(fusion)) is not None:
                Rewriter.replace_op(fusion, _view(fusion, view))
                notes.append(_said(What.VIEW, fusion))
                continue
            own = stays_at(fusion, stays)
            tiles, code = num_tiles(fusion), fusion.code if isinstance(fusion, LibraryOp) else None
            key = HashedOnce((fingerprint(fusion), tiles, code, own))
            if isinstance(fusion, GroupOp) and (key in apart or own.is_apart):
                why = f"it is equal to {apart[key]}" if key in apart else "its weights stay from turn to turn"
                pending += [(group, part) for part in reversed(_dissolved(fusion, fusion_name(fusion), notes, why))]
                continue
            if (found := emitted.get(key)) is not None:
                notes.append(f"{fusion_name(fusion)} is equal to {found[0]}")
            else:
                name = unique_name(fusion, {name for name, *_ in emitted.values()})
                wanted = _target_of(fusion, target, chip.part(tiles) if tiles else chip, own)
                parts = _timed_parts(fusion)
                try:
                    made = self._emit(fusion, name, wanted, notes)
                except UnsupportedError as error:
                    unsupported.extend(error.ops)
                    continue
                if isinstance(made, list):
                    pending += [(group, part) for part in reversed(made)]
                    apart |= {key: name} if parts and made == parts else {}
                    continue
                op.body.block.add_op(made)
                found = emitted[key] = name, _updates(made), replaceable(fusion) if isinstance(fusion, FusionOp) else ()
            name, updates, replaces = found
            notes.append(_said(What.KERNEL, fusion, name))
            Rewriter.replace_op(fusion, _launch(fusion, group, name, updates, replaces))
        if not unsupported:
            for block in blocks:
                launch_control(block, facts)
        self.hear(notes)
        add_notes(op, notes if self.explain else [note for note in notes if note.startswith("warning: ")])
        if unsupported:
            raise UnsupportedError(unsupported)

    def _library(self, op: LibraryOp, name: str, target: Target, notes: list[str]) -> Operation | list[Operation]:
        """The kernel of a coarse op with what is behind it, or both where they cannot be one."""
        made = library_kernel(op, name)
        if op.epilogue is None or not isinstance(made, ModuleOp):
            return made
        try:
            if self.judge(made).spm_bytes <= target.rates.spm_bytes:
                return made
            why = "their buffers do not fit"
        except CompileError as error:
            why = error.message
        notes.append(_said(What.DISSOLVED, op, name, why))
        return without_epilogue(op)

    def _emit(self, op: Operation, name: str, target: Target, notes: list[str]) -> Operation | list[Operation]:
        """The LOOPS module of a fusion, or of a group as one kernel; or what stands in the place of a group that is none."""
        if isinstance(op, LibraryOp):
            return self._library(op, name, target, notes)
        if isinstance(op, GroupOp) and op.phases is not None and is_of_products(op):
            runs = runs_of_products(op, target)
            if len(runs) > 1:
                notes.append(f"{name}: {', '.join(str(len(run)) for run in runs)} of its products stay together")
                return take_apart_in_runs(op, runs)
        part = num_tiles(op)
        if self.search is not None and not part:
            wide = replace(target, is_searched=True)
            found = self.search.find(op, wide)
            notes += found.explain(name)
            if isinstance(op, GroupOp) and 0 < found.cut < num_fusions(op):
                return take_apart(op, found.cut, wide)
            try:
                return emit(op, name, wide, notes, Named(found.plan, self.judge))
            except CompileError as error:
                notes.append(f"{name}: nothing that was searched for is taken: {error}")
        try:
            timer, judge = self.time, self.judge
            room = target.stays.spm_bytes
            time: Judge | None = None if timer is None else lambda kernel: timer(of_part(kernel, part, room), target.meeting)
            chooser = FirstThatFits(lambda kernel: judge(of_part(kernel, part, room)), time=time)
            return of_part(emit(op, name, target, notes, chooser), part, room)
        except CapacityError as error:
            if not isinstance(op, GroupOp):
                raise
            if isinstance(error, ProjectionApartError):
                notes.append(_said(What.DISSOLVED, op, name, str(error)))
                return take_off_projection(op)
            if is_of_bands(op):
                notes.append(f"{name}: its groups are made anew for less room: {error}")
                return take_apart_bands(op, target)
            if op.phases is not None and is_of_products(op) and (parts := parts_of_products(op, target)):
                notes.append(f"{name}: {' and '.join(str(len(part)) for part in parts)} of its products stay together: {error}")
                return take_apart_in_runs(op, parts)
            return _dissolved(op, name, notes, str(error))


@dataclass
class _Keeping:
    """Says whether a fusion's best plan keeps what may stay in a loop around it, as far as that is known before it is lowered."""

    target: Target
    chip: Chip
    known: dict[Hashable, bool] = field(default_factory=dict[Hashable, bool])

    def __call__(self, fusion: FusionOp, stays: Stays) -> bool:
        key = fingerprint(fusion), stays
        if key not in self.known:
            try:
                kernel = emit(fusion, "kernel", _target_of(fusion, self.target, self.chip, stays), [], FirstThatFits())
            except CompileError:
                return False
            self.known[key] = STAYS in kernel.attributes
        return self.known[key]


def _target_of(fusion: Operation, target: Target, chip: Chip, stays: Stays) -> Target:
    """What a fusion's kernel is for: a chip of so many tiles, other work around it, and what stays in a loop around it."""
    rates = Rates.of(chip)
    return replace(
        target,
        rates=replace(rates, spm_bytes=min(rates.spm_bytes, stays.spm_bytes)) if stays.spm_bytes else rates,
        meeting=0 if is_all_there_is(fusion) else chip.cycles.barrier,
        feeds_batches=feeds_batches(fusion),
        stays=stays,
    )


def _view(fusion: Operation, place: ViewPlace) -> ViewOp:
    tensor, *starts = fusion.operands
    return ViewOp(tensor, fusion.results[0].type, starts, place.offset, place.steps, place.rooms)


def _timed_parts(op: Operation) -> list[Operation]:
    """What a group of phases has that is timed beside its parts."""
    is_timed = isinstance(op, GroupOp) and (is_of_heads(op) or is_of_norm(op) or is_of_projection(op))
    return ops_of(op.body.block)[:-1] if isinstance(op, GroupOp) and is_timed else []


def _said(what: What, op: Operation, kernel: str = "", why: str = "") -> str:
    """A decision about a fusion, or about the fusions of a group and of groups in it."""
    parts = (op,) if isinstance(op, LibraryOp) else (fusion for fusion in nested_ops(op) if isinstance(fusion, FusionOp))
    names = tuple(Name(fusion_name(fusion)) for fusion in parts)
    return Decision(what, names, Name(kernel), why).line()


def _dissolved(group: GroupOp, name: str, notes: list[str], why: str) -> list[Operation]:
    """What a group has, in its place, with a line about it."""
    notes.append(_said(What.DISSOLVED, group, name, why))
    inner = [part for part in group.body.block.ops if isinstance(part, FusionOp | GroupOp)]
    dissolve(group, group.body.block)
    return [*inner]


def _launch(fusion: Operation, group: int, name: str, updates: Sequence[int], replaces: Sequence[int]) -> KernelOp:
    """The launch of the kernel of that name, which updates these operands, and may replace some, in the place of a fusion."""
    place = group, origin(fusion), read_once(fusion, replaces), updates, tiles_of(fusion)
    return KernelOp(name, fusion.operands, fusion.result_types, *place)


def _updates(kernel: Operation) -> tuple[int, ...]:
    """The operand that each result of a kernel updates; () if it updates none, as what is not compiled."""
    if not isinstance(kernel, ModuleOp):
        return ()
    return next(updated_operands(f) for f in kernel.body.block.ops if ENTRY in f.attributes)


def is_all_there_is(fusion: Operation) -> bool:
    """Does a fusion read only what @main is given, and is what it makes only @main's result?"""
    block = fusion.parent_block()
    assert block is not None
    is_read = any(isinstance(value.owner, Operation) and value.owner.name != "stablehlo.constant" for value in fusion.operands)
    is_used = any(use.operation is not block.last_op for value in fusion.results for use in value.uses)
    function = block.parent_op()
    return isinstance(function, FuncOp) and function.sym_name.data == "main" and not is_read and not is_used


def feeds_batches(fusion: Operation) -> bool:
    """Does a fusion with a dot that has batches read what this one makes?"""
    users = (use.operation for value in fusion.results for use in value.uses)
    return any(has_batched_dot(user) for user in users if user.name == "hlo.fusion")


def has_batched_dot(fusion: Operation) -> bool:
    """Is there one in its body?"""
    dots = (op for op in fusion.regions[0].block.ops if op.name == "stablehlo.dot_general")
    return any(numbers_of(attributes_of(op))[0] for op in dots)


def _numbered(blocks: Iterable[Block]) -> list[tuple[int, Operation]]:
    """Those of all blocks, see `number_fusions`."""
    numbered: list[tuple[int, Operation]] = []
    for block in blocks:
        numbered += number_fusions(block, numbered[-1][0] + 1 if numbered else 0)
    return numbered


def number_fusions(block: Block, first: int = 0) -> list[tuple[int, Operation]]:
    """The fusions, and groups that are one kernel, of @main and of the regions in it, with their group numbers; other groups are
    dissolved on the way."""
    found: list[tuple[int, Operation]] = []
    number = first
    for op in ops_of(block):
        if isinstance(op, GroupOp) and op.is_kernel:
            found.append((number, op))
            number += 1
        elif op.name == "hlo.group":
            body = op.regions[0].block
            found.extend((number, inner) for inner in body.ops if inner.name == "hlo.fusion")
            dissolve(op, body)
            number += 1
        elif op.name in ("hlo.fusion", "hlo.library"):
            found.append((number, op))
            number += 1
        elif op.name in CONTROL:
            for region in op.regions:
                found += number_fusions(region.block, number)
                number = found[-1][0] + 1 if found else number
    return found


def launch_control(block: Block, facts: Mapping[Operation, LoopFacts]) -> None:
    """The control flow of a block, and of the regions inside of it, as ops of `launch`; `facts` about its loops."""
    for op in ops_of(block):
        if op.name == UPDATE:
            update = UpdateOp(op.operands)
            update.attributes |= _place_of(op)
            Rewriter.replace_op(op, update)
        if op.name not in CONTROL:
            continue
        for region in op.regions:
            launch_control(region.block, facts)
            terminator = terminator_of(region.block)
            Rewriter.replace_op(terminator, LaunchYieldOp(terminator.operands))
        Rewriter.replace_op(op, _launched(op, facts.get(op, NO_FACTS)))


def _launched(op: Operation, facts: LoopFacts) -> Operation:
    regions = [op.detach_region(region) for region in tuple(op.regions)]
    turns = op.attributes.get(TRIP_COUNT)
    match op.name:
        case "stablehlo.while" if isinstance(turns, IntegerAttr):
            new = RepeatOp(turns.value.data, op.operands, regions[1], facts.counter, facts.unset)
        case "stablehlo.while":
            new = WhileOp(op.operands, *regions)
        case "stablehlo.if":
            new = CaseOp(op.operands[0], op.result_types, regions[::-1])
        case _:
            new = CaseOp(op.operands[0], op.result_types, regions)
    new.attributes |= _place_of(op)
    return new


def _place_of(op: Operation) -> dict[str, Attribute]:
    return {key: value for key, value in op.attributes.items() if key == "loc"}


def fusion_name(fusion: Operation) -> str:
    """The name the source or the fusion plan gave it."""
    given = fusion.properties.get("fusion_name")
    if isinstance(fusion, GroupOp):
        return "group"
    return given.data if isinstance(given, StringAttr) else "fusion"


def unique_name(fusion: Operation, taken: Container[str]) -> str:
    """The fusion's name as a symbol, with a number where an unequal fusion already has it."""
    base = re.sub(r"\W+", "_", fusion_name(fusion)) or "fusion"
    name, number = base, 0
    while name in taken or name == "main":
        number += 1
        name = f"{base}_{number}"
    return name
