"""Candidates: sets of instructions that will be one fusion each, and how instructions outside read their results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, LibraryOp, origin
from hlo2tx8.hlo.regions import CALL, CONTROL, UPDATE
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.indexing import Dim, IndexingMap, Variable
from hlo2tx8.notes import Name
from hlo2tx8.partitioner.computation import Scope
from hlo2tx8.partitioner.instruction import (
    compose,
    is_identity,
    is_inlined_constant,
    is_read_as_a_whole,
    kind_of,
    operand_maps,
    shape_of,
    tensor_type,
)
from hlo2tx8.partitioner.iteration_space import TensorAccess
from hlo2tx8.partitioner.reduction_paths import is_reduction, loop_operand_map, num_loop_operands

MAX_INSTRUCTIONS = 200
"""Instructions in one fusion: bounds its compile time and the vectors alive in it."""
MAX_OUTPUTS = 8
"""Tensors that one fusion writes: two buffers each."""
MAX_LOOKED_AT = 200
"""Candidates between two others that are looked at; with more between them they stay apart."""

_KEPT = ("func.return", "stablehlo.return", "hlo.fusion", "hlo.group", "hlo.library", *CONTROL, CALL, UPDATE)


def is_kept(op: Operation) -> bool:
    """True if the op stays as it is: a fusion of the source, control flow, an update in place, a terminator."""
    return op.name in _KEPT


def is_kernel_of_its_own(op: Operation) -> bool:
    """True if the instruction cannot be fused with others: copies that the program itself makes, in-place writes, and reads of
    tensors that must be complete.
    """
    if op.name in (UPDATE, "hlo.fusion", "hlo.write_at"):
        block = op.parent_block()
        return op.name != "hlo.write_at" or block is None or sum(not is_inlined_constant(o) for o in block.ops) > 2
    whole = [operand.owner for number, operand in enumerate(op.operands) if is_read_as_a_whole(op, number)]
    return any(isinstance(owner, Operation) and not is_inlined_constant(owner) for owner in whole)


@dataclass(frozen=True)
class Rows:
    """The rows that a candidate's reductions go over: `shape` of the tensors read, `reduced` dimensions of it, and `dims`, the
    dimensions of the candidate's index that they are, in the order of their counters.
    """

    joined: tuple[int, ...]
    scope: Scope | None
    shape: tuple[int, ...]
    reduced: tuple[int, ...]
    dims: tuple[Variable, ...]

    def are_like(self, other: "Rows") -> bool:
        """Are these the same rows, be it in the loop of another reduction?"""
        return (self.scope is None) == (other.scope is None) and replace(self, scope=other.scope) == other


@dataclass(eq=False)
class FusionCandidate:
    """Instructions that will be one fusion, or one op that stays as it is; `root` is the last of them, and the fusion will stand in
    its place.

    `outputs` are the results that others read, in reverse program order; `readers` the candidates that read them. Maps are from the
    root's index. A candidate that was merged into another has that one as `whole`; the loop over its rows is that of the other from
    then on, which `scopes` says.
    """

    root: Operation
    is_loop: bool
    first: int = 0
    last: int = 0
    members: dict[Operation, None] = field(default_factory=dict[Operation, None])
    accesses: list[TensorAccess] = field(default_factory=list[TensorAccess])
    outputs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    readers: dict["FusionCandidate", None] = field(default_factory=dict["FusionCandidate", None])
    rows: Rows | None = None
    scopes: dict[Scope, Scope] = field(default_factory=dict[Scope, Scope])
    whole: "FusionCandidate | None" = None

    @property
    def name(self) -> Name:
        """That of its root."""
        return name_of(self.root, self.last)

    def find(self) -> "FusionCandidate":
        """The candidate that this one was merged into at last, itself if it was not."""
        found = self
        while found.whole is not None:
            found = found.whole
        return found

    def has_index_of(self, value: SSAValue) -> bool:
        """True if the value has the shape and layout of the root."""
        mine, other = tensor_type(self.root.results[0]), tensor_type(value)
        return mine.get_shape() == other.get_shape() and mine.encoding == other.encoding

    def reaches(self, goal: "FusionCandidate") -> bool:
        """True if `goal` reads this candidate's results, directly or through others, or if too many would have to be looked at."""
        stack = [reader.find() for reader in self.readers]
        seen: dict[FusionCandidate, None] = {self: None}
        while stack:
            found = stack.pop()
            if found is goal or len(seen) > MAX_LOOKED_AT:
                return True
            if found in seen or found.first > goal.last:
                continue
            seen[found] = None
            stack += [reader.find() for reader in found.readers]
        return False

    def absorb(self, other: "FusionCandidate") -> None:
        """Merge another candidate with the same index into this one."""
        other.whole = self
        if other.last > self.last:
            self.root, self.last = other.root, other.last
        self.first = min(self.first, other.first)
        self.members.update(other.members)
        self.accesses.extend(other.accesses)
        self.outputs.update(other.outputs)
        self.readers.update(other.readers)
        if self.rows and other.rows and self.rows.scope and other.rows.scope:
            self.scopes |= dict.fromkeys((other.rows.scope, *other.scopes), self.rows.scope)
        else:
            self.scopes |= other.scopes
        self.rows = self.rows or other.rows

    def add_output(self, op: Operation, position: int, readers: Iterable["FusionCandidate"]) -> None:
        """Note that others read the results of a member too."""
        self.outputs.update(dict.fromkeys(op.results))
        self.readers.update(dict.fromkeys(readers))
        self.first = min(self.first, position)


