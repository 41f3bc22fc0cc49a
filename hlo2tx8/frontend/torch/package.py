"""The package torch, which is an extra: loaded when a program of it is met."""

from importlib import import_module
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError

CLASSES = {"torch.nn.modules.module.Module", "torch.export.exported_program.ExportedProgram"}


def torch_module(name: str = "") -> Any:
    """The package, or a module of it such as "export"; InputError where it is not installed."""
    try:
        package: Any = import_module("torch")
    except ImportError:
        raise InputError("E1004", "PyTorch programs need the package torch", hint="pip install 'hlo2tx8[torch]'") from None
    return import_module(f"torch.{name}") if name else package


def is_torch_source(source: object) -> bool:
    """Is it a module of torch, or an exported program or a file of one? torch is not loaded for the answer."""
    if isinstance(source, (str, Path)):
        return str(source).endswith(".pt2")
    return any(f"{each.__module__}.{each.__qualname__}" in CLASSES for each in type(source).__mro__)
