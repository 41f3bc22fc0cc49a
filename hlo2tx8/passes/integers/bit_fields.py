"""Bits of a byte or word that integer ops with constants take, as a number: nibbles of packed weights, bytes without a sign.

and %q, 15                                     bits 0 to 3
shift_right_logical %q, 4                      bits 4 to 7, four places lower
shift_right_arithmetic (shift_left %q, 4), 4   bits 0 to 3, of which the last one is the sign
"""

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from hlo2tx8.hlo.constants import scalar_of
from hlo2tx8.hlo.types import DType, bit_width, is_integer, is_unsigned
from hlo2tx8.passes.integers.factors import kind_of

CONVERSIONS = ("stablehlo.convert", "stablehlo.bitcast_convert")
"""Between integers, or what keeps their bits."""
BYTES = ("hlo.to_bits", "hlo.from_bits")
"""From integers of few bits to the bytes that they are kept in, and back."""
MOVES = ("stablehlo.reshape", "stablehlo.transpose", "stablehlo.broadcast_in_dim")
MOST_DEPTH = 16
"""Ops on top of each other that are looked into."""


@dataclass(frozen=True)
class BitField:
    """Of each element of `source`, `bits` wide: ((element & mask) ^ flip) >> shift. Where `sign` is a place of that, the bit there
    is repeated above it. `width` is that of the type that the field has now."""

    source: SSAValue
    bits: int
    mask: int
    flip: int = 0
    shift: int = 0
    sign: int | None = None
    width: int = 8
    moves: tuple[Operation, ...] = ()
    """Ops that move the elements, the first one first."""
    ops: int = 0
    """On top of each other that take the bits."""

    def _at(self, number: int) -> int:
        """Bits of the field as bits of the source."""
        moved = number << self.shift if self.shift >= 0 else number >> -self.shift
        return moved & ((1 << self.bits) - 1)

    @property
    def top(self) -> int:
        """The place of the highest bit that may be one; -1 if there is none."""
        moved = (self.mask | self.flip) >> self.shift if self.shift >= 0 else (self.mask | self.flip) << -self.shift
        return moved.bit_length() - 1

    def kept(self, number: int) -> "BitField | None":
        """The bits that are ones of a number of the field's width."""
        sign = self.sign
        if sign is not None:
            above = number >> sign
            if above == (1 << (self.width - sign)) - 1:
                pass  # the sign, and all of its copies
            elif above <= 1:
                sign = None
            else:
                return None
        mask = self._at(number)
        return replace(self, mask=self.mask & mask, flip=self.flip & mask, sign=sign)

    def flipped(self, number: int) -> "BitField | None":
        """With the bits turned over that are ones of a number of the field's width."""
        if self.sign is not None and number >> self.sign not in (0, (1 << (self.width - self.sign)) - 1):
            return None
        if self.sign is not None:
            number &= (1 << (self.sign + 1)) - 1
        places = self._at(number)
        moved = places >> self.shift if self.shift >= 0 else places << -self.shift
        return replace(self, flip=self.flip ^ places) if moved == number else None

    def moved(self, by: int, *, copies_sign: bool) -> "BitField | None":
        """Moved right by so many places, or left by fewer than none."""
        if self.sign is not None and (self.sign < by or (not (copies_sign and by > 0) and self.sign < self.width - 1)):
            return None
        sign = None if self.sign is None or (by > 0 and not copies_sign) else self.sign - by
        found = replace(self, shift=self.shift + by, sign=sign)
        if by < 0:
            found = replace(found, sign=None)
            whole = found._at((1 << self.width) - 1)
            return replace(found, mask=found.mask & whole, flip=found.flip & whole)
        lost = (1 << max(0, found.shift)) - 1
        return replace(found, mask=found.mask & ~lost, flip=found.flip & ~lost)

    def of_width(self, width: int, *, has_sign: bool) -> "BitField | None":
        """As an integer of another type: what does not fit is left away."""
        found = self
        if width < self.width:
            cut = replace(self, sign=None) if self.sign is not None and self.sign >= width - 1 else self
            kept = cut.kept((1 << width) - 1) if cut.sign is None else cut
            if kept is None:
                return None
            found = kept
        elif not has_sign and self.sign is not None and (width > self.width or self.sign < width - 1):
            return None
        found = replace(found, width=width)
        if not has_sign:
            return replace(found, sign=None) if found.sign in (None, width - 1) else None
        return replace(found, sign=width - 1) if found.sign is None and found.top == width - 1 else found


