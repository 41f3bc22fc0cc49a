"""The interpreter proper: a frame of values, one axis of numpy arrays per loop variable, a mask of live points."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import numpy as np
from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects import vec
from hlo2tx8.dialects.xla import (
    IN_ORDER,
    LANE,
    AllocateScratchOp,
    ApplyIndexingOp,
    ConstantOp,
    DotOp,
    ExtractAtOp,
    InDomainOp,
    InsertAtOp,
    JoinAtOp,
    LoopOp,
    PureCallOp,
    ReduceLanesOp,
    ReduceOp,
    ScanLanesOp,
    SortLanesOp,
    SyncTilesOp,
    TileIdOp,
    YieldOp,
    updated_operands,
)
from hlo2tx8.dialects.xla_join import JoinAtForm
from hlo2tx8.dialects.xla_reduce import ReduceForm, ReduceLanesForm
from hlo2tx8.errors import InputError, LevelError
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.ops.join import joined_at
from hlo2tx8.hlo.ops.scan import scanned
from hlo2tx8.hlo.ops.sort import words_in_order
from hlo2tx8.interpreter.buffers import Array, from_buffer, logical_type, new_buffer, to_buffers
from hlo2tx8.interpreter.contraction import contracted
from hlo2tx8.interpreter.memory import Mask, gather, scatter, shifted
from hlo2tx8.interpreter.reduction import halved
from hlo2tx8.interpreter.scalars import evaluate_scalar, literal_array
from hlo2tx8.interpreter.vectors import VectorOp, extent, index_vector, inside, offsets


def interpret(module: ModuleOp, arrays: Sequence[Array]) -> list[Array]:
    """The results of a kernel module's entry function on its parameters, at level LOOPS, FLAT or VECTOR.

    Raises InputError for arrays that do not fit, LevelError for IR of another level or an access out of bounds.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, func.FuncOp)}
    entry = next((f for f in functions.values() if "xla.entry" in f.attributes), None)
    if entry is None:
        raise LevelError("E1006", "the module has no entry function")
    type_ = logical_type(entry)
    results = [cast("TensorType[Attribute]", t) for t in type_.outputs]
    if len(arrays) != len(type_.inputs) - len(results):
        raise InputError("E1004", f"{len(type_.inputs) - len(results)} arrays expected, {len(arrays)} given")
    given = [np.asarray(array) for array in arrays]
    updated = [given[number].copy() for number in updated_operands(entry)]
    buffers = to_buffers(entry, [*given, *(updated or map(new_buffer, results))])
    run = _Frames(functions, 1 + _depth(entry.body.block, {}, functions))
    outputs = run.function(entry, buffers, None)
    if not entry.function_type.outputs:
        outputs = buffers[len(arrays) :]
    return [from_buffer(entry, buffer, t) for buffer, t in zip(outputs, results, strict=True)]


def _depth(block: Block, known: dict[str, int], functions: dict[str, func.FuncOp]) -> int:
    """Loop variables alive at once below a block."""
    deepest = 0
    for op in block.ops:
        inner = max((_depth(b, known, functions) for region in op.regions for b in region.blocks), default=0)
        if isinstance(op, LoopOp):
            inner += len(op.map.data.ranges)
        elif isinstance(op, scf.ForOp | ReduceOp | vec.VecReduceOp | JoinAtOp | vec.VecJoinAtOp):
            inner += 1
        elif isinstance(op, DotOp | vec.VecDotOp):
            inner += len(op.lanes if isinstance(op, DotOp) else op.depth)
        elif isinstance(op, vec.BoxOp):
            inner += len(op.lane_shape)
        elif isinstance(op, PureCallOp):
            name = op.callee.root_reference.data
            if name not in known:
                known[name] = _depth(functions[name].body.block, known, functions)
            inner = known[name]
        deepest = max(deepest, inner)
    return deepest


