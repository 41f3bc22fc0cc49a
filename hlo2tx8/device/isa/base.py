"""What every instruction is: an xDSL op whose fields, formats, encoding and accesses follow from one declaration.

A field's value is an integer, or an SSA value: an index, a `!tx8.buffer` address in SPM, or the tensor a DDR slot holds.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Self, TypeVar, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, IndexType, IntegerType, StringAttr, TensorType, i64
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, prop_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa.exactness import SILENT, UNSTATED, Exactness
from hlo2tx8.device.isa.expressions import Expression
from hlo2tx8.device.isa.fields import SPM_ROLES, Access, Constraint, Engine, Field, Operands, Role
from hlo2tx8.ir import DeclaredOp, i64_array, integers, text_attr

NUM_OPERAND_WORDS = 28


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """An address in a tile's SPM."""

    name = "tx8.buffer"


class Instruction(DeclaredOp):
    """Base of all instructions.

    ENGINE executes it; FIELDS are its operands in encoding order; FORMATS are those `fmt` may take (empty: the instruction has
    none); FORMATS2 those of the source of a conversion. CONSTRAINTS are rules between fields, beyond the bounds the fields
    declare. COST names the chip description's cycles per beat. LAW names the entry of the chip description that states what the
    vendor has not published of it: without it the instruction encodes and decodes, but faults when it runs.
    """

    ENGINE: ClassVar[Engine]
    OPCODE: ClassVar[int]
    MNEMONIC: ClassVar[str]
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    FORMATS: ClassVar[tuple[Format, ...]] = ()
    FORMATS2: ClassVar[tuple[Format, ...]] = ()
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = ()
    COST: ClassVar[str] = "simple"
    LAW: ClassVar[str] = ""
    ROUNDS: ClassVar[bool] = False
    """Does it take every rounding, of the exact result? Stochastic rounding hashes the element's number alone."""
    COMPUTE: ClassVar[Any]
    FUNCTION: ClassVar[str] = ""
    """Name of the function of `device.approx` that it computes, if any."""

    FORM: ClassVar[str]
    """The routine of the native core that executes it, one of `enum form`."""
    SHAPE: ClassVar[str] = "NONE"
    """What its elements are computed of, one of `enum shape`: ONE vector, TWO, a vector and an IMMEDIATE, a UNIT or a UNIT_LOOP."""
    EXPRESSION: ClassVar[Expression | None] = None
    """What the core computes of each element of a float format."""
    INTEGER_EXPRESSION: ClassVar[Expression | None] = None
    """The same of integer formats."""
    PRED_EXPRESSION: ClassVar[Expression | None] = None
    """The same of PRED where the integers' expression is another."""
    EXACT: ClassVar[Exactness] = SILENT
    """Which of its results are exact: the others set INEXACT. SILENT sets no status bits."""
    HAS_POLES: ClassVar[bool] = False
    """Is the result infinite, without OVERFLOW, where the last operand is zero?"""
    JOIN: ClassVar[str] = "ADD"
    """How a reduction or pooling joins two elements: ADD, MAX or MIN."""
    AVERAGES: ClassVar[bool] = False
    """Is the joined element divided by the number of elements?"""
    IS_LOW_PRECISION: ClassVar[bool] = False
    """Is an FP32 result that of TF32?"""

    FIRST: ClassVar[str]
    SECOND: ClassVar[str]
    SUFFIX: ClassVar[str]
    SPELLING: ClassVar[str]
    OFFSET: ClassVar[int]
    """Of an operand form, see `families`: what its operands are called, and how names, mnemonics and opcodes follow."""

    dynamic = var_operand_def()
    static = prop_def(DenseArrayBase.constr(i64))
    """A bit per field that `dynamic` holds, then the values of the fields, 0 where that bit is set."""
    code = prop_def(DenseArrayBase.constr(i64))

    @classmethod
    def make(
        cls,
        *,
        fmt: Format | None = None,
        fmt2: Format | None = None,
        rnd: Rounding = Rounding.NEAREST_EVEN,
        origin: str = "",
        **fields: int | SSAValue,
    ) -> Self:
        """The instruction with these field values; every field without a default must be given."""
        mask = 0
        static: list[int] = []
        dynamic: list[SSAValue] = []
        for number, f in enumerate(cls.FIELDS):
            value = fields.pop(f.name, f.default)
            if value is None:
                raise TypeError(f"{cls.MNEMONIC}: field {f.name} is missing")
            if isinstance(value, int):
                static.append(value)
            else:
                mask |= 1 << number
                static.append(0)
                dynamic.append(value)
        if fields:
            raise TypeError(f"{cls.MNEMONIC} has no field {', '.join(fields)}")
        code = [fmt if fmt is not None else 0, fmt2 if fmt2 is not None else 0, rnd]
        op = cls.create(
            operands=dynamic,
            properties={"static": i64_array([mask, *static]), "code": i64_array(code)},
            location=UNKNOWN_LOC,
        )
        if origin:
            op.attributes["loc"] = text_attr(origin)
        return op

    @property
    def fmt(self) -> Format:
        """Format of the destination, or of all operands."""
        return Format(self._code[0])

    @property
    def fmt2(self) -> Format:
        """Format of the source of a conversion."""
        return Format(self._code[1])

    @property
    def rounding(self) -> Rounding:
        """How the result is rounded."""
        return Rounding(self._code[2])

    @property
    def _code(self) -> tuple[int, ...]:
        return integers(self.code)

    @property
    def origin(self) -> str:
        """HLO instruction and source line this came from; empty if unknown."""
        loc = self.attributes.get("loc")
        return loc.data if isinstance(loc, StringAttr) else ""

    def values(self) -> dict[str, int | SSAValue]:
        """Field values by name."""
        mask, *static = self._static
        found: dict[str, int | SSAValue] = dict(zip(self._names(), static, strict=True))
        if mask:
            dynamic = iter(self._operands)
            found |= {name: next(dynamic) for number, name in enumerate(found) if mask >> number & 1}
        return found

    def field(self, name: str) -> int | SSAValue:
        """The value of one field."""
        number = _numbers_of(type(self))[name]
        static = self._static
        return self._operand(static[0], number) if static[0] >> number & 1 else static[number + 1]

    def addresses(self, *, is_write: bool | None = None) -> list[SSAValue]:
        """The values that say where the instruction writes, or reads, in the tile's own scratchpad; None: either."""
        mask = self._static[0]
        return [self._operand(mask, number) for number in _in_own_scratchpad(type(self), is_write) if mask >> number & 1]

    def _operand(self, mask: int, number: int) -> SSAValue:
        return self._operands[(mask & ((1 << number) - 1)).bit_count()]

    @property
    def _static(self) -> tuple[int, ...]:
        """Which fields are operands, and the others' values."""
        return integers(cast("DenseArrayBase[IntegerType]", self.properties["static"]))

    @classmethod
    @cache
    def _names(cls) -> tuple[str, ...]:
        return tuple(f.name for f in cls.FIELDS)

    @classmethod
    def takes(cls, fmt: Format, fmt2: Format, rounding: Rounding) -> bool:
        """Do these codes go with the instruction?"""
        is_known = (not cls.FORMATS or fmt in cls.FORMATS) and (not cls.FORMATS2 or fmt2 in cls.FORMATS2)
        return is_known and (cls.ROUNDS or rounding is Rounding.NEAREST_EVEN)

    def verify_(self) -> None:
        """Codes the instruction takes, operands of the right types, and the constraints as far as values are known."""
        mask, *static = (int(v) for v in self.static.get_values())
        if len(static) != len(self.FIELDS) or mask.bit_count() != len(self.dynamic):
            given = f"{len(static)} values, {len(self.dynamic)} of them dynamic"
            raise VerifyException(f"{self.MNEMONIC} has {len(self.FIELDS)} fields, given {given}")
        if not self.takes(self.fmt, self.fmt2, self.rounding):
            raise VerifyException(refusal(type(self), self.fmt, self.fmt2, self.rounding))
        values = self.values()
        for f in self.FIELDS:
            value = values[f.name]
            if isinstance(value, SSAValue) and not _fits(value.type, f.role):
                raise VerifyException(f"{self.MNEMONIC}: {f.name} is the {f.role.value}, not a {value.type}")
        known = {name: value for name, value in values.items() if not isinstance(value, SSAValue)}
        violated = violation(type(self), Operands(known, self.fmt, self.fmt2))
        if violated:
            raise VerifyException(f"{self.MNEMONIC}: {violated}")

    @classmethod
    @cache
    def accesses(cls) -> tuple[Access, ...]:
        """The fields through which memory is reached."""
        return tuple(_ACCESS[f.role](f.name) for f in cls.FIELDS if f.role in _ACCESS)

    def print(self, printer: Printer) -> None:
        """Prints the fields with their values, then the formats."""
        for f, value in self.values().items():
            printer.print_string(f" {f}(")
            if isinstance(value, SSAValue):
                printer.print_ssa_value(value)
                printer.print_string(" : ")
                printer.print_attribute(value.type)
            else:
                printer.print_string(str(value))
            printer.print_string(")")
        if self.FORMATS:
            printer.print_string(f" {self.fmt.name.lower()}")
        if self.FORMATS2:
            printer.print_string(f" from {self.fmt2.name.lower()} {self.rounding.name.lower()}")
        elif self.rounding is not Rounding.NEAREST_EVEN:
            printer.print_string(f" {self.rounding.name.lower()}")
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Reads what `print` writes."""
        fields: dict[str, Any] = {}
        for f in cls.FIELDS:
            parser.parse_keyword(f.name)
            with parser.in_parens():
                unresolved = parser.parse_optional_unresolved_operand()
                if unresolved is None:
                    fields[f.name] = parser.parse_integer()
                else:
                    parser.parse_punctuation(":")
                    fields[f.name] = parser.resolve_operand(unresolved, parser.parse_type())
        code: dict[str, Any] = {}
        if cls.FORMATS:
            code["fmt"] = Format[parser.parse_identifier().upper()]
        if cls.FORMATS2:
            parser.parse_keyword("from")
            code["fmt2"] = Format[parser.parse_identifier().upper()]
            code["rnd"] = Rounding[parser.parse_identifier().upper()]
        elif cls.ROUNDS:
            code["rnd"] = next((r for r in Rounding if parser.parse_optional_keyword(r.name.lower())), Rounding.NEAREST_EVEN)
        op = cls.make(**code, **fields)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


_ACCESS: dict[Role, Callable[[str], Access]] = {
    Role.SPM_READ: lambda name: Access(name, "spm", False),
    Role.SPM_WRITE: lambda name: Access(name, "spm", True),
    Role.REMOTE_READ: lambda name: Access(name, "remote", False),
    Role.REMOTE_WRITE: lambda name: Access(name, "remote", True),
    Role.DDR_READ: lambda name: Access(name, "ddr", False),
    Role.DDR_WRITE: lambda name: Access(name, "ddr", True),
}


@cache
def _numbers_of(kind: type[Instruction]) -> dict[str, int]:
    """The fields' numbers by name."""
    return {f.name: number for number, f in enumerate(kind.FIELDS)}


