"""The package onnx, which is an extra: loaded when a model of it is met."""

from importlib import import_module
from typing import Any

from hlo2tx8.errors import InputError


def onnx_module(name: str = "") -> Any:
    """The package, or a module of it such as "defs"; InputError where it is not installed."""
    try:
        package: Any = import_module("onnx")
    except ImportError:
        raise InputError("E1004", "ONNX models need the package onnx", hint="pip install 'hlo2tx8[onnx]'") from None
    return import_module(f"onnx.{name}") if name else package
