"""The values of index arithmetic on all tiles in all turns of a loop, at once."""

from collections.abc import Callable

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects import vec, xla
from hlo2tx8.lower.dma.slices import constant_of
from hlo2tx8.lower.select.step_builder import StepBuilder

OF_TWO: dict[type[Operation], Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.MinSIOp: np.minimum,
    arith.MaxSIOp: np.maximum,
}
COMPARISONS: dict[int, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    2: np.less,
    3: np.less_equal,
    4: np.greater,
    5: np.greater_equal,
}
"""By the predicates of arith.cmpi that are signed."""


class TurnValues:
    """Values for tiles 0 to `tiles` - 1, the first axis, and turns 0 to `turns` - 1, the second."""

    def __init__(self, tile: SSAValue, tiles: int, turn: SSAValue, turns: int) -> None:
        self.turn, self.shape = turn, (tiles, turns)
        numbers = np.arange(tiles)[:, None], np.arange(turns)[None, :]
        self.known: dict[SSAValue, np.ndarray | None] = {tile: numbers[0], turn: numbers[1]}

    def of(self, value: SSAValue) -> np.ndarray | None:
        """[tiles, turns]; None if it is computed of anything else, or in a way that is not known."""
        found = self._of(value)
        return None if found is None else np.broadcast_to(found, self.shape)

    def _of(self, value: SSAValue) -> np.ndarray | None:
        """The same, of fewer axes or size 1 where it is the same along one."""
        if value not in self.known:
            number = constant_of(value)
            self.known[value] = self._computed(value) if number is None else np.asarray(number, np.int64)
        return self.known[value]

    def _computed(self, value: SSAValue) -> np.ndarray | None:
        op = value.owner
        if not isinstance(op, Operation):
            return None
        operands = [self._of(operand) for operand in op.operands]
        given = [operand for operand in operands if operand is not None]
        if len(given) < len(operands):
            return None
        match op:
            case xla.ApplyIndexingOp():
                dims = len(op.map.data.dims)
                results, _ = op.map.data.evaluate(given[:dims], given[dims:])
                return results[[result is value for result in op.results].index(True)]
            case vec.ExtentOp():
                return op.evaluate(given)
            case arith.CmpiOp():
                compare = COMPARISONS.get(op.predicate.value.data)
                return None if compare is None else compare(*given)
            case _:
                return OF_TWO[type(op)](*given) if type(op) in OF_TWO else None

    def earlier(self, step: StepBuilder, value: SSAValue, before: dict[SSAValue, SSAValue]) -> SSAValue:
        """Emits what a value that is known was a turn before; `before` has what is there already, the turn's number at least."""
        if value in before or not isinstance(op := value.owner, Operation) or not self._moves(value):
            return before.get(value, value)
        mapping = {operand: self.earlier(step, operand, before) for operand in op.operands}
        copy = op.clone(value_mapper=mapping)
        step.insert(copy)
        before |= dict(zip(op.results, copy.results, strict=True))
        return before[value]

    def _moves(self, value: SSAValue) -> bool:
        """Is a value computed of the turn's number?"""
        owner = value.owner
        return value is self.turn or (isinstance(owner, Operation) and any(map(self._moves, owner.operands)))
