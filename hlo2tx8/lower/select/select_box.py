"""One box of vector operations as instructions on virtual SPM buffers."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.kc_move import KcVGather
from hlo2tx8.device.isa.kc_vector import KcVAdd
from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.element_format import Operand, PerChannel, Splat, Vector, format_of, storage_format, tensor_type
from hlo2tx8.lower.select.by_turns import ByTurns, store_by_turns
from hlo2tx8.lower.select.index_conditions import IndexConditions, LanesMeant
from hlo2tx8.lower.select.instruction_choice import choose, hlo_name, is_move
from hlo2tx8.lower.select.narrow_sum import NarrowSum, narrow_sums, select_narrow_sum
from hlo2tx8.lower.select.padded_rows import stores_rows
from hlo2tx8.lower.select.padded_step import PaddedStep
from hlo2tx8.lower.select.place_of_extreme import PlaceOfExtreme, places_of_extremes, select_place_of_extreme
from hlo2tx8.lower.select.resident import Resident, is_resident
from hlo2tx8.lower.select.select_access import (
    MAX_COPY_BYTES,
    MIN_ROW_BYTES,
    MOST_PER_LANE_BYTES,
    Places,
    Walk,
    is_sooner_near,
    largest_place,
    load_rows,
    read_scalar,
    same_in_all_steps,
)
from hlo2tx8.lower.select.select_dot import select_dot, select_sums_loop
from hlo2tx8.lower.select.select_index import NUMBERS, index_vector, mask
from hlo2tx8.lower.select.select_join import select_join_at
from hlo2tx8.lower.select.select_loop import select_loop
from hlo2tx8.lower.select.select_memory import (
    clipped_box,
    clips_of,
    iota_sum,
    load_box,
    place,
    store_box,
    stride_terms,
)
from hlo2tx8.lower.select.select_reduce import select_broadcast, select_reduce
from hlo2tx8.lower.select.select_region import fill_region, fits_regions, truth_of
from hlo2tx8.lower.select.select_rows import expand, is_of_rows, joined_lanes, row_step, select_difference, select_reduce_lanes
from hlo2tx8.lower.select.select_scan import select_scan_lanes
from hlo2tx8.lower.select.select_sort import select_sort_lanes
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import StepBuilder, Strip
from hlo2tx8.lower.select.units_of_rows import load_unit, unit_counts, unit_lanes
from hlo2tx8.lower.vectorize.varying_lanes import Known, varying_lanes


@dataclass
class BoxSelector(Selector):
    """Selects a box of dense vectors; where lanes of it are `joined`, `rows` selects what is the same in them. `units` are loads
    of an element per joined lane, the same for all rows."""

    rows: "BoxSelector | None" = None
    joined: tuple[int, ...] = ()
    varying: Known = field(default_factory=Known)
    resident: dict[SSAValue, Resident] = field(default_factory=dict[SSAValue, Resident])
    sums_of_16_bits: dict[Operation, NarrowSum] = field(default_factory=dict[Operation, NarrowSum])
    places: dict[Operation, PlaceOfExtreme] = field(default_factory=dict[Operation, PlaceOfExtreme])
    units: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    by_turns: ByTurns = field(default_factory=ByTurns)

    def take_units(self) -> None:
        """Reads what whole blocks of columns have once as that, where this is the side of a contraction."""
        self.joined, self.is_side = unit_lanes(self.step.shape), True

    def select_box(self, block: Block) -> None:
        """Selects all of a box; where lanes of it are joined, what is the same in them is computed once."""
        self.joined = joined_lanes(block, len(self.step.shape))
        self.sums_of_16_bits = narrow_sums(block, self.step)
        self.places = places_of_extremes(block, self.step)
        self.by_turns = ByTurns.of(block, self.step.shape)
        if self.joined:
            self.rows = BoxSelector(row_step(self.step, self.joined), self.slots, self.hoisted, resident=self.resident)
        self.select(block)

    def select(self, block: Block) -> None:
        conditions, guard = IndexConditions.of(block, self._fits_regions), stored_where(block)
        unneeded = {*conditions.unneeded, *(op for place in self.places.values() for op in place.unneeded)}
        with ExitStack() as branches:
            for op in block.ops:
                if op not in unneeded:
                    self._select_op(op, conditions)
                if guard is not None and guard in op.results:
                    place = self._run_time_places(guard)
                    branches.enter_context(self.step.if_positive([read_scalar(self.step, place.vector, 0, place.fmt)]))

    def _select_op(self, op: Operation, conditions: IndexConditions) -> None:
        self.step.origin = origin(op) or neighbour_origin(op)
        if self.rows is not None:
            self.rows.step.builder, self.rows.step.origin = self.step.builder, self.step.origin
        if op in conditions.selects:
            self.vectors[op.results[0]] = self._select_region(op, conditions.selects[op])
        elif op in conditions.compares:
            self.vectors[op.results[0]] = truth_of(self, conditions.compares[op])
        elif self.rows is None:
            self._operation(op)
        else:
            self._of_joined_lanes(op, self.rows)

    def _of_joined_lanes(self, op: Operation, rows: "BoxSelector") -> None:
        """An operation of a box some lanes of which are joined."""
        place = self.places.get(op)
        if place is not None:
            rows.vectors[op.results[0]] = select_place_of_extreme(
                self.step, rows.step, place, self.buffer(self.vector(place.source))
            )
            return
        narrow = self.sums_of_16_bits.get(op)
        if narrow is not None and isinstance(op, vec.VecReduceLanesOp):
            count = prod(self.step.shape[lane] for lane in op.lanes)
            source = self.buffer(self.vector(narrow.source))
            rows.vectors[narrow.result] = select_narrow_sum(rows.step, source, narrow, count, self.filled_before_steps)
        elif any(op in (narrow.widen, narrow.narrow) for narrow in self.sums_of_16_bits.values()):
            pass  # the sum converts
        elif isinstance(op, vec.VecReduceLanesOp):
            rows.vectors.update(zip(op.res, select_reduce_lanes(self, rows, op), strict=True))
        elif isinstance(op, vec.VecScanLanesOp):
            self.vectors.update(zip(op.res, select_scan_lanes(self, rows, op), strict=True))
        elif is_of_rows(op, self.joined, self.varying):
            rows.select_one(op)
        elif (difference := select_difference(self, rows, op)) is not None:
            self.vectors[op.results[0]] = difference
        else:
            self._operation(op)

    def select_one(self, op: Operation) -> None:
        """Selects one operation of the box."""
        self._operation(op)

    def vector(self, value: SSAValue) -> Vector:
        """The buffer or splat of a value; a scalar is the same in all lanes."""
        if value not in self.vectors and self.rows is not None and value in self.rows.vectors:
            self.vectors[value] = expand(self, self.rows, value, storage_format(value.type))
        if value in self.units and value not in self.vectors and isinstance(load := value.owner, vec.LoadOp):
            self.vectors[value] = self._load(load)
        return super().vector(value)

    def operand(self, value: SSAValue) -> Operand:
        """As a unit vector where it has an element per joined lane."""
        is_unit = value in self.units and value not in self.vectors
        return PerChannel(self.units[value], storage_format(value.type)) if is_unit else self.vector(value)

    def buffer(self, value: Operand) -> SSAValue:
        """The vector in SPM; one per joined lane is spread over the rows."""
        if isinstance(value, PerChannel):
            value = next(self.vector(own) for own, unit in self.units.items() if unit is value.buffer)
        return super().buffer(value)

    def apply_per_channel(
        self, forms: tuple[type[Instruction], type[Instruction]], a: SSAValue, unit: SSAValue, fmt: Format
    ) -> SSAValue:
        """One instruction on all lanes, a round per block of columns."""
        step, dst = self.step, self.step.alloc(fmt)
        counts = unit_counts(step, [lane for lane in range(len(step.shape)) if lane not in self.joined])
        step.insert(forms[1].make(fmt=fmt, dst=dst, a=a, unit=unit, origin=step.origin, **counts))
        return dst

    def _operation(self, op: Operation) -> None:
        match op:
            case xla.ApplyIndexingOp() | vec.ExtentOp():
                new = self.step.insert(cloned(op, dict(self.slots)))
                self.slots.update(zip(op.results, new.results, strict=True))
            case arith.ConstantOp() | xla.ConstantOp():
                if isinstance(op.results[0].type, type(xla.index)):
                    self.slots[op.results[0]] = self.step.insert(cloned(op)).results[0]
            case vec.SplatOp():
                self.vectors[op.result] = super().vector(op.value)
            case vec.LoadOp():
                unit = load_unit(self, op, self.joined, each_step=self.is_side)
                if unit is None:
                    self.vectors[op.result] = self._load(op)
                else:
                    self.units[op.result] = unit
            case vec.LoadAtOp():
                self.vectors[op.result] = self._load_at(op)
            case vec.StoreOp():
                self._store(op)
            case vec.StoreAtOp():
                self._store_at(op)
            case vec.GatherOp():
                self.vectors[op.result] = self._gather(op)
            case vec.IndexOp():
                self.vectors[op.result] = index_vector(self, op)
            case vec.MaskOp():
                self.vectors[op.result] = mask(self, op)
            case scf.ForOp():
                if not select_sums_loop(self, op):
                    select_loop(self, op)
            case vec.VecDotOp():
                select_dot(self, op)
            case vec.BroadcastOp():
                self.vectors[op.result] = select_broadcast(self, op)
            case vec.VecReduceOp():
                self.vectors.update(zip(op.res, select_reduce(self, op), strict=True))
            case vec.VecSortLanesOp():
                self.vectors.update(zip(op.res, select_sort_lanes(self, op), strict=True))
            case vec.VecJoinAtOp():
                self.vectors[op.res] = select_join_at(self, op)
            case scf.YieldOp() | xla.YieldOp():
                pass  # the loop reads what it hands on
            case _ if op in self.narrowed:
                pass  # the matrix engine has written it
            case _:
                self._elementwise(op)

    def within(self, step: StepBuilder) -> "BoxSelector":
        """A selector for vectors of another shape that knows the same values."""
        for value in self.units:
            self.vector(value)
        return BoxSelector(step, self.slots, self.hoisted, self.vectors, self.sums, self.narrowed, resident=self.resident)

    def is_in_blocks(self, value: SSAValue) -> bool:
        load = value.owner
        return isinstance(load, vec.LoadOp) and load.source in self.resident and self.resident[load.source].is_padded

    # ------------------------------------------------------------------------------------------------ values

    def _elementwise(self, op: Operation) -> None:
        if len(op.results) != 1 or op.regions:
            raise CompileError("E3201", f"no instruction for {op.name}")
        result = op.results[0]
        operands = [self.operand(o) for o in op.operands]
        as_format = storage_format if is_move(op) else format_of
        formats = [as_format(o.type) for o in op.operands]
        if not self._is_same_in_all_steps(operands):
            self.vectors[result] = choose(self, op, operands, formats, as_format(result.type))
            return
        same = self.in_prologue(lambda: self.buffer(choose(self, op, operands, formats, as_format(result.type))))
        self.hoisted[NUMBERS, same] = same
        self.vectors[result] = same

    def _is_same_in_all_steps(self, operands: Sequence[Operand]) -> bool:
        """Are operands constants and numbers of lanes that were written before the steps, at least one of these? Steps may write to
        other vectors from before."""
        numbers = [buffer for key, buffer in self.hoisted.items() if key[0] == NUMBERS]
        before = [o for o in operands if isinstance(o, SSAValue) and any(o is buffer for buffer in numbers)]
        return bool(before) and not self.step.valid and all(o in before or isinstance(o, Splat) for o in operands)

    def _fits_regions(self, op: Operation, lanes: LanesMeant) -> bool:
        """Are lanes of such an operation's condition told by numbers? Not where one lane stands for all that are joined."""
        if isinstance(self.step, PaddedStep) and hlo_name(op) == "compare":
            return False
        fmt = Format.FP32 if hlo_name(op) == "compare" else storage_format(op.results[0].type)
        return (self.rows is None or not is_of_rows(op, self.joined, self.varying)) and fits_regions(self.step, lanes, fmt)

    def _select_region(self, op: Operation, lanes: LanesMeant) -> SSAValue:
        """A select by where its lanes are: one of its operands, in its own buffer if that is free, with the other in some lanes."""
        fmt, (kept, other) = storage_format(op.results[0].type), op.operands[1:]
        if lanes.is_outside or (len(lanes.halves) == 1 and self._is_free(other) and not self._is_free(kept)):
            kept, other, lanes = other, kept, lanes.complement()
        vector = self.vector(kept)
        dst = vector if isinstance(vector, SSAValue) and self._is_free(kept) else self.own_buffer(vector, fmt)
        fill_region(self, dst, self.vector(other), [half.complement() for half in lanes.halves], fmt)
        return dst

    def _is_free(self, value: SSAValue) -> bool:
        """Does nobody else need the buffer of a vector, that of arithmetic or what a step has of a tensor that is read once?"""
        if not value.has_one_use() or isinstance(value.owner, (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)):
            return value.has_one_use()
        tensor = value.owner.source if isinstance(value.owner, vec.LoadOp) else None
        if tensor is None or tensor not in self.resident or self.vector(value) is not self.resident[tensor].buffer:
            return False
        return sum(isinstance(use.operation, vec.LoadOp) for use in tensor.uses) == 1

    # ------------------------------------------------------------------------------------------------ memory

    def _load(self, op: vec.LoadOp) -> SSAValue:
        step, fmt = self.step, storage_format(op.result.type)
        strides = vec.ints(op.strides)
        resident = self.resident[op.source] if is_resident(op.source) else None
        if resident is not None and not vec.ints(op.clipped):
            return resident.load(step, op, fmt, self.slots)
        offset = self.slots[op.offset]
        source = self.slots.get(op.source, op.source)
        if resident is None and (start := same_in_all_steps(step, op)) is not None:
            key = ("load", source, start, strides, fmt, step.shape)
            if key not in self.hoisted:
                self.hoisted[key] = self.in_prologue(lambda: load_box(step, source, start, strides, clipped_box(step, ()), fmt))
            return self.hoisted[key]
        if op in self.by_turns.loads:
            return self.by_turns.load(step, op, source, offset, fmt)
        clips = clips_of(op, self.slots)
        box = clipped_box(step, clips)
        if not clips:
            return load_box(step, source, offset, strides, box, fmt)
        dst = self._fill_of(op, fmt)
        if any(box.extents[c.lane] == 0 for c in clips):
            return dst
        with step.if_positive([box.extents[c.lane] for c in clips]):
            if resident is not None:
                resident.place(step, op, fmt, self.slots, dst, box)
            else:
                place(step, dst, load_box(step, source, offset, strides, box, fmt), box, fmt)
        return dst

    def _fill_of(self, op: vec.LoadOp, fmt: Format) -> SSAValue:
        """A vector of fill values: a fresh buffer, or the fill vector itself if nobody else needs it."""
        if op.fill is None:
            return self._filled_around(op, Splat(0, fmt))
        value = self.vector(op.fill)
        if isinstance(value, Splat):
            return self._filled_around(op, value)
        owner, is_hoisted = op.fill.owner, any(value is buffer for buffer in self.hoisted.values())
        is_own = isinstance(owner, (vec.LoadOp, xla.ElementwiseOp)) and owner.parent is op.parent and not is_hoisted
        if is_own and op.fill.has_one_use():
            return value
        return self.copy(value, fmt)

    def _filled_around(self, op: vec.LoadOp, value: Splat) -> SSAValue:
        """A new vector that is filled where a load may leave it as it is."""
        step, shape = self.step, self.step.shape
        clips = zip(vec.ints(op.clipped), op.lower, op.upper, strict=True)
        bounds = [(lane, lo.owner, hi.owner) for lane, lo, hi in clips]
        inside = [
            (lane, lo.bounds.hi, hi.bounds.lo)
            for lane, lo, hi in bounds
            if isinstance(lo, vec.ExtentOp) and isinstance(hi, vec.ExtentOp)
        ]
        is_known = len(inside) == len(bounds) and type(step) is StepBuilder and not step.valid
        if not is_known or any(last <= first for _, first, last in inside):
            return self.filled(value, step.count())
        ends = [(k, *end) for k, first, last in inside for end in ((0, first), (last, shape[k])) if end[0] < end[1]]
        buffer = step.alloc(value.fmt)
        step.fill_strips(buffer, value.bits, value.fmt, [Strip.of(shape, *end) for end in ends], step.num_lanes)
        return buffer

    def _store(self, op: vec.StoreOp) -> None:
        fmt = storage_format(op.value.type)
        if op.value in self.in_blocks:
            self.in_blocks[op.value].store(self.step, op, self.slots[op.target], self.slots[op.offset])
            return
        source = self.buffer(self.vector(op.value))
        if is_resident(op.target):
            is_padded = isinstance(self.step, PaddedStep) and not stores_rows(op)
            self.resident[op.target] = Resident.of(self.step, op, source, is_padded)
            return
        if op in self.by_turns.stores:
            if stores := self.by_turns.stores[op]:
                sources = [self.buffer(self.vector(store.value)) for store in stores]
                first = self.slots[stores[0].offset]
                store_by_turns(self.step, self.slots[op.target], first, sources, vec.ints(op.strides), fmt)
            return
        store_box(self.step, self.slots[op.target], self.slots[op.offset], source, vec.ints(op.strides), fmt)

    def _store_at(self, op: vec.StoreAtOp) -> None:
        step, fmt = self.step, storage_format(op.value.type)
        places = self._run_time_places(op.shift)
        shift = read_scalar(step, places.vector, 0, places.fmt)
        source, offset = self.buffer(self.vector(op.value)), step.add(self.slots[op.offset], shift)
        store_box(step, self.slots[op.target], offset, source, vec.ints(op.strides), fmt)

    def _gather(self, op: vec.GatherOp) -> SSAValue:
        fmt = storage_format(op.result.type)
        shape = tensor_type(op.source).get_shape()
        index_format = format_of(op.index.type)
        walk = Walk.of(self.step, [0] * len(self.step.shape), varying_lanes(op.index, {}))
        if not walk.copies_whole(op, max(shape[0], 1) * fmt.bytes):
            return load_rows(walk, self.slots[op.source], 0, self._run_time_places(op.index), fmt)
        index = self.as_format(self.vector(op.index), index_format, Format.INT32)
        return self._gathered(op.source, index, fmt)

    def _gathered(self, tensor: SSAValue, index: SSAValue, fmt: Format, part: SSAValue | None = None) -> SSAValue:
        """The elements at INT32 indices, read from `part` in SPM, or a copy of the whole tensor, which is made before the steps."""
        step, source = self.step, self.slots[tensor]
        key = ("whole", source)
        if part is None and key not in self.hoisted:
            self.hoisted[key] = self.in_prologue(lambda: self._whole(source, tensor_type(tensor).get_shape()[0], fmt))
        dst, src = step.alloc(fmt), self.hoisted[key] if part is None else part
        step.insert(KcVGather.make(fmt=fmt, dst=dst, src=src, index=index, n=step.count(), origin=step.origin))
        return dst

    def _near(self, op: vec.LoadAtOp, walk: Walk, fmt: Format, size_bytes: int) -> SSAValue | None:
        """A copy of all that a step may read, from its offset on; None if that is not known, or so much that the step had better
        read its elements one by one, or those of a copy of the whole tensor."""
        step, most = self.step, largest_place(op.shift)
        if most is None or min(walk.strides) < 0:
            return None
        reach = most + 1 + sum(stride * (size - 1) for stride, size in zip(walk.strides, step.shape, strict=True))
        if reach * fmt.bytes > min(MAX_COPY_BYTES, MOST_PER_LANE_BYTES * step.num_lanes):
            return None
        if walk.copies_whole(op, size_bytes) and not is_sooner_near(op, reach * fmt.bytes, size_bytes):
            return None
        count: Size = most + 1
        for stride, extent in zip(walk.strides, step.extents, strict=True):
            count = step.add(count, step(step.subtract(extent, 1), stride))
        buffer = step.alloc(fmt, reach)
        step.load(buffer, self.slots[op.source], self.slots[op.offset], [BoxLevel(count, (1,))], fmt)
        return buffer

    def _load_at(self, op: vec.LoadAtOp) -> SSAValue:
        step, fmt, shift_format = self.step, storage_format(op.result.type), format_of(op.shift.type)
        walk = Walk.of(step, vec.ints(op.strides), vec.ints(op.varying))
        offset = self.slots[op.offset]
        size_bytes = tensor_type(op.source).get_shape()[0] * fmt.bytes
        if walk.num_outer and walk.row_elements * fmt.bytes < MIN_ROW_BYTES:
            near = self._near(op, walk, fmt, size_bytes)
            if near is not None or walk.copies_whole(op, size_bytes):
                start = 0 if near is not None else offset
                affine = iota_sum(step, step.count(), start, stride_terms(step, walk.strides), Format.INT32)
                index = self._emit_add(affine, self.as_format(self.vector(op.shift), shift_format, Format.INT32))
                return self._gathered(op.source, index, fmt, near)
        return load_rows(walk, self.slots[op.source], offset, self._run_time_places(op.shift), fmt)

    def _run_time_places(self, value: SSAValue) -> Places:
        """Run-time places, with one lane along what is joined where they do not vary along it."""
        owner: BoxSelector = self.rows if self.rows is not None and value in self.rows.vectors else self
        return Places(owner.buffer(owner.vector(value)), owner.step, format_of(value.type))

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


def stored_where(block: Block) -> SSAValue | None:
    """The condition under which a box stores anything at all, None if there is none; CompileError if its stores differ."""
    stores = [op for op in block.ops if isinstance(op, (vec.StoreAtOp, vec.StoreOp))]
    found = dict.fromkeys(op.where if isinstance(op, vec.StoreAtOp) else None for op in stores)
    if len(found) > 1:
        raise CompileError("E3201", "the stores of a box depend on different conditions")
    return next(iter(found), None)


def neighbour_origin(op: Operation) -> str:
    """Of what a load is for, or of what a store keeps. The oldest use is the last in the list."""
    users = [use.operation for result in op.results for use in reversed(list(result.uses))]
    makers = [operand.owner for operand in op.operands if isinstance(operand.owner, Operation)]
    return next((found for other in (*users, *makers) if (found := origin(other))), "")
