"""Key and number of an element as words of f32 that are in the same order, and back.

An integer of 31 bits is a float of the same order: with its sign and its absolute value as the bits. Where key and number have no
more they are one word. Else the key without its last bit is the first word; that bit, and 30 bits of the number, are the second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i32

from hlo2tx8.builders.formula import Term

WORD_BITS = 31
"""Bits of the integers that are floats of the same order."""
NUMBER_BITS = WORD_BITS - 1
LOWEST = -(1 << 31)


@dataclass(frozen=True)
class KeyWords:
    """Words of keys that differ in `key_bits` bits, sign included, and of numbers that have `number_bits`."""

    key_bits: int
    number_bits: int

    @property
    def num_words(self) -> int:
        return 1 if self.key_bits + self.number_bits <= WORD_BITS else 2

    def of(self, key: Term, number: Term) -> list[Term]:
        """The words; key and number are i32."""
        if self.num_words == 1:
            return [_as_float((key << self.number_bits) | number)]
        first = _as_float(key.call("shift_right_arithmetic", 1))
        return [first, (((key & 1) << NUMBER_BITS) | number).bitcast(f32)]

    def key(self, words: Sequence[Term]) -> Term:
        """The key out of the words."""
        first = _as_integer(words[0])
        if self.num_words == 1:
            return first.call("shift_right_arithmetic", self.number_bits)
        return (first << 1) | (words[1].bitcast(i32) >> NUMBER_BITS)

    def number(self, words: Sequence[Term]) -> Term:
        """The number out of the words."""
        if self.num_words == 1:
            return _as_integer(words[0]) & ((1 << self.number_bits) - 1)
        return words[1].bitcast(i32) & ((1 << NUMBER_BITS) - 1)


def _as_float(integer: Term) -> Term:
    """Integers of 31 bits as floats of the same order."""
    return (integer < 0).choose(LOWEST - integer, integer).bitcast(f32)


def _as_integer(word: Term) -> Term:
    """The integers that these floats are."""
    bits = word.bitcast(i32)
    return (bits < 0).choose(LOWEST - bits, bits)