@cache
def _in_own_scratchpad(kind: type[Instruction], is_write: bool | None) -> tuple[int, ...]:
    """The numbers of the fields that are addresses there which are written, or read; None: either."""
    found = [access.field for access in kind.accesses() if access.space == "spm" and is_write in (None, access.is_write)]
    return tuple(map(_numbers_of(kind).__getitem__, found))


def _fits(type_: Attribute, role: Role) -> bool:
    """Addresses in SPM are buffers, or numbers once they are allocated; slots are tensors."""
    match role:
        case _ if role in SPM_ROLES:
            return isinstance(type_, BufferType | IndexType)
        case Role.SLOT:
            return isinstance(type_, TensorType)
        case _:
            return isinstance(type_, IndexType)


@cache
def constraints(cls: type[Instruction]) -> tuple[Constraint, ...]:
    """C1, C2, ...: the bounds of fields, then the rules between them."""
    bounds = [_bound(f) for f in cls.FIELDS if f.role in (Role.COUNT, Role.STRIDE) or f.least is not None or f.most is not None]
    return (*bounds, *cls.CONSTRAINTS)


def _bound(f: Field) -> Constraint:
    least, most = f.least or 0, f.most
    if most is None:
        return Constraint(f"{f.name} >= {least}", lambda o: o[f.name] >= least)
    if least == most:
        return Constraint(f"{f.name} = {least}", lambda o: o[f.name] == least)
    return Constraint(f"{least} <= {f.name} <= {most}", lambda o: least <= o[f.name] <= most)


