"""Ops of dialect `hlo` for what sorts and cumulative ops are made of: lines that fit a scratchpad.

%r:2 = "hlo.sort_words"(%a, %b) <{dimension = 3, alternating = 1, is_bitonic = true}>
%s = "hlo.scan"(%x, %start) <{dimension = 1}> ({ ... })
"""

from hlo2tx8.dialects.hlo_form import HloForm, declare

SortWordsOp: type[HloForm] = declare("hlo", "sort_words", ("dimension", "alternating", "is_bitonic"))
"""The operands, f32 without NaN and without -0, with the elements of each line along `dimension` in order: by the first operand,
equal ones by the next. All tuples of a line differ.

Lines whose index along `alternating` is odd begin with the largest; -1: there are none. `is_bitonic`: in each line that is given,
the elements first rise, then fall, or are a rotation of such a sequence.
"""


ScanOp: type[HloForm] = declare("hlo", "scan", ("dimension",))
"""The first operands, each element of a line along `dimension` joined with all before it by the region: with the one before it,
what that gives with the one 2 before it, then 4, 8 ..., at last a start, the second operands, in front. A start is a scalar, or has
one element per line. Sums of narrow floats are kept in f32.
"""
