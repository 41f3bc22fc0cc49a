"""Computation partitioner: a fusion's instructions as functions of one element each.

An instruction joins the function of its users iff all of them reach it through one and the same composed indexing
map (and under the same condition); otherwise it starts a function, which its users call.

       param                 @add(i, j):       log(i, j) is a call of @log, transpose(i, j) a call of @transpose
         │                   @transpose(i, j): a call of @log(j, i)
        log ──────┐          @log(i, j):       reads param
         │    transpose
        add ──────┘

So that a function reaches another one through one map only, the shaping instruction at which a second path leaves
(here transpose) starts a function too. Each instruction is visited once per user: linear time, and linear code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.hlo import Kind
from hlo2tx8.hlo.lookup import kept_with
from hlo2tx8.indexing import Const, Dim, IndexingMap
from hlo2tx8.partitioner.instruction import (
    compose,
    is_conditional,
    is_inlined_constant,
    is_single_operand_shaping,
    kind_of,
    operand_maps,
    tensor_type,
)
from hlo2tx8.partitioner.reduction_paths import is_empty_loop, is_reduction, loop_operand_map, num_loop_operands
from hlo2tx8.partitioner.row_space import RowSpace


@dataclass(frozen=True, eq=False)
class Scope:
    """Under which condition an element is needed. `op` None: always. Otherwise `op` is a pad or concatenate, and the element is
    needed where its operand number `operand` is chosen; or `op` is a reduction, and the element is needed in every turn of its
    loop.

    Scopes are compared by identity. Maps inside of a reduction's loop have the loop's counters as further dimensions. `in_loop` is
    True in every turn of some reduction's loop, or in a part of its turns.
    """

    op: Operation | None = None
    operand: int = 0
    in_loop: bool = False


@dataclass(frozen=True)
class Use:
    """One way in which a function reads an instruction: at `map` of the function's index, under `scope`."""

    function: "SubgraphFunction"
    map: IndexingMap
    scope: Scope
    user: Operation | None = None

    def same_place(self, other: "Use") -> bool:
        """True if both uses read the same element, in the same function and under the same condition."""
        if self.function is not other.function or self.scope is not other.scope:
            return False
        return self.map is other.map or self.map == other.map


@dataclass(eq=False)
class SubgraphFunction:
    """Computes one element of each of `roots` from an index. `instructions` are in program order, with the maps from the function's
    index to theirs.

    `identity` is the identity map on the index. All roots have the shape of the index, unless `root_maps` gives a map for each.
    `is_reduced_once` marks a reduction that is read in the loop of another: its elements are computed beforehand, not once per
    turn.
    """

    roots: tuple[SSAValue, ...]
    is_entry_root: bool
    identity: IndexingMap
    root_maps: tuple[IndexingMap, ...] = ()
    top: Scope = field(default_factory=Scope)
    instructions: list[Operation] = field(default_factory=list[Operation])
    num_callers: int = 0
    is_reduced_once: bool = False

    @property
    def maps(self) -> tuple[IndexingMap, ...]:
        """For each root the map from the function's index to the root's index."""
        return self.root_maps or (self.identity,) * len(self.roots)


@dataclass(frozen=True)
class InstructionPlace:
    """Where an instruction is computed: in which function, at which map of the function's index, under which scope."""

    function: SubgraphFunction
    map: IndexingMap
    scope: Scope


@dataclass(frozen=True)
class PartitionedComputation:
    """All functions, those of the roots first and callers before callees, and the place of every instruction that is needed.

    `function_of` maps an instruction to the function that begins with it, for functions that others call.
    """

    functions: tuple[SubgraphFunction, ...]
    places: dict[Operation, InstructionPlace]
    function_of: dict[Operation, SubgraphFunction]
    operand_places: dict[tuple[Operation, int], tuple[IndexingMap, Scope]]


