"""Which instructions of a block become one fusion: a walk from the last instruction to the first, each decision with what it saves.

read by one fusion at one place             joins it
read by several fusions at the same index   they become one with several outputs, if no other fusion lies between them
also read by others                         joins, and becomes an output of that fusion
cheap, read by several other fusions        each has a copy, if that moves fewer bytes
a slice of what is in memory                each fusion that can read it there does
a reduction over whole rows                 joins what reads it once per row: the rows stay in the scratchpad
what a product becomes, read by several     is written behind it, not beside a reduction of its rows
what a product becomes, only reduced        is written behind it: what it reads besides may stay with the tiles
a conversion of narrow numbers in memory    joins the only product that reads it, which converts as it loads
a contraction                               joins what reads it, if that is arithmetic on its elements, or moves them as blocks
contractions of the same rows               become one fusion, which reads those once
"""

from dataclasses import dataclass, field
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.fusion.candidate import (
    MAX_INSTRUCTIONS,
    CandidateUse,
    FusionCandidate,
    Rows,
    is_kept,
    name_of,
    operand_maps_from,
    reads_once,
    row_operand_maps,
)
from hlo2tx8.fusion.converted import is_in_memory, is_made_as_loaded, is_read_by_product
from hlo2tx8.fusion.edges import are_in_order, has_edge_inside
from hlo2tx8.fusion.epilogues import contraction_in, ends_product, why_no_epilogue
from hlo2tx8.fusion.fitting_rows import first_of_too_many
from hlo2tx8.fusion.index_truths import is_of_index
from hlo2tx8.fusion.products import SameRows
from hlo2tx8.fusion.row_candidates import rows_of
from hlo2tx8.fusion.sharing import (
    are_alike,
    copies_are_cheaper,
    costs_of_copies,
    is_output_of,
    is_sooner_made_again,
    merge,
    why_no_output,
)
from hlo2tx8.fusion.siblings import merge_siblings
from hlo2tx8.fusion.turned_reads import why_turned_apart
from hlo2tx8.fusion.views import keeps_order
from hlo2tx8.hlo.regions import captured
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.notes import Decision, KeptApart, Name, What
from hlo2tx8.partitioner.computation import Scope
from hlo2tx8.partitioner.contraction import is_contraction
from hlo2tx8.partitioner.instruction import (
    CONSTANTS,
    is_box,
    is_conditional,
    is_elemental,
    is_free,
    is_read_as_a_whole,
    is_read_one_by_one,
    is_slice,
    is_splat_constant,
    shape_of,
    tensor_type,
)
from hlo2tx8.partitioner.iteration_space import TensorAccess, divides_ranges, is_affine
from hlo2tx8.partitioner.made_from import CONVERT
from hlo2tx8.partitioner.moves import is_move
from hlo2tx8.partitioner.reduction_order import reduced_dimensions, why_in_order
from hlo2tx8.partitioner.reduction_paths import is_reduction, loop_operand_map, num_loop_operands, ranges_after
from hlo2tx8.schedule.costs import Costs, size_bytes

NOBODY = Name("")
NOT_AFFINE = "its reads would not be affine"
NO_COPIES = "it is never copied"


def find_candidates(block: Block, costs: Costs, start: int = 0) -> tuple[list[FusionCandidate], tuple[Decision, ...]]:
    """The candidates in program order of their roots, and what was decided. Instructions are numbered from `start` on.

    A reduction whose fusion turns out to hold too much for whole rows in a step is a fusion of its own, and all is decided anew.
    """
    apart: set[Operation] = set()
    while True:
        walk = _CandidateWalk(costs, {op: number for number, op in enumerate(block.ops, start)}, apart)
        for op in reversed(ops_of(block)):
            walk.visit(op)
        merged = merge_siblings(walk.reads, costs)
        found = sorted((own for own in walk.candidates if own.whole is None), key=lambda candidate: candidate.last)
        if (op := first_of_too_many(block, found, costs)) is None:
            return found, (*reversed(walk.decisions), *merged)
        apart.add(op)


