"""What a step adds to its product, a residual say, is loaded while another loop, or the product itself, has less to load.

    scf.for %k = 0 to 11 { turn(%k); gemm(%a, %b) }     the loop before, which the DDR has time beside
    scf.for %k = 0 to 3 { turn(%k); gemm(%c, %d) }
    load(%x); add(%y, %x); store(%y)
⟶
    scf.for %k = 0 to 11 { turn(%k); gemm(%a, %b); load(%x, a twelfth) }
    scf.for %k = 0 to 3 { turn(%k); gemm(%c, %d) }
    add(%y, %x); store(%y)

At the end of a phase all tiles load what they add and store what they made at once, and other engines wait. What is loaded has a
buffer of its own, from the loop that loads it on, so it is done where each loop keeps slots for three panels, and in kernels that
say so (`xla.brings_early`): where the DDR has no time to spare, panels of the other loop come later.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.builder import Builder
from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.isa.forms import CtInstruction
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.ir import i64_attr
from hlo2tx8.lower.dma.column_sets import columns_of
from hlo2tx8.lower.dma.epilogue_parts import Epilogue
from hlo2tx8.lower.dma.mesh import quotient, remainder
from hlo2tx8.lower.dma.panels import Panels
from hlo2tx8.lower.dma.sharing_plan import LEAST_SLOTS, LoopPlan
from hlo2tx8.lower.dma.slices import instructions_in
from hlo2tx8.lower.select.channel_blocks import EngineOrderError
from hlo2tx8.lower.select.step_builder import StepBuilder

LEAST_BYTES = 65536
"""What is smaller is there soon enough."""


@dataclass(frozen=True)
class Brought:
    """A load `op` into `alloc` behind the products of `panels`, of each step in so many parts, which are made during the turns of
    `carrier`, the loop before or its own. `place` is where both stood."""

    op: Rdma
    alloc: spm.AllocOp
    panels: Panels
    carrier: Panels
    epilogue: Epilogue
    num_parts: int
    place: tuple[Operation, Operation]

    @staticmethod
    def of(panels: Panels, carrier: Panels) -> "Iterator[Brought]":
        """What may be brought of what follows the products of a loop; in its own turns if it has one step: what follows those of
        another is done beside those of the next one anyway."""
        if (panels.num_steps > 1 and carrier is panels) or carrier.sites[0].loop is None:
            return
        for columns in columns_of(panels):
            epilogue = columns.epilogue
            for op in epilogue.ahead if epilogue.present is None else ():
                alloc = value.owner if isinstance(op, Rdma) and isinstance(value := op.field("dst"), SSAValue) else None
                if not isinstance(op, Rdma) or not isinstance(alloc, spm.AllocOp) or alloc.size_bytes < LEAST_BYTES:
                    continue
                users = [use.operation for use in alloc.result.uses if use.operation is not op]
                following = op.next_op, alloc.next_op
                if not isinstance(op.field("slot"), BlockArgument) or not all(isinstance(user, CtInstruction) for user in users):
                    continue
                if following[0] is None or following[1] is None:
                    continue
                whole = tuple(own for own in epilogue.whole if own is not alloc)
                moved = tuple(own for own in epilogue.moved if own is not alloc)
                own = replace(epilogue, whole=whole, moved=moved, brought=(*epilogue.brought, alloc))
                yield Brought(op, alloc, panels, carrier, own, columns.num_parts, (following[0], following[1]))

    def take_out(self) -> None:
        """Takes the load out of its loop, and the buffer in front of the one that will load it."""
        self.op.detach()
        self.alloc.detach()
        self.alloc.attributes[spm.BROUGHT] = UnitAttr()
        self.alloc.copies = i64_attr(self.panels.num_steps)
        _insert_before(self.alloc, self.carrier.loop)

    def put_back(self) -> None:
        """Undoes `take_out`."""
        del self.alloc.attributes[spm.BROUGHT]
        self.alloc.copies = i64_attr(1)
        self.alloc.detach()
        _insert_before(self.op, self.place[0])
        _insert_before(self.alloc, self.place[1])

    def bytes_in(self, panels: Panels) -> int:
        """The room that it takes in a loop whose instructions don't name it yet."""
        return self.alloc.size_bytes * self.alloc.num_copies if panels is self.carrier and panels is not self.panels else 0

    def load(self) -> None:
        """Puts the parts of the load into the turns."""
        turns = self.carrier.sites[0].loop
        assert turns is not None
        end, each = turns.body.block.last_op, self.carrier.num_panels - 1
        assert end is not None
        builder, body = Builder(InsertPoint.before(end)), Block(arg_types=[IndexType()])
        step = StepBuilder(builder, builder, (), {})
        turn = step.add(turns.body.block.args[0], step(self.carrier.loop.body.block.args[0], each))
        stages, num_turns = self.panels.num_steps * self.num_parts, each * self.carrier.num_steps
        first, limit = (quotient(step, step.value(step(step.add(turn, more), stages)), num_turns) for more in (0, 1))
        step.insert(for_op(first, limit, step.value(1), [], body))
        step.builder = Builder(InsertPoint.at_end(body))
        of_step = quotient(step, body.args[0], self.num_parts)
        part = remainder(step, body.args[0], self.num_parts)
        self.epilogue.emit([self.op], step, part, self.num_parts, {self.epilogue.counter: of_step}, {})
        body.add_op(yield_op())
        self.op.erase()


@dataclass(frozen=True)
class _Room:
    """What loads take in a loop beside what its instructions name."""

    loads: tuple[Brought, ...]

    def __call__(self, panels: Panels) -> int:
        return sum(load.bytes_in(panels) for load in self.loads)


def bring_early(panels: Sequence[Panels], plan: Callable[..., list[LoopPlan]]) -> tuple[list[Brought], list[LoopPlan]]:
    """What is brought early, and the plans of the loops with that; `plan` makes them, as `loop_plans`. EngineOrderError if nothing
    is: the kernel is the one without that, which is there already."""
    written = {op.field("slot") for own in panels for op in instructions_in(own.loop) if isinstance(op, Wdma)}
    brought, plans = list[Brought](), plan()
    for number, own in enumerate(panels):
        for found in list(Brought.of(own, panels[max(0, number - 1)])):
            if found.op.field("slot") in written:
                continue
            found.take_out()
            loads = [*brought, found]
            now = plan(taken_in=_Room(tuple(loads)))
            if now[number].sets and all(is_as_good(new, old) for new, old in zip(now, plans, strict=True)):
                brought, plans = loads, now
            else:
                found.put_back()
    if not brought:
        raise EngineOrderError("E3208", "nothing that is added comes early")
    return brought, plans


def is_as_good(new: LoopPlan, old: LoopPlan) -> bool:
    """Has a loop enough slots, or as many as before, and all else that it had but panels that come early?"""
    slots = min(new.slots.values()) >= min(*old.slots.values(), LEAST_SLOTS)
    same = (len(new.sets), len(new.hands_over), new.is_shared) == (len(old.sets), len(old.hands_over), old.is_shared)
    return slots and same and new.is_at_once >= old.is_at_once


def _insert_before(op: Operation, following: Operation) -> None:
    block = following.parent_block()
    assert block is not None
    block.insert_op_before(op, following)
