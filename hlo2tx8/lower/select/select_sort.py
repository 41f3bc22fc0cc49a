"""A sort of lanes as instructions: a network of compare-and-exchange stages that never leaves the scratchpad.

A stage has its partners in the two halves of the buffers, so CT takes each word of all pairs at once, and TDMA brings the next
partners there. With the bits of a lane's number in the order of addresses, for 16 lanes of 3 rows, in blocks of 4:

    [row, b3, b2, b1, b0]      as the box has them
    [b1, b0, row, b3, b2]      the bits of the block in front
    stage: halves of b1; b1 goes behind b0                 [2, 2, 12] to [2, 2, 12] with the first two changed
    stage: halves of b0; b0 goes behind b1                 now as before
    [b2, b1, b0, row, b3]      the next block has twice as many: another bit goes to the front

Blocks of 2, 4 ... all lanes are sorted in turn, their second half being mirrored first, so that they rise and then fall. The
partner whose words are smaller goes to the lower half, to the upper one in steps that are descending.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.ct_arith import CtMaxVV, CtMinVV
from hlo2tx8.device.isa.ct_move import CtMaskMove
from hlo2tx8.device.isa.ct_relation import CtEqVV, CtLtVV
from hlo2tx8.device.isa.forms import CtVV
from hlo2tx8.device.isa.tdma import TdmaRotate180
from hlo2tx8.device.isa.window import MOST_POINTS
from hlo2tx8.dialects import vec
from hlo2tx8.dialects.made import for_op, yield_op
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel, Size
from hlo2tx8.lower.select.selector import Selector
from hlo2tx8.lower.select.step_builder import INDEX, StepBuilder

WORD = Format.FP32
MOST_WORDS = 2
SHORT_RUN = 4
"""Words that TDMA moves as fast as fewer."""


def select_sort_lanes(s: Selector, op: vec.VecSortLanesOp) -> list[SSAValue]:
    """The words in order."""
    shape, lane = s.step.shape, op.lane
    size = shape[lane]
    if size & (size - 1) or len(op.words) > MOST_WORDS:
        raise CompileError("E3201", f"no network sorts {len(op.words)} words along {size} lanes")
    words = [s.buffer(s.vector(word)) for word in op.words]
    if size == 1:
        return words
    descending: Size = 0 if op.descending is None else s.slots[op.descending]
    network = _Network(s.step, prod(shape[:lane]), size, prod(shape[lane + 1 :]), len(words), descending)
    return network.merge(words) if op.is_bitonic is not None else network.sort(words)


@dataclass(frozen=True)
class _Network:
    """Stages on `num_words` words of [rows, size, inner] lanes, in the buffers `here`; a stage leaves its results in `there`."""

    step: StepBuilder
    rows: int
    size: int
    inner: int
    num_words: int
    descending: Size

    @property
    def total(self) -> int:
        return self.rows * self.size * self.inner

    def sort(self, words: Sequence[SSAValue]) -> list[SSAValue]:
        """Lines in any order, sorted. Which bits of an address are which of a lane's number does not matter at first, so bits that
        distinguish neighbours are brought to the front last."""
        here, there = list(words), self._buffers(self.total)
        neighbours, block = max(1, SHORT_RUN // self.inner), 2
        while block <= self.size:
            self._begin(here, there, block, self.inner * (neighbours if block * neighbours <= self.size else 1))
            here, there = there, self._buffers(self.total) if block == 2 else here
            self._stages(here, there, block)
            block *= 2
        return self._in_rows(here)

    def merge(self, words: Sequence[SSAValue]) -> list[SSAValue]:
        """Lines that rise, then fall, sorted."""
        here, there = self._buffers(self.total), self._buffers(self.total)
        self._move(here, words, (self.rows, self.size, self.inner), (1, 0, 2))
        self._stages(here, there, self.size)
        return self._in_rows(here)

    def _in_rows(self, here: Sequence[SSAValue]) -> list[SSAValue]:
        """[size, rows, inner] to [rows, size, inner]."""
        if self.rows == 1:
            return list(here)
        found = self._buffers(self.total)
        self._move(found, here, (self.size, self.rows, self.inner), (1, 0, 2))
        return found

    def _begin(self, here: Sequence[SSAValue], there: Sequence[SSAValue], block: int, inner: int) -> None:
        """Brings words in the order of blocks twice as large: the bit above `inner` elements goes to the front, and where it is 1
        the block is mirrored."""
        half, pieces = self.total // 2, block // 2
        sides = [BoxLevel(half // inner, (2 * inner, inner)), BoxLevel(inner, (1, 1))]
        for source, target in zip(here, there, strict=True):
            self.step.move(target, source, sides, WORD)
            second = self._at(target, half) if pieces == 1 else self.step.alloc(WORD, half)
            self.step.move(second, self._at(source, inner), sides, WORD)
            if pieces > 1:
                self._mirror(self._at(target, half), second, pieces, half // pieces)

    def _mirror(self, target: SSAValue, source: SSAValue, pieces: int, width: int) -> None:
        """`pieces` of `width` elements each, the last one first."""
        w = min(pieces, MOST_POINTS)
        origin, make = self.step.origin, TdmaRotate180.make
        self.step.insert(make(fmt=WORD, dst=target, src=source, batch=1, h=pieces // w, w=w, c=width, origin=origin))

    def _stages(self, here: Sequence[SSAValue], there: Sequence[SSAValue], block: int) -> None:
        """The stages of blocks, whose bits are in front. If their elements lie next to too few others for TDMA, the last bits of
        the block stay behind first, and are in front alone then."""
        width = self.total // block
        behind = min(max(1, SHORT_RUN // width), block)
        self._turns(here, there, block // behind)
        if behind > 1:
            shape = (block // behind, behind, width)
            self._move(there, here, shape, (1, 0, 2))
            self._move(here, there, (self.total,), (0,))
            self._turns(here, there, behind)
            self._move(there, here, (behind, block // behind, width), (1, 0, 2))
            self._move(here, there, (self.total,), (0,))

    def _turns(self, here: Sequence[SSAValue], there: Sequence[SSAValue], block: int) -> None:
        """A loop with a turn for each bit of a block in front, and that bit goes behind the others."""
        step = self.step
        turns, body = block.bit_length() - 1, Block(arg_types=[INDEX])
        lower, upper, stride = (step.value(n) for n in (0, turns, 1))
        step.insert(for_op(lower, upper, stride, [], body))
        outer, step.builder = step.builder, Builder(InsertPoint.at_end(body))
        self._stage(here, there, block)
        step.insert(yield_op())
        step.builder = outer

    def _stage(self, here: Sequence[SSAValue], there: Sequence[SSAValue], block: int) -> None:
        """The smaller partner to one half, the larger one to the other; then the halves as the next stage wants them. TDMA moves a
        word while CT computes the other."""
        half, shape = self.total // 2, (2, block // 2, self.total // block)
        upper = self.step(half, self.descending)
        places = (upper, self.step.subtract(half, upper))
        for word, target in zip(here[1:], there[1:], strict=True):
            for source, place in zip((0, half), places, strict=True):
                self._move([self._at(target, place)], [self._at(word, source)], (half,), (0,))
        a, b = here[0], self._at(here[0], half)
        masks = [self.step.alloc(WORD, half) for _ in (CtLtVV, CtEqVV, CtLtVV)] if self.num_words > 1 else []
        if masks:
            self._insert(CtLtVV, masks[0], b, a)
            self._insert(CtEqVV, masks[1], b, a)
        low, high = (self._at(there[0], place) for place in places)
        self._insert(CtMinVV, low, a, b)
        self._insert(CtMaxVV, high, a, b)
        self._move(here[:1], there[:1], shape, (1, 0, 2))
        if masks:
            a, b = here[1], self._at(here[1], half)
            low, high = (self._at(there[1], place) for place in places)
            self._insert(CtLtVV, masks[2], b, a)
            self._mask_move(masks[0], masks[2], masks[1])
            self._mask_move(low, b, masks[0])
            self._mask_move(high, a, masks[0])
            self._move(here[1:], there[1:], shape, (1, 0, 2))

    def _insert(self, kind: type[CtVV], dst: SSAValue, a: SSAValue, b: SSAValue) -> None:
        self.step.insert(kind.make(fmt=WORD, dst=dst, a=a, b=b, n=self.total // 2, origin=self.step.origin))

    def _mask_move(self, dst: SSAValue, src: SSAValue, mask: SSAValue) -> None:
        make = CtMaskMove.make
        self.step.insert(make(fmt=WORD, fmt2=WORD, dst=dst, src=src, mask=mask, n=self.total // 2, origin=self.step.origin))

    def _at(self, buffer: SSAValue, elements: Size) -> SSAValue:
        return self.step.at(buffer, self.step(elements, WORD.bytes))

    def _buffers(self, elements: int) -> list[SSAValue]:
        return [self.step.alloc(WORD, elements) for _ in range(self.num_words)]

    def _move(self, targets: Sequence[SSAValue], sources: Sequence[SSAValue], shape: Sequence[int], order: Sequence[int]) -> None:
        """Sources of `shape` to targets with these dimensions of them."""
        read = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
        levels = [BoxLevel(shape[dim], (read[dim], prod(shape[d] for d in order[k + 1 :]))) for k, dim in enumerate(order)]
        for target, source in zip(targets, sources, strict=True):
            self.step.move(target, source, levels, WORD)
