"""One box of vector operations as instructions on virtual SPM buffers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.kc_move import KcVConvert, KcVGather
from hlo2tx8.device.isa.kc_vector import KcVAdd, KcVDiv, KcVMul, KcVRem
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.errors import CompileError
from hlo2tx8.indexing import Add, Const, Expr, FloorDiv, IndexingMap, Mod, Mul
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.element_format import Splat, Vector, constant_bits, format_of, storage_format, tensor_type
from hlo2tx8.lower.select.instruction_choice import choose, is_move
from hlo2tx8.lower.select.narrow_sum import NarrowSum, narrow_sums, select_narrow_sum
from hlo2tx8.lower.select.resident import Resident, is_resident
from hlo2tx8.lower.select.select_access import MIN_ROW_BYTES, Walk, load_rows, read_scalar, same_in_all_steps
from hlo2tx8.lower.select.select_dot import Sums, select_dot, select_sums_loop
from hlo2tx8.lower.select.select_memory import (
    MAX_GATHER_BYTES,
    Clip,
    clipped_box,
    iota_sum,
    lane_terms,
    load_box,
    place,
    store_box,
    stride_terms,
)
from hlo2tx8.lower.select.select_reduce import select_broadcast, select_reduce
from hlo2tx8.lower.select.select_rows import expand, is_of_rows, joined_lanes, row_step, select_reduce_lanes
from hlo2tx8.lower.select.step_builder import StepBuilder
from hlo2tx8.lower.vectorize.varying_lanes import Known, varying_lanes


@dataclass
class BoxSelector:
    """Selects instructions for the operations of one `vec.box`.

    `slots` maps VECTOR-level tensors, scalars and indices to their SCHEDULED counterparts; `vectors` holds the buffer or
    splat of each vector value, `sums` the partial sums of contractions;
    the matrix engine did the conversions `narrowed`.
    """

    step: StepBuilder
    slots: dict[SSAValue, SSAValue]
    hoisted: dict[tuple[object, ...], SSAValue]
    vectors: dict[SSAValue, Vector] = field(default_factory=dict[SSAValue, Vector])
    sums: dict[SSAValue, Sums] = field(default_factory=dict[SSAValue, Sums])
    narrowed: set[Operation] = field(default_factory=set[Operation])
    rows: "BoxSelector | None" = None
    joined: tuple[int, ...] = ()
    varying: Known = field(default_factory=Known)
    resident: dict[SSAValue, Resident] = field(default_factory=dict[SSAValue, Resident])
    sums_of_16_bits: dict[Operation, NarrowSum] = field(default_factory=dict[Operation, NarrowSum])

    def select_box(self, block: Block) -> None:
        """Selects all of a box; where lanes of it are joined, what is the same in them is computed once."""
        self.joined = joined_lanes(block)
        self.sums_of_16_bits = narrow_sums(block, self.step.shape)
        if self.joined:
            self.rows = BoxSelector(row_step(self.step, self.joined), self.slots, self.hoisted, resident=self.resident)
        self.select(block)

    def select(self, block: Block) -> None:
        for op in block.ops:
            self.step.origin = origin(op) or _neighbour_origin(op)
            if self.rows is None:
                self._operation(op)
                continue
            self.rows.step.builder, self.rows.step.origin = self.step.builder, self.step.origin
            narrow = self.sums_of_16_bits.get(op)
            if narrow is not None and isinstance(op, vec.VecReduceLanesOp):
                count = prod(self.step.shape[lane] for lane in op.lanes)
                source = self.buffer(self.vector(narrow.source))
                self.rows.vectors[narrow.result] = select_narrow_sum(self.rows.step, source, narrow, count)
            elif any(op in (narrow.widen, narrow.narrow) for narrow in self.sums_of_16_bits.values()):
                pass  # the sum converts
            elif isinstance(op, vec.VecReduceLanesOp):
                self.rows.vectors.update(zip(op.res, select_reduce_lanes(self, self.rows, op), strict=True))
            elif is_of_rows(op, self.joined, self.varying):
                self.rows.select_one(op)
            else:
                self._operation(op)

    def select_one(self, op: Operation) -> None:
        """Selects one operation of the box."""
        self._operation(op)

    def vector(self, value: SSAValue) -> Vector:
        """The buffer or splat of a value; a scalar is the same in all lanes."""
        if value not in self.vectors and self.rows is not None and value in self.rows.vectors:
            self.vectors[value] = expand(self, self.rows, value, storage_format(value.type))
        return self.vectors[value] if value in self.vectors else _splat(value)

    def _operation(self, op: Operation) -> None:
        match op:
            case xla.ApplyIndexingOp() | vec.ExtentOp():
                new = self.step.insert(op.clone(value_mapper=dict(self.slots)))
                self.slots.update(zip(op.results, new.results, strict=True))
            case arith.ConstantOp() | xla.ConstantOp():
                if isinstance(op.results[0].type, type(xla.index)):
                    self.slots[op.results[0]] = self.step.insert(op.clone()).results[0]
            case vec.SplatOp():
                self.vectors[op.result] = _splat(op.value)
            case vec.LoadOp():
                self.vectors[op.result] = self._load(op)
            case vec.LoadAtOp():
                self.vectors[op.result] = self._load_at(op)
            case vec.StoreOp():
                self._store(op)
            case vec.StoreAtOp():
                self._store_at(op)
            case vec.GatherOp():
                self.vectors[op.result] = self._gather(op)
            case vec.IndexOp():
                self.vectors[op.result] = self._index(op)
            case vec.MaskOp():
                self.vectors[op.result] = self._mask(op)
            case scf.ForOp():
                if not select_sums_loop(self, op):
                    self._loop(op)
            case vec.VecDotOp():
                select_dot(self, op)
            case vec.BroadcastOp():
                self.vectors[op.result] = select_broadcast(self, op)
            case vec.VecReduceOp():
                self.vectors.update(zip(op.res, select_reduce(self, op), strict=True))
            case scf.YieldOp() | xla.YieldOp():
                pass  # the loop reads what it hands on
            case _ if op in self.narrowed:
                pass  # the matrix engine has written it
            case _:
                self._elementwise(op)

    # ------------------------------------------------------------------------------------------------ values

    def buffer(self, value: Vector) -> SSAValue:
        """The vector in SPM; a splat is written once, before the steps."""
        return self.filled_before_steps(value, self.step.num_lanes) if isinstance(value, Splat) else value

    def filled_before_steps(self, value: Splat, count: int) -> SSAValue:
        """A buffer of as many equal elements, written once, before the steps."""
        key = ("splat", value.bits, value.fmt, count)
        if key not in self.hoisted:
            self.hoisted[key] = self._in_prologue(lambda: self._filled(value, count, count))
        return self.hoisted[key]

    def within(self, step: StepBuilder) -> "BoxSelector":
        """A selector for vectors of another shape that knows the same values."""
        return BoxSelector(step, self.slots, self.hoisted, self.vectors, self.sums, self.narrowed, resident=self.resident)

    def _in_prologue(self, emit: Callable[[], SSAValue]) -> SSAValue:
        outer, self.step.builder = self.step.builder, self.step.prologue
        valid, self.step.valid = self.step.valid, {}
        result = emit()
        self.step.builder, self.step.valid = outer, valid
        return result

    def _filled(self, value: Splat, n: Size, num_elements: int | None = None) -> SSAValue:
        buffer = self.step.alloc(value.fmt, num_elements)
        self.step.fill(buffer, value.bits, value.fmt, n)
        return buffer

    def _elementwise(self, op: Operation) -> None:
        if len(op.results) != 1 or op.regions:
            raise CompileError("E3201", f"no instruction for {op.name}")
        result = op.results[0]
        operands = [self.vector(o) for o in op.operands]
        as_format = storage_format if is_move(op) else format_of
        formats = [as_format(o.type) for o in op.operands]
        self.vectors[result] = choose(self, op, operands, formats, as_format(result.type))

    def _loop(self, op: scf.ForOp) -> None:
        """A loop of all lanes: each iter arg is one buffer, which a turn ends by overwriting."""
        step, old, block = self.step, op.body.block, Block(arg_types=[xla.index])
        block.args[0].name_hint = old.args[0].name_hint
        self.slots[old.args[0]] = block.args[0]
        carried = [self._own_buffer(self.vector(value), storage_format(value.type)) for value in op.iter_args]
        self.vectors.update(zip((*old.args[1:], *op.results), (*carried, *carried), strict=True))
        lower, upper, stride = (self.slots[bound] for bound in (op.lb, op.ub, op.step))
        step.insert(scf.ForOp(lower, upper, stride, [], block))
        outer, step.builder = step.builder, Builder(InsertPoint.at_end(block))
        self.select(old)
        terminator = old.last_op
        assert isinstance(terminator, scf.YieldOp)
        new = [self.buffer(self.vector(value)) for value in terminator.operands]
        # All new values are read before the first iter arg changes.
        new = [
            self.copy(v, storage_format(o.type)) if v in carried and v is not c else v
            for v, c, o in zip(new, carried, terminator.operands, strict=True)
        ]
        for buffer, value, operand in zip(carried, new, terminator.operands, strict=True):
            if value is not buffer:
                step.move(buffer, value, [BoxLevel(step.count(), (1, 1))], storage_format(operand.type))
        step.insert(scf.YieldOp())
        step.builder = outer

    def _own_buffer(self, value: Vector, fmt: Format) -> SSAValue:
        """A new buffer that holds the vector."""
        return self._filled(value, self.step.count()) if isinstance(value, Splat) else self.copy(value, fmt)

    # ------------------------------------------------------------------------------------------------ memory

    def _load(self, op: vec.LoadOp) -> SSAValue:
        step, fmt = self.step, storage_format(op.result.type)
        strides = vec.ints(op.strides)
        if is_resident(op.source):
            return self.resident[op.source].load(step, op, fmt)
        offset = self.slots[op.offset]
        source = self.slots[op.source]
        if (start := same_in_all_steps(step, op)) is not None:
            key = ("load", source, start, strides, fmt, step.shape)
            if key not in self.hoisted:
                self.hoisted[key] = self._in_prologue(lambda: load_box(step, source, start, strides, clipped_box(step, ()), fmt))
            return self.hoisted[key]
        clips = [
            Clip(lane, self.slots[lo], self.slots[hi])
            for lane, lo, hi in zip(vec.ints(op.clipped), op.lower, op.upper, strict=True)
        ]
        box = clipped_box(step, clips)
        if not clips:
            return load_box(step, source, offset, strides, box, fmt)
        dst = self._fill_of(op, fmt)
        with step.if_positive([box.extents[c.lane] for c in clips]):
            part = load_box(step, source, offset, strides, box, fmt)
            place(step, dst, part, box, fmt)
        return dst

    def _fill_of(self, op: vec.LoadOp, fmt: Format) -> SSAValue:
        """A vector of fill values: a fresh buffer, or the fill vector itself if nobody else needs it."""
        count = self.step.count()
        if op.fill is None:
            return self._filled(Splat(0, fmt), count)
        value = self.vector(op.fill)
        if isinstance(value, Splat):
            return self._filled(value, count)
        owner, is_hoisted = op.fill.owner, any(value is buffer for buffer in self.hoisted.values())
        is_own = isinstance(owner, (vec.LoadOp, xla.ElementwiseOp)) and owner.parent is op.parent and not is_hoisted
        if is_own and op.fill.has_one_use():
            return value
        return self.copy(value, fmt)

    def copy(self, source: SSAValue, fmt: Format) -> SSAValue:
        """A copy of a vector."""
        dst = self.step.alloc(fmt)
        self.step.move(dst, source, [BoxLevel(self.step.count(), (1, 1))], fmt)
        return dst

    def _store(self, op: vec.StoreOp) -> None:
        fmt = storage_format(op.value.type)
        source = self.buffer(self.vector(op.value))
        if is_resident(op.target):
            self.resident[op.target] = Resident.of(self.step, op, source)
            return
        store_box(self.step, self.slots[op.target], self.slots[op.offset], source, vec.ints(op.strides), fmt)

    def _store_at(self, op: vec.StoreAtOp) -> None:
        step, fmt = self.step, storage_format(op.value.type)
        shift = read_scalar(step, self.buffer(self.vector(op.shift)), 0, format_of(op.shift.type))
        source, offset = self.buffer(self.vector(op.value)), step.add(self.slots[op.offset], shift)
        store_box(step, self.slots[op.target], offset, source, vec.ints(op.strides), fmt)

    def _gather(self, op: vec.GatherOp) -> SSAValue:
        fmt = storage_format(op.result.type)
        shape = tensor_type(op.source).get_shape()
        size = max(shape[0], 1) * fmt.bytes
        index_format = format_of(op.index.type)
        if size > MAX_GATHER_BYTES:
            walk = Walk.of(self.step, [0] * len(self.step.shape), varying_lanes(op.index, {}))
            return load_rows(walk, self.slots[op.source], 0, self.buffer(self.vector(op.index)), index_format, fmt)
        index = self.as_format(self.vector(op.index), index_format, Format.INT32)
        return self._gathered(op.source, index, fmt)

    def _gathered(self, tensor: SSAValue, index: SSAValue, fmt: Format) -> SSAValue:
        """The elements at INT32 indices, read from a copy of the whole tensor in SPM, which is made before the steps."""
        step, source = self.step, self.slots[tensor]
        key = ("whole", source)
        if key not in self.hoisted:
            self.hoisted[key] = self._in_prologue(lambda: self._whole(source, tensor_type(tensor).get_shape()[0], fmt))
        dst = step.alloc(fmt)
        step.insert(KcVGather.make(fmt=fmt, dst=dst, src=self.hoisted[key], index=index, n=step.count(), origin=step.origin))
        return dst

    def _load_at(self, op: vec.LoadAtOp) -> SSAValue:
        step, fmt, shift_format = self.step, storage_format(op.result.type), format_of(op.shift.type)
        walk = Walk.of(step, vec.ints(op.strides), vec.ints(op.varying))
        shift, offset = self.buffer(self.vector(op.shift)), self.slots[op.offset]
        size_bytes = tensor_type(op.source).get_shape()[0] * fmt.bytes
        if walk.num_outer and walk.row_elements * fmt.bytes < MIN_ROW_BYTES and size_bytes <= MAX_GATHER_BYTES:
            affine = iota_sum(step, step.count(), offset, stride_terms(step, walk.strides), Format.INT32)
            index = self._emit_add(affine, self.as_format(shift, shift_format, Format.INT32))
            return self._gathered(op.source, index, fmt)
        return load_rows(walk, self.slots[op.source], offset, shift, shift_format, fmt)

    def _emit_add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        dst = self.step.alloc(Format.INT32)
        make = KcVAdd.make
        self.step.insert(make(fmt=Format.INT32, dst=dst, a=a, b=b, n=self.step.count(), origin=self.step.origin))
        return dst

    def _whole(self, source: SSAValue, num_elements: int, fmt: Format) -> SSAValue:
        buffer = self.step.alloc(fmt, num_elements)
        if num_elements:
            self.step.load(buffer, source, 0, [BoxLevel(num_elements, (1,))], fmt)
        return buffer

    def as_format(self, value: Vector, fmt: Format, wanted: Format) -> SSAValue:
        """The vector converted to another format on the kernel core."""
        source = self.buffer(value)
        if fmt is wanted:
            return source
        dst = self.step.alloc(wanted)
        self.step.insert(KcVConvert.make(fmt=wanted, fmt2=fmt, dst=dst, src=source, n=self.step.count(), origin=self.step.origin))
        return dst

    # -------------------------------------------------------------------------------------- masks and indices

    def _mask(self, op: vec.MaskOp) -> SSAValue:
        step = self.step
        clips = [
            Clip(lane, self.slots[lo], self.slots[hi])
            for lane, lo, hi in zip(vec.ints(op.clipped), op.lower, op.upper, strict=True)
        ]
        box = clipped_box(step, clips)
        dst = self._filled(Splat(0, Format.PRED), step.count())
        ones = self.buffer(Splat(1, Format.PRED))
        with step.if_positive([box.extents[c.lane] for c in clips]):
            place(step, dst, ones, box, Format.PRED)
        return dst

    def _index(self, op: vec.IndexOp) -> Vector:
        fmt = format_of(op.result.type)
        (expr,) = op.map.data.results
        return self._index_expr(expr, op.map.data, [self.slots[v] for v in op.ivs], fmt)

    def _index_expr(self, expr: Expr, m: IndexingMap, ivs: Sequence[SSAValue], fmt: Format) -> SSAValue:
        affine = lane_terms(self.step, expr)
        if affine is not None:
            base, terms = affine
            return iota_sum(self.step, self.step.count(), self._scalar(base, m, ivs), terms, fmt)
        match expr:
            case Add():
                kind = KcVAdd
            case Mul():
                kind = KcVMul
            case FloorDiv():
                kind = KcVDiv
            case Mod():
                kind = KcVRem
            case _:
                raise CompileError("E3203", f"no vector form of index expression {expr}")
        if isinstance(expr, (FloorDiv, Mod)) and (lowest := m.bounds(expr.lhs).lo) < 0:
            return self._index_expr(_of_non_negative(expr, lowest), m, ivs, fmt)
        lhs = self._index_expr(expr.lhs, m, ivs, fmt)
        rhs = self._index_expr(expr.rhs, m, ivs, fmt)
        dst = self.step.alloc(fmt)
        self.step.insert(kind.make(fmt=fmt, dst=dst, a=lhs, b=rhs, n=self.step.count(), origin=self.step.origin))
        return dst

    def _scalar(self, base: Expr, m: IndexingMap, ivs: Sequence[SSAValue]) -> Size:
        if isinstance(base, Const):
            return base.value
        scalar = IndexingMap(m.dims, (), (), (base,), ())
        return self.step.insert(xla.ApplyIndexingOp(xla.IndexingMapAttr(scalar), ivs)).results[0]


def _of_non_negative(expr: FloorDiv | Mod, lowest: int) -> Expr:
    """The same quotient or remainder of a dividend moved up by a multiple of the divisor: KC division rounds toward zero."""
    assert isinstance(expr.rhs, Const)
    times = -(lowest // expr.rhs.value)
    moved = expr.lhs + times * expr.rhs.value
    return moved // expr.rhs - times if isinstance(expr, FloorDiv) else moved % expr.rhs


def _splat(value: SSAValue) -> Splat:
    return Splat(constant_bits(value), storage_format(value.type))


def _neighbour_origin(op: Operation) -> str:
    """Of what a load is for, or of what a store keeps. The oldest use is the last in the list."""
    users = [use.operation for result in op.results for use in reversed(list(result.uses))]
    makers = [operand.owner for operand in op.operands if isinstance(operand.owner, Operation)]
    return next((found for other in (*users, *makers) if (found := origin(other))), "")
