"""The records that tile 0 runs by itself: values that depend on the tile's number only are computed, and known branches are
resolved.

KC_affine r2 = 64 + -64*r1
KC_min r3 = min(r2, 64)
KC_max r2 = max(r3, 0)
KC_less r3 = 0 < r2
KC_if r3
  KC_affine r4 = 128*r1
  WDMA slot=9 offset=r4 src=0x10000 count=r2    ⟶    WDMA slot=9 offset=0 src=0x10000 count=64
KC_endif
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from hlo2tx8.device.isa import Instruction, Role
from hlo2tx8.device.isa.encoding import Operand, Record, Register, number_of, partners
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcEndIf, KcIf, KcLoop
from hlo2tx8.link.records import TILE, ZERO

MOST = 1 << 62
"""Numbers beyond are left to the machine, which wraps."""


def specialize(records: Sequence[Record]) -> tuple[list[Record], list[int]]:
    """The records that tile 0 runs, and for each of them the index of the record that it came from. At the start only the tile's
    number is known.
    """
    work = _Work(records, partners(records), _outer_blocks(records))
    work.run(0, len(records), {ZERO.number: 0, TILE.number: 0})
    return work.made, work.origins


@dataclass
class _Work:
    records: Sequence[Record]
    partners: Sequence[int]
    outer: Sequence[int]
    made: list[Record] = field(default_factory=list[Record])
    origins: list[int] = field(default_factory=list[int])

    def run(self, at: int, end: int, known: dict[int, int]) -> None:
        """Go through the records from `at` up to `end`; `known` are registers with known values, whose definitions were left
        out.
        """
        while at < end:
            record, partner = self.records[at], self.partners[at]
            if record.kind is KcIf:
                self.branch(at, known)
            elif record.kind is KcLoop:
                self.loop(at, known)
            elif "rd" in record.fields:
                self.scalar(at, known)
            elif record.kind is not KcBarrier:  # there is nobody to meet
                self.emit(at, with_numbers(record, known))
            at = partner + 1 if record.kind in (KcIf, KcLoop) else at + 1

    def emit(self, at: int, record: Record) -> None:
        self.made.append(record)
        self.origins.append(at)

    def scalar(self, at: int, known: dict[int, int]) -> None:
        """A record that writes a register."""
        record = with_numbers(self.records[at], known)
        value = scalar_value(record)
        number = number_of(record.fields["rd"])
        known.pop(number, None)
        if value is not None and abs(value) < MOST and number:
            known[number] = value
        else:
            self.emit(at, _folded(record) if record.kind is KcAffine else record)

    def branch(self, at: int, known: dict[int, int]) -> None:
        """Taken, left out, or left as it is."""
        record, end = with_numbers(self.records[at], known), self.partners[at]
        value = record.fields["value"]
        if not isinstance(value, Register):
            if value:
                self.run(at + 1, end, known)
            return
        self.block(at, record, known, dict(known))

    def loop(self, at: int, known: dict[int, int]) -> None:
        """One turn is none."""
        record, end = with_numbers(self.records[at], known), self.partners[at]
        lo, hi, step = (record.fields[name] for name in ("lo", "hi", "step"))
        if not (isinstance(lo, Register) or isinstance(hi, Register) or isinstance(step, Register)):
            turns = range(lo, hi, step) if step > 0 and hi - lo < MOST else range(2)
            if len(turns) == 1 and abs(lo) < MOST:
                known[number_of(record.fields["rd"])] = lo
                return self.run(at + 1, end, known)
            if len(turns) == 0:
                return None
        inside = {r: v for r, v in known.items() if r not in self.written(at)}
        return self.block(at, record, known, inside)

    def block(self, at: int, record: Record, known: dict[int, int], inside: dict[int, int]) -> None:
        """Keep a block. Known registers whose definitions were left out are written before and after it, if it writes them and
        anybody may read them.
        """
        end, written = self.partners[at], self.written(at)
        self.define(at, [n for n in written if n in known and self.may_read(n, at)], known)
        self.emit(at, record)
        self.run(at + 1, end, inside)
        comes_back = record.kind is KcLoop
        last = [
            n for n in written if n in inside and (self.may_read(n, end) or (comes_back and self.scan(n, at + 1, end) is False))
        ]
        self.define(end, last, inside)
        self.emit(end, self.records[end])
        for number in written:
            known.pop(number, None)

    def define(self, at: int, numbers: Sequence[int], known: dict[int, int]) -> None:
        """Write known registers whose definitions had been left out."""
        for number in numbers:
            self.emit(at, Record(KcAffine, {"rd": number, "c": known[number]}))

    def written(self, at: int) -> dict[int, None]:
        """The registers that the block which begins with record `at` writes, a loop's counter included."""
        return {number_of(r.fields["rd"]): None for r in self.records[at : self.partners[at]] if "rd" in r.fields}

    def may_read(self, number: int, at: int) -> bool:
        """True if the register may be read, from record `at` on, before it is certainly written again."""
        while True:
            outer = self.outer[at]
            end = len(self.records) if outer < 0 else self.partners[outer]
            is_written = self.scan(number, at, end)
            if is_written is not None or outer < 0:
                return is_written is False
            if self.records[outer].kind is KcLoop and self.scan(number, outer + 1, end) is False:
                return True
            at = end + 1
            if at >= len(self.records):
                return False

    def scan(self, number: int, at: int, end: int) -> bool | None:
        """True if the register is certainly written, False if it may be read first, None if neither; in records that no block
        leaves.
        """
        written = [False]
        for place in range(at, end):
            record = self.records[place]
            if not written[-1] and any(record.fields.get(name) == Register(number) for name in _operands(record.kind)):
                return False
            if record.kind in (KcIf, KcLoop):
                written.append(written[-1])
            elif record.kind in (KcEnd, KcEndIf) and len(written) > 1:
                written.pop()
            if "rd" in record.fields and number_of(record.fields["rd"]) == number:
                written[-1] = True
                if len(written) == 1:
                    return True
        return None


