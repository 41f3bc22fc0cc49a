"""`.pt2` files: torch reads them, after a look at whether that could execute anything.

torch unpickles tensors of classes of their own, objects of classes and examples, resolves names of functions, and evaluates
expressions of sizes as Python. What a file may have of these is what `torch.export.save` writes for plain programs.
"""

# pyright: basic

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from hlo2tx8.errors import Hlo2tx8Error, InputError, ParseError
from hlo2tx8.frontend.torch.package import torch_module

_TARGET = re.compile(r"torch\.ops\.\w+(\.\w+){1,2}|_operator\.\w+|math\.\w+|torch\.(_?sym_\w+)|torch\._higher_order_ops(\.\w+)+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SIZE = re.compile(r"[\w\s()+\-*/%,<>=&|~]*(\.\d+)?[\w\s()+\-*/%,<>=&|~]*")
_WORDS = re.compile(
    r"[a-z]+\d+|Mod|PythonMod|FloorDiv|CeilDiv|CleanDiv|IntTrueDiv|FloatTrueDiv|TruncToInt|ToFloat|Max|Min|Where|Eq|Ne|And|Or|Not"
    r"|Identity|True|False|oo|int_oo|ModularIndexing|PowByNatural|FloatPow|Abs"
)
MOST_BYTES = 1 << 28
"""Of a file's description of its graph."""


def is_archive(data: bytes) -> bool:
    """Are the bytes of a ZIP file those of an exported program?"""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return any(name.endswith("/archive_format") for name in file.namelist())
    except zipfile.BadZipFile:
        return False


def read_archive(data: bytes, name: str) -> Any:
    """The ExportedProgram of a file; InputError for one that would execute what it holds, ParseError for a damaged one."""
    try:
        _check(data, name)
        return torch_module("export").load(io.BytesIO(data))
    except Hlo2tx8Error:
        raise
    except Exception as error:
        message = next(iter(str(error).splitlines()), "")[:200]
        raise ParseError("E1003", f"{name}: {type(error).__name__}: {message}") from error


def _check(data: bytes, name: str) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for info in file.infolist():
            member = info.filename.partition("/")[2]
            if member.startswith(("data/aotinductor", "data/executorch")):
                raise _refusal(name, "compiled code")
            if member.startswith(("data/weights/", "data/constants/")) and member.endswith(".pt"):
                raise _refusal(name, "weights of an old format, which are pickled")
            if not member.endswith(".json"):
                continue
            if info.file_size > MOST_BYTES:
                raise InputError("E1004", f"{name}: {member} has {info.file_size:,} bytes")
            for key, value in _fields(json.loads(file.read(info))):
                _check_field(name, key, value)


def _check_field(name: str, key: str, value: Any) -> None:
    if key == "use_pickle" and value:
        raise _refusal(name, "pickled tensors or objects")
    if key == "path_name" and isinstance(value, str) and not re.fullmatch(r"(weight|constant|tensor)_\w+", value):
        raise _refusal(name, f"objects of classes ({value})")
    if (
        key == "target"
        and isinstance(value, str)
        and not _TARGET.fullmatch(value)
        and ("." in value and value.startswith(("torch", "#", "_", "math")))
    ):
        raise _refusal(name, f"a call of {value}")
    if key == "expr_str" and not (isinstance(value, str) and _SIZE.fullmatch(value) and _has_known_words(value)):
        raise _refusal(name, f"a size that is {value!r}")
    if isinstance(value, str) and "default_factory_module" in value and not re.search(r"default_factory_module\W+builtins", value):
        raise _refusal(name, "a dictionary with a function")


def _has_known_words(text: str) -> bool:
    return all(_WORDS.fullmatch(word) for word in _WORD.findall(text))


def _refusal(name: str, what: str) -> InputError:
    return InputError(
        "E1004", f"{name} holds {what}", hint="load it with torch.export.load if you trust it, and compile what that gives"
    )


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Keys and values of all objects inside of JSON."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield from item.items()
            stack += item.values()
        elif isinstance(item, list):
            stack += item
