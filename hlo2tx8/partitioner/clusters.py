"""Which instructions of @main become one fusion: a greedy walk from the last instruction to the first."""

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.hlo.regions import CONTROL, UPDATE, captured
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.indexing import FloorDiv, IndexingMap, Mod
from hlo2tx8.partitioner.computation import Scope, loop_scopes
from hlo2tx8.partitioner.instruction import (
    CONSTANTS,
    compose,
    is_conditional,
    is_elemental,
    is_free,
    is_identity,
    is_inlined_constant,
    is_read_as_a_whole,
    is_slice,
    is_splat_constant,
    kind_of,
    operand_maps,
    shape_of,
    tensor_type,
)
from hlo2tx8.partitioner.iteration_space import Access, divides_ranges, iteration_space
from hlo2tx8.partitioner.reduction_paths import is_reduction, loop_operand_map, num_loop_operands, ranges_after

MAX_INSTRUCTIONS = 200
"""Instructions in one fusion: bounds its compile time and the vectors alive in it."""


def is_kernel_of_its_own(op: Operation) -> bool:
    """Can it be in no fusion with others: what the program does itself, writes, and reads of what would be computed beside them?"""
    if op.name in (UPDATE, "hlo.fusion", "hlo.write_at"):
        block = op.parent_block()
        return op.name != "hlo.write_at" or block is None or sum(not is_inlined_constant(o) for o in block.ops) > 2
    whole = [operand.owner for number, operand in enumerate(op.operands) if is_read_as_a_whole(op, number)]
    return any(isinstance(owner, Operation) and not is_inlined_constant(owner) for owner in whole)


@dataclass(eq=False)
class Cluster:
    """Instructions that will be one fusion; `root` is the last of them and gives the result."""

    root: Operation
    is_loop: bool
    members: dict[Operation, None] = field(default_factory=dict[Operation, None])
    accesses: list[Access] = field(default_factory=list[Access])


@dataclass(frozen=True)
class Use:
    """A reader: in `cluster` (None: no fusion of ours), at `map` of its root's index (None: at the same), under `scope`."""

    cluster: Cluster | None
    map: IndexingMap | None = None
    scope: Scope | None = None

    def same_place(self, other: "Use") -> bool:
        if self.cluster is not other.cluster or self.scope is not other.scope:
            return False
        return self.map is other.map or self.map == other.map


_OUTSIDE = Use(None)
_KEPT = ("func.return", "stablehlo.return", "hlo.fusion", "hlo.group", *CONTROL, UPDATE)


def is_kept(op: Operation) -> bool:
    """Does it stay what it is: a fusion of the source, control flow, an update in place, the end of a block?"""
    return op.name in _KEPT


def find_clusters(block: Block) -> tuple[list[Cluster], tuple[str, ...]]:
    """The clusters, in program order of their roots, and a line per decision."""
    walk = _Walk()
    for op in reversed(tuple(block.ops)):
        walk.visit(op)
    return walk.clusters[::-1], tuple(reversed(walk.explain))