def _is_of_rows(op: Operation, candidate: FusionCandidate) -> bool:
    """Is an instruction made of a reduction of the rows that a candidate's reductions go over, an element for each? It is computed
    once per row there, and apart from it that reduction would read all rows again."""
    rows = candidate.rows
    if rows is None:
        return False
    kept = tuple(n for d, n in enumerate(rows.shape) if d not in rows.reduced)
    stack = [op]
    while stack and shape_of(stack[-1].results[0]) == kept:
        made = stack.pop()
        owners = [value.owner for value in made.operands if isinstance(value.owner, Operation)]
        if any(is_reduction(owner) and shape_of(owner.operands[0]) == rows.shape for owner in owners):
            return True
        stack += [owner for owner in owners if is_elemental(owner) and shape_of(owner.results[0]) == kept]
    return False


@dataclass
class _CandidateWalk:
    costs: Costs
    position: dict[Operation, int]
    apart: set[Operation]
    uses: dict[Operation, list[CandidateUse]] = field(default_factory=dict[Operation, list[CandidateUse]])
    reads: dict[SSAValue, list[CandidateUse]] = field(default_factory=dict[SSAValue, list[CandidateUse]])
    candidates: list[FusionCandidate] = field(default_factory=list[FusionCandidate])
    decisions: list[Decision] = field(default_factory=list[Decision])
    products: SameRows = field(default_factory=SameRows)
    not_shared: str = ""
    last_asked: tuple[Operation, CandidateUse, Rows | None] | None = None
    last_maps: list[IndexingMap | None] = field(default_factory=list["IndexingMap | None"])

    def visit(self, op: Operation) -> None:
        """Decide which candidate an instruction joins; all of its readers were visited before."""
        found = self.uses.pop(op, [])
        if is_kept(op):
            if contraction_in(op) is None:
                self._keep(op, found)
            else:
                self._visit_kernel_op(op, found)
        elif is_elemental(op) and is_made_as_loaded(op, found, self.costs):
            done = "converted" if op.name == CONVERT else "made"
            self._decide(What.JOINS, op, found[0].candidate.name, f"{done} as it is loaded", self.costs.saved(op, 1, 1))
            self._read_in_memory(op, found[0].candidate)
        elif op.name in CONSTANTS:
            if is_splat_constant(op):
                self._copy_into(op, [use for use in found if not use.is_outside])
        elif is_free(op):
            inside = [use for use in found if _is_at_index(use) and self._stays_affine(op, use, None)]
            self._copy_into(op, inside)
            if others := [use for use in found if use not in inside]:
                why = "read as a whole" if any(not _is_at_index(use) for use in others) else NOT_AFFINE
                self._start(op, others, why, is_loop=True)
        elif (keeps_order(op) or self._is_part_of_memory(op)) and is_read_by_product(op, found):
            self._decide(What.JOINS, op, found[0].candidate.name, "read where it is", self.costs.saved(op, 1, 1))
            self._read_in_memory(op, found[0].candidate)
        elif self._is_part_of_memory(op) and (inside := self._readers_of_part(op, found)):
            self._copy_into(op, inside)
            if others := [use for use in found if use not in inside]:
                self._start(op, others, self._why_started(op, others), is_loop=True)
        elif is_elemental(op):
            if found:
                self._visit_loop_op(op, found)
        elif reads_once(op):
            self._visit_loop_op(op, found)
        else:
            self._visit_kernel_op(op, found)

    def _is_part_of_memory(self, op: Operation) -> bool:
        """Is an instruction a slice, in runs that are worth a transfer, of a tensor that is in memory anyway? Its readers may read
        that."""
        if not is_box(op):
            return False
        owner = op.operands[0].owner
        if isinstance(owner, Operation) and is_elemental(owner) and not is_in_memory(op.operands[0], op.parent):
            return False
        return prod(shape_of(op.results[0])[-1:]) * self.costs.width(op.operands[0]) >= self.costs.rates.line_bytes

    def _readers_of_part(self, op: Operation, found: list[CandidateUse]) -> list[CandidateUse]:
        return [use for use in found if _is_at_index(use) and not self._why_apart(op, use)]

    # ------------------------------------------------------------------------------------------------ decisions

    def _visit_loop_op(self, op: Operation, found: list[CandidateUse]) -> None:
        """An instruction that a loop over elements can hold: its reader's, or one of its own."""
        self.not_shared = ""
        places, others = self._places(op, found)
        is_behind = bool(places) and _is_only_reduced(op, found) and self._is_behind_product(op, may_convolve=True)
        if places and not others and len(places) == 1 and not is_behind:
            self._join(op, places[0], saved=self.costs.saved(op, 1, 1))
            return
        if places and not is_behind and self._share(op, found, places, others):
            return
        is_one = not places and bool(found) and len({use.candidate for use in found}) == 1
        if is_one and not any(self._why_apart(op, use) for use in found) and is_sooner_made_again(op, found, self.costs):
            for use in found:
                self._join(op, use, f"at each of {len(found)} indices")
            return
        self._start(op, found, self._why_started(op, found), is_loop=True)

    def _visit_kernel_op(self, op: Operation, found: list[CandidateUse]) -> None:
        """An instruction with an emitter of its own: what reads it may be its epilogue."""
        if why := why_no_epilogue(op, found, self.costs):
            if is_kept(op):
                self._decide(What.NO_EPILOGUE, op, why=why)
                self._keep(op, found)
            else:
                self._start(op, found, why, is_loop=False)
                self.decisions += self.products.merge(op, self.candidates[-1], self.costs)
            return
        candidate = found[0].candidate
        self._decide(What.EPILOGUE, op, candidate.name, saved=self.costs.saved(op, 1, 1))
        self._read_in_memory(op, candidate)
        self.decisions += self.products.merge(op, candidate, self.costs)

    def _is_behind_product(self, op: Operation, *, may_convolve: bool = False) -> bool:
        """Is an instruction what a large product becomes? Then it is written behind that, and a reduction reads it in memory."""
        if ends := ends_product(op, self.costs, may_convolve=may_convolve):
            self._decide(What.BEHIND_PRODUCT, op)
            self.not_shared = "it is what a product becomes, which is written behind that and not beside a reduction of its rows"
        return ends

    def _why_started(self, op: Operation, found: list[CandidateUse]) -> str:
        """Why an instruction joins none of its readers."""
        if not found or any(use.is_outside for use in found):
            return "a result of the program or operand of a fusion of the source"
        why = next((reason for use in found if (reason := self._why_apart(op, use))), "")
        if not why and any(use.candidate is found[0].candidate and not use.same_place(found[0]) for use in found):
            why = "read through several indexing maps"
        if len({use.candidate for use in found}) == 1:
            return why
        return f"read by several fusions{f', {why}' if why else ''}"

    def _places(self, op: Operation, found: list[CandidateUse]) -> tuple[list[CandidateUse], list[CandidateUse]]:
        """A use per candidate that the instruction can join, the earliest candidate first; and the uses of all others."""
        of_candidate: dict[FusionCandidate, list[CandidateUse]] = {}
        for use in found:
            of_candidate.setdefault(use.candidate, []).append(use)
        places: list[CandidateUse] = []
        others: list[CandidateUse] = []
        for uses in of_candidate.values():
            is_one = not any(use.is_outside for use in uses) and all(use.same_place(uses[0]) for use in uses)
            if is_one and not self._why_apart(op, uses[0]):
                places.append(uses[0])
            else:
                others += uses
        places.sort(key=lambda use: use.candidate.last)
        return places, others

    def _share(self, op: Operation, found: list[CandidateUse], places: list[CandidateUse], others: list[CandidateUse]) -> bool:
        """Gives several readers one instruction: in one fusion, as an output of one, or as a copy in each."""
        ready = [use for use in places if is_output_of(op, use, self.costs)]
        ready = [use for use in ready if not why_no_output(op, use, _others(found, use), self.costs)] or ready
        place = max(ready or places[:1], key=lambda use: size_bytes(use.candidate.root.results[0]))
        target = place.candidate
        same = [use for use in places if use is place or are_alike(use, place, self.costs)]
        for use in same:
            if use.candidate is not target and use.candidate.has_index_of(target.root.results[0]):
                self.decisions.append(merge(target, use.candidate, op.results[0], self.costs))
        if _is_of_rows_and_others(found, places) and self._is_behind_product(op):
            return False
        apart = [use for use in places if use is place or use.candidate is not target]
        apart.sort(key=lambda use: use is not place)
        rest = _others(found, place)
        why = why_no_output(op, place, rest, self.costs) if rest else ""
        if len(apart) > 1 and not others and copies_are_cheaper(op, apart, self.costs, is_output=not why):
            for use in apart:
                self._join(op, use, f"as one of {len(apart)} copies")
            return True
        if why:
            self._decide(What.NO_OUTPUT, op, target.name, why)
            found_costs = costs_of_copies(op, apart, self.costs, is_output=False) if len(apart) > 1 and not others else None
            copies = (
                "copies of it would cost {:,.0f} cycles, writing it once {:,.0f}".format(*found_costs) if found_costs else NO_COPIES
            )
            self.not_shared = f"others read it too: {copies}; and it is no output of the fusion of {target.root.name}: {why}"
            return False
        if rest:
            target.add_output(op, self.position[op], [use.candidate for use in rest])
        what = What.OUTPUT if rest else What.SHARED
        self._decide(what, op, target.name, saved=self.costs.saved(op, len(same), 0 if rest else 1))
        self._take(op, place)
        return True

    # ---------------------------------------------------------------------------------------------- conditions

    def _why_not_joined(self, op: Operation, use: CandidateUse, found: list[CandidateUse], why: str) -> str:
        """Which rule keeps an instruction from one of its readers; `why` it starts a fusion."""
        if use.is_outside:
            return "the reader needs all of it in memory"
        if not is_elemental(op) and not reads_once(op):
            return why  # a kernel of another kind joins all of its readers or none
        if apart := self._why_apart(op, use):
            return apart
        if any(other.candidate is use.candidate and not other.same_place(use) for other in found):
            return "read through several indexing maps"
        return self.not_shared or "its other readers keep it in memory"

    def _why_apart(self, op: Operation, use: CandidateUse) -> str:
        """The reason why an instruction cannot join a reader's fusion, or ""."""
        candidate = use.candidate
        if use.is_outside or not candidate.is_loop:
            return "operand of a kernel of another kind"
        if len(candidate.members) >= MAX_INSTRUCTIONS:
            return f"the fusion has {MAX_INSTRUCTIONS} instructions"
        if is_reduction(op):
            if any(map(is_contraction, candidate.members)):
                return "what follows a product reduces nothing"
            if op in self.apart:
                return "whole rows, with what else is computed of them, do not fit a step"
            rows = rows_of(op, use, self.costs)
            if isinstance(rows, Rows):
                return "" if self._stays_affine(op, use, rows) else NOT_AFFINE
            if len(op.results) > 1 or use.map is not None:
                return rows
        if is_read_one_by_one(op) and self.costs.alone(op, candidate.root) > self.costs.saved(op, 1, 1):
            return "it is read element by element, and few tiles have work there"
        times = prod(shape_of(candidate.root.results[0])) / max(1, prod(shape_of(op.results[0]))) if use.scope is None else 1.0
        if times > 1 and (is_of_index(op) or _is_of_rows(op, candidate)):
            times = 1.0
        if (lost := self.costs.repeated(op, times)) > (saved := self.costs.saved(op, 1, 1)):
            return f"it would be computed {times:.0f} times: costs {lost:.0f} cycles, saves {saved:.0f}"
        if is_slice(op) and (use.scope is not None or (use.map is not None and (use.map.ranges or use.map.constraints))):
            return "a slice of which the reader needs a part at a time"
        is_turned = is_move(op) and not keeps_order(op)
        if is_turned and (why := why_turned_apart(op, self._operand_maps(op, use, None)[0], candidate, self.costs)):
            return why
        if self._has_edge_inside(op, use):
            return "its edges are inside of what the reader has in a step"
        return "" if self._stays_affine(op, use, None) else NOT_AFFINE

    def _has_edge_inside(self, op: Operation, use: CandidateUse) -> bool:
        if use.map is None or not is_conditional(op, 0):
            return False
        is_inside = any(map and has_edge_inside(map, self.costs.rates.tiles) for map in self._operand_maps(op, use, None))
        return is_inside and not are_in_order(use.candidate.members, op)

    def _stays_affine(self, op: Operation, use: CandidateUse, rows: Rows | None) -> bool:
        """Are all reads of the candidate affine, after splitting dimensions, if `op` joins it?"""
        output = tensor_type(use.candidate.root.results[0])
        new = [
            TensorAccess(ranges_after(map, len(output.get_shape())), tensor_type(operand))
            for operand, map in zip(op.operands, self._operand_maps(op, use, rows), strict=True)
            if map is not None and map.has_division
        ]
        if not new:
            return True
        if any(divides_ranges(access) for access in new):
            return False
        return is_affine(output, [*use.candidate.accesses, *new])

    # --------------------------------------------------------------------------------------------------- changes

    def _keep(self, op: Operation, found: list[CandidateUse]) -> None:
        """What stays as it is reads tensors in memory."""
        here = self.position[op]
        node = FusionCandidate(op, is_loop=False, first=here, last=here)
        node.readers.update({use.candidate: None for use in found})
        for operand in (*op.operands, *captured(op)):
            self._record(operand, CandidateUse(node, is_outside=True))

    def _start(self, op: Operation, found: list[CandidateUse], why: str, *, is_loop: bool) -> None:
        here = self.position[op]
        candidate = FusionCandidate(op, is_loop, here, here, {op: None}, outputs=dict.fromkeys(op.results))
        candidate.readers.update({use.candidate: None for use in found})
        self.candidates.append(candidate)
        saved = self.costs.saved(op, 1, 1) if found else 0.0
        edges = tuple(KeptApart(use.candidate.name, self._why_not_joined(op, use, found, why), saved) for use in found)
        self._decide(What.STARTS, op, why=why, edges=edges)
        if is_loop:
            self._read_operands(op, CandidateUse(candidate))
            return
        for operand in op.operands:
            self._record(operand, CandidateUse(candidate))

    def _decide(
        self, what: What, op: Operation, other: Name = NOBODY, why: str = "", saved: float = 0.0, edges: tuple[KeptApart, ...] = ()
    ) -> None:
        self.decisions.append(Decision(what, (name_of(op, self.position[op]),), other, why, saved, edges=edges))

    def _join(self, op: Operation, use: CandidateUse, why: str = "", saved: float = 0.0) -> None:
        self._decide(What.JOINS, op, use.candidate.name, why, saved)
        self._take(op, use)

    def _take(self, op: Operation, use: CandidateUse) -> None:
        use.candidate.members[op] = None
        self._read_operands(op, use)

    def _read_in_memory(self, op: Operation, candidate: FusionCandidate) -> None:
        """Makes an instruction a member that reads its operands in memory."""
        candidate.members[op] = None
        for operand in op.operands:
            self._record(operand, CandidateUse(candidate, is_outside=True))

    def _copy_into(self, op: Operation, inside: list[CandidateUse]) -> None:
        """A copy of a free instruction for every fusion that reads it."""
        for use in inside:
            self._take(op, use)

    def _operand_maps(self, op: Operation, use: CandidateUse, rows: Rows | None) -> list[IndexingMap | None]:
        """The maps to the operands; asked for when an instruction may join, and when it does."""
        asked = (op, use, rows)
        if self.last_asked != asked:
            self.last_asked, self.last_maps = asked, self._new_operand_maps(op, use, rows)
        return self.last_maps

    def _new_operand_maps(self, op: Operation, use: CandidateUse, rows: Rows | None) -> list[IndexingMap | None]:
        if rows is None:
            return operand_maps_from(op, use)
        rank = len(shape_of(use.candidate.root.results[0]))
        here = use.map or IndexingMap(rows.dims, (), (), tuple(Dim(dim) for dim in range(rank)))
        return row_operand_maps(op, here, rows, shape_of(use.candidate.root.results[0]))

    def _read_operands(self, op: Operation, use: CandidateUse) -> None:
        if not op.operands:
            return
        candidate, scope, rows = use.candidate, use.scope, None
        if is_reduction(op):
            found = rows_of(op, use, self.costs) if candidate.root is not op else ""
            if isinstance(found, Rows):
                candidate.rows = rows = found
                scope = rows.scope
            else:
                scope = self._loop_scope(op, use)
        maps = self._operand_maps(op, use, rows)
        new = [(map, operand) for operand, map in zip(op.operands, maps, strict=True) if map is not None and map.has_division]
        rank = len(shape_of(candidate.root.results[0]))
        candidate.accesses.extend(TensorAccess(ranges_after(map, rank), tensor_type(operand)) for map, operand in new)
        for number, (operand, map) in enumerate(zip(op.operands, maps, strict=True)):
            if is_read_as_a_whole(op, number):
                self._record(operand, CandidateUse(candidate, is_outside=True))
                continue
            inner = Scope(op, number) if is_conditional(op, number) else use.scope
            if is_reduction(op) and number < num_loop_operands(op):
                inner = scope
            self._record(operand, CandidateUse(candidate, map=map, given=inner))

    def _loop_scope(self, op: Operation, use: CandidateUse) -> Scope:
        """The scope of a reduction's loop; the first one of a fusion, at its index, says what its rows are."""
        scope, candidate = Scope(op, in_loop=True), use.candidate
        if candidate.rows is None and use.map is None and use.scope is None and not why_in_order(op):
            rank, shape = len(shape_of(candidate.root.results[0])), shape_of(op.operands[0])
            dims = loop_operand_map(op, 0, IndexingMap.identity(shape_of(op.results[0]))).dims
            candidate.rows = Rows(tuple(range(rank, len(dims))), scope, shape, tuple(reduced_dimensions(op)), dims)
        return scope

    def _record(self, value: SSAValue, use: CandidateUse) -> None:
        self.reads.setdefault(value, []).append(use)
        if isinstance(value.owner, Operation):
            self.uses.setdefault(value.owner, []).append(use)


def _others(found: list[CandidateUse], place: CandidateUse) -> list[CandidateUse]:
    """The uses in other candidates."""
    return [use for use in found if use.candidate is not place.candidate]


def _is_of_rows_and_others(found: list[CandidateUse], places: list[CandidateUse]) -> bool:
    """Does a fusion that reduces rows read the instruction, and another fusion too?"""
    return any(use.candidate.rows is not None for use in places) and len({use.candidate for use in found}) > 1


def _is_only_reduced(op: Operation, found: list[CandidateUse]) -> bool:
    """Does one reduction read the instruction, which is no wider than what it reads, and nothing else? Then as many bytes are moved
    if it is made before, and what it reads besides need not be."""
    (use, *others) = found
    widest = max((size_bytes(value) for value in op.operands), default=0)
    return not others and use.scope is not None and use.scope.in_loop and size_bytes(op.results[0]) <= widest


def _is_at_index(use: CandidateUse) -> bool:
    """Is it a loop's, at an index?"""
    return not use.is_outside and use.candidate.is_loop
