"""Words and numbers in C."""

import re
import struct
from itertools import count

FP32_END = 2.0**128


def comment(text: str) -> str:
    """Text that may stand in a comment."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /").replace("/*", "/ *")


def unique(word: str, taken: set[str]) -> str:
    """The word as a name in C, with a number if that is taken; it is from now on."""
    word = re.sub(r"\W", "_", word, flags=re.ASCII)
    name = next(name for number in count(1) if (name := word if number == 1 else f"{word}_{number}") not in taken)
    taken.add(name)
    return name


def number_text(value: int) -> str:
    """An integer of 64 bits."""
    return str(value) if abs(value) < 1 << 31 else f"INT64_C({value})" if value > -(1 << 63) else "INT64_MIN"


def fp32_text(number: float) -> str:
    """The fewest digits that are this FP32."""
    for digits in range(1, 10):
        text = f"{number:.{digits}g}"
        if abs(float(text)) < FP32_END and struct.pack("<f", float(text)) == struct.pack("<f", number):
            return text if any(c in text for c in ".e") else f"{text}.0"
    return repr(number)
