"""Every failure a user can see: a code, one clear line, where it came from and what to do.

Each code, or its family as `E30xx`, has a page in docs/errors. `str(error)` is what the command line prints, never a
traceback. Codes: E1000 internal, E1001 unsupported, E1002 cannot be compiled, E1003 malformed, E1004 wrong input,
E1005 too large, E1006 invalid IR, E1007 unreadable executable, E1008 fault, E1009 no reference, E1010 the host cannot go on,
E1011 a netlist that breaks a rule, E1012 a netlist's run that cannot go on, E1013 calls of a session in
a wrong order, E1014 a netlist that has no streams, E1015 a pod whose processes cannot go on; E30xx and up belong to the lowering
passes.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class Hlo2tx8Error(Exception):
    """`error <code>: <message>`, then the origin and a hint on lines of their own when known."""

    def __init__(self, code: str, message: str, *, origin: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
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


class ParseError(CompileError):
    """Malformed input text; the message holds `line:column`."""


class NetlistError(CompileError):
    """A netlist is malformed or breaks a rule; the message names what is at fault and the field, the origin file and line."""

    def __init__(self, message: str, *, origin: str = "") -> None:
        super().__init__("E1011", message, origin=origin)


class NetlistRunError(Hlo2tx8Error):
    """A netlist's programs cannot go on, as where a queue is full; the message names the program, the graph and the op or queue."""

    def __init__(self, message: str) -> None:
        super().__init__("E1012", message)


class InputError(Hlo2tx8Error):
    """Wrong file, argument, shape, dtype or option given by the user."""


@contextmanager
def writing(path: Path) -> Generator[None]:
    """A context in which what the system says about a file that is written, as that there is no space left, is an InputError that
    names it.
    """
    try:
        yield
    except OSError as error:
        raise InputError("E1004", f"{path}: {error.strerror}") from None


class CapacityError(CompileError):
    """A tensor or buffer does not fit DDR or SPM; sizes are in bytes."""


class LevelError(CompileError):
    """IR after a stage holds an op or type that its level does not allow: a defect of the compiler."""


class ContainerError(Hlo2tx8Error):
    """A saved executable is damaged, of a newer format, or not one."""


class DeviceError(Hlo2tx8Error):
    """The emulator refused to go on: a fault with tile, engine, instruction and origin."""


class HostError(Hlo2tx8Error):
    """A program has started and the host cannot do its part of it: chips that disagree, a Python function that is gone."""


class SessionError(Hlo2tx8Error):
    """A session was asked for something that it cannot do now: a run before everything is bound, or after the session's end."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__("E1013", message, hint=hint)


class PodError(Hlo2tx8Error):
    """Processes of a pod cannot go on together: one has not come, differs or is gone; the message names it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__("E1015", message, hint=hint)


class OracleError(Hlo2tx8Error):
    """The reference platform could not give an answer."""


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

    def __init__(self, ops: Sequence[UnsupportedOp], *, hint: str = "") -> None:
        places: dict[tuple[str, str], tuple[str, ...]] = {}
        for op in ops:
            places[op.name, op.reason] = (*places.get((op.name, op.reason), ()), *op.origins)
        self.ops = tuple(UnsupportedOp(name, places[name, reason], reason) for name, reason in sorted(places))
        count = sum(len(op.origins) for op in self.ops)
        lines = "\n".join(str(op) for op in self.ops)
        super().__init__("E1001", f"{count} unsupported operation{'s' * (count != 1)}\n{lines}", hint=hint)
