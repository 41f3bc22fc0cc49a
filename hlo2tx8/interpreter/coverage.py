"""How often a LOOPS kernel writes each element of its results: the check that loops cover every output exactly once.

    %0 = xla.loop (%tile)[%step, %lane] -> (%i) in #map iter_args(%t = %r0) { ... tensor.insert %x into %t[%i] ... }

All points of the map's domain are enumerated and counted at the indices of the insert. Nothing of the proof that the work split
makes (indexing/bijection.py) is used, so each checks the other. Updates may hit an element often or not at all: what is written
in a loop in order, or after the tiles have met (xla.sync_tiles), is left out.
Lanes that a loop joins (xla.reduce_lanes) and that an index does not depend on write one element together: that counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.dialects.xla import (
    IN_ORDER,
    AllocateScratchOp,
    ApplyIndexingOp,
    InDomainOp,
    InsertAtOp,
    LoopOp,
    ReduceLanesOp,
    SyncTilesOp,
    TileIdOp,
    YieldOp,
    updated_operands,
)
from hlo2tx8.errors import LevelError

Array = npt.NDArray[Any]


def check_written_once(module: ModuleOp) -> None:
    """LevelError naming the first result, and an element of it, that the entry function does not write exactly once."""
    for number, counts in enumerate(write_counts(module)):
        if counts.size and not (counts == 1).all():
            worst = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.abs(counts - 1))), counts.shape))
            name = module.sym_name.data if module.sym_name is not None else "the kernel"
            message = f"{name} writes element {list(worst)} of result {number} {int(counts[worst])} times, not once"
            raise LevelError("E1006", message)


def write_counts(module: ModuleOp) -> list[Array]:
    """One array per result of a kernel module's entry function at LOOPS: how often the loops write each element."""
    entries = [op for op in module.body.block.ops if isinstance(op, FuncOp) and "xla.entry" in op.attributes]
    if len(entries) != 1:
        raise LevelError("E1006", f"{len(entries)} entry functions in one kernel")
    walk = _CoverageWalk(_num_axes(entries[0].body.block))
    return walk.results(entries[0].body.block, updated_operands(entries[0]))


def _num_axes(block: Block) -> int:
    """Variables that loops nested in each other have, the tile included."""
    return 1 + max((_depth(op) for op in block.ops), default=0)


def _depth(op: Operation) -> int:
    own = len(op.map.data.ranges) if isinstance(op, LoopOp) else int(isinstance(op, scf.ForOp))
    return own + max((_depth(inner) for region in op.regions for block in region.blocks for inner in block.ops), default=0)