def partition(block: Block) -> PartitionedComputation:
    """Partition the computation of a block whose terminator returns the roots: an instruction is part of its reader's function if
    all readers need the same element of it, else it begins a function.
    """
    return kept_with(block, "partitioned", _partition)


def _partition(block: Block) -> PartitionedComputation:
    result, diverging = _assign(block, frozenset())
    return _assign(block, diverging)[0] if diverging else result


def partition_rows(block: Block, rows: RowSpace) -> PartitionedComputation:
    """Partition the computation into one function over the index space `rows`, and the functions that it calls."""
    terminator = block.last_op
    assert terminator is not None
    roots = tuple(dict.fromkeys(terminator.operands))
    function = SubgraphFunction(roots, True, IndexingMap.identity(rows.shape), tuple(map(rows.map_of_root, roots)))
    result, diverging = _assign(block, frozenset(), rows, function)
    if not diverging:
        return result
    function = SubgraphFunction(roots, True, function.identity, function.root_maps)
    return _assign(block, diverging, rows, function)[0]


def _entry_function(roots: tuple[SSAValue, ...]) -> SubgraphFunction:
    """A function over the index of the root with the fewest dimensions, of roots that differ from it in such of size 1 at most."""
    roots = tuple(sorted(roots, key=lambda root: len(tensor_type(root).get_shape())))
    function = _new_function(roots, True)
    shape, *others = (tensor_type(root).get_shape() for root in roots)
    if any(other != shape for other in others):
        function = replace(function, root_maps=tuple(_without_ones(shape, tensor_type(root).get_shape()) for root in roots))
    return function


def _without_ones(shape: Sequence[int], other: Sequence[int]) -> IndexingMap:
    """From the index of a shape to that of one with the same sizes but for those of 1."""
    identity = IndexingMap.identity(shape)
    if tuple(shape) == tuple(other):
        return identity
    left = iter([dim for dim, size in enumerate(shape) if size != 1])
    return identity.with_results(tuple(Const(0) if size == 1 else Dim(next(left)) for size in other))


def _root_groups(roots: Sequence[SSAValue]) -> list[tuple[SSAValue, ...]]:
    """The distinct roots in groups of equal layout and equal shape, or one that is equal without dimensions of size 1, in order."""
    groups: dict[object, dict[SSAValue, None]] = {}
    for root in roots:
        type_ = tensor_type(root)
        shape = type_.get_shape()
        sizes = tuple(size for size in shape if size != 1) if type_.encoding == NoneAttr() else shape
        groups.setdefault((sizes, type_.encoding), {})[root] = None
    return [tuple(group) for group in groups.values()]


def _assign(
    block: Block, separate: frozenset[Operation], rows: RowSpace | None = None, whole: SubgraphFunction | None = None
) -> tuple[PartitionedComputation, frozenset[Operation]]:
    terminator = block.last_op
    assert terminator is not None
    functions = [whole] if whole is not None else [_entry_function(group) for group in _root_groups(terminator.operands)]
    uses: dict[Operation, list[Use]] = {}
    for function in functions:
        for root, map in zip(function.roots, function.maps, strict=True):
            if not isinstance(root, BlockArgument):
                uses.setdefault(_owner(root), []).append(Use(function, map, function.top))
    places: dict[Operation, InstructionPlace] = {}
    operand_places: dict[tuple[Operation, int], tuple[IndexingMap, Scope]] = {}
    starts: dict[Operation, SubgraphFunction] = {}
    diverging: dict[Operation, None] = {}
    for op in reversed(ops_of(block)):
        found = uses.pop(op, None)
        if found is None or is_inlined_constant(op):
            continue
        first = found[0]
        in_loop = any(use.scope.in_loop for use in found)
        is_reduced_once = in_loop and is_reduction(op)
        if op not in separate and not is_reduced_once and all(use.same_place(first) for use in found[1:]):
            place = InstructionPlace(first.function, first.map, first.scope)
        else:
            function = _new_function(tuple(op.results), False)
            function.num_callers, function.is_reduced_once = len(found), is_reduced_once
            function.top = Scope(in_loop=in_loop and len(found) == 1 and not is_reduced_once)
            functions.append(function)
            starts[op] = function
            place = InstructionPlace(function, function.identity, function.top)
            if op not in separate:
                diverging.update(dict.fromkeys(_second_paths(found)))
        places[op] = place
        place.function.instructions.append(op)
        joins = rows is not None and op in rows.reductions and place.function is whole
        _record_operands(op, place, rows if joins else None, uses, operand_places)
    for function in functions:
        function.instructions.reverse()
    result = PartitionedComputation(tuple(functions), places, starts, operand_places)
    return result, frozenset(diverging)