@dataclass
class _Frames:
    """Values are arrays with one axis per loop variable (size 1 where they do not vary); tensors are buffers."""

    functions: dict[str, func.FuncOp]
    num_axes: int
    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    axis: int = 0
    lanes: list[Array] = field(default_factory=list[Array])
    lane_axes: list[int] = field(default_factory=list[int])
    extents: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    whole: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])

    def function(self, function: func.FuncOp, arguments: Sequence[Array], mask: Mask) -> list[Array]:
        """The results of a function for all live points at once."""
        for arg, value in zip(function.body.block.args, arguments, strict=True):
            self.values[arg] = value
        return self.block(function.body.block, mask)

    def block(self, block: Block, mask: Mask) -> list[Array]:
        """Run the operations of a block in order; returns the values that its terminator hands on."""
        for op in block.ops:
            if isinstance(op, func.ReturnOp | scf.YieldOp | YieldOp):
                return [self.values[value] for value in op.operands]
            results = self.operation(op, mask)
            for result, value in zip(op.results, results, strict=True):
                self.values[result] = value
        return []

    def operation(self, op: Operation, mask: Mask) -> Sequence[Array]:
        """The results of one operation at all points."""
        match op:
            case TileIdOp():
                lo, hi = (int(bound) for bound in op.range.get_values())
                return [self.new_axis(lo, hi)]
            case arith.ConstantOp() | ConstantOp():
                return [self._constant(op)]
            case ApplyIndexingOp() | InDomainOp():
                return self._map(op)
            case tensor.ExtractOp():
                return [gather(self.values[op.tensor], self._operands(op.indices), mask, op)]
            case tensor.InsertOp():
                target = self.values[op.dest]
                scatter(target, self._operands(op.indices), self.values[op.scalar], mask, op)
                return [target]
            case InsertAtOp():
                target, live = self.values[op.dest], mask if op.where is None else _both(mask, self.values[op.where])
                scatter(target, shifted(op, self.values.__getitem__), self.values[op.scalar], live, op)
                return [target]
            case ExtractAtOp():
                return [gather(self.values[op.tensor], shifted(op, self.values.__getitem__), mask, op)]
            case AllocateScratchOp():
                return [new_buffer(op.res.type)]
            case SyncTilesOp():
                return self._operands(op.arguments)
            case PureCallOp():
                return self._call(op, mask)
            case LoopOp():
                return self._loop_over_map(op, mask)
            case scf.ForOp():
                return self._counted_loop(op, mask)
            case scf.IfOp():
                return self._branch(op, mask)
            case vec.BoxOp():
                self._box(op, mask)
                return []
            case vec.StoreAtOp():
                where = offsets(self.values[op.offset], vec.ints(op.strides), self.lanes) + self.values[op.shift]
                live = mask if op.where is None else _both(mask, self.values[op.where])
                scatter(self.values[op.target], [where], self.values[op.value], live, op)
                return []
            case vec.StoreOp():
                where = offsets(self.values[op.offset], vec.ints(op.strides), self.lanes)
                scatter(self.values[op.target], [where], self.values[op.value], mask, op)
                return []
            case ReduceOp() | vec.VecReduceOp():
                return self._reduce(op, mask)
            case DotOp() | vec.VecDotOp():
                return [self._dot(op, mask)]
            case ReduceLanesOp() | vec.VecReduceLanesOp():
                return self._reduce_lanes(op)
            case ScanLanesOp() | vec.VecScanLanesOp():
                return self._scan_lanes(op)
            case SortLanesOp() | vec.VecSortLanesOp():
                return self._sort_lanes(op)
            case JoinAtOp() | vec.VecJoinAtOp():
                return [self._join_at(op, mask)]
            case vec.BroadcastOp():
                return [self.values[op.value]]
            case vec.LoadOp() | vec.LoadAtOp() | vec.GatherOp() | vec.IndexOp() | vec.MaskOp() | vec.SplatOp() | vec.ExtentOp():
                return [self._vector(op, mask)]
            case _:
                return [evaluate_scalar(op, self._operands(op.operands))]

    def _call(self, op: PureCallOp, mask: Mask) -> Sequence[Array]:
        """A call; a function that several calls share is computed once, everywhere, like its lowering does."""
        name = op.callee.root_reference.data
        function, arguments = self.functions[name], self._operands(op.arguments)
        tensors = function.attributes.get("xla.tensors")
        if not isinstance(tensors, ArrayAttr):
            return self.function(function, arguments, mask)
        shape = cast(ArrayAttr[TensorType[Attribute]], tensors).data[0].get_shape()
        num_tensors = len(arguments) - len(shape)
        if name not in self.whole:
            self.whole[name] = self._everywhere(function, arguments[:num_tensors], shape)
        return [gather(whole, arguments[num_tensors:], mask, op) for whole in self.whole[name]]

    def _everywhere(self, function: func.FuncOp, tensors: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
        """A function's results at all indices."""
        inner = _Frames(self.functions, max(len(shape), 1) + _depth(function.body.block, {}, self.functions), whole=self.whole)
        grid = [inner.new_axis(0, size - 1) for size in shape]
        found = inner.function(function, [*tensors, *grid], None)
        return [np.broadcast_to(value.reshape(value.shape[: len(shape)]), shape) for value in found]

    def _operands(self, operands: Sequence[SSAValue]) -> list[Array]:
        return [self.values[value] for value in operands]

    def new_axis(self, lo: int, hi: int) -> Array:
        shape = [1] * self.num_axes
        shape[self.axis] = hi - lo + 1
        self.extents[self.axis] = tuple(shape)
        self.axis += 1
        return np.arange(lo, hi + 1, dtype=np.int64).reshape(shape)

    def _constant(self, op: arith.ConstantOp | ConstantOp) -> Array:
        shape = [1] * self.num_axes
        dtype = numpy_dtype(op.results[0].type)
        if isinstance(op, ConstantOp):
            return literal_array(op.value).astype(dtype, copy=False).reshape(shape)
        assert isinstance(op.value, IntegerAttr | FloatAttr)
        number = op.value.value.data
        if isinstance(op.value, IntegerAttr) and dtype.kind == "u":
            number %= 1 << (8 * dtype.itemsize)
        return np.asarray(number).astype(dtype).reshape(shape)

    def _map(self, op: ApplyIndexingOp | InDomainOp) -> Sequence[Array]:
        results, mask = op.map.data.evaluate(self._operands(op.dims), self._operands(op.syms))
        shape = (1,) * self.num_axes
        found = [mask] if isinstance(op, InDomainOp) else results
        return [value if value.ndim == self.num_axes else np.broadcast_to(value, shape) for value in found]

    def _loop_over_map(self, op: LoopOp, mask: Mask) -> Sequence[Array]:
        map = op.map.data
        start = self.axis
        counters = [self.new_axis(variable.lo, variable.hi) for variable in map.ranges]
        first, outer = self.axis - op.num_lanes.value.data, self.lane_axes
        self.lane_axes = list(range(first, self.axis))
        results, inside = map.evaluate(self._operands(op.dims), counters)
        shape = (1,) * self.num_axes
        indices = [value if value.ndim == self.num_axes else np.broadcast_to(value, shape) for value in results]
        arguments = [*counters, *indices, *self._operands(op.iter_args)]
        for arg, value in zip(op.body.block.args, arguments, strict=True):
            self.values[arg] = value
        found = self.block(op.body.block, _both(mask, inside))
        self.axis, self.lane_axes = start, outer
        return found

    def _counted_loop(self, op: scf.ForOp, mask: Mask) -> Sequence[Array]:
        lo, hi, step = (int(self.values[bound].reshape(-1)[0]) for bound in (op.lb, op.ub, op.step))
        block = op.body.block
        carried = self._operands(op.iter_args)
        if hi <= lo:
            return carried
        if IN_ORDER in op.attributes or any(not isinstance(value.type, TensorType) for value in op.iter_args):
            return self._in_order(block, range(lo, hi, step), carried, mask)
        start, outer = self.axis, self.lane_axes
        self.lane_axes = [*outer, start] if LANE in op.attributes else outer
        counter = self.new_axis(0, (hi - 1 - lo) // step) * step + lo
        for arg, value in zip(block.args, [counter, *carried], strict=True):
            self.values[arg] = value
        found = self.block(block, mask)
        self.axis, self.lane_axes = start, outer
        return found

    def _box(self, op: vec.BoxOp, mask: Mask) -> None:
        """The body at all lanes; those beyond `valid` are not live."""
        start, outer = self.axis, (self.lanes, self.lane_axes)
        self.lanes = [self.new_axis(0, size - 1) for size in op.lane_shape]
        self.lane_axes = list(range(start, self.axis))
        for lane, valid in op.valid_of.items():
            mask = _both(mask, self.lanes[lane] < self.values[valid])
        self.block(op.body.block, mask)
        self.axis, (self.lanes, self.lane_axes) = start, outer

    def _reduce(self, op: ReduceOp | vec.VecReduceOp, mask: Mask) -> Sequence[Array]:
        """The elements of all lanes along a new axis, halved until one is left."""
        axis, outer = self.axis, self.lanes
        lane = self.new_axis(0, op.num_lanes - 1)
        if isinstance(op, ReduceOp):
            self.values[op.elements.block.args[0]] = lane
        else:
            self.lanes = [lane, *outer] if op.is_outer else [*outer, lane]
        elements = self.block(op.elements.block, mask)
        self.axis, self.lanes = axis, outer

        joined = halved(elements, lane.shape, axis, partial(self._combine, op))
        return self._combine(op, [*self._operands(op.init), *joined])

    def _reduce_lanes(self, op: ReduceLanesOp | vec.VecReduceLanesOp) -> Sequence[Array]:
        """The elements halved along the axes of the lanes, which have size 1 then."""
        elements = self._operands(op.elements)
        for axis in (self.lane_axes[lane] for lane in op.lanes):
            elements = halved(elements, self.extents[axis], axis, partial(self._combine, op))
        return self._combine(op, [*self._operands(op.init), *elements])

    def _scan_lanes(self, op: ScanLanesOp | vec.VecScanLanesOp) -> Sequence[Array]:
        """The elements scanned along the axis of their lane."""
        (lane,) = op.lanes
        axis, elements = self.lane_axes[lane], self._operands(op.elements)
        shape = np.broadcast_shapes(self.extents[axis], *(value.shape for value in elements))
        values = [np.broadcast_to(value, shape) for value in elements]
        return scanned(values, self._operands(op.init), axis, partial(self._combine, op))

    def _sort_lanes(self, op: SortLanesOp | vec.VecSortLanesOp) -> Sequence[Array]:
        """The words in order along the axis of their lane."""
        axis = self.lane_axes[op.lane]
        is_descending = np.zeros((1,) * self.num_axes, bool) if op.descending is None else self.values[op.descending] != 0
        shape = np.broadcast_shapes(self.extents[axis], is_descending.shape, *(self.values[word].shape for word in op.words))
        return words_in_order([np.broadcast_to(self.values[word], shape) for word in op.words], axis, is_descending)

    def _join_at(self, op: JoinAtOp | vec.VecJoinAtOp, mask: Mask) -> Array:
        """Places and elements at all updates along a new axis, joined with the lanes along theirs."""
        axis, outer = self.axis, self.lanes
        number, along = self.new_axis(0, op.num_updates - 1), self.lane_axes[op.lane]
        lines = None if mask is None else np.asarray(mask.any(axis=along, keepdims=True))
        found: list[Array] = []
        for block in (op.places.block, op.elements.block):
            if isinstance(op, JoinAtOp):
                self.values[block.args[0]] = number
            else:
                behind = outer[op.lane + 1 :]
                one = [np.zeros((1,) * self.num_axes, np.int64)] * len(behind)
                self.lanes = [*outer[: op.lane], number, *(one if block is op.places.block else behind)]
            found.append(self.block(block, lines)[0])
        self.axis, self.lanes = axis, outer
        init = self.values[op.init]
        init = np.broadcast_to(init, np.broadcast_shapes(init.shape, self.extents[along]))
        return joined_at(init, found[0], found[1], along, axis, lambda old, new: self._combine(op, [old, new])[0])

    def _combine(self, op: ReduceForm | ReduceLanesForm | JoinAtForm, pairs: Sequence[Array]) -> list[Array]:
        self.values.update(zip(op.combiner.block.args, pairs, strict=True))
        return self.block(op.combiner.block, None)

    def _dot(self, op: DotOp | vec.VecDotOp, mask: Mask) -> Array:
        """Rows and columns at all lanes of the depth, along new axes."""
        axis, outer = self.axis, self.lanes
        sizes, windows = op.lane_shape if isinstance(op, DotOp) else vec.ints(op.depth), op.window_list
        depth = [self.new_axis(0, size - 1) for size in sizes]
        sides: list[Array] = []
        for position, block in enumerate((op.row.block, op.column.block)):
            if isinstance(op, DotOp):
                self.values.update(zip(block.args, depth, strict=True))
            else:
                lanes = vec.ints(op.column_lanes if position else op.row_lanes)
                self.lanes = [outer[lane] if lane >= 0 else depth[-1 - lane] for lane in lanes]
                for window in () if position else windows:
                    line = outer[window.lane] * window.stride + depth[window.depth] * window.dilation
                    self.lanes[lanes.index(window.lane)] = line
            sides.append(self.block(block, mask)[0])
        self.axis, self.lanes = axis, outer
        whole = np.broadcast_shapes(*(array.shape for array in depth))
        shape = [max(size, whole[i]) if i in range(axis, axis + len(depth)) else size for i, size in enumerate(sides[0].shape)]
        return contracted(
            self.values[op.init],
            np.broadcast_to(sides[0], shape),
            sides[1],
            range(axis, axis + len(depth)),
            0 if op.is_per_channel or op.is_backward else len(windows),
            op.num_parts,
        )

    def _vector(self, op: VectorOp, mask: Mask) -> Array:
        look = self.values.__getitem__
        match op:
            case vec.ExtentOp():
                return extent(op, look)
            case vec.IndexOp():
                return index_vector(op, self.lanes, look)
            case vec.MaskOp():
                return inside(op, self.lanes, look)
            case vec.SplatOp():
                return self.values[op.value]
            case vec.GatherOp():
                return gather(self.values[op.source], [self.values[op.index]], mask, op)
            case vec.LoadAtOp():
                where = offsets(self.values[op.offset], vec.ints(op.strides), self.lanes) + self.values[op.shift]
                return gather(self.values[op.source], [where], mask, op)
            case vec.LoadOp():
                region = inside(op, self.lanes, look)
                where = offsets(self.values[op.offset], vec.ints(op.strides), self.lanes)
                value = gather(self.values[op.source], [where], _both(mask, region), op)
                return value if op.fill is None else np.where(region, value, self.values[op.fill])

    def _in_order(self, block: Block, turns: range, carried: list[Array], mask: Mask) -> Sequence[Array]:
        """A loop that carries scalars: turn by turn, each turn at all points of the outer loops."""
        for turn in turns:
            counter = np.full((1,) * self.num_axes, turn, np.int64)
            for arg, value in zip(block.args, [counter, *carried], strict=True):
                self.values[arg] = value
            carried = self.block(block, mask)
        return carried

    def _branch(self, op: scf.IfOp, mask: Mask) -> Sequence[Array]:
        condition = self.values[op.cond]
        inside = self.block(op.true_region.block, _both(mask, condition))
        if not op.false_region.blocks:
            return inside
        outside = self.block(op.false_region.block, _both(mask, ~condition))
        found: list[Array] = []
        for result, a, b in zip(op.results, inside, outside, strict=True):
            found.append(a if isinstance(result.type, TensorType) else np.where(condition, a, b))
        return found


def _both(mask: Mask, condition: Array) -> Mask:
    if bool(np.all(condition)):
        return mask
    return condition if mask is None else mask & condition
