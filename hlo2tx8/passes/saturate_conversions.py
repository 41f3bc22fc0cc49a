"""Pass saturate-conversions: conversions to integers round and saturate by themselves, and those to bytes are made of floats.

    convert (clamp -128, (round_nearest_even %x), 127) : i8           ⟶    convert (round_nearest_even %x)
    convert (clamp 0, (round_nearest_even %x), 127) : i8              ⟶    convert (round_nearest_even (clamp 0, %x, 127))
    convert (clamp -128, (add (round_nearest_even %x), 3), 127) : i8  ⟶    convert (subtract (add %y, 1.5 * 2^23), 1.5 * 2^23 - 3),
                                                                                 with %y = clamp -131, %x, 124
    convert (clamp -128, %sums, 127) : i32 -> i8                      ⟶    convert (convert %sums : f32)
    convert %x : f32 -> ui8      ⟶    xor (convert (subtract (convert (convert %x : i32) : f32), 128) : i8), 128

All of it is exact. Conversions to integers saturate and make 0 of NaN, and the vector engine rounds as it is told to (TX8.md, 3).
Rounding keeps the order of numbers and leaves integers alone, so what is clamped to integers may be rounded behind that. Adding
1.5 * 2^23 to a small float rounds it to an integer, and the same less a zero point takes it away again. An i32 of more than
24 bits is rounded as it becomes a float, but saturates all the same.
"""

from dataclasses import dataclass
from math import inf, isnan

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, ModuleOp, TensorType, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.dialects.vector_instructions import FLOATS, ROUND_NEAREST_EVEN
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.types import bit_width, dtype, integer_limits, is_float, is_integer, is_unsigned, numpy_dtype
from hlo2tx8.partitioner.equal_ops import erase_unread_of_functions
from hlo2tx8.partitioner.instruction import shape_of, tensor_type

CONVERT = "stablehlo.convert"
SHIFT = 1.5 * 2**23
"""A float of 32 bits to which it leaves no fraction to add less than 2^22."""
MOST = 2**20
"""Of bounds and zero points, so that nothing that is added leaves the floats that hold all integers."""
BYTE_SIGN = 128


@dataclass(frozen=True)
class SaturateConversionsPass(ModulePass):
    """Rewrites conversions to integers; see the module docstring."""

    name = "saturate-conversions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for own in ops_named(op, (CONVERT,)):
            if not (_of_integers(own) or _of_floats(own)):
                _to_unsigned_byte(own)
        erase_unread_of_functions(op)


@dataclass(frozen=True)
class _Clamped:
    """A value that is no less than `low` and no more than `high`, where it is a number."""

    value: SSAValue
    low: float
    high: float

    @property
    def is_bounded(self) -> bool:
        """Has it a bound?"""
        return self.low > -inf or self.high < inf

    def narrower_than(self, low: int, high: int) -> "_Clamped":
        """The value with those bounds alone that are narrower than these, between which its reader keeps it anyway."""
        return _Clamped(self.value, -inf if self.low <= low else self.low, inf if self.high >= high else self.high)

    def emit(self, e: Expansion) -> SSAValue:
        """The value within its bounds."""
        value, type_ = self.value, tensor_type(self.value)
        if self.low > -inf:
            value = e.emit("maximum", [value, e.splat(self.low, type_)], type_)
        return e.emit("minimum", [value, e.splat(self.high, type_)], type_) if self.high < inf else value


def _clamped(value: SSAValue) -> _Clamped:
    """What operations keep within constant bounds to make a value, with all of their bounds together."""
    low, high = -inf, inf
    while (step := _step(value)) is not None and step.low <= high and step.high >= low:
        value, low, high = step.value, max(low, step.low), min(high, step.high)
    return _Clamped(value, low, high)


def _step(value: SSAValue) -> _Clamped | None:
    """What one operation keeps within constant bounds; None if it is another operation, or bounds say nothing."""
    op = value.owner
    if not isinstance(op, Operation):
        return None
    match op.name:
        case "stablehlo.clamp":
            low, high = _constant(op.operands[0]), _constant(op.operands[2])
            inner = op.operands[1]
        case "stablehlo.maximum" | "stablehlo.minimum":
            inner, bound = _and_constant(op)
            low, high = (bound, inf) if op.name == "stablehlo.maximum" else (-inf, bound)
        case _:
            return None
    if inner is None or low is None or high is None or low > high:
        return None
    return _Clamped(inner, low, high)


def _and_constant(op: Operation) -> tuple[SSAValue | None, float | None]:
    """The operand of two that is none, and the number that all elements of the other one are."""
    for inner, other in (op.operands, reversed(op.operands)):
        if (number := _constant(other)) is not None:
            return inner, number
    return None, None


