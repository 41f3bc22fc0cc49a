"""Records as the definition executes them: whatever is the same for all tiles and turns is worked out once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from hlo2tx8.device.isa.encoding import Operand, Record, Register, partners
from hlo2tx8.device.isa.fields import Operands
from hlo2tx8.device.isa.forms import KcScalar
from hlo2tx8.device.isa.kc_control import KcAffine

Scalar = Callable[[Sequence[int]], int]
"""What a record makes of the registers."""


def _scalar(record: Record) -> Scalar | None:
    """What a scalar record computes; None for any other."""
    if issubclass(record.kind, KcScalar):
        a, b, fold = _read(record.fields["a"]), _read(record.fields["b"]), record.kind.FOLD
        return lambda registers: fold(a(registers), b(registers))
    if record.kind is not KcAffine:
        return None
    factors = [(1, record.fields["c"]), *((record.fields[f"r{i}"], record.fields[f"k{i}"]) for i in range(1, 5))]
    terms = [(_read(r), _read(k)) for r, k in factors if r != 0 and k != 0]
    return lambda registers: sum([r(registers) * k(registers) for r, k in terms])


def _read(operand: Operand) -> Scalar:
    if isinstance(operand, Register):
        return itemgetter(operand.number)
    return lambda registers: operand


@dataclass(frozen=True)
class RecordOperands:
    """A record's fields, and which of them are read from registers when it is executed."""

    fixed: Operands
    registers: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, record: Record) -> "RecordOperands":
        """The operands of a record, split into known numbers and registers."""
        registers = tuple((name, field.number) for name, field in record.fields.items() if isinstance(field, Register))
        values = {name: 0 if isinstance(field, Register) else field for name, field in record.fields.items()}
        return cls(Operands(values, record.fmt, record.fmt2), registers)

    def now(self, registers: Sequence[int]) -> Operands:
        """The operands with what the registers hold now."""
        if not self.registers:
            return self.fixed
        read = {name: registers[number] for name, number in self.registers}
        return Operands({**self.fixed.values, **read}, self.fixed.fmt, self.fixed.fmt2)


class DecodedCode:
    """Records with the partners of their blocks, their operands, and what scalar ones compute."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records, self.targets = records, partners(records)
        self.operands = [RecordOperands.of(record) for record in records]
        self.scalars = [_scalar(record) for record in records]
