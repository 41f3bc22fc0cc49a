"""The operations inside of others."""

from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.ir import append, copy_of

OpT = TypeVar("OpT", bound=Operation)


def ops_of(block: Block) -> list[Operation]:
    """The operations of a block, as they are now; `list(block.ops)` goes over them twice, the first time to count them."""
    found: list[Operation] = []
    op = block._first_op  # pyright: ignore[reportPrivateUsage] - as is `_next_op`
    while op is not None:
        found.append(op)
        op = op._next_op  # pyright: ignore[reportPrivateUsage] - what `next_op` gives, of each op of each walk
    return found


def nested_ops(op: Operation) -> list[Operation]:
    """An operation and all those inside of it, in program order, as they are now.

    `Operation.walk` hands each one up through all levels around it, which takes several times as long.
    """
    found = [op]
    _collect(op, found)
    return found


def nested_of(op: Operation, kind: type[OpT]) -> list[OpT]:
    """Those of them that are of one class, which none is derived from: `isinstance` asks `ABCMeta` of ops that are not ours."""
    return [inner for inner in nested_ops(op) if type(inner) is kind]


def _collect(op: Operation, found: list[Operation]) -> None:
    for region in op.regions:
        block = region._first_block  # pyright: ignore[reportPrivateUsage] - what `blocks` gives, of each region of each walk
        while block is not None:
            inner = block._first_op  # pyright: ignore[reportPrivateUsage]
            while inner is not None:
                found.append(inner)
                if inner.regions:
                    _collect(inner, found)
                inner = inner._next_op  # pyright: ignore[reportPrivateUsage]
            block = block._next_block  # pyright: ignore[reportPrivateUsage]


def cloned(op: OpT, known: dict[SSAValue, SSAValue] | None = None) -> OpT:
    """An operation once more, with all inside of it, where each value is made before it is used.

    Its operands are what is `known` for those of the operation, which learns all results. `Operation.clone` goes over all of them
    a second time for their operands.
    """
    known = {} if known is None else known
    copy = copy_of(op, known)
    for region, new in zip(op.regions, copy.regions, strict=True):
        for block in region.blocks:
            fresh = Block(arg_types=[own.type for own in block.args])
            for own, other in zip(block.args, fresh.args, strict=True):
                known[own] = other
                other.name_hint = own.name_hint
            new.add_block(fresh)
            for inner in ops_of(block):
                append(fresh, cloned(inner, known))
    return copy