def _outer_blocks(records: Sequence[Record]) -> list[int]:
    """The beginning of the innermost block around each record, -1 for none; begin and end of a block are not inside of it."""
    found: list[int] = []
    blocks = [-1]
    for at, record in enumerate(records):
        if record.kind in (KcEnd, KcEndIf):
            blocks.pop()
        found.append(blocks[-1])
        if record.kind in (KcIf, KcLoop):
            blocks.append(at)
    return found


@cache
def _operands(kind: type[Instruction]) -> tuple[str, ...]:
    """The fields that may read registers."""
    return tuple(f.name for f in kind.FIELDS if f.role is not Role.REGISTER)


def with_numbers(record: Record, known: dict[int, int]) -> Record:
    """Known registers replaced by what they hold."""
    places = _operands(record.kind)
    new = {
        name: known[operand.number]
        for name in places
        if isinstance(operand := record.fields.get(name), Register) and operand.number in known
    }
    return record.with_fields({**record.fields, **new}) if new else record


def scalar_value(record: Record) -> int | None:
    """What a scalar record computes; None if it is not known."""
    fields = [value for name, value in record.fields.items() if name != "rd"]
    if any(isinstance(value, Register) for value in fields):
        return None
    numbers = {name: value for name, value in record.fields.items() if isinstance(value, int)}
    if record.kind is KcAffine:
        return numbers["c"] + sum(numbers.get(f"r{i}", 0) * numbers.get(f"k{i}", 0) for i in (1, 2, 3, 4))
    if issubclass(record.kind, KcScalar):
        try:
            return record.kind.FOLD(numbers["a"], numbers["b"])
        except ZeroDivisionError:
            return None
    return None


def _folded(record: Record) -> Record:
    """An affine sum whose known products are in its constant, as far as that stays a number of the machine."""
    fields = record.fields
    constant = fields["c"]
    terms: list[tuple[Operand, Operand]] = []
    for i in (1, 2, 3, 4):
        a, b = fields.get(f"r{i}", 0), fields.get(f"k{i}", 0)
        if isinstance(a, int) and isinstance(b, int) and isinstance(constant, int) and abs(constant + a * b) < MOST:
            constant += a * b
        elif a != 0 and b != 0:
            terms.append((a, b))
    new: dict[str, Operand] = {"rd": fields["rd"], "c": constant}
    for i, (a, b) in enumerate(terms, 1):
        new |= {f"r{i}": a, f"k{i}": b}
    return record.with_fields(new)
