"""Every failure a user can see: a code, one clear line, where it came from and what to do.

Each code has a page `docs/errors/<code>.md`. `str(error)` is what the command line prints, never a traceback.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class Hlo2tx8Error(Exception):
    """`error <code>: <message>`, then the origin and a hint on lines of their own when known."""

    default_code: ClassVar[str] = "E1000"

    def __init__(self, message: str, *, code: str = "", origin: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.origin = origin
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"error {self.code}: {self.message}"]
        if self.origin:
            lines.append(f"  at {self.origin}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class CompileError(Hlo2tx8Error):
    """A stage of the compiler met something it cannot lower."""

    default_code = "E1002"


class ParseError(CompileError):
    """Malformed input text; the message holds `line:column`."""

    default_code = "E1003"


class InputError(Hlo2tx8Error):
    """Wrong file, argument, shape, dtype or option given by the user."""

    default_code = "E1004"


class CapacityError(CompileError):
    """A tensor or buffer does not fit DDR or SPM; sizes are in bytes."""

    default_code = "E1005"


class LevelError(CompileError):
    """IR after a stage holds an op or type that its level does not allow: a defect of the compiler."""

    default_code = "E1006"


class ContainerError(Hlo2tx8Error):
    """A saved executable is damaged, of a newer format, or not one."""

    default_code = "E1007"


class DeviceError(Hlo2tx8Error):
    """The emulator refused to go on: a fault with tile, engine, instruction and origin."""

    default_code = "E1008"


class OracleError(Hlo2tx8Error):
    """The reference platform could not give an answer."""

    default_code = "E1009"


@dataclass(frozen=True)
class UnsupportedOp:
    """One kind of op that cannot be compiled: its name, why, and every place it was used."""

    name: str
    origins: tuple[str, ...]
    reason: str = ""

    def __str__(self) -> str:
        places = [place for place in dict.fromkeys(self.origins) if place]
        shown = ", ".join(places[:4]) + (f", ... {len(places) - 4} more" if len(places) > 4 else "")
        where = f" at {shown}" if shown else ""
        why = f": {self.reason}" if self.reason else ""
        return f"  {len(self.origins)} x {self.name}{why}{where}"


class UnsupportedError(CompileError):
    """Everything in a module that is not supported, at once: op, count, source lines."""

    default_code = "E1001"

    def __init__(self, ops: Sequence[UnsupportedOp], *, hint: str = "") -> None:
        self.ops = tuple(sorted(ops, key=lambda op: (op.name, op.reason)))
        count = sum(len(op.origins) for op in self.ops)
        lines = "\n".join(str(op) for op in self.ops)
        super().__init__(f"{count} unsupported operation{'s' * (count != 1)}\n{lines}", hint=hint)


ERRORS: tuple[type[Hlo2tx8Error], ...] = (
    Hlo2tx8Error,
    UnsupportedError,
    CompileError,
    ParseError,
    InputError,
    CapacityError,
    LevelError,
    ContainerError,
    DeviceError,
    OracleError,
)
"""All error classes in the order of their codes' pages."""
