"""When a contraction joins the fusion that reads it: arithmetic on every element of its result, made before the block of a
step leaves the scratchpad, and another place for each, where the block is stored.

%0 = dot_general %x, %w                       joins add_fusion: multiply, bias and relu are
%1 = maximum (%0 * %a + broadcast %b), 0      instructions on the block that the matrix engine has written

%2 = reshape %1 : [512, 12, 64]               joins transpose_fusion: a block of 64 columns of %0 is
%3 = transpose %2 : [12, 512, 64]             stored as rows of 128 bytes of its head
"""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.fusion.candidate import CandidateUse, FusionCandidate
from hlo2tx8.fusion.converted import are_of_same_bytes, is_in_memory
from hlo2tx8.fusion.products import are_of_same_rows
from hlo2tx8.fusion.views import SLICE, keeps_order
from hlo2tx8.hlo import Kind
from hlo2tx8.hlo.lookup import operand_indexing
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.partitioner.contraction import MOST_PRODUCTS, is_contraction, is_dot, roles_of, why_not_on_engine
from hlo2tx8.partitioner.instruction import CONSTANTS, is_free, is_view, kind_of, shape_of, tensor_type
from hlo2tx8.partitioner.iteration_space import TensorAccess, iteration_space
from hlo2tx8.partitioner.made_from import made_from
from hlo2tx8.partitioner.moves import is_move
from hlo2tx8.partitioner.reduction_paths import loop_operand_map, num_loop_operands, ranges_after
from hlo2tx8.partitioner.turns import is_same_in_all_turns
from hlo2tx8.schedule.contraction_work import BLOCK
from hlo2tx8.schedule.costs import Costs, is_by_vectors

LEAST_SHARE = 128 * 128
"""Elements per tile of a result that all tiles make: they share what they read."""
ARITHMETIC = (Kind.ELEMENTWISE, Kind.PER_CHANNEL)


def contraction_in(op: Operation) -> Operation | None:
    """The contraction that an instruction is, or that it became with what shapes its operands and its result."""
    if not isinstance(op, FusionOp):
        return op if is_contraction(op) else None
    *members, _ = op.body.block.ops
    found = [member for member in members if is_contraction(member)]
    others = [member for member in members if member not in found]
    if op.is_expansion is None or len(found) != 1 or len(op.outputs) != 1:
        return None
    return found[0] if all(map(_only_shapes, others)) else None


def _only_shapes(op: Operation) -> bool:
    return op.name in CONSTANTS or is_free(op) or is_view(op) or kind_of(op) is Kind.SHAPING


def why_no_epilogue(op: Operation, found: Sequence[CandidateUse], costs: Costs) -> str:
    """Why a contraction does not join its readers, or "" if it does."""
    contraction = contraction_in(op)
    if contraction is None or why_not_on_engine(contraction):
        return "its own kind of kernel"
    if not found:
        return "a result of the program"
    use = found[0]
    if any(other.is_outside or not other.same_place(use) for other in found):
        return "read as a whole or at several places"
    candidate = use.candidate
    if not candidate.is_loop or use.scope is not None:
        return "read at another index"
    stays = is_dot(contraction) and num_parts(contraction) == 1 and is_same_in_all_turns(contraction, 1)
    of_same_rows = [own for own in candidate.members if stays and is_dot(own) and are_of_same_rows(contraction, own)]
    if len(of_same_rows) >= MOST_PRODUCTS:
        return "a kernel has sums of no more products"
    beside = _of_same_bytes(contraction, candidate) | _with_columns(of_same_rows)
    is_in_place = all(member in beside or _is_made_in_place(member, candidate) for member in candidate.members)
    if candidate.rows is not None or not is_in_place:
        return "its reader is no arithmetic on its elements"
    on_core = sum(map(costs.compute, (op for op in candidate.members if kind_of(op) in ARITHMETIC and not is_by_vectors(op))))
    if on_core > costs.saved(op, 1, 1):
        return f"its reader takes the kernel core {on_core:.0f} cycles"
    is_at_index = use.map is None and not candidate.accesses and candidate.has_index_of(op.results[0])
    return "" if is_at_index else _why_not_stored(op, use)


def _of_same_bytes(dot: Operation, candidate: FusionCandidate) -> set[Operation]:
    """The products that a candidate has, or reads, of other parts of the same bytes, and what makes their columns."""
    found = set[Operation]()
    read = [value.owner for member in candidate.members for value in member.operands]
    for other in (*candidate.members, *(own for own in read if isinstance(own, Operation))):
        if other is not dot and is_dot(dot) and is_dot(other) and are_of_same_bytes(dot, other):
            found |= _with_columns([other])
    return found