def violation(cls: type[Instruction], operands: Operands) -> str | None:
    """The first constraint that does not hold, with its label; those on fields without a value are passed over."""
    for number, constraint in enumerate(constraints(cls), 1):
        try:
            holds = constraint.holds(operands)
        except KeyError:
            continue
        if not holds:
            named = set(re.findall(r"\w+", constraint.text))
            given = ", ".join(f"{name} = {value}" for name, value in operands.values.items() if name in named)
            return f"C{number}: {constraint.text} does not hold for {given}"
    return None


def unpublished(cls: type[Instruction]) -> str:
    """What to say of an instruction whose law the chip description does not state."""
    return f"{cls.MNEMONIC} needs laws.{cls.LAW}, which is not published and not set in the chip description"


def refusal(cls: type[Instruction], fmt: Format, fmt2: Format, rounding: Rounding) -> str:
    """What to say of codes an instruction does not take."""
    source = f" from {fmt2.name}" if cls.FORMATS2 else ""
    return f"{cls.MNEMONIC} does not take {fmt.name}{source} rounded {rounding.name}"


InstructionT = TypeVar("InstructionT", bound=type[Instruction])


def instruction(cls: InstructionT) -> InstructionT:
    """Declares an instruction: its op name is `tx8.` and the mnemonic."""
    if cls.EXACT is UNSTATED:
        raise TypeError(f"{cls.__name__} does not say which of its results are EXACT")
    cls.name = f"tx8.{cls.MNEMONIC}"
    for base in cls.__mro__[: cls.__mro__.index(Instruction)]:
        # The op definition wants constants declared; a leaf states them without ceremony.
        annotations = base.__dict__.get("__annotations__", {})
        base.__annotations__ = {n: ClassVar[Any] for n in base.__dict__ if n.isupper()} | annotations
    return irdl_op_definition(cls)


def declared(*modules: ModuleType) -> tuple[type[Instruction], ...]:
    """The instructions that these modules declare, module by module in the order of the declarations."""
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Instruction)
        and value.__module__ == module.__name__
        and "OPCODE" in value.__dict__
    )


def opcodes(classes: Iterable[type[Instruction]]) -> dict[int, type[Instruction]]:
    """Instructions by opcode; ValueError if two share one."""
    table: dict[int, type[Instruction]] = {}
    for cls in classes:
        if cls.OPCODE in table:
            raise ValueError(f"opcode {cls.OPCODE} is both {table[cls.OPCODE].MNEMONIC} and {cls.MNEMONIC}")
        table[cls.OPCODE] = cls
    return table
