"""Operands of instructions: what a field means, how far it reaches, what rules hold between fields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.extents import Elements


class Engine(IntEnum):
    """The engines of a tile; each has a queue of its own but the kernel core, which issues."""

    CT = 0
    NE = 1
    RDMA = 2
    WDMA = 3
    TDMA = 4
    DTE = 5
    KC = 6


RANGE_CHECKED = (Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA)
"""The engines whose queues order accesses of one tile to the same bytes."""


class Role(Enum):
    """What a field means."""

    SPM_READ = "byte address in SPM of data that is read"
    SPM_WRITE = "byte address in SPM of data that is written"
    REMOTE_READ = "byte address in another tile's SPM of data that is read"
    REMOTE_WRITE = "byte address in another tile's SPM of data that is written"
    SLOT = "DDR slot"
    DDR_READ = "byte offset in the slot of data that is read"
    DDR_WRITE = "byte offset in the slot of data that is written"
    COUNT = "number of elements, turns or bytes"
    STRIDE = "distance between turns"
    IMMEDIATE = "a value"
    REGISTER = "a register number"


SPM_ROLES = (Role.SPM_READ, Role.SPM_WRITE, Role.REMOTE_READ, Role.REMOTE_WRITE)
"""Addresses in some tile's SPM."""


@dataclass(frozen=True)
class Field:
    """One operand of an instruction. `num_bytes` gives the extent of an SPM access from the field values; `least` and `most` bound
    the value, counts and strides are not negative anyway."""

    name: str
    role: Role
    num_bytes: "Callable[[Operands], int] | None" = None
    default: int | None = None
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Operands:
    """Concrete field values of an instruction about to execute."""

    values: Mapping[str, int]
    fmt: Format
    fmt2: Format

    def __getitem__(self, name: str) -> int:
        return self.values[name]


@dataclass(frozen=True)
class Constraint:
    """A rule on concrete field values, as text and as a test."""

    text: str
    holds: Callable[[Operands], bool]


@dataclass(frozen=True)
class Access:
    """A field through which an instruction reads or writes memory: "spm", "remote" (another tile's SPM) or "ddr"."""

    field: str
    space: str
    is_write: bool


def vector(name: str, role: Role, count: str = "n", is_source: bool = False) -> Field:
    """An SPM operand of `count` elements in the instruction's format, or the source's format of a conversion."""
    return Field(name, role, Elements((count,), is_source=is_source))


def dims(*names: str) -> Sequence[Field]:
    """Pairs of stride and count fields of descriptor levels, absent by default."""
    return [
        field
        for s, n in zip(names[::2], names[1::2], strict=True)
        for field in (Field(s, Role.STRIDE, default=0), Field(n, Role.COUNT, default=1, least=1))
    ]