def _with_columns(dots: Sequence[Operation]) -> set[Operation]:
    """Products and what makes their operands."""
    made = [made_from(value) for dot in dots for value in dot.operands]
    return {*dots, *(op for own in made for op in (*own.steps, *own.others))}


def ends_product(op: Operation, costs: Costs, *, may_convolve: bool = False) -> bool:
    """Is arithmetic on a large product, of which nobody else reads the steps before it? Or on a convolution, if `may_convolve`."""
    if kind_of(op) is not Kind.ELEMENTWISE or not is_by_vectors(op):
        return False
    if prod(shape_of(op.results[0])) < LEAST_SHARE * costs.rates.tiles:
        return False
    alone = [v.owner for v in op.operands if v.has_one_use() and shape_of(v) == shape_of(op.results[0])]
    owners = [owner for owner in alone if isinstance(owner, Operation)]
    products = [found for o in owners if (found := contraction_in(o) if may_convolve else o) is not None]
    if any((may_convolve or is_dot(found)) and not why_not_on_engine(found) for found in products if is_contraction(found)):
        return True
    return any(not is_contraction(o) and ends_product(o, costs, may_convolve=may_convolve) for o in owners)


def _is_made_in_place(op: Operation, candidate: FusionCandidate) -> bool:
    """Can an instruction's result be made on the block of a step, or once for its columns or its rows?"""
    if op.name in CONSTANTS or is_free(op):
        return True
    own, root = shape_of(op.results[0]), shape_of(candidate.root.results[0])
    is_arithmetic = kind_of(op) in ARITHMETIC and (is_by_vectors(op) or not any(map(_is_truth, (*op.operands, *op.results))))
    if (keeps_order(op) or op.name == SLICE) and _is_part_in_memory(op):
        return True
    if prod(own) == prod(root):
        return is_move(op) or is_arithmetic
    columns = root[-1] if root else 1
    is_of_columns = own[-1:] == (columns,) and prod(own) == columns
    return is_arithmetic and (is_of_columns or prod(own) * columns == prod(root) or prod(own) == 1)


def _is_truth(value: SSAValue) -> bool:
    return tensor_type(value).element_type == i1


def _is_part_in_memory(op: Operation) -> bool:
    """Is what is moved a part of a tensor in memory, in whatever shape?"""
    value = op.operands[0]
    while isinstance(owner := value.owner, Operation) and (keeps_order(owner) or owner.name == SLICE):
        value = owner.operands[0]
    return is_in_memory(value, op.parent)


def _why_not_stored(op: Operation, use: CandidateUse) -> str:
    """Why the elements of a contraction cannot be stored where its reader has them, or "" if they can.

    Blocks of columns stay what they are: the operands have the same roles, and innermost are as many columns, or whole blocks.
    """
    own, root = tensor_type(op.results[0]), tensor_type(use.candidate.root.results[0])
    contraction = contraction_in(op)
    if contraction is None or prod(own.get_shape()) != prod(root.get_shape()):
        return "read at another index"
    columns, rows = _columns(contraction, own, _to_contraction(op, IndexingMap.identity(own.get_shape())), ())
    map = _to_contraction(op, use.map or IndexingMap.identity(own.get_shape()))
    stored_columns, stored_rows = _columns(contraction, root, map, use.candidate.accesses)
    if stored_rows != rows or not stored_columns or (stored_columns % BLOCK and stored_columns != columns):
        return "the reader has other columns next to each other"
    return ""


def _to_contraction(op: Operation, map: IndexingMap) -> IndexingMap:
    """The map to the index of what an instruction made, in the order in which its contraction makes it."""
    if not isinstance(op, FusionOp):
        return map
    terminator = op.body.block.last_op
    assert terminator is not None
    made = terminator.operands[0].owner
    while isinstance(made, Operation) and not is_contraction(made):
        map = operand_indexing(made)[0][0].compose(map)
        made = made.operands[0].owner
    return map.simplify()


def _columns(op: Operation, type_: TensorType[Attribute], map: IndexingMap, accesses: Sequence[TensorAccess]) -> tuple[int, int]:
    """Columns next to each other where a dot is stored as elements of a type, 0 if there are none; and the operand with the rows.

    `map` is from the index of the type to the dot's, `accesses` are other reads at that index.
    """
    rank, paths = len(type_.get_shape()), range(num_loop_operands(op))
    own = [TensorAccess(ranges_after(loop_operand_map(op, n, map), rank), tensor_type(op.operands[n])) for n in paths]
    space = iteration_space(type_, [*accesses, *own])
    roles, rows = roles_of(op, map.results, space)
    is_stored = space.is_affine and bool(roles) and roles[-1] == "column"
    return (space.shape[-1] if is_stored else 0), rows
