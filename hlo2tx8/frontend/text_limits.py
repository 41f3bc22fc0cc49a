"""Limits of MLIR text, which is parsed in this process: what would end it, or take all of its memory, is refused before."""

import re

import numpy as np

from hlo2tx8.errors import ParseError

MOST_OPEN = 2000
"""Brackets inside each other: MLIR's parser recurses into each."""
MOST_RESULTS = 1 << 20
"""Of an operation; MLIR's parser makes room for as many as the text says."""
_NEGATIVE = re.compile(r"broadcast_dimensions\s*=\s*(?:array<i64:|dense<)[^>]*-")
"""Dimensions that MLIR's passes over chlo take for granted."""
_NUM_RESULTS = re.compile(r"%[\w$.-]+[:#](\d+)")


def check_text(source: str, name: str) -> None:
    """ParseError for text beyond a limit."""
    if _depth(source) > MOST_OPEN:
        raise ParseError("E1003", f"{name}: more than {MOST_OPEN} brackets are open at once")
    many = next((found for found in _NUM_RESULTS.finditer(source) if len(found[1]) > 7 or int(found[1]) > MOST_RESULTS), None)
    if many is not None:
        line = source.count("\n", 0, many.start()) + 1
        raise ParseError("E1003", f"{name}:{line}: an operation with {many[1][:20]} results", hint=f"at most {MOST_RESULTS}")
    negative = _NEGATIVE.search(source)
    if negative is not None:
        line = source.count("\n", 0, negative.start()) + 1
        raise ParseError("E1003", f"{name}:{line}: broadcast_dimensions must not be negative")


def _depth(text: str) -> int:
    """How many brackets are open at once, at most; those of types are counted apart, without the ends of arrows."""
    if max(text.count(bracket) for bracket in "([{<") <= MOST_OPEN:
        return 0
    found = np.frombuffer(text.encode(errors="replace"), np.uint8)
    closes_type = (found == ord(">")) & (np.roll(found, 1) != ord("-"))
    return max(
        int(np.cumsum(np.isin(found, opens).astype(np.int32) - closes.astype(np.int32)).max())
        for opens, closes in (([*b"([{"], np.isin(found, [*b")]}"])), ([*b"<"], closes_type))
    )
