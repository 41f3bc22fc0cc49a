"""SCHEDULED → SCHEDULED: what all tiles read in a phase is sent during the phase before, where there is room.

Before:                                              After:
    load parts of %a; send them; wait DTE; barrier       load parts of %a, %b; send those of %a; wait DTE; barrier
    scf.for %turn { ... %a ... }                         send those of %b
    xla.sync_tiles                                       scf.for %turn { ... %a ... }
    load parts of %b; send them; wait DTE; barrier       xla.sync_tiles
    scf.for %turn { ... %b ... }                         scf.for %turn { ... %b ... }

Links are idle while a phase computes, and engines while its weights come. The tiles meet at the end of a phase when everything has
been sent, so nobody needs to wait for that again. A buffer is there from the first phase's loads on: before these no other buffer
has its place, as all tiles have met. Which of a phase's buffers have room that long is tried one by one, in the order in which they
are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.dte import DteMulticast
from hlo2tx8.device.isa.kc_control import KcWait
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.lower.dma.allocate_spm import PAUSES, SpmSpace, live_ranges, rested
from hlo2tx8.lower.dma.spread_loads import LOADS_PARTS, OF_ALL, SENDS_PARTS


@dataclass(frozen=True)
class SendEarlyPass(ModulePass):
    """Sends what a phase reads during the one before; see the module docstring. chip: file of the description, "" for the built-in
    one."""

    name = "send-early"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chip = load_chip(self.chip)
        space = SpmSpace(chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes)
        for function in defined_functions(op):
            for number in range(len(_phases(function)) - 1):
                phases = _phases(function)
                _send_early(function, phases[number], phases[number + 1], space)


def _phases(function: func.FuncOp) -> list[list[Operation]]:
    """The operations between meetings of the tiles, where there are loops among them."""
    phases = [list[Operation]()]
    for op in ops_of(function.body.block):
        if isinstance(op, xla.SyncTilesOp):
            phases.append([])
        else:
            phases[-1].append(op)
    return [phase for phase in phases if any(type(op) is scf.ForOp for op in phase)]


def _send_early(function: func.FuncOp, phase: Sequence[Operation], following: Sequence[Operation], space: SpmSpace) -> None:
    """Moves what a phase's following one loads and sends by parts into it, as far as there is room."""
    block, sends = function.body.block, [op for op in following if SENDS_PARTS in op.attributes]
    numbers = sorted({_number(op) for op in sends} - {OF_ALL})
    if not numbers:
        return
    first = next(op for op in phase if isinstance(op, Instruction) or op.regions)
    loads = _Spot(next((op for op in reversed(phase) if LOADS_PARTS in op.attributes), None), first)
    for op in sends:  # masks, and where a few bytes go
        if _number(op) == OF_ALL and not isinstance(op, Instruction):
            loads.put(block, op)
    wait = KcWait.make(engines=1 << Engine.TDMA.value)
    _Spot(next((op for op in reversed(phase) if SENDS_PARTS in op.attributes), loads.last), first).put(block, wait)
    behind = _Spot(wait, first)
    moved: list[int] = []
    pause = _pause(function, space)
    for number in numbers:
        if _is_moved(function, following, number, (loads, wait, behind), space, pause):
            moved.append(number)
    done = [op for op in sends if _number(op) == OF_ALL and isinstance(op, Instruction)] if moved == numbers else []
    for op in (*done, *(() if moved else (wait,))):
        op.detach()
        op.erase()


def _number(op: Operation) -> int:
    """Which of a phase's loads by parts an operation is of; OF_ALL if it is of none."""
    given = op.attributes.get(SENDS_PARTS, op.attributes.get(LOADS_PARTS))
    return given.value.data if isinstance(given, IntegerAttr) else OF_ALL


def _pause(function: func.FuncOp, space: SpmSpace) -> int:
    """How late places in the scratchpad can be used again: a number that is the less the later."""
    allocs, lives = [op for op in nested_ops(function) if isinstance(op, spm.AllocOp)], live_ranges(function)
    fits = (number for number, pause in enumerate((*PAUSES, 0)) if rested(allocs, lives, space, pause) is not None)
    return next(fits, len(PAUSES) + 1)


def _has_room(function: func.FuncOp, space: SpmSpace, pause: int) -> bool:
    """Can places be used again that late, or was there no room for that before?"""
    allocs = [op for op in nested_ops(function) if isinstance(op, spm.AllocOp)]
    return pause > len(PAUSES) or rested(allocs, live_ranges(function), space, (*PAUSES, 0)[pause]) is not None


class _Spot:
    """Where operations go: behind the last of those that were put there."""

    def __init__(self, last: Operation | None, first: Operation) -> None:
        self.last, self.first = last, first

    def put(self, block: Block, op: Operation) -> None:
        """Moves an operation there."""
        if op.parent is not None:
            op.detach()
        if self.last is None:
            block.insert_op_before(op, self.first)
        else:
            block.insert_op_after(op, self.last)
        self.last = op


def _is_moved(
    function: func.FuncOp,
    following: Sequence[Operation],
    number: int,
    places: tuple[_Spot, Operation, _Spot],
    space: SpmSpace,
    pause: int,
) -> bool:
    """Moves one load by parts, and what sends them, if its buffer has room beside the others, whose places rest as long as now
    (`pause`); whether it did."""
    loads, wait, behind = places
    block, own = function.body.block, [op for op in following if _number(op) == number]
    before = {op: op.prev_op for op in own}
    last, last_sent = loads.last, behind.last
    for op in own:
        if LOADS_PARTS in op.attributes:
            loads.put(block, op)
            continue
        if behind.last is not last_sent or any(isinstance(inner, DteMulticast) for inner in nested_ops(op)):
            behind.put(block, op)
        else:
            op.detach()
            block.insert_op_before(op, wait)
    if _has_room(function, space, pause):
        return True
    for op in own:
        op.detach()
    for op, previous in before.items():
        assert previous is not None
        block.insert_op_after(op, previous)
    loads.last, behind.last = last, last_sent
    return False
