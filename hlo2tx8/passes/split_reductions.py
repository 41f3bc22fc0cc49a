"""Pass split-reductions: a long reduction to few results first gives results of parts, so that every tile has work.

Before:
    %0 = stablehlo.reduce(%x init: %i) applies add across dimensions = [0] : (tensor<12582912xf32>, ...) -> tensor<f32>

After:
    %1 = stablehlo.reshape %x : tensor<16x786432xf32>
    %2 = stablehlo.reduce(%1 init: -0.0) applies add across dimensions = [1] : (...) -> tensor<16xf32>
    %0 = stablehlo.reduce(%2 init: %i) applies add across dimensions = [0] : (...) -> tensor<f32>

A reduction whose innermost dimensions are few elements, and others not next to them, reduces those others first:

    reduce [1, 8, 8, 4, 2] over 1, 2, 4      is   reduce [1, 8, 8, 4, 2] over 1, 2, then [1, 4, 2] over 2

The dimensions that are neighbours and reduced together become parts x rest; what is missing in the last part is padded. Parts
start with what changes nothing: 0 of a sum, 1 of a product, the initial value itself of a maximum. Sums of 16-bit floats stay
f32 in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import minor_to_major
from hlo2tx8.dialects.vector_instructions import unconverted
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.accumulation import accumulated_types, only_adds
from hlo2tx8.ir import i64_array
from hlo2tx8.partitioner.instruction import is_elementwise, tensor_type
from hlo2tx8.partitioner.reduction_order import joins_apart, reduced_dimensions, why_in_order
from hlo2tx8.passes.statistics.alike import is_read_again
from hlo2tx8.schedule.costs import Costs
from hlo2tx8.schedule.reduction_blocks import UNIT
from hlo2tx8.schedule.whole_rows import why_not_whole

LEAST_KERNELS = 3.9
"""An input that DDR gives in less time than as many kernels need besides their work is not worth a second loop."""
MOST_KERNELS = 16
"""Where DDR takes longer for an input than so many kernels need besides their work, one kernel more does not matter."""
BUSY = 0.75
"""A share of the tiles that is enough."""
BUSY_IN_ROWS = 0.6
"""The same where steps would hold rows whole and read them once for the reduction and for what is made of it."""
LEAST_COLUMN_TILES = 0.25
"""The share of the tiles that must have columns: fewer wait too long for their own first loads."""
WORD_BYTES = 4
"""Of an element as the vector engine adds it up."""
MOST_PARTS_PER_TILE = 8
LEAST_TURNS = 16
"""Turns of a loop from which on a second kernel costs less."""

Type: TypeAlias = TensorType[Attribute]


@dataclass(frozen=True)
class SplitReductionsPass(ModulePass):
    """Splits reductions for the tiles of a chip; see the module docstring. chip: file of its description, "" for the built-in."""

    name = "split-reductions"

    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hlo2tx8.device.chip import load_chip

        rates = Rates.of(load_chip(self.chip))
        for inner in ops_named(op, ("stablehlo.reduce",)):
            if outer := _outer_dimensions(inner):
                _Split(inner, _DimensionRun(0, 0, 1), 1).apply_in_turn(outer)
        for inner in ops_named(op, ("stablehlo.reduce",)):
            if (run := _run_to_split(inner, rates)) is not None:
                _Split(inner, run, _num_parts(inner, run, rates.tiles)).apply()


@dataclass(frozen=True)
class _DimensionRun:
    """Neighbouring dimensions `first` up to but not including `last` that are reduced together, `extent` elements in all."""

    first: int
    last: int
    extent: int


def _outer_dimensions(op: Operation) -> list[int]:
    """The reduced dimensions to go first: a loop would take their turns one by one, each of too few elements for a vector."""
    if len(op.results) > 1 or why_in_order(op) != "" or any(_has_layout(value) for value in (*op.operands, *op.results)):
        return []
    shape, reduced = tensor_type(op.operands[0]).get_shape(), sorted(reduced_dimensions(op))
    inner = len(shape)
    while inner and (inner - 1 in reduced or shape[inner - 1] == 1):
        inner -= 1
    outer = [dim for dim in reduced if dim < inner and shape[dim] > 1]
    extent = prod(shape[inner:])
    is_worth = 1 < extent < UNIT and prod(shape[dim] for dim in outer) >= LEAST_TURNS
    return [dim for dim in reduced if dim < inner] if is_worth else []


def _run_to_split(op: Operation, rates: Rates) -> _DimensionRun | None:
    """The neighbouring dimensions to split, if the reduction keeps too few tiles busy."""
    if why_in_order(op) != "" or any(_has_layout(value) for value in (*op.operands, *op.results)):
        return None
    type_ = tensor_type(op.operands[0])
    shape, reduced = type_.get_shape(), reduced_dimensions(op)
    width = numpy_dtype(tensor_type(unconverted(op.operands[0])).element_type).itemsize
    least_bytes = LEAST_KERNELS * rates.kernel * rates.ddr
    if prod(shape) * width < least_bytes and not _is_long_computed(op, rates):
        return None
    share = _share(_num_pieces(shape, reduced, width, rates.line_bytes), rates.tiles)
    if share >= BUSY or (share >= BUSY_IN_ROWS and is_read_again(op) and not why_not_whole(op, reduced, Costs(rates))):
        return None
    if _is_done_beside_loads(op, width, rates):
        return None
    runs: list[_DimensionRun] = []
    for dim in reduced:
        before = runs[-1] if runs else None
        if before is not None and before.last == dim - 1:
            runs[-1] = _DimensionRun(before.first, dim, before.extent * shape[dim])
        else:
            runs.append(_DimensionRun(dim, dim, shape[dim]))
    longest = max(runs, key=lambda run: run.extent)
    return longest if longest.extent >= 2 * rates.tiles else None


def _is_long_computed(op: Operation, rates: Rates) -> bool:
    """Do the few tiles that have results compute so long, what the reduction reads and adds up, that a second loop is worth it?

    What is read again is not there then, as where a variance follows a mean, and several results take the second loop longer: of
    these only what is read counts.
    """
    shape, reduced = tensor_type(op.operands[0]).get_shape(), reduced_dimensions(op)
    units = _num_pieces(shape, reduced, WORD_BYTES, UNIT * WORD_BYTES)  # of columns
    if units >= rates.tiles:
        return False
    costs, cycles, width, waiting, seen = Costs(rates), 0.0, 1, [op.operands[0]], set[Operation]()
    is_plain = len(op.results) == 1 and not is_read_again(op)
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Operation) and is_elementwise(owner) and owner not in seen:
            seen.add(owner)
            waiting += owner.operands
            cycles += costs.compute(owner)
            width = max(width, *(numpy_dtype(tensor_type(value).element_type).itemsize for value in owner.operands))
        elif isinstance(owner, Operation) and owner.operands:
            is_plain &= owner in seen or isinstance(owner.operands[0].owner, Block)
    pieces = _num_pieces(shape, reduced, width, rates.line_bytes)
    if is_plain:
        pieces, cycles = min(pieces, units), cycles + prod(shape) * WORD_BYTES / (rates.tiles * rates.vector)
    return pieces > 0 and cycles * (rates.tiles / min(pieces, rates.tiles) - 1) > LEAST_KERNELS * rates.kernel


def _is_done_beside_loads(op: Operation, width: int, rates: Rates) -> bool:
    """Is one kernel, in which few tiles add up columns, done before DDR has given two kernels the input? Elements of `width` bytes
    are converted where they are less than a word. Columns of long inputs are better read in whole rows: where rows begin inside a
    line of memory, parts of them take more lines. Neither is said of an input that is computed, or read again."""
    shape, reduced = tensor_type(op.operands[0]).get_shape(), reduced_dimensions(op)
    loaded = prod(shape) * width / rates.ddr
    made_by = unconverted(op.operands[0]).owner
    is_computed = isinstance(made_by, Operation) and is_elementwise(made_by)
    if loaded > MOST_KERNELS * rates.kernel or is_read_again(op) or is_computed:
        return False
    pieces = _num_pieces(shape, reduced, WORD_BYTES, UNIT * WORD_BYTES)
    if prod(shape[max(reduced) + 1 :]) == 1 or len(op.results) > 1 or pieces < LEAST_COLUMN_TILES * rates.tiles:
        return False
    busiest = prod(shape) / pieces * -(-pieces // rates.tiles)
    passes = 1 + (width < WORD_BYTES)
    return busiest * passes * WORD_BYTES / rates.vector < loaded + rates.kernel


def _has_layout(value: SSAValue) -> bool:
    type_ = tensor_type(value)
    return tuple(minor_to_major(type_)) != tuple(reversed(range(len(type_.get_shape()))))


def _num_pieces(shape: Sequence[int], reduced: Sequence[int], width: int, line_bytes: int) -> int:
    """Results that tiles can compute apart; those next to each other, also in the input, in lines, not one by one."""
    inner = prod(shape[max(reduced) + 1 :])
    outer = prod(size for dim, size in enumerate(shape[: max(reduced)]) if dim not in reduced)
    return outer * -(-inner * width // line_bytes)


def _share(pieces: int, tiles: int) -> float:
    """How busy the tiles are with pieces of the same size."""
    return pieces / (tiles * -(-pieces // tiles))


def _num_parts(op: Operation, run: _DimensionRun, tiles: int) -> int:
    """Parts of the run: of the numbers that divide it and keep the tiles busy the one that does so best, the first of several; one
    per tile if there is none."""
    shape, reduced = tensor_type(op.operands[0]).get_shape(), reduced_dimensions(op)
    outer = prod(size for dim, size in enumerate(shape[: max(reduced)]) if dim not in reduced)
    found = [n for n in range(1, MOST_PARTS_PER_TILE * tiles + 1) if run.extent % n == 0 and _share(n * outer, tiles) >= BUSY]
    return max(found, key=lambda n: _share(n * outer, tiles), default=tiles)


@dataclass
class _Split:
    op: Operation
    run: _DimensionRun
    parts: int

    def apply(self) -> None:
        count = len(self.op.results)
        types = accumulated_types(self.op)
        inputs = [self._converted(v, t) for v, t in zip(self.op.operands[:count], types, strict=True)]
        init = [self._converted(v, t) for v, t in zip(self.op.operands[count:], types, strict=True)]
        starts = [self._neutral(i, value) for i, value in enumerate(init)]
        split = [self._split(value, start) for value, start in zip(inputs, starts, strict=True)]
        later = [dim + (dim >= self.run.first) for dim in self._outside()]
        partial = self._reduce(split, starts, [self.run.first + 1, *later], types)
        kept = sum(dim not in self._outside() for dim in range(self.run.first))
        found = self._reduce(partial, init, [kept], types)
        results = [self._converted(v, tensor_type(r).element_type) for v, r in zip(found, self.op.results, strict=True)]
        Rewriter.replace_op(self.op, [], results)

    def apply_in_turn(self, outer: Sequence[int]) -> None:
        """Reduce the outer dimensions first, then the others."""
        types = accumulated_types(self.op)
        inputs, init = [self._converted(v, t) for v, t in zip(self.op.operands, (*types, *types), strict=True)]
        partial = self._reduce([inputs], [self._neutral(0, init)], outer, types)
        inner = [dim - sum(other < dim for other in outer) for dim in reduced_dimensions(self.op) if dim not in outer]
        (found,) = self._reduce(partial, [init], inner, types)
        Rewriter.replace_op(self.op, [], [self._converted(found, tensor_type(self.op.results[0]).element_type)])

    def _outside(self) -> list[int]:
        """Reduced dimensions that are not split, as the inputs have them once the run is one dimension."""
        shrunk = self.run.last - self.run.first
        found = [dim for dim in reduced_dimensions(self.op) if not self.run.first <= dim <= self.run.last]
        return [dim - shrunk if dim > self.run.last else dim for dim in found]

    def _split(self, value: SSAValue, start: SSAValue) -> SSAValue:
        """[.., run.., ..] as [.., parts, rest, ..]."""
        type_ = tensor_type(value)
        shape, run = type_.get_shape(), self.run
        before, behind, rest = shape[: run.first], shape[run.last + 1 :], -(-run.extent // self.parts)
        if missing := self.parts * rest - run.extent:
            whole = self._emit("reshape", [value], TensorType(type_.element_type, (*before, run.extent, *behind)))
            high, none = [0] * (len(before) + 1 + len(behind)), [0] * (len(before) + 1 + len(behind))
            high[run.first] = missing
            padding = {"edge_padding_low": _array(none), "edge_padding_high": _array(high), "interior_padding": _array(none)}
            padded = TensorType(type_.element_type, (*before, self.parts * rest, *behind))
            value = self._emit("pad", [whole, start], padded, **padding)
        return self._emit("reshape", [value], TensorType(type_.element_type, (*before, self.parts, rest, *behind)))

    def _reduce(
        self, inputs: Sequence[SSAValue], init: Sequence[SSAValue], dims: Sequence[int], types: Sequence[Attribute]
    ) -> list[SSAValue]:
        shape = tensor_type(inputs[0]).get_shape()
        kept = [size for dim, size in enumerate(shape) if dim not in dims]
        results = [TensorType(type_, kept) for type_ in types]
        new = stablehlo.OPS["reduce"]([*inputs, *init], results, {"dimensions": _array(sorted(dims))}, [self._combiner(types)])
        return list(self._insert(new))

    def _combiner(self, types: Sequence[Attribute]) -> Region:
        """The combiner on scalars of these types; only a sum has others than before."""
        old = self.op.regions[0].block
        new = Block(arg_types=[TensorType(type_, []) for type_ in (*types, *types)])
        if only_adds(old):
            total = stablehlo.OPS["add"](new.args, [new.args[0].type])
            new.add_ops([total, stablehlo.ReturnOp(total.results)])
            return Region(new)
        mapping: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
        new.add_ops([inner.clone(mapping) for inner in old.ops])
        return Region(new)

    def _neutral(self, number: int, init: SSAValue) -> SSAValue:
        """What a part of result `number` starts from."""
        name = joins_apart(self.op, number)
        if name not in ("add", "multiply", "xor"):
            return init
        dtype = numpy_dtype(tensor_type(init).element_type)
        value = np.array(1 if name == "multiply" else 0, dtype)
        if name == "add" and dtype.kind not in "biu":
            value = -value
        return self._emit("constant", [], init.type, value=LiteralAttr.from_array(value))

    def _converted(self, value: SSAValue, element: Attribute) -> SSAValue:
        type_ = tensor_type(value)
        return value if type_.element_type == element else self._emit("convert", [value], TensorType(element, type_.get_shape()))

    def _emit(self, name: str, operands: Sequence[SSAValue], type_: Attribute, **properties: Attribute) -> SSAValue:
        return self._insert(stablehlo.OPS[name](operands, [type_], properties))[0]

    def _insert(self, new: Operation) -> Sequence[SSAValue]:
        new.attributes |= {k: v for k, v in self.op.attributes.items() if k == "loc"}
        return Builder(InsertPoint.before(self.op)).insert(new).results


def _array(values: Sequence[int]) -> Attribute:
    return i64_array(values)
