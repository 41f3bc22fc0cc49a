"""Where the values of a block are used for the last time."""

from xdsl.ir import Block, Operation, SSAValue


class Liveness:
    """For each op of a block: the values of that block that neither a later op nor its regions use."""

    def __init__(self) -> None:
        self._known: dict[Block, dict[Operation, list[SSAValue]]] = {}

    def of(self, block: Block) -> dict[Operation, list[SSAValue]]:
        """The values that die at each op; computed once per block."""
        if block not in self._known:
            self._known[block] = self._compute(block)
        return self._known[block]

    @staticmethod
    def _compute(block: Block) -> dict[Operation, list[SSAValue]]:
        last: dict[SSAValue, Operation] = {}
        dying: dict[Operation, list[SSAValue]] = {}
        first = block.first_op
        for arg in block.args:
            if first is not None:
                last[arg] = first
        for op in block.ops:
            dying[op] = []
            for result in op.results:
                last[result] = op
            for inner in op.walk():
                for operand in inner.operands:
                    if operand in last:
                        last[operand] = op
        for value, op in last.items():
            dying[op].append(value)
        return dying
