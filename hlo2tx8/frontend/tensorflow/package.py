"""The package tensorflow, which is an extra: loaded when a program of it is met."""

from importlib import import_module
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError

CLASSES = {
    ("tensorflow.", "Function"),
    ("tensorflow.", "ConcreteFunction"),
    ("keras.", "Layer"),
    ("tf_keras.", "Layer"),
}
"""Where classes come from whose objects are programs, and their names; a Keras model is a layer."""
SAVED_MODEL = "saved_model.pb"


def tensorflow_module() -> Any:
    """The package; InputError where it is not installed."""
    try:
        return import_module("tensorflow")
    except ImportError:
        message = "TensorFlow programs need the package tensorflow"
        raise InputError("E1004", message, hint="pip install 'hlo2tx8[tensorflow]'") from None


def is_tensorflow_source(source: object) -> bool:
    """Is it a tf.function, a Keras model or layer, or a file or folder of one? TensorFlow is not loaded for the answer."""
    if isinstance(source, (str, Path)):
        return is_saved(source)
    return any(
        f"{each.__module__}.".startswith(package) and each.__name__ == name
        for each in type(source).__mro__
        for package, name in CLASSES
    )


def is_saved(source: str | Path) -> bool:
    """Is it the path of a SavedModel folder, or of a `.keras` file?"""
    if isinstance(source, str) and "\n" in source:
        return False
    path = Path(source)
    try:
        return path.is_file() if path.suffix == ".keras" else (path / SAVED_MODEL).is_file()
    except (OSError, ValueError):  # a text of one line that is too long for a path, or has a zero in it
        return False
