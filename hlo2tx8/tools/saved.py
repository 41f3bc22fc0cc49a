"""Programs that were compiled before, `.tx8x` files, where a command takes modules: the module is that of the IR they hold."""

from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hlo2tx8.errors import ContainerError
from hlo2tx8.options import Level
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.tools.universe import UNIVERSE

SUFFIXES = (".tx8x", ".tx8x.gz")


def is_saved(file: str | Path) -> bool:
    """Is that the name of a compiled program?"""
    return str(file).endswith(SUFFIXES)


def module_in(file: str | Path) -> ModuleOp:
    """The module at level HLO that the program in a file was compiled from; ContainerError if it holds none."""
    return parsed(Executable.load(file).as_text(Level.HLO), str(file))


def parsed(text: str, name: str) -> ModuleOp:
    """The module of IR text at any level, which errors call `name`; ContainerError if it is none."""
    context = Context()
    for own, dialect in (get_all_dialects() | UNIVERSE.all_dialects).items():
        context.register_dialect(own, dialect)
    try:
        return Parser(context, text, name).parse_module()
    except (ParseError, VerifyException) as error:
        raise ContainerError("E1007", f"{name}: its IR cannot be read: {error}") from None
