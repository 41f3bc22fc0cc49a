"""What SavedModel folders and `.keras` files hold, as something to call."""

# pyright: basic

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.tensorflow.package import tensorflow_module
from hlo2tx8.frontend.traced import first_line

DEFAULT = "serving_default"
HINT = "sizes are bound by inputs: compile(source, args=...), --input_literals_file=FILE"


@dataclass(frozen=True)
class SavedFunction:
    """A function of a SavedModel, called with inputs in order or by name; `model` keeps the variables."""

    model: Any
    function: Any
    names: tuple[str, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Its results by name."""
        return self.function(**dict(zip(self.names, args, strict=False)), **kwargs)


def load_saved(path: Path, args: Any) -> tuple[Any, Sequence[Any] | Mapping[str, Any]]:
    """The function of a SavedModel folder or `.keras` file, and its inputs: `args`, in order or by name, or the specs that it was
    saved with where they leave no size open. InputError where there is no function to choose, or the inputs do not fit.
    """
    try:
        if path.suffix == ".keras":
            model = import_module("keras").models.load_model(path, compile=False, safe_mode=True)
            specs = {port.name: _spec(port.shape, port.dtype, port.name) for port in model.inputs}
            return model, tuple(_bound(specs, str(path)).values()) if args is None else args
        model = tensorflow_module().saved_model.load(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # what damaged files bring about
        raise InputError("E1004", f"{path}: {first_line(error)}") from error
    signatures = dict(model.signatures)
    if DEFAULT not in signatures and len(signatures) != 1:
        message = f"{path} has {len(signatures) or 'no'} signatures and none is {DEFAULT}"
        hint = f"tf.saved_model.load(path).signatures[name], name of {', '.join(sorted(signatures))}" if signatures else ""
        raise InputError("E1004", message, hint=hint)
    function = signatures[DEFAULT] if DEFAULT in signatures else next(iter(signatures.values()))
    specs = function.structured_input_signature[1]
    if args is None:
        args = _bound(specs, str(path))
    if len(args) != len(specs) or (isinstance(args, Mapping) and set(args) != set(specs)):
        raise InputError("E1004", f"{path} takes {', '.join(specs)}, got {len(args)} inputs")
    return SavedFunction(model, function, tuple(specs)), args


def _spec(shape: Sequence[int | None], dtype: str, name: str) -> Any:
    return tensorflow_module().TensorSpec(shape, dtype, name)


def _bound(specs: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The specs; InputError if one leaves a size open."""
    for name, spec in specs.items():
        if not spec.shape.is_fully_defined():
            raise InputError("E1004", f"{path}: the input {name} has the shape {spec.shape}", hint=HINT)
    return dict(specs)
