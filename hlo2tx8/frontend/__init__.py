"""From files, text, jax objects and Python functions to one xDSL module."""

from hlo2tx8.frontend.export import to_hlo_text, to_mlir_text
from hlo2tx8.frontend.legalize import legalize_chlo, legalize_complex
from hlo2tx8.frontend.sources import load

__all__ = ["legalize_chlo", "legalize_complex", "load", "to_hlo_text", "to_mlir_text"]