def _constant(value: SSAValue) -> float | None:
    """The number that all elements are, None if there is none."""
    scalar = scalar_of(value)
    number = None if scalar is None else float(scalar)
    return None if number is None or isnan(number) else number


def _of_integers(op: Operation) -> bool:
    """Makes bytes of integers within their range, by way of floats."""
    kind, made = numpy_dtype(tensor_type(op.operands[0]).element_type), numpy_dtype(tensor_type(op.results[0]).element_type)
    if not is_integer(made) or bit_width(made) >= 16 or kind not in (dtype("int16"), dtype("int32")):
        return False
    found, (least, most) = _clamped(op.operands[0]), integer_limits(made)
    if not least <= found.low <= found.high <= most:
        return False
    e = Expansion(op)
    own = found.narrower_than(least, most)
    value = _Clamped(e.converted(found.value, f32), own.low, own.high).emit(e)
    _convert(e, value)
    return True


def _of_floats(op: Operation) -> bool:
    """Leaves rounding and bounds to a conversion of floats to integers as far as it has them itself."""
    kind, made = numpy_dtype(tensor_type(op.operands[0]).element_type), numpy_dtype(tensor_type(op.results[0]).element_type)
    if not is_float(kind) or not is_integer(made):
        return False
    found, limits, e = _clamped(op.operands[0]), integer_limits(made), Expansion(op)
    value, offset = _less_offset(found.value)
    rounded = value.owner
    if (
        not isinstance(rounded, Operation)
        or rounded.name not in ROUND_NEAREST_EVEN
        or not all(map(_is_whole, (found.low, found.high, offset)))
    ):
        if not found.is_bounded or found.narrower_than(*limits).is_bounded:
            return False
        _convert(e, found.value)
        return True
    if offset:
        low, high = max(found.low, limits[0]), min(found.high, limits[1])
        if not isinstance(tensor_type(value).element_type, Float32Type) or max(map(abs, (low, high, offset))) > MOST:
            return False
        bounded = _Clamped(rounded.operands[0], low - offset, high - offset).emit(e)
        type_ = tensor_type(bounded)
        raised = e.emit("add", [bounded, e.splat(SHIFT, type_)], type_)
        _convert(e, e.emit("subtract", [raised, e.splat(SHIFT - offset, type_)], type_))
        return True
    inner = _clamped(rounded.operands[0])
    both = _Clamped(inner.value, max(found.low, inner.low), min(found.high, inner.high))
    own = both.narrower_than(*limits)
    if both.low > both.high or (not found.is_bounded and own == inner):
        return False
    bounded = own.emit(e)
    _convert(e, e.emit("round_nearest_even", [bounded], bounded.type))
    return True


def _is_whole(number: float) -> bool:
    """Is it an integer, or infinite?"""
    return abs(number) == inf or number == round(number)


def _less_offset(value: SSAValue) -> tuple[SSAValue, float]:
    """A value without the constant that is added to it, and that."""
    op = value.owner
    if isinstance(op, Operation) and op.name in ("stablehlo.add", "stablehlo.subtract"):
        inner, number = _and_constant(op)
        if inner is not None and number is not None and (inner is op.operands[0] or op.name == "stablehlo.add"):
            return inner, -number if op.name == "stablehlo.subtract" else number
    return value, 0.0


def _convert(e: Expansion, value: SSAValue) -> None:
    """Puts the conversion of another value to the same type in place of the op."""
    new = e.emit("convert", [value], e.op.results[0].type)
    made = new.owner
    e.replace(new)
    assert isinstance(made, Operation)
    _to_unsigned_byte(made)


def _to_unsigned_byte(op: Operation) -> bool:
    """Makes bytes without a sign of floats as ones with a sign, which are 128 less."""
    source, made = tensor_type(op.operands[0]), numpy_dtype(tensor_type(op.results[0]).element_type)
    if not isinstance(source.element_type, FLOATS) or not is_unsigned(made) or bit_width(made) != 8:
        return False
    e, shape = Expansion(op), shape_of(op.operands[0])
    whole = e.converted(e.converted(op.operands[0], i32), f32)
    wide, narrow = TensorType[Attribute](f32, shape), TensorType[Attribute](i8, shape)
    moved = e.emit("subtract", [whole, e.splat(BYTE_SIGN, wide)], wide)
    signed = e.emit("xor", [e.emit("convert", [moved], narrow), e.splat(-BYTE_SIGN, narrow)], narrow)
    e.replace(e.emit("bitcast_convert", [signed], op.results[0].type))
    return True
