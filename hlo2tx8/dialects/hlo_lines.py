"""Ops of dialect `hlo` for what sorts, cumulative ops and scatters are made of: lines that fit a scratchpad.

%r:2 = "hlo.sort_words"(%a, %b) <{dimension = 3, alternating = 1, is_bitonic = true}>
%s = "hlo.scan"(%x, %start) <{dimension = 1}> ({ ... })
%t = "hlo.join_at"(%x, %i, %u) <{places = 1, columns = 2}> ({ ... })
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


JoinAtOp: type[HloForm] = declare("hlo", "join_at", ("places", "columns"))
"""The first operand with updates, the third: each in order joined by the region with the columns of its line at the place that the
second operand, s32, names. Without a region it takes their place. A place that is none is left out.

Dimensions of the first operand from `places` on are places, those from `columns` on columns, those in front lines; the elements of
the others are [lines, updates] and [lines, updates, columns] in that order, whatever their shapes.
"""
