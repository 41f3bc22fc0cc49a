"""How the loop over a function's roots reads tensors, and the work split that suits those accesses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import TypeAlias

from xdsl.dialects.builtin import IntegerAttr, TensorType, i1
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.indexing import Expr, IndexingMap
from hlo2tx8.ir import tensor_type_of
from hlo2tx8.partitioner.computation import PartitionedComputation, SubgraphFunction
from hlo2tx8.partitioner.instruction import (
    compose,
    is_inlined_constant,
    is_single_operand_shaping,
    shape_of,
    tensor_type,
)
from hlo2tx8.partitioner.iteration_space import IterationSpace, TensorAccess, iteration_space
from hlo2tx8.partitioner.made_from import CONVERT
from hlo2tx8.partitioner.reduction_paths import ranges_after
from hlo2tx8.schedule.costs import cycles_per_element
from hlo2tx8.schedule.work_split import (
    DEFAULT_STEP_ELEMENTS,
    MIN_CHUNK_ELEMENTS,
    MIN_STEP_ELEMENTS,
    MOST_ALONE_ELEMENTS,
    MOST_UNEVEN,
    Target,
    WorkSplit,
    split_work,
)

_TRUTH = tensor_type_of(i1, ())
"""Of a condition on the index."""

SPM_SHARE = 0.8
"""What the vectors of one step may take of the SPM, two buffers per tensor read or written; the rest is for what alignment,
constants and index vectors need."""
MASK_BYTES = 4
PAD = "stablehlo.pad"
SHARE_OF_ROWS = 0.8
"""Of the time that rows take, what they compute; the rest is for spreading what a row has once."""


Read: TypeAlias = tuple[SSAValue | None, TensorAccess]
"""What is read, None of conditions and of an iota, and where."""


@dataclass(frozen=True)
class AccessAnalysis:
    """Accesses of each function of a partitioned computation, through the functions that will be inlined."""

    partitioned: PartitionedComputation
    target: Target
    known: dict[int, tuple[TensorAccess, ...]] = field(default_factory=dict[int, tuple[TensorAccess, ...]])
    known_reads: dict[int, dict[Read, None]] = field(default_factory=dict[int, dict[Read, None]])

    def is_index_only(self, function: SubgraphFunction) -> bool:
        """Does the function only transform its index? Such a function is inlined however often it is called."""
        return _only_moves(function, "stablehlo.iota")

    def is_made_again(self, function: SubgraphFunction) -> bool:
        """Does the function only convert what it reads, maybe at another index? Such a function is inlined too: reading a tensor
        that is filled with its results takes longer."""
        return _only_moves(function, CONVERT)

    def is_inlined(self, function: SubgraphFunction) -> bool:
        """Will callers contain the function's body, instead of reading a tensor filled with it?"""
        if function.is_reduced_once:
            return False
        return function.num_callers <= 1 or self.is_index_only(function) or self.is_made_again(function)

    def of(self, function: SubgraphFunction) -> tuple[TensorAccess, ...]:
        """All distinct accesses in terms of the index of the function's roots."""
        if id(function) not in self.known:
            self.known[id(function)] = tuple(dict.fromkeys(access for _, access in self.reads(function)))
        return self.known[id(function)]

    def reads(self, function: SubgraphFunction) -> dict[Read, None]:
        """The accesses, and what is read by each."""
        if id(function) not in self.known_reads:
            self.known_reads[id(function)] = dict.fromkeys(self._collect(function))
        return self.known_reads[id(function)]

    def _collect(self, function: SubgraphFunction) -> list[Read]:
        found, rank = self._roots_read_directly(function), len(function.identity.dims)
        for op in function.instructions:
            if op.name == "stablehlo.iota":
                found.append((None, self._iota_access(op)))
            for number, operand in enumerate(op.operands):
                if (op, number) not in self.partitioned.operand_places:
                    continue  # the loop of a reduction makes no turn
                map = ranges_after(self.partitioned.operand_places[op, number][0], rank)
                owner = operand.owner
                if isinstance(owner, Operation):
                    callee = None if is_inlined_constant(owner) else self.partitioned.function_of.get(owner)
                    if callee is None or callee is function:
                        found += [(None, access) for access in _condition(map, function.identity)]
                        continue
                    if self.is_inlined(callee):
                        inner = self.reads(callee)
                        found += [(value, TensorAccess(compose(access.map, map), access.type)) for value, access in inner]
                        continue
                found.append((operand, TensorAccess(map, tensor_type(operand))))
        return found

    def _roots_read_directly(self, function: SubgraphFunction) -> list[Read]:
        """Roots that are parameters, or start a function of their own."""
        found: list[Read] = []
        for root, map in zip(function.roots, function.maps, strict=True):
            owner = root.owner
            if isinstance(root, BlockArgument) or not isinstance(owner, Operation):
                found.append((root, TensorAccess(map, tensor_type(root))))
                continue
            callee = self.partitioned.function_of.get(owner)
            if callee is not None and callee is not function:
                found.append((root, TensorAccess(map, tensor_type(root))))
        return found

    def _iota_access(self, op: Operation) -> TensorAccess:
        """The index that an iota turns into a number must stay affine like an offset."""
        dimension = op.properties["iota_dimension"]
        assert isinstance(dimension, IntegerAttr)
        place = self.partitioned.places[op]
        map = ranges_after(place.map, len(place.function.identity.dims))
        one = TensorType(tensor_type(op.results[0]).element_type, [1])
        return TensorAccess(map.with_results((map.results[dimension.value.data],)), one)

    def split(self, function: SubgraphFunction, step_elements: int = 0, work: int = 1) -> WorkSplit:
        """The work split of a loop over the function's roots; `step_elements` outputs per step at most (0: what fits), for each
        of which `work` elements are read."""
        space, limit = self.space(function), step_elements or self.step_elements(function)
        if work == 1 and not step_elements and (split := self.split_by_turns(function, space, space.to_output)) is not None:
            return split
        return split_work(space.shape, space.to_output, limit, self.target.rates.tiles, work, alone=self.alone_elements(function))

    def split_by_turns(
        self, function: SubgraphFunction, space: IterationSpace, to_output: Sequence[Expr], together: int = 1
    ) -> WorkSplit | None:
        """A split in which tiles take turns, so that each reads, in all its steps, the same elements of a tensor that the first
        dimensions of the space read again. A step computes `together` outputs per element of its box. None if there is no such
        tensor, or a tile's share of it makes a step that does not fit the SPM, or one that is too small."""
        outer, inner, tiles = space.shape[: space.again], space.shape[space.again :], self.target.rates.tiles
        if not outer or self.target.step_elements:
            return None
        chunk = -(-inner[0] // tiles)
        elements = chunk * prod(inner[1:])
        most = SPM_SHARE * self.target.rates.spm_bytes / (self.bytes_per_element(function) * together)
        if -(-inner[0] // chunk) < tiles or chunk * tiles > MOST_UNEVEN * inner[0] or not MIN_STEP_ELEMENTS <= elements <= most:
            return None
        box = (*(1 for _ in outer), chunk, *inner[1:])
        return split_work(space.shape, to_output, self.step_elements(function), tiles, box=box, by_turns=True)

    def space(self, function: SubgraphFunction) -> IterationSpace:
        """The iteration space of a loop over the function's roots."""
        return iteration_space(tensor_type(function.roots[0]), self.of(function))

    def alone_elements(self, function: SubgraphFunction) -> int:
        """Elements that one tile computes in the time that it takes to meet others."""
        return self._alone(self._cycles_per_element(function))

    def alone_in_rows(self, function: SubgraphFunction, num_elements: int) -> int:
        """The same of elements of rows, so many in all: what a row has once is computed once. None of rows in batches, which
        tiles share."""
        if self.target.feeds_batches:
            return 0
        of_result = [(op, prod(shape_of(op.results[0]))) for op in function.instructions]
        cycles = sum(cycles_per_element(op, self.target.rates) * min(1.0, n / num_elements) for op, n in of_result)
        return self._alone((cycles + sum(map(self._cycles_per_element, self.inlined_callees(function)))) / SHARE_OF_ROWS)

    def _alone(self, cycles: float) -> int:
        return int(min(MOST_ALONE_ELEMENTS, self.target.meeting / cycles if cycles else self.target.meeting * MOST_ALONE_ELEMENTS))

    def _cycles_per_element(self, function: SubgraphFunction) -> float:
        own = sum(cycles_per_element(op, self.target.rates) for op in function.instructions)
        return own + sum(map(self._cycles_per_element, self.inlined_callees(function)))

    def step_elements(self, function: SubgraphFunction) -> int:
        """Elements per step: those wanted, else such that the vectors alive at once fit the SPM."""
        return self.target.step_elements or self._step_elements(function)

    def inlined_callees(self, function: SubgraphFunction) -> list[SubgraphFunction]:
        """The functions whose bodies will be part of this one's."""
        found: dict[SubgraphFunction, None] = {}
        for op in function.instructions:
            for operand in op.operands:
                owner = operand.owner
                callee = self.partitioned.function_of.get(owner) if isinstance(owner, Operation) else None
                if callee is not None and callee is not function and self.is_inlined(callee):
                    found[callee] = None
        return list(found)

    def _step_elements(self, function: SubgraphFunction) -> int:
        """Elements per step such that the vectors alive at once fit the SPM."""
        elements, bytes_per_element = DEFAULT_STEP_ELEMENTS, self.bytes_per_element(function)
        while elements > MIN_CHUNK_ELEMENTS and elements * bytes_per_element > SPM_SHARE * self.target.rates.spm_bytes:
            elements //= 2
        return elements

    def bytes_per_element(self, function: SubgraphFunction, of_rows: int = 0) -> int:
        """Bytes of the vectors that are alive at once, per element of a step, all as wide as the widest. If rows are held whole,
        which have `of_rows` elements in all, each is as wide as it is, and what has one element per row takes a part of one."""
        if of_rows:
            roots = sum(_bytes_of_rows(root, of_rows) for root in function.roots)
            return ceil(2 * roots + self._alive(function, lambda value: _bytes_of_rows(value, of_rows)))
        accesses = self.of(function)
        widths = [_width_bytes(tensor_type(root).element_type) for root in function.roots]
        widths += [_width_bytes(access.type.element_type) for access in accesses]
        widths += [_width_bytes(tensor_type(op.results[0]).element_type) for op in function.instructions]
        return ceil(max(widths) * (2 * len(function.roots) + self._alive(function, lambda value: 1.0)))

    def _alive(self, function: SubgraphFunction, size: Callable[[SSAValue], float]) -> float:
        """Vectors in SPM at once for one call, of these sizes: two per tensor that is loaded, one per value until its last use."""
        last_use: dict[SSAValue, Operation] = {}
        for op in function.instructions:
            for operand in op.operands:
                last_use[operand] = op
        loaded = sum(size(value) for value in last_use if isinstance(value, BlockArgument))
        computed = set(function.instructions)
        alive = most = 0.0
        for op in function.instructions:
            most = max(most, alive := alive + size(op.results[0]))
            alive -= sum(size(v) for v in dict.fromkeys(op.operands) if v.owner in computed and last_use[v] is op)
        return 2 * loaded + most + sum(self._alive(callee, size) for callee in self.inlined_callees(function))


def _only_moves(function: SubgraphFunction, other: str) -> bool:
    """Are all instructions of a called function moves without a condition, or ops of that other name?"""
    moves = (op.name == other or (is_single_operand_shaping(op) and op.name != PAD) for op in function.instructions)
    return not function.is_entry_root and all(moves)


def _bytes_of_rows(value: SSAValue, of_rows: int) -> float:
    """Bytes of a value per element of a step, if the rows have so many elements in all; a truth may be a float of CT's."""
    type_ = tensor_type(value)
    width = MASK_BYTES if type_.element_type == i1 else _width_bytes(type_.element_type)
    return width * min(1.0, prod(type_.get_shape()) / of_rows)


def _condition(map: IndexingMap, whole: IndexingMap) -> dict[TensorAccess, None]:
    """A pure condition on the index, if the map has one."""
    if not map.constraints and all(d.lo <= 0 and d.hi >= v.hi for d, v in zip(map.dims, whole.dims, strict=True)):
        return {}
    return {TensorAccess(map.with_results(()), _TRUTH): None}


def _width_bytes(element: Attribute) -> int:
    return numpy_dtype(element).itemsize


def element_count(value_shape: tuple[int, ...]) -> int:
    """Elements in a tensor of that shape."""
    count = 1
    for size in value_shape:
        count *= size
    return count


__all__ = ["AccessAnalysis", "TensorAccess", "element_count", "shape_of"]
