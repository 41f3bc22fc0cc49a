"""Integers that floats hold: bits of bytes, sums of those, and their zero points, as what the vector engine computes.

    convert (subtract (convert %q : i32), (convert %z : i32)) : f32    ⟶    subtract (convert (xor %q, 128)), convert (xor %z, 128)
    convert (shift_right_logical %q, 4) : bf16                         ⟶    (convert (xor (and %q, 240), 128) + 128) * 1/16

A number is (raw + offset) / 2^shift, where `raw` is exact in floats of so many bits. Offsets of two numbers are taken together, and
are added to the one that is repeated.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import frexp, gcd

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.lookup import has_spec
from hlo2tx8.hlo.types import (
    DType,
    bit_width,
    float_info,
    integer_limits,
    is_float,
    is_integer,
    is_unsigned,
    numpy_dtype,
    significant_bits,
)
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.passes.integers.bit_fields import MOST_DEPTH, MOVES, bit_field
from hlo2tx8.passes.integers.factors import kind_of

Build = Callable[[Expansion, Attribute], SSAValue]
"""Makes the raw numbers in a type of floats."""
CONVERT, REPEAT, RESHAPE = "stablehlo.convert", "stablehlo.broadcast_in_dim", "stablehlo.reshape"
SUMS = {"stablehlo.add": 1, "stablehlo.subtract": -1}
MOST_BITS = 24
"""Of integers that floats of 32 bits hold."""


@dataclass(frozen=True)
class ExactNumber:
    """(raw + offset) / 2^shift; raw numbers, multiples of `grain`, are from low to high, and what is computed to make them is no
    larger than `largest`. They are made where there are fewest elements, and moved then, by `moves`. `gains`: something of it is
    an integer that takes the kernel core."""

    build: Build | None
    low: int
    high: int
    largest: int
    offset: int = 0
    shift: int = 0
    moves: tuple[Operation, ...] = ()
    gains: bool = False
    grain: int = 1

    @property
    def is_repeated(self) -> bool:
        """Are they of fewer elements?"""
        return self.build is None or any(op.name == REPEAT for op in self.moves)

    def raw(self, e: Expansion, element: Attribute) -> SSAValue:
        """The raw numbers as floats."""
        assert self.build is not None
        value = self.build(e, element)
        for op in self.moves:
            value = _moved(e, value, op)
        return value

    def fits(self, kind: DType) -> bool:
        """Do floats of that kind hold all that is computed?"""
        largest = max(self.largest, abs(self.low + self.offset), abs(self.high + self.offset))
        grain = gcd(self.grain, self.offset)
        limits = float_info(kind)
        is_in_range = largest <= float(limits.max) and 2.0**-self.shift >= float(limits.smallest_normal)
        return is_in_range and largest <= grain << significant_bits(kind)

    def within(self, kind: DType) -> bool:
        """Are the numbers integers of that kind?"""
        least, most = integer_limits(kind)
        scale = 1 << max(0, self.shift)
        return least * scale <= self.low + self.offset and self.high + self.offset <= most * scale

    def emit(self, e: Expansion, type_: TensorType[Attribute]) -> SSAValue:
        """The numbers, as floats."""
        if self.build is None:
            return e.splat(self.offset / 2.0**self.shift, type_)
        value = self.raw(e, type_.element_type)
        if self.offset:
            value = e.emit("add", [value, e.splat(self.offset, type_)], type_)
        return e.emit("multiply", [value, e.splat(2.0**-self.shift, type_)], type_) if self.shift else value

    def scaled(self, by: int) -> "ExactNumber":
        """The same numbers with raw ones that are 2^by times as large."""
        if not by:
            return self
        build, factor = self.build, 1 << by

        def made(e: Expansion, element: Attribute) -> SSAValue:
            assert build is not None
            value = build(e, element)
            type_ = e.like(value, shape_of(value))
            return e.emit("multiply", [value, e.splat(factor, type_)], type_)

        low, high, largest = (number * factor for number in (self.low, self.high, self.largest))
        own, offset = made if build else None, self.offset * factor
        largest = max(largest, factor)
        grain, shift = self.grain * factor, self.shift + by
        return replace(self, build=own, low=low, high=high, largest=largest, offset=offset, shift=shift, grain=grain)

    def lowered(self) -> "ExactNumber | None":
        """The same numbers with raw ones that they are, but for the offset; None if those are no integers."""
        factor = 1 << self.shift
        if self.offset % factor or self.grain % factor:
            return None
        build = self.build

        def made(e: Expansion, element: Attribute) -> SSAValue:
            assert build is not None
            is_far = self.largest > float(float_info(numpy_dtype(element)).max)
            value = build(e, f32 if is_far else element)
            type_ = e.like(value, shape_of(value))
            return e.converted(e.emit("multiply", [value, e.splat(1 / factor, type_)], type_), element)

        low, high, largest, offset, grain = (n // factor for n in (self.low, self.high, self.largest, self.offset, self.grain))
        return replace(
            self, build=made if build else None, low=low, high=high, largest=largest, offset=offset, shift=0, grain=grain
        )

    def with_offset_in(self, more: int) -> "ExactNumber":
        """The raw numbers with so much added."""
        build = self.build
        if not more or build is None:
            return replace(self, offset=self.offset + more)

        def made(e: Expansion, element: Attribute) -> SSAValue:
            value = build(e, element)
            type_ = e.like(value, shape_of(value))
            return e.emit("add", [value, e.splat(more, type_)], type_)

        low, high = self.low + more, self.high + more
        largest, grain = max(self.largest, abs(low), abs(high)), gcd(self.grain, more)
        return replace(self, build=made, low=low, high=high, largest=largest, grain=grain)


def exact_number(value: SSAValue, wanted: DType, depth: int = 0) -> ExactNumber | None:
    """What a value is as exact numbers: of integers, or of floats that are sums of converted ones; None if that is not known.
    `wanted` are the floats in which they are made."""
    kind, op = kind_of(value), value.owner
    scalar = scalar_of(value)
    if scalar is not None and (scalar.dtype.kind in "iu" or is_float(scalar.dtype)):
        number = float(scalar)
        known = number == int(number) if abs(number) < 1 << MOST_BITS else False
        return ExactNumber(None, 0, 0, 0, int(number)) if known else None
    if depth > MOST_DEPTH or not isinstance(op, Operation) or not has_spec(op.name):
        return _of_bits(value) if is_integer(kind) else None
    if op.name in MOVES:
        inner = exact_number(op.operands[0], wanted, depth + 1)
        return inner and replace(inner, moves=(*inner.moves, op))
    if op.name in SUMS:
        first, second = (exact_number(operand, wanted, depth + 1) for operand in op.operands)
        found = None if first is None or second is None else _sum(first, second, SUMS[op.name], wanted)
        if found is None or not (_fits(found, kind) if is_float(kind) else found.within(kind)):
            return None
        return replace(found, gains=found.gains or not is_float(kind))
    if op.name == "stablehlo.multiply" and (factor := scalar_of(op.operands[1])) is not None and is_float(kind):
        inner, (half, exponent) = exact_number(op.operands[0], wanted, depth + 1), frexp(float(factor))
        if inner is None or half != 0.5:
            return None
        shift = inner.shift + 1 - exponent
        return replace(inner, shift=shift) if shift >= 0 else replace(replace(inner, shift=0).scaled(-shift), shift=0)
    if op.name == CONVERT and not (is_float(kind) and is_float(kind_of(op.operands[0]))):
        return _converted(op, kind, wanted, depth)
    return _of_bits(value) if is_integer(kind) else None


def _moved(e: Expansion, value: SSAValue, op: Operation) -> SSAValue:
    """What an op that moves elements gives of others; several reshapes are one."""
    shape = shape_of(op.results[0])
    if op.name != RESHAPE:
        return e.same(op, [value], e.like(value, shape))
    while isinstance(made := value.owner, Operation) and made.name == RESHAPE:
        value = made.operands[0]
    return e.reshaped(value, shape)


def _fits(number: ExactNumber, kind: DType) -> bool:
    """Do floats of that kind hold the numbers, however large their raw ones are?"""
    lowered = number.lowered() if number.shift > 0 else None
    return number.fits(kind) or (lowered is not None and lowered.fits(kind))


def _converted(op: Operation, kind: DType, wanted: DType, depth: int) -> ExactNumber | None:
    """What integers are in another type."""
    inner = kind_of(op.operands[0])
    if not is_integer(inner):
        return None
    found = exact_number(op.operands[0], wanted, depth + 1)
    if found is None or not (_fits(found, kind) if is_float(kind) else found.within(kind)):
        return _of_bits(op.results[0]) if is_integer(kind) else None
    return replace(found, gains=found.gains or is_unsigned(inner) or bit_width(inner) > 16)


def _sum(a: ExactNumber, b: ExactNumber, sign: int, wanted: DType) -> ExactNumber | None:
    """Of two numbers, or the difference: in the larger ones, if the wanted floats hold those."""
    shift = max(a.shift, b.shift)
    if not all(own.scaled(shift - own.shift).fits(wanted) for own in (a, b)):
        lowered = [low for own in (a, b) if (low := own.lowered()) is not None]
        if len(lowered) < 2:
            return None
        (a, b), shift = lowered, 0
    a, b = a.scaled(shift - a.shift), b.scaled(shift - b.shift)
    offset, gains = a.offset + sign * b.offset, a.gains or b.gains
    a, b = replace(a, offset=0), replace(b, offset=0)
    if a.build is None and sign < 0:
        return None
    if b.build is None or a.build is None:
        own = a if b.build is None else b
        return replace(own, offset=offset, gains=gains)
    if b.is_repeated and not a.is_repeated:
        b, offset = b.with_offset_in(sign * offset), 0
    elif a.is_repeated and not b.is_repeated:
        a, offset = a.with_offset_in(offset), 0

    def made(e: Expansion, element: Attribute) -> SSAValue:
        values = a.raw(e, element), b.raw(e, element)
        return e.emit("add" if sign > 0 else "subtract", values, values[0].type)

    low, high = (a.low + b.low, a.high + b.high) if sign > 0 else (a.low - b.high, a.high - b.low)
    largest, grain = max(a.largest, b.largest, abs(low), abs(high)), gcd(a.grain, b.grain)
    return ExactNumber(made, low, high, largest, offset, shift, gains=gains, grain=grain)


def _of_bits(value: SSAValue) -> ExactNumber | None:
    """A field of bits: with the bit of the sign turned over it is a number without one, and less a half one with a sign again."""
    field = bit_field(value)
    if field is None:
        return None
    source, bits, mask, flip, offset = field.source, field.bits, field.mask, field.flip, 0
    top = 1 << (field.bits - 1)
    if field.sign is not None:
        place = field.sign + field.shift
        flip ^= 1 << place
        offset -= 1 << place
    if (mask | flip) & top:
        flip ^= top
        offset += top
    fixed = flip & ~mask
    signed = [-top if number & top else 0 for number in (mask, fixed)]
    rest = mask & ~top
    low, high = sum(signed) + (fixed & ~top), signed[1] + (fixed & ~top) + rest
    largest = max(abs(low), abs(high))
    grain = (mask | fixed) & -(mask | fixed) or 1
    if largest > grain << MOST_BITS:
        return None
    least = (mask != (1 << bits) - 1) + (flip != 0)
    gains = field.shift != 0 or field.ops > least + 2 * bool(least)

    def made(e: Expansion, element: Attribute) -> SSAValue:
        shape = shape_of(source)
        own, byte = source, TensorType(IntegerType(bits, Signedness.UNSIGNED), shape)
        signed = TensorType(IntegerType(bits), shape)
        if mask != (1 << bits) - 1 or flip:
            own = e.emit("bitcast_convert", [own], byte) if own.type != byte else own
        if mask != (1 << bits) - 1:
            own = e.emit("and", [own, e.splat(mask, byte)], byte)
        if flip:
            own = e.emit("xor", [own, e.splat(flip, byte)], byte)
        own = e.emit("bitcast_convert", [own], signed) if own.type != signed else own
        return e.emit("convert", [own], TensorType(element, shape))

    found = ExactNumber(made, low, high, largest, offset, field.shift, field.moves, gains, grain)
    return found.scaled(max(0, -field.shift))


def in_type(value: SSAValue, element: Attribute) -> "Callable[[Expansion], SSAValue] | None":
    """Makes what a value is in another type of floats, if that holds all of it, and is known to; None if not."""
    kind, op = numpy_dtype(element), value.owner
    type_ = TensorType(element, shape_of(value))
    number = exact_number(value, kind)
    number = number if number is None or number.fits(kind) else number.lowered()
    if number is not None and number.fits(kind):
        return lambda e: number.emit(e, type_)
    if not isinstance(op, Operation):
        return None
    if op.name == CONVERT and as_tensor(op.operands[0].type).element_type == element:
        return lambda e: op.operands[0]
    if op.name in MOVES and (inner := in_type(op.operands[0], element)) is not None:
        return lambda e: e.same(op, [inner(e)], type_)
    return None
