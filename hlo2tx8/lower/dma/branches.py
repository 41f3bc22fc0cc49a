"""Conditions around what a step builder emits: without a branch where the value is known."""

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.builder import Builder
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.dialects.made import compare, if_op, yield_op
from hlo2tx8.lower.dma.slices import constant_of
from hlo2tx8.lower.select.step_builder import StepBuilder


@contextmanager
def below(step: StepBuilder, value: SSAValue, limit: int) -> Generator[SSAValue]:
    """Emits what follows for values below the limit only."""
    outer = step.builder
    branch(step, value, "slt", limit)
    yield value
    leave(step, outer)


def branch(step: StepBuilder, value: SSAValue, predicate: str, limit: int) -> None:
    """Emits what follows where a value is below or above a limit: without a branch if it always is."""
    known = constant_of(value)
    if known is not None and (known < limit if predicate == "slt" else known > limit):
        return
    enter(step, step.insert(compare(value, step.value(limit), predicate)).result)


def enter(step: StepBuilder, condition: SSAValue) -> None:
    """Emits what follows under a condition."""
    block = Block()
    step.insert(if_op(condition, [], Region(block)))
    step.builder = Builder(InsertPoint.at_end(block))


def leave(step: StepBuilder, outer: Builder) -> None:
    """Ends the branches that were begun since the builder was `outer`."""
    block: Block | None = step.builder.insertion_point.block
    while block is not None and block is not outer.insertion_point.block:
        block.add_op(yield_op())
        parent = block.parent_op()
        block = parent.parent_block() if parent is not None else None
    step.builder = outer
