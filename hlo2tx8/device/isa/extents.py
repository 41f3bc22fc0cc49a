"""How many bytes of SPM an operand reaches over, as data: whoever cannot call the declaration reads it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo2tx8.device.isa.fields import Operands


@dataclass(frozen=True)
class Elements:
    """ceil(product of the operands `counts` * bytes of one / divisor); one is of the format, or of `is_source` the source's, unless
    `each` says how large it is."""

    counts: tuple[str, ...] = ()
    each: int = 0
    is_source: bool = False
    divisor: int = 1

    def __call__(self, o: "Operands") -> int:
        size = self.scale(o.fmt.bytes, o.fmt2.bytes)
        for name in self.counts:
            size *= o[name]
        return -(-size // self.divisor)

    def scale(self, size: int, source_size: int) -> int:
        """Bytes of one element, given those of the format and of the source's."""
        return self.each or (source_size if self.is_source else size)


@dataclass(frozen=True)
class Span:
    """From the first to behind the last byte of runs at (stride, count) levels, nothing if one of the operands that count is 0; in
    elements of the format unless `each` says how large one is."""

    run: str
    levels: tuple[tuple[str, str], ...]
    each: int = 0

    def __call__(self, o: "Operands") -> int:
        if o[self.run] == 0 or any(o[count] == 0 for _, count in self.levels):
            return 0
        size = o[self.run] + sum((o[count] - 1) * o[stride] for stride, count in self.levels)
        return size * self.scale(o.fmt.bytes)

    def scale(self, size: int) -> int:
        """Bytes of one element, given those of the format."""
        return self.each or size
