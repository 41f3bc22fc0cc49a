"""Pass integers-in-floats: integers that floats hold are computed with as floats, which the vector engine does.

    convert (subtract (convert %q : i32), (convert %z : i32)) : f32    ⟶    subtract (convert %q : f32), (convert %z : f32)
    convert %q : ui8 -> f32                                            ⟶    add (convert (xor %q, 128) : i8 -> f32), 128
    convert (multiply (convert %a), (convert %b)) : f32 -> bf16        ⟶    multiply %a, %b

All of it is exact: bytes, parts of them, and sums of a few are no more than floats hold, and so is it known what no integer wraps
at. A result of f32 that is rounded to 16 bits is what the 16 bits of its operands give (TX8.md, 3).
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.vector_instructions import FLOATS
from hlo2tx8.hlo.types import is_float, is_integer, numpy_dtype
from hlo2tx8.partitioner.equal_ops import erase_unread_of_functions
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.passes.integers.exact_floats import CONVERT, SUMS, exact_number, in_type

ARITHMETIC = tuple(f"stablehlo.{name}" for name in ("add", "subtract", "multiply", "divide"))


@dataclass(frozen=True)
class IntegersInFloatsPass(ModulePass):
    """Rewrites conversions of integers to floats; see the module docstring."""

    name = "integers-in-floats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = ops_named(op, (CONVERT, *SUMS))
        if not any(is_integer(numpy_dtype(tensor_type(value).element_type)) for own in found for value in own.operands):
            return
        for own in reversed(found):
            if own.results[0].uses and not _narrow(own):
                _rewrite(own)
        erase_unread_of_functions(op)


def _narrow(op: Operation) -> bool:
    """Computes what is rounded to 16 bits of f32 in those, if its operands are numbers of 16 bits."""
    made, type_ = op.operands[0].owner, tensor_type(op.results[0])
    if op.name != CONVERT or not isinstance(type_.element_type, BFloat16Type | Float16Type):
        return False
    if not isinstance(made, Operation) or made.name not in ARITHMETIC or not made.results[0].has_one_use():
        return False
    if not isinstance(tensor_type(made.results[0]).element_type, Float32Type):
        return False
    operands = [in_type(value, type_.element_type) for value in made.operands]
    if None in operands or not any(_is_of_integers(value) for value in made.operands):
        return False
    e = Expansion(op)
    e.replace(e.emit(made.name.rpartition(".")[2], [own(e) for own in operands if own is not None], type_))
    return True


def _is_of_integers(value: SSAValue) -> bool:
    """Is it made of integers, and no constant?"""
    number = exact_number(value, numpy_dtype(tensor_type(value).element_type))
    return number is not None and number.build is not None


def _rewrite(op: Operation) -> bool:
    """Computes exact numbers as floats, if they are ones of integers that take the kernel core."""
    type_ = tensor_type(op.results[0])
    if not isinstance(type_.element_type, FLOATS) or not is_float(numpy_dtype(type_.element_type)):
        return False
    kind = numpy_dtype(type_.element_type)
    number = exact_number(op.results[0], kind)
    number = number if number is None or number.fits(kind) else number.lowered()
    if number is None or number.build is None or not number.gains or not number.fits(kind):
        return False
    e = Expansion(op)
    e.replace(number.emit(e, type_))
    return True