def bit_field(value: SSAValue, depth: int = 0) -> BitField | None:
    """The bits that a value of integers has of another one, of its own if of none; None of other types."""
    kind = kind_of(value)
    if not is_integer(kind):
        return None
    width = max(8, bit_width(kind))
    if width not in (8, 16, 32):
        return None
    found = _made(value, width, depth) if depth < MOST_DEPTH else None
    if found is not None and isinstance(op := value.owner, Operation) and op.name not in MOVES:
        found = replace(found, ops=found.ops + 1)
    if bit_width(kind) < width:
        return found  # what is kept in bytes has bits above that may be anything
    if found is None or found.top >= width:
        sign = None if is_unsigned(kind) else width - 1
        return BitField(value, width, (1 << width) - 1, sign=sign, width=width)
    return found


def _made(value: SSAValue, width: int, depth: int) -> BitField | None:
    """What an op with a constant takes of its operand's bits."""
    op = value.owner
    if not isinstance(op, Operation):
        return None
    kind, name = kind_of(value), op.name.rpartition(".")[2]
    if op.name in MOVES:
        found = bit_field(op.operands[0], depth + 1)
        return found and replace(found, moves=(*found.moves, op))
    if op.name in BYTES:
        found = bit_field(op.operands[0], depth + 1)
        is_whole = found is not None and found.top < min(map(bit_width, (kind, kind_of(op.operands[0]))))
        return found if is_whole else None
    if bit_width(kind) < width:
        return None
    if op.name in CONVERSIONS:
        inner = op.operands[0]
        if not is_integer(kind_of(inner)) or (op.name != CONVERSIONS[0] and bit_width(kind_of(inner)) != width):
            return None
        found = bit_field(inner, depth + 1) if bit_width(kind_of(inner)) >= 8 else None
        return found and found.of_width(width, has_sign=not is_unsigned(kind))
    if name in ("and", "or", "xor"):
        for number in (0, 1):
            scalar, other = scalar_of(op.operands[number]), op.operands[1 - number]
            if scalar is None or scalar.dtype.kind not in "iu" or (found := bit_field(other, depth + 1)) is None:
                continue
            bits = int(scalar) & ((1 << width) - 1)
            if name == "and":
                return _of_type(found.kept(bits), kind)
            if name == "xor":
                return _of_type(found.flipped(bits), kind)
            cleared = found.kept(~bits & ((1 << width) - 1))
            return _of_type(cleared and cleared.flipped(bits), kind)
        return None
    if name not in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
        return None
    scalar = scalar_of(op.operands[1])
    if scalar is None or not 0 <= int(scalar) < width or (found := bit_field(op.operands[0], depth + 1)) is None:
        return None
    if name == "shift_left":
        return _of_type(found.moved(-int(scalar), copies_sign=False), kind)
    if name == "shift_right_arithmetic" and is_unsigned(kind):
        return None
    return found.moved(int(scalar), copies_sign=name == "shift_right_arithmetic")


def _of_type(found: BitField | None, kind: DType) -> BitField | None:
    """A field that has its type's own sign again where its highest bit may be one."""
    if found is None or is_unsigned(kind) or found.sign is not None:
        return found
    return replace(found, sign=found.width - 1) if found.top == found.width - 1 else found