@dataclass(frozen=True)
class CandidateUse:
    """One way in which an instruction is read: by `node`, at `map` of its root's index (None: the same index), under the scope
    `given` when it was found; `is_outside` if the reader needs the whole tensor in memory.
    """

    node: FusionCandidate
    is_outside: bool = False
    map: IndexingMap | None = None
    given: Scope | None = None

    @property
    def candidate(self) -> FusionCandidate:
        return self.node.find()

    @property
    def scope(self) -> Scope | None:
        """The scope in what the candidate has become."""
        return self.candidate.scopes.get(self.given, self.given) if self.given else None

    def same_place(self, other: "CandidateUse") -> bool:
        """True if both uses read the same element of the instruction under the same condition."""
        if self.candidate is not other.candidate or self.scope is not other.scope:
            return False
        return self.map is other.map or self.map == other.map


def operand_maps_from(op: Operation, use: CandidateUse) -> list[IndexingMap | None]:
    """The maps from the root's index of the use's candidate to the index of each operand; None stands for the identity."""
    shape = shape_of(use.candidate.root.results[0])
    if is_reduction(op):
        here = IndexingMap.identity(shape_of(op.results[0])) if use.map is None else use.map
        inputs = num_loop_operands(op)
        return [
            loop_operand_map(op, number, here) if number < inputs else here.with_results(()) for number in range(len(op.operands))
        ]
    found: list[IndexingMap | None] = []
    for map in operand_maps(op):
        if map is None or use.map is None:
            found.append(use.map if map is None else map)
            continue
        composed = compose(map, use.map)
        found.append(None if is_identity(composed, shape) else composed)
    return found


def row_operand_maps(op: Operation, map: IndexingMap, rows: Rows, shape: Sequence[int]) -> list[IndexingMap | None]:
    """The maps to the operands of a reduction over rows; its inputs are read at the candidate's index."""
    dims = [Dim(dim) for dim in (*range(len(map.dims)), *rows.joined)]
    whole = IndexingMap(map.dims, (), (), tuple(dims))
    found: list[IndexingMap | None] = []
    for number in range(len(op.operands)):
        if number >= num_loop_operands(op):
            found.append(map.with_results(()))
            continue
        composed = compose(loop_operand_map(op, number, map), whole)
        found.append(None if is_identity(composed, tuple(shape)) else composed)
    return found


def reads_once(op: Operation) -> bool:
    """True for a reduction that reads every element of its inputs exactly once."""
    return is_reduction(op) and kind_of(op) is Kind.REDUCE


def name_of(op: Operation, number: int = -1) -> Name:
    """The name that `--explain` gives an instruction, which has that number while fusions are planned."""
    hint = op.results[0].name_hint if op.results else None
    text = f"{op.name} %{hint}" if hint else op.name
    given = op.fusion_name.data if isinstance(op, FusionOp | LibraryOp) and op.fusion_name is not None else text
    return Name(given, number, origin(op))
