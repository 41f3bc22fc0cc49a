"""The operations inside of others."""

from xdsl.ir import Operation


def nested_ops(op: Operation) -> list[Operation]:
    """An operation and all those inside of it, in program order, as they are now.

    `Operation.walk` hands each one up through all levels around it, which takes several times as long.
    """
    found = [op]
    _collect(op, found)
    return found


def _collect(op: Operation, found: list[Operation]) -> None:
    for region in op.regions:
        for block in region.blocks:
            inner = block.first_op
            while inner is not None:
                found.append(inner)
                if inner.regions:
                    _collect(inner, found)
                inner = inner._next_op  # pyright: ignore[reportPrivateUsage] - what `next_op` gives, of each op of each walk
