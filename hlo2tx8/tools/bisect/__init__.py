"""`hlo2tx8 bisect FILE`: the level and pass at which a module goes wrong, and a smaller module that does the same."""

from hlo2tx8.tools.bisect.command import add_parser

__all__ = ["add_parser"]
