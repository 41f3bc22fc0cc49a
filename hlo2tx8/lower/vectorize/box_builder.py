"""A `vec.box` under construction: the values it knows, and vectors of them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr, VectorType, i1, i32, i64
from xdsl.ir import Attribute, Block, SSAValue

from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.made import put
from hlo2tx8.indexing import Const, Expr
from hlo2tx8.ir import vector_type_of
from hlo2tx8.lower.element_format import vector_type
from hlo2tx8.lower.vectorize.lane_access import Constraint, LaneRegion, LaneSpace

INT32_MAX = 2**31 - 1
Load: TypeAlias = tuple[SSAValue, Expr, LaneRegion]
"""A tensor, the offset of an access to it, and the lanes in which it is read."""


@dataclass
class BoxBuilder(ABC):
    """A `vec.box` under construction.

    `indices` gives the expression of each index value in scope, `values` the VECTOR-level buffer or scalar of each other value.
    `filled` loads were replaced by ones with a fill, where they were used first or everywhere. Those `on_lines` mean something
    together with another one only: their own bounds say nothing.
    """

    space: LaneSpace
    fixed_values: tuple[SSAValue, ...]
    indices: dict[SSAValue, Expr]
    values: dict[SSAValue, SSAValue]
    loads: dict[tuple[SSAValue, Expr, LaneRegion], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Expr, LaneRegion], SSAValue]
    )
    bounds: dict[tuple[tuple[Expr, ...], str, int], SSAValue] = field(
        default_factory=dict[tuple[tuple[Expr, ...], str, int], SSAValue]
    )
    splats: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    conditions: dict[SSAValue, tuple[Constraint, ...]] = field(default_factory=dict[SSAValue, tuple[Constraint, ...]])
    guard: LaneRegion = field(default_factory=LaneRegion)
    filled: list[vec.LoadOp] = field(default_factory=list[vec.LoadOp])
    on_lines: frozenset[SSAValue] = frozenset()
    builder: Builder = field(init=False)

    @abstractmethod
    def block(self, block: Block, region: LaneRegion) -> tuple[SSAValue, ...]:
        """Emits the operations of a block under a region; returns what it yields."""

    def vector(self, value: SSAValue) -> SSAValue:
        """The vector of a FLAT value: itself, a splat, or the value of an index expression in each lane."""
        if value in self.indices:
            return self.index_vector(self.indices[value])
        known = self.values.get(value, value)
        if isinstance(known.type, VectorType):
            return known if vector_type(known).get_shape() == self.space.shape else self.broadcast(known)
        if known not in self.splats:
            self.splats[known] = put(self.builder, vec.SplatOp(known, self.space.shape)).result
        return self.splats[known]

    def index_vector(self, expr: Expr, type_: Attribute | None = None) -> SSAValue:
        """The value of an index expression in each lane, as integers of 32 bits where those suffice."""
        element = i32 if self.space.largest(expr) <= INT32_MAX else i64
        type_ = type_ or vector_type_of(element, self.space.shape)
        return put(self.builder, vec.IndexOp(self.fixed_values, self.space.map_of((expr,)), type_)).result

    def offset(self, base: Expr) -> SSAValue:
        """The value of an expression that is the same in all lanes."""
        m = self.space.map_of((base,), with_lanes=False)
        return put(self.builder, xla.ApplyIndexingOp(xla.IndexingMapAttr(m), self.fixed_values)).results[0]

    def splat_int(self, value: int, like: Attribute) -> SSAValue:
        """An integer in every lane."""
        element = i64 if like == vector_type_of(i64, self.space.shape) else i32
        constant = put(self.builder, arith.ConstantOp(IntegerAttr(value, element)))
        return put(self.builder, vec.SplatOp(constant.result, self.space.shape)).result

    def box_region(self, region: LaneRegion) -> vec.BoxRegion:
        """The bounds of a region that those of the step do not have."""
        shape, region = self.space.shape, region.without(self.guard)
        dims = [c.lane for c in region.clips]
        lower = [self.extent(c.lower or (Const(0),), "max", shape[c.lane]) for c in region.clips]
        upper = [self.extent(c.upper or (Const(shape[c.lane]),), "min", shape[c.lane]) for c in region.clips]
        return vec.BoxRegion(dims, lower, upper)

    def extent(self, exprs: tuple[Expr, ...], kind: str, limit: int) -> SSAValue:
        """The largest ("max") or smallest ("min") of expressions that are the same in all lanes, in [0, limit]."""
        key = (exprs, kind, limit)
        if key not in self.bounds:
            m = self.space.map_of(exprs, with_lanes=False)
            self.bounds[key] = put(self.builder, vec.ExtentOp(self.fixed_values, m, kind, 0, limit)).result
        return self.bounds[key]

    def broadcast(self, value: SSAValue) -> SSAValue:
        """A vector from outside of a reduction in every lane of it."""
        type_ = vector_type_of(vector_type(value).element_type, self.space.shape)
        return put(self.builder, vec.BroadcastOp(value, type_)).result

    def mask(self, region: LaneRegion) -> SSAValue:
        """True in the lanes of a region."""
        masks = [
            self._compare(expr, bound, direction)
            for expr, interval in region.scattered
            for bound, direction in ((interval.lo, "GE"), (interval.hi, "LE"))
        ]
        box = self.box_region(LaneRegion(region.clips))
        if box.dims or not masks:
            masks.append(put(self.builder, vec.MaskOp(box, self.space.shape)).result)
        mask = masks[0]
        for other in masks[1:]:
            mask = put(self.builder, arith.AndIOp(mask, other)).result
        return mask

    def _compare(self, expr: Expr, bound: int, direction: str) -> SSAValue:
        index = self.index_vector(expr)
        limit = self.splat_int(bound, index.type)
        result_type = vector_type_of(i1, self.space.shape)
        attributes = {"comparison_direction": StringAttr(direction)}
        return put(self.builder, xla.ElementwiseOp("stablehlo.compare", [index, limit], result_type, attributes)).res
