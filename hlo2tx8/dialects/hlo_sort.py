"""An op of dialect `hlo` for what sorts are made of: runs that fit a scratchpad.

%r:2 = "hlo.sort_words"(%a, %b) <{dimension = 3, alternating = 1, is_bitonic = true}>
"""

from hlo2tx8.dialects.hlo_form import HloForm, declare

SortWordsOp: type[HloForm] = declare("hlo", "sort_words", ("dimension", "alternating", "is_bitonic"))
"""The operands, f32 without NaN and without -0, with the elements of each line along `dimension` in order: by the first operand,
equal ones by the next. All tuples of a line differ.

Lines whose index along `alternating` is odd begin with the largest; -1: there are none. `is_bitonic`: in each line that is given,
the elements first rise, then fall, or are a rotation of such a sequence.
"""
