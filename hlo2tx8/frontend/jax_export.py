"""`.jaxexport` files: what `jax.export.Exported.serialize` writes."""

from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.frontend import shim

SUFFIX = ".jaxexport"


def exported_of(data: bytes, name: str) -> Any:
    """The `jax.export.Exported` that the bytes hold; InputError if they hold none."""
    try:
        return shim.read_exported(data)
    except ImportError:
        raise InputError("E1004", f"{SUFFIX} files need the package flatbuffers", hint="pip install 'hlo2tx8[jaxexport]'") from None
    except Exception as error:  # flatbuffers raises what its reading of damaged offsets happens to bring about
        raise InputError("E1004", f"{name} is no function that jax.export has serialized: {error}") from error


def exported_file(source: Any) -> Any:
    """The `Exported` of the path of a `.jaxexport` file, with the trees of its arguments; any other source as it is."""
    path = Path(source) if isinstance(source, (str, Path)) and str(source).endswith(SUFFIX) else None
    if path is None or not path.is_file():
        return source
    return exported_of(path.read_bytes(), str(path))
