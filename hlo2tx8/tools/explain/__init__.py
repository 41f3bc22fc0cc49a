"""`hlo2tx8 explain FILE`: answers in sentences about why a program is as it is, and where its time and memory go."""

from hlo2tx8.tools.explain.command import add_parser

__all__ = ["add_parser"]
