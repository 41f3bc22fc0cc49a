"""How many bytes of SPM an operand reaches over, as data: whoever cannot call the declaration reads it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo2tx8.device.formats import Format
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
        size = self.scale(o.fmt, o.fmt2)
        for name in self.counts:
            size *= o[name]
        return -(-size // self.divisor)

    def scale(self, fmt: "Format", fmt2: "Format") -> int:
        """Bytes of one element."""
        return self.each or (fmt2 if self.is_source else fmt).bytes


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
        return size * self.scale(o.fmt)

    def scale(self, fmt: "Format") -> int:
        """Bytes of one element."""
        return self.each or fmt.bytes
