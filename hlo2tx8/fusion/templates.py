"""The templates that the pass fuse-by-template knows by name."""

from math import prod

from xdsl.ir import Operation

from hlo2tx8.fusion.fusion_template import FusionTemplate, Members
from hlo2tx8.hlo import Kind, has_spec
from hlo2tx8.partitioner.instruction import is_splat_constant, kind_of, shape_of
from hlo2tx8.partitioner.reduction_order import reduced_dimensions

DOTS = ("stablehlo.dot", "stablehlo.dot_general")
JOINS = ("stablehlo.concatenate",)
PARTS = ("stablehlo.slice", "stablehlo.reshape")
BROADCASTS = ("stablehlo.broadcast_in_dim", "stablehlo.broadcast")


def _is_arithmetic(op: Operation) -> bool:
    return has_spec(op.name) and kind_of(op) is Kind.ELEMENTWISE


def _is_arithmetic_or_shape(op: Operation) -> bool:
    """Arithmetic, or what brings numbers into its shape."""
    return _is_arithmetic(op) or is_splat_constant(op) or op.name in (*BROADCASTS, "stablehlo.reshape")


def _is_joining(op: Operation) -> bool:
    return _is_arithmetic(op) or op.name == "stablehlo.reshape"


def _is_reduction(op: Operation) -> bool:
    return op.name == "stablehlo.reduce"


def _is_dot(op: Operation) -> bool:
    return op.name in DOTS


def _is_move(op: Operation) -> bool:
    """Does it move the elements of one tensor, and nothing else?"""
    return has_spec(op.name) and kind_of(op) is Kind.SHAPING and len(op.operands) == 1


def _is_behind_one_dot(first: Members, second: Members) -> bool:
    """Is there one dot at most, which reads none of the others?"""
    members = (*first, *second)
    dots = [op for op in members if _is_dot(op)]
    return len(dots) <= 1 and not any(value.owner in members for dot in dots for value in dot.operands)


def _alone_reads_arithmetic(first: Members, second: Members) -> bool:
    """Nothing else reads the first, in which no reduction is."""
    readers = {use.operation for op in first for value in op.results for use in value.uses}
    return not any(map(_is_reduction, first)) and readers <= {*first, *second}


def _has_reduction_at_end(members: Members) -> bool:
    """Is the one result that others read that of a reduction of more than one element?"""
    read = [op for op in members if any(use.operation not in members for value in op.results for use in value.uses)]
    if len(read) != 1 or not _is_reduction(read[0]):
        return False
    shape = shape_of(read[0].operands[0])
    return prod(shape[dim] for dim in reduced_dimensions(read[0])) > 1


def _are_parts(first: Members, second: Members) -> bool:
    """Are the first cut out of what they read, and is a concatenation never in the middle?"""
    return all(op.name in PARTS for op in first)


ELEMENTWISE = FusionTemplate(
    "elementwise",
    candidate=_is_arithmetic_or_shape,
    start=_is_arithmetic,
    trigger=_is_joining,
    together=lambda first, second: True,
    valid_alone=_is_arithmetic,
    valid=lambda members: True,
)
MATMUL_EPILOGUE = FusionTemplate(
    "matmul_epilogue",
    candidate=lambda op: _is_arithmetic_or_shape(op) or _is_dot(op),
    start=_is_dot,
    trigger=_is_joining,
    together=_is_behind_one_dot,
    valid_alone=lambda op: False,
    valid=lambda members: True,
)
REDUCTION = FusionTemplate(
    "reduction",
    candidate=lambda op: _is_arithmetic_or_shape(op) or _is_reduction(op),
    start=_is_reduction,
    trigger=lambda op: _is_joining(op) or _is_reduction(op),
    together=_alone_reads_arithmetic,
    valid_alone=_is_reduction,
    valid=_has_reduction_at_end,
)
CONCAT_SLICE = FusionTemplate(
    "concat_slice",
    candidate=lambda op: op.name in (*JOINS, *PARTS),
    start=lambda op: op.name in JOINS,
    trigger=lambda op: op.name in (*JOINS, *PARTS),
    together=_are_parts,
    valid_alone=lambda op: op.name in JOINS,
    valid=lambda members: True,
)
TRIVIAL = FusionTemplate(
    "trivial",
    candidate=_is_move,
    start=_is_move,
    trigger=lambda op: False,
    together=lambda first, second: False,
    valid_alone=_is_move,
    valid=lambda members: False,
    is_of_one=True,
)

TEMPLATES = {t.name: t for t in (ELEMENTWISE, MATMUL_EPILOGUE, REDUCTION, CONCAT_SLICE, TRIVIAL)}