@dataclass
class _Walk:
    uses: dict[Operation, list[Use]] = field(default_factory=dict[Operation, list[Use]])
    clusters: list[Cluster] = field(default_factory=list[Cluster])
    explain: list[str] = field(default_factory=list[str])

    def visit(self, op: Operation) -> None:
        """Decide where an instruction goes; all of its readers have been visited."""
        if is_kept(op):
            for operand in (*op.operands, *captured(op)):
                self._keep_outside(operand)
            return
        found = self.uses.pop(op, [])
        inside = [use for use in found if use.cluster is not None]
        if op.name in CONSTANTS:
            if is_splat_constant(op):
                self._join_each(op, inside)
            return
        if is_elemental(op):
            self._visit_elemental(op, found, inside)
        elif _reads_once(op):
            self._visit_reduction(op, found)
        else:
            self._start(op, "its own kind of kernel", is_loop=False)

    def _visit_elemental(self, op: Operation, found: list[Use], inside: list[Use]) -> None:
        is_outside = len(inside) != len(found)
        if is_free(op):
            self._join_each(op, [use for use in inside if use.cluster is not None and use.cluster.is_loop])
            if is_outside or any(use.cluster is not None and not use.cluster.is_loop for use in inside):
                self._start(op, "read as a whole", is_loop=True)
            return
        if not found:
            return
        why = self._why_apart(op, found, is_outside)
        if why:
            self._start(op, why, is_loop=True)
            return
        cluster = found[0].cluster
        assert cluster is not None
        cluster.members[op] = None
        self.explain.append(f"{_name(op)} joins {_name(cluster.root)}")
        self._read_operands(op, found[0])

    def _visit_reduction(self, op: Operation, found: list[Use]) -> None:
        """A reduction reads its inputs in its own fusion, or in that of a reader with the same index."""
        first = found[0] if found else _OUTSIDE
        if len(op.results) > 1 or first.map is not None or self._why_apart(op, found, first.cluster is None):
            self._start(op, "a reduction", is_loop=True)
            return
        cluster = first.cluster
        assert cluster is not None
        cluster.members[op] = None
        self.explain.append(f"{_name(op)} joins {_name(cluster.root)}")
        self._read_operands(op, first)

    def _why_apart(self, op: Operation, found: list[Use], is_outside: bool) -> str:
        """The reason why an elemental instruction cannot join its reader's fusion, or ""."""
        first = found[0]
        if is_outside:
            return "a result of the program or operand of a fusion of the source"
        if any(use.cluster is not first.cluster for use in found):
            return "read by several fusions"
        if first.cluster is None or not first.cluster.is_loop:
            return "operand of a kernel of another kind"
        if not all(use.same_place(first) for use in found):
            return "read through several indexing maps"
        if len(first.cluster.members) >= MAX_INSTRUCTIONS:
            return f"the fusion has {MAX_INSTRUCTIONS} instructions"
        if is_slice(op) and (first.scope is not None or (first.map is not None and (first.map.ranges or first.map.constraints))):
            return "a slice of which the reader needs a part at a time"
        if not self._stays_affine(op, first):
            return "its reads would not be affine"
        return ""

    def _stays_affine(self, op: Operation, use: Use) -> bool:
        """Are all reads of the cluster affine, after splitting dimensions, if `op` joins it?"""
        cluster = use.cluster
        assert cluster is not None
        output = tensor_type(cluster.root.results[0])
        new = [
            Access(ranges_after(map, len(output.get_shape())), tensor_type(operand))
            for operand, map in zip(op.operands, _operand_maps_from(op, use), strict=True)
            if map is not None and _has_division(map)
        ]
        if not new:
            return True
        if any(divides_ranges(access) for access in new):
            return False
        if not iteration_space(output, [*cluster.accesses, *new]).is_affine:
            return False
        cluster.accesses.extend(new)
        return True

    def _keep_outside(self, value: SSAValue) -> None:
        if isinstance(value.owner, Operation):
            self.uses.setdefault(value.owner, []).append(_OUTSIDE)

    def _start(self, op: Operation, why: str, *, is_loop: bool) -> None:
        cluster = Cluster(op, is_loop, {op: None})
        self.clusters.append(cluster)
        self.explain.append(f"{_name(op)} starts a fusion: {why}")
        if is_loop:
            self._read_operands(op, Use(cluster))
            return
        for operand in op.operands:
            if isinstance(operand.owner, Operation):
                self.uses.setdefault(operand.owner, []).append(Use(cluster))

    def _join_each(self, op: Operation, inside: list[Use]) -> None:
        """A copy of a free instruction for every fusion that reads it."""
        for use in inside:
            assert use.cluster is not None
            use.cluster.members[op] = None
            self._read_operands(op, use)

    def _read_operands(self, op: Operation, use: Use) -> None:
        if not op.operands:
            return
        loops = loop_scopes(op) if is_reduction(op) else ()
        for number, (operand, map) in enumerate(zip(op.operands, _operand_maps_from(op, use), strict=True)):
            if is_read_as_a_whole(op, number):
                self._keep_outside(operand)
            elif isinstance(operand.owner, Operation):
                scope = Scope(op, number) if is_conditional(op, number) else use.scope
                if number < len(loops):
                    scope = loops[number]
                self.uses.setdefault(operand.owner, []).append(Use(use.cluster, map, scope))


def _operand_maps_from(op: Operation, use: Use) -> list[IndexingMap | None]:
    """Maps from the cluster root's index to each operand's; None for the identity."""
    assert use.cluster is not None
    shape = shape_of(use.cluster.root.results[0])
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


def _reads_once(op: Operation) -> bool:
    """Is it a reduction that reads every element of its inputs once?"""
    return is_reduction(op) and kind_of(op) is Kind.REDUCE


def _has_division(map: IndexingMap) -> bool:
    return any(
        isinstance(term, FloorDiv | Mod)
        for expr in (*map.results, *(constraint for constraint, _ in map.constraints))
        for term in expr.affine_terms()[1]
    )


def _name(op: Operation) -> str:
    """How `explain` calls an instruction."""
    hint = op.results[0].name_hint if op.results else None
    return f"{op.name} %{hint}" if hint else op.name
