"""What a reduction accumulates: how many elements, and in which type. Sums of floats narrower than f32 are kept in f32."""

from math import prod

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Attribute, Block, Operation

from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import has_spec, operand_indexing, spec_of
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.hlo.types import is_complex, is_float, numpy_dtype


def accumulated_types(op: Operation) -> list[Attribute]:
    """The types in which a reduce or a dot keeps its results until it has seen all elements; () for other ops.

    Integers wrap modulo the width of the result, whatever they are kept in meanwhile.
    """
    if not is_accumulating(op):
        return []
    return joined_types(op)


def joined_types(op: Operation) -> list[Attribute]:
    """The types in which a reduce, a scan or a dot joins its elements."""
    results = [as_tensor(result.type).element_type for result in op.results]
    dtype = numpy_dtype(results[0])
    if not (spec_of(op).kind is Kind.DOT or only_adds(op.regions[0].block)) or not is_float(dtype) or is_complex(dtype):
        return results
    types = [*results, *(as_tensor(operand.type).element_type for operand in op.operands)]
    return [next((t for t in types if isinstance(t, Float64Type)), Float32Type())]


def is_accumulating(op: Operation) -> bool:
    """True for a reduce or a dot."""
    return has_spec(op.name) and spec_of(op).kind in (Kind.REDUCE, Kind.DOT)


def num_accumulated(op: Operation) -> int:
    """The number of operand elements that one element of the result is accumulated from; 0 for ops that accumulate nothing."""
    if not is_accumulating(op):
        return 0
    return prod(counter.hi - counter.lo + 1 for counter in operand_indexing(op)[0][0].ranges)


def num_convolved(op: Operation) -> int:
    """The number of products that one element of a convolution's result is the sum of; 0 for other ops."""
    if op.name != "stablehlo.convolution":
        return 0
    return prod(counter.hi - counter.lo + 1 for counter in operand_indexing(op)[0][0].ranges)


def is_exact(op: Operation) -> bool:
    """True if the op never rounds: its ulp is 0, or it is a reduce whose combiner is made of such ops (max, and, argmax)."""
    spec = spec_of(op)
    if spec.kind is not Kind.REDUCE:
        return spec.ulp == 0
    return all(has_spec(inner.name) and is_exact(inner) for inner in op.regions[0].block.ops if inner.results)


def only_adds(body: Block) -> bool:
    """True if the combiner of a reduce is the sum of its two arguments."""
    first, last = body.first_op, body.last_op
    if first is None or last is None or last is not first.next_op:
        return False
    is_sum = (first.name, last.name) == ("stablehlo.add", "stablehlo.return")
    return is_sum and set(first.operands) == set(body.args)
