"""Reductions of the same rows, made of parts that are read once for all of them.

%sum = reduce add %x over 0
%squares = reduce add %x * %x over 0                both read %x
"""

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.hlo import has_spec, numpy_dtype
from hlo2tx8.hlo.accumulation import accumulated_types
from hlo2tx8.hlo.combiner import neutral_element
from hlo2tx8.partitioner.instruction import is_elementwise, is_free, shape_of, tensor_type
from hlo2tx8.partitioner.reduction_order import joins_apart, reduced_dimensions
from hlo2tx8.passes.statistics.parts import RowParts, reduced

JOINS = ("add", "multiply", "maximum", "minimum")
MOST_LOOKED_AT = 64
"""Instructions behind a reduction that are looked at for what it reads."""


def groups_alike(reductions: Iterable[Operation]) -> list[list[Operation]]:
    """Those of the same rows that read a tensor of these in common, none of which is made of another, by two and more."""
    groups: list[tuple[tuple[object, ...], set[SSAValue], list[Operation]]] = []
    for op in reductions:
        if len(op.results) > 1 or joins_apart(op, 0) not in JOINS or len(op.regions[0].block.ops) != 2:
            continue
        key, read = (op.parent, shape_of(op.operands[0]), tuple(sorted(reduced_dimensions(op)))), _read(op)
        same = (members for other, known, members in groups if other == key and not known.isdisjoint(read))
        group = next((members for members in same if not _is_made_of(op, members)), None)
        if group is None:
            groups.append((key, read, [op]))
        else:
            group.append(op)
    return [group for _, _, group in groups if len(group) > 1]


def split_alike(op: Operation, parts: RowParts) -> None:
    """Replace a reduction by those of parts, and one of these."""
    e, name, (start,) = Expansion(op), joins_apart(op, 0), op.operands[1:]
    (type_,) = accumulated_types(op)
    value, start = e.converted(op.operands[0], type_), e.converted(start, type_)
    none = neutral_element(op.regions[0].block, numpy_dtype(type_))
    assert none is not None
    neutral = e.emit("constant", [], e.like(value, []), value=LiteralAttr.from_array(none))
    found = [reduced(e, part, [parts.first + 1], neutral, name) for part in parts.of(e, value)]
    if parts.groups < parts.count:
        found[0] = reduced(e, parts.in_groups(e, found[0]), [parts.first + 1], neutral, name)
    total = reduced(e, found[0], parts.joined, start, name)
    for rest in found[1:]:
        total = e.emit(name, [total, reduced(e, rest, parts.joined, neutral, name)], total.type)
    e.replace(e.converted(total, tensor_type(op.results[0]).element_type))


def is_read_again(op: Operation) -> bool:
    """Is what a reduction is of read once more by what is made of its result, a normalization say?"""
    stack, shape = [use.operation for value in _read(op) for use in value.uses], shape_of(op.operands[0])
    for _ in range(MOST_LOOKED_AT):
        if not stack:
            break
        reader = stack.pop()
        if reader is op or not reader.results or not has_spec(reader.name) or not is_elementwise(reader):
            continue
        if _is_made_of(reader, [op]):
            return True
        if shape_of(reader.results[0]) == shape:
            stack += [use.operation for use in reader.results[0].uses]
    return False


def _is_made_of(op: Operation, others: Sequence[Operation]) -> bool:
    """Does an op need the result of one of these?"""
    seen: set[Operation] = set()
    stack = [op]
    while stack:
        found = [value.owner for value in stack.pop().operands if isinstance(value.owner, Operation)]
        if any(owner in others for owner in found):
            return True
        stack += [owner for owner in dict.fromkeys(found) if owner not in seen]
        seen.update(found)
    return False


def _read(op: Operation) -> set[SSAValue]:
    """The tensors of the reduction's own shape that it is of, through what is elementwise."""
    found: set[SSAValue] = set()
    stack, shape = [op.operands[0]], shape_of(op.operands[0])
    for _ in range(MOST_LOOKED_AT):
        if not stack:
            break
        value = stack.pop()
        if isinstance(value.owner, Operation) and has_spec(value.owner.name) and is_elementwise(value.owner):
            stack += value.owner.operands
        elif shape_of(value) == shape and not _is_free(value):
            found.add(value)
    return found


def _is_free(value: SSAValue) -> bool:
    """Is a value made where it is read, of what is smaller or of nothing?"""
    return isinstance(value.owner, Operation) and has_spec(value.owner.name) and is_free(value.owner)
