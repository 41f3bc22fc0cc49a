"""Origins of instructions in their parts: the source line and the HLO instruction.

model.py:12:8 jit(f)/tanh    ->    {"source": "model.py:12:8", "hlo": "jit(f)/tanh"}
"""

import re

PLACE = re.compile(r"(?P<source>.*?:\d+(?::\d+)?)(?: (?P<hlo>.*))?")


def split_origin(origin: str) -> dict[str, str]:
    """(source location, HLO instruction) of an origin such as `model.py:12 dot.3`; "" for a part that it lacks."""
    found = PLACE.fullmatch(origin)
    parts = found.groupdict(default="") if found else {"hlo": origin}
    return {name: text for name, text in parts.items() if text}
