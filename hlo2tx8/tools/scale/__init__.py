"""`hlo2tx8 scale`: modelled time of training a model as Llama's on many chips, without emulating them."""

from hlo2tx8.tools.scale.command import add_parser

__all__ = ["add_parser"]