@dataclass
class _CoverageWalk:
    """Index values are arrays with one axis per loop variable; tensors are arrays of counts, changed in place by inserts.

    joined: the axes of lanes that the loop around joins. complete: counts of tensors that the tiles have met about.
    """

    num_axes: int
    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    axis: int = 0
    joined: tuple[int, ...] = ()
    complete: list[Array] = field(default_factory=list[Array])

    def results(self, block: Block, updated: Sequence[int]) -> list[Array]:
        """The counts of what the entry function returns; if operands are `updated`, results hold their elements before."""
        for arg in block.args:
            if is_tensor(arg.type):
                self.values[arg] = np.zeros(as_tensor(arg.type).get_shape(), np.int32)
        for arg in block.args[len(block.args) - len(updated) :] if updated else ():
            self.values[arg] += 1
            self.complete.append(self.values[arg])
        return self._block(block, np.ones((1,) * self.num_axes, bool))

    def _block(self, block: Block, mask: Array) -> list[Array]:
        for op in block.ops:
            if isinstance(op, ReturnOp | YieldOp | scf.YieldOp):
                return [self.values[value] for value in op.operands if value in self.values]
            self._operation(op, mask)
        return []

    def _operation(self, op: Operation, mask: Array) -> None:
        match op:
            case TileIdOp():
                low, high = (int(bound) for bound in op.range.get_values())
                self.values[op.results[0]] = self._axis(low, high)
            case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
                self.values[op.result] = np.full((1,) * self.num_axes, op.value.value.data)
            case ApplyIndexingOp() | InDomainOp():
                found = [self.values.get(value) for value in op.operands]
                known = [value for value in found if value is not None]
                if len(known) == len(found):
                    num_dims = len(op.map.data.dims)
                    results, inside = op.map.data.evaluate(known[:num_dims], known[num_dims:])
                    self._set(op, self._with_all_axes([inside] if isinstance(op, InDomainOp) else results))
            case AllocateScratchOp():
                self.values[op.res] = np.zeros(as_tensor(op.res.type).get_shape(), np.int32)
            case tensor.InsertOp():
                self._insert(op, mask)
            case InsertAtOp():
                self._insert_at(op)
            case SyncTilesOp():
                self._set(op, [self.values[value] for value in op.operands])
                self.complete += [self.values[value] for value in op.operands]
            case LoopOp():
                self._loop(op, mask)
            case scf.ForOp():
                self._counted_loop(op, mask)
            case scf.IfOp():
                self._branch(op, mask)
            case _ if any(region.blocks and _inserts(op) for region in op.regions):
                raise LevelError("E1006", f"{op.name} writes results: no count of that")
            case _:
                pass  # what is computed of elements does not matter

    def _set(self, op: Operation, values: Sequence[Array]) -> None:
        self.values.update(zip(op.results, values, strict=True))

    def _with_all_axes(self, values: Sequence[Array]) -> list[Array]:
        """The values with an axis per loop variable; a constant has none."""
        return [value if value.ndim == self.num_axes else np.broadcast_to(value, (1,) * self.num_axes) for value in values]

    def _axis(self, low: int, high: int) -> Array:
        shape = [1] * self.num_axes
        shape[self.axis] = high - low + 1
        self.axis += 1
        return np.arange(low, high + 1, dtype=np.int64).reshape(shape)

    def _insert(self, op: tensor.InsertOp, mask: Array) -> None:
        counts, indices = self.values[op.dest], [self.values.get(value) for value in op.indices]
        self.values[op.result] = counts
        if self._is_complete(counts):
            return
        known = [index for index in indices if index is not None]
        if len(known) != len(indices):
            raise LevelError("E1006", "an element is written at a place that depends on data, outside of a loop in order")
        together = tuple(axis for axis in self.joined if all(index.shape[axis] == 1 for index in known))
        once = np.logical_or.reduce(mask, axis=together, keepdims=True)
        live = np.broadcast_to(once, np.broadcast_shapes(once.shape, *(index.shape for index in known)))
        where = tuple(np.broadcast_to(index, live.shape)[live] for index in known)
        for index, size in zip(where, counts.shape, strict=True):
            if index.size and (index.min() < 0 or index.max() >= size):
                raise LevelError("E1006", f"{op.name} leaves a dimension of size {size}")
        if known:
            np.add.at(counts, where, 1)
        else:
            counts += np.int32(np.count_nonzero(live))

    def _insert_at(self, op: InsertAtOp) -> None:
        self.values[op.res] = self.values[op.dest]
        if not self._is_complete(self.values[op.dest]):
            raise LevelError("E1006", f"{op.name} writes at a place that depends on data before the tiles have met")

    def _is_complete(self, counts: Array) -> bool:
        return any(counts is done for done in self.complete)

    def _loop(self, op: LoopOp, mask: Array) -> None:
        start, around = self.axis, self.joined
        counters = [self._axis(variable.lo, variable.hi) for variable in op.map.data.ranges]
        first_lane = self.axis - op.num_lanes.value.data
        lanes = {lane for inner in op.body.block.ops if isinstance(inner, ReduceLanesOp) for lane in inner.lanes}
        self.joined = tuple(first_lane + lane for lane in sorted(lanes))
        results, inside = op.map.data.evaluate([self.values[value] for value in op.dims], counters)
        results = self._with_all_axes(results)
        carried = [self.values[value] for value in op.iter_args]
        self.values.update(zip(op.body.block.args, [*counters, *results, *carried], strict=True))
        # A tile, or a counter, on which nothing depends still repeats every write.
        shape = np.broadcast_shapes(*(a.shape for a in (mask, inside, *counters, *(self.values[v] for v in op.dims))))
        self._set(op, self._block(op.body.block, np.broadcast_to(mask & inside, shape)))
        self.axis, self.joined = start, around

    def _counted_loop(self, op: scf.ForOp, mask: Array) -> None:
        if not all(is_tensor(value.type) for value in op.iter_args):
            if _inserts(op):
                raise LevelError("E1006", f"{op.name} carries scalars and writes results: no count of that")
            return
        carried = [self.values[value] for value in op.iter_args]
        if IN_ORDER in op.attributes:
            self._set(op, carried)
            return
        low, high, step = (int(self.values[bound].reshape(-1)[0]) for bound in (op.lb, op.ub, op.step))
        start = self.axis
        counter = self._axis(0, len(range(low, high, step)) - 1) * step + low
        self.values.update(zip(op.body.block.args, [counter, *carried], strict=True))
        self._set(op, self._block(op.body.block, np.broadcast_to(mask, np.broadcast_shapes(mask.shape, counter.shape))))
        self.axis = start

    def _branch(self, op: scf.IfOp, mask: Array) -> None:
        if not _inserts(op):
            return
        condition = self.values.get(op.cond)
        if condition is None:
            raise LevelError("E1006", "whether an element is written depends on data")
        found = self._block(op.true_region.block, mask & condition)
        if op.false_region.blocks:
            self._block(op.false_region.block, mask & ~condition)
        self._set(op, found)


def _inserts(op: Operation) -> bool:
    """Is something inserted into a tensor somewhere in the op's regions?"""
    return any(isinstance(inner, tensor.InsertOp | InsertAtOp) for inner in op.walk())
