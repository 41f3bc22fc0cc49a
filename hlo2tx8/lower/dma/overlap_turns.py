"""SCHEDULED → SCHEDULED: the second half of a turn runs beside the first half of the next one.

Before:                                      After:
    scf.for %turn = 0 to 4 {                     a[0] = NE(x[0]); b[0] = CT(a[0])
      a = NE(x)                                  scf.for %turn = 0 to 3 {
      b = CT(a)                                    a = NE(x[%turn + 1]);  d = NE(b[%turn])
      d = NE(b)                                    b[%turn + 1] = CT(a);  e = CT(d)
      e = CT(d); store(e)                          store(e)
    }                                            }
                                                 d = NE(b[3]); e = CT(d); store(e)

What a turn of a group by bands does is a chain: each engine waits for another one. Two turns know nothing of each other, so their
instructions are issued in the order in which they can start (`device/two_turns.py`). What the first half hands to the second
one gets two copies, what is loaded a turn ahead and still read in the second half three. Of the cuts that take about as long as
the best one, that which hands over the fewest bytes is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.isa import BufferType, Engine, Instruction
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.timing.costs import cost, least
from hlo2tx8.device.two_turns import Turn, Unit
from hlo2tx8.dialects import spm, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import constant_index, of_two, put, yield_op
from hlo2tx8.dialects.nested import cloned, nested_of, nested_ops, ops_of
from hlo2tx8.lower.dma.slices import buffers_of, collect_slice, constant_of, instructions_in, turns_of, use_in_turns

CLOSE = 1.03
"""A cut of a turn that takes so many times as long as the best one is as good."""
OVERLAPPED = (Engine.NE, Engine.CT, Engine.TDMA)


@dataclass(frozen=True)
class OverlapTurnsPass(ModulePass):
    """Runs two turns of a group by bands at once; see the module docstring. chip: file of the description, "" for the built-in."""

    name = "overlap-turns"
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for loop in [o for o in nested_of(function, scf.ForOp) if xla.BAND_TURNS in o.attributes]:
                _overlap(loop, load_chip(self.chip))


def _overlap(loop: scf.ForOp, chip: Chip) -> None:
    turns = turns_of(loop)
    instructions = list(instructions_in(loop))
    slots = [{op.field("slot") for op in instructions if isinstance(op, kind)} for kind in (Rdma, Wdma)]
    if turns is None or turns < 2 or slots[0] & slots[1] or any(op.ENGINE in (Engine.KC, Engine.DTE) for op in instructions):
        return
    body = _Body.of(loop, chip)
    turn = Turn(body.costs)
    found = [(turn.merged(cut), cut, handed) for cut in turn.cuts() if (handed := body.handed(cut)) is not None]
    if not found:
        return
    limit = CLOSE * min(merged.cycles for merged, _, _ in found)
    if limit >= turn.cycles:
        return
    merged, cut, handed = min(
        (one for one in found if one[0].cycles <= limit), key=lambda one: (sum(a.size_bytes for a in one[2]), one[1])
    )
    body.rewrite(turns, cut, merged.order, handed)


@dataclass(frozen=True)
class _Body:
    """The body of a loop: `units` of which a turn consists, what they `read` and `write`, what each costs, and the `ahead` loads of
    the next turn."""

    loop: scf.ForOp
    ahead: tuple[Operation, ...]
    units: tuple[Operation, ...]
    read: tuple[frozenset[SSAValue], ...]
    written: tuple[frozenset[SSAValue], ...]
    costs: tuple[Unit, ...]

    @staticmethod
    def of(loop: scf.ForOp, chip: Chip) -> "_Body":
        active = [op for op in loop.body.block.ops if any(isinstance(inner, Instruction) for inner in nested_ops(op))]
        ahead = tuple(op for op in active if isinstance(op, scf.IfOp) and any(isinstance(inner, Rdma) for inner in nested_ops(op)))
        units = tuple(op for op in active if op not in ahead)
        read, written = (tuple(frozenset(_roots(op, is_write)) for op in units) for is_write in (False, True))
        costs: list[Unit] = []
        for number, op in enumerate(units):
            parts = tuple((inner.ENGINE, _cycles(inner, chip)) for inner in nested_ops(op) if isinstance(inner, Instruction))
            touched = read[number] | written[number]
            after = tuple(k for k in range(number) if written[k] & touched or read[k] & written[number])
            costs.append(Unit(parts, after))
        return _Body(loop, ahead, units, read, written, tuple(costs))

    def handed(self, cut: int) -> list[spm.AllocOp] | None:
        """The buffers that get copies if the turn is cut there; None if the halves share one that can have none."""
        first, second = ({b for own in self._touched()[part] for b in own} for part in (slice(cut), slice(cut, None)))
        written = {b for own in self.written for b in own}
        found: list[spm.AllocOp] = []
        for buffer in dict.fromkeys(b for own in self._touched() for b in sorted(own & first & second & written, key=self._place)):
            alloc = buffer.owner
            assert isinstance(alloc, spm.AllocOp)
            if spm.KEPT in alloc.attributes:  # no turn stores there what a later one reads
                continue
            if alloc.parent is self.loop.body.block and alloc.num_copies == 1:
                found.append(alloc)
            elif not self._is_in_turns(alloc):
                return None
        loaded = {b for op in self.ahead for b in _roots(op, is_write=True)}
        return found + [b.owner for b in sorted(loaded & second, key=self._place) if isinstance(b.owner, spm.AllocOp)]

    def _touched(self) -> list[frozenset[SSAValue]]:
        return [r | w for r, w in zip(self.read, self.written, strict=True)]

    def _place(self, buffer: SSAValue) -> int:
        """A number by which buffers are in the order in which units touch them."""
        return next(number for number, own in enumerate(self._touched()) if buffer in own)

    def _is_in_turns(self, alloc: spm.AllocOp) -> bool:
        """Has each turn of the loop a copy of its own?"""
        inside = [use.operation for use in alloc.result.uses if self.loop.is_ancestor(use.operation)]
        return alloc.num_copies > 1 and all(isinstance(op, spm.TurnOp) and op.turn is self.loop.body.block.args[0] for op in inside)

    def rewrite(self, turns: int, cut: int, order: Sequence[int], handed: Sequence[spm.AllocOp]) -> None:
        """Cuts the turn, issues the units of both halves in this order."""
        loop, old = self.loop, self.loop.body.block
        for alloc in handed:
            if alloc.parent is old:
                use_in_turns(alloc.result, loop)
            else:  # of a turn that begins, of one that is computed, and of one that ends
                alloc.copies = IntegerAttr(3, alloc.copies.type)
        before, behind = Builder(InsertPoint.before(loop)), Builder(InsertPoint.after(loop))
        start, last, count = (_index(number) for number in (0, turns - 1, turns - 1))
        put(before, start)
        self._clone(range(cut), {old.args[0]: start.result}, before, self.ahead)
        put(behind, last)
        self._clone(range(cut, len(self.units)), {old.args[0]: last.result}, behind, ())
        new = Block(arg_types=[old.args[0].type])
        new.args[0].name_hint = old.args[0].name_hint
        builder = Builder(InsertPoint.at_end(new))
        following = put(builder, of_two(arith.AddiOp, new.args[0], loop.step)).result
        mappings: list[dict[SSAValue, SSAValue]] = [{old.args[0]: following}, {old.args[0]: new.args[0]}]
        self._clone((), mappings[0], builder, self.ahead)
        for number in order:
            self._clone((number,), mappings[number >= cut], builder, ())
        put(builder, yield_op())
        put(before, count)
        loop.operands[1] = count.result
        loop.body.detach_block(old)
        loop.body.add_block(new)
        old.erase(safe_erase=False)

    def _clone(self, units: Sequence[int], mapping: dict[SSAValue, SSAValue], builder: Builder, ahead: Sequence[Operation]) -> None:
        """Clones units, and what they depend on if `mapping` does not know it yet, for the turn that it maps this one to."""
        wanted: set[Operation] = set()
        chosen = {*ahead, *(self.units[number] for number in units)}
        for op in chosen:
            for inner in nested_ops(op):
                collect_slice(inner, self.loop, wanted)
        for op in ops_of(self.loop.body.block):
            if op in chosen or (op in wanted and not any(result in mapping for result in op.results)):
                put(builder, cloned(op, mapping))


def _index(number: int) -> arith.ConstantOp:
    return constant_index(number)


def _roots(op: Operation, is_write: bool) -> set[SSAValue]:
    """The buffers from outside of an operation that its instructions read, or write."""
    found = {spm.root_buffer(v) for inner in nested_ops(op) if isinstance(inner, Instruction) for v in buffers_of(inner, is_write)}
    return {b for b in found if isinstance(b.owner, Operation) and not op.is_ancestor(b.owner)}


def _cycles(op: Instruction, chip: Chip) -> float:
    """Cycles of its engine, none of DMA, which loops overlap anyway; a move whose counts a turn decides fills what it writes."""
    if op.ENGINE not in OVERLAPPED:
        return 0.0
    values: dict[str, int] = {}
    is_known = True
    for field in op.FIELDS:
        value = op.field(field.name)
        number = constant_of(value) if isinstance(value, SSAValue) else value
        is_known &= number is not None or (isinstance(value, SSAValue) and isinstance(value.type, BufferType))
        values[field.name] = number if number is not None else least(field)
    if not is_known and op.ENGINE is Engine.TDMA:
        filled = sum(
            a.owner.size_bytes for v in buffers_of(op, True) for a in [spm.root_buffer(v)] if isinstance(a.owner, spm.AllocOp)
        )
        return chip.cycles.tdma_startup + filled / chip.cycles.tdma_bytes_per_cycle
    return cost(type(op), Operands(values, op.fmt, op.fmt2), chip)[0].cycles