def _record_operands(
    op: Operation,
    place: InstructionPlace,
    rows: RowSpace | None,
    uses: dict[Operation, list[Use]],
    operand_places: dict[tuple[Operation, int], tuple[IndexingMap, Scope]],
) -> None:
    if rows is None:
        paths = _operand_paths(op, place)
    else:
        paths = {number: (map, place.scope) for number, map in rows.operand_maps(op, place.map).items()}
    for number, (composed, scope) in paths.items():
        operand_places[op, number] = composed, scope
        operand = op.operands[number]
        if not isinstance(operand, BlockArgument):
            uses.setdefault(_owner(operand), []).append(Use(place.function, composed, scope, op))


def _operand_paths(op: Operation, place: InstructionPlace) -> dict[int, tuple[IndexingMap, Scope]]:
    """Per operand that is read: the way to it from the function's index, and the scope in which it is needed."""
    if is_reduction(op):
        return _reduction_paths(op, place)
    found: dict[int, tuple[IndexingMap, Scope]] = {}
    for number, map in enumerate(operand_maps(op)):
        if map is None:
            found[number] = place.map, place.scope
        else:
            found[number] = compose(map, place.map), _scope_of_operand(op, number, place.scope)
    return found


def _scope_of_operand(op: Operation, number: int, scope: Scope) -> Scope:
    return Scope(op, number, scope.in_loop) if is_conditional(op, number) else scope


def _reduction_paths(op: Operation, place: InstructionPlace) -> dict[int, tuple[IndexingMap, Scope]]:
    """Inputs are read in the loop, initial values before it."""
    found: dict[int, tuple[IndexingMap, Scope]] = {}
    inputs, scopes = num_loop_operands(op), loop_scopes(op)
    for number in range(len(op.operands)):
        if number >= inputs:
            found[number] = place.map.with_results(()), place.scope
        elif not is_empty_loop(op):
            found[number] = loop_operand_map(op, number, place.map), scopes[number]
    return found


def loop_scopes(op: Operation) -> tuple[Scope, ...]:
    """The scope of each input in a reduction's loop: one for all inputs of a reduce, one for each operand of a dot."""
    inputs = num_loop_operands(op)
    if kind_of(op) is Kind.DOT:
        return tuple(Scope(op, number, in_loop=True) for number in range(inputs))
    return (Scope(op, in_loop=True),) * inputs


def _second_paths(uses: Sequence[Use]) -> list[Operation]:
    """Shaping readers of an instruction through another map than the first one used in their function."""
    first: dict[int, Use] = {}
    ordered = sorted(uses, key=lambda use: use.user is not None and is_single_operand_shaping(use.user))
    leaving: list[Operation] = []
    for use in ordered:
        known = first.setdefault(id(use.function), use)
        if use.user is None or known.same_place(use) or not is_single_operand_shaping(use.user):
            continue
        leaving.append(use.user)
    return leaving


def _new_function(roots: tuple[SSAValue, ...], is_entry_root: bool) -> SubgraphFunction:
    return SubgraphFunction(roots, is_entry_root, IndexingMap.identity(tensor_type(roots[0]).get_shape()))


def _owner(value: SSAValue) -> Operation:
    owner = value.owner
    assert isinstance(owner, Operation)
    return owner
