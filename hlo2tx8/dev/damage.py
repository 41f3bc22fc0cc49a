"""Damaged copies of files: text, bytes, compiled programs. The same generator gives the same damage."""

import io
import json
import random
import re
import zipfile
from copy import deepcopy
from typing import Any

import numpy as np

TOKEN = re.compile(r"[A-Za-z_][\w.-]*|-?\d+|\s+|.")
NUMBERS = ("0", "-1", "1", "2147483648", "9223372036854775807", "99999999999999999999", "1e400", "nan", "?")
VALUES: tuple[Any, ...] = (0, -1, 1, 2**31, 2**63, 2**70, 0.5, float("nan"), "", "float32", None, [], {}, [2**40], True)


def damaged_text(text: str, rng: random.Random) -> bytes:
    """Text in which a few tokens are lost, doubled, exchanged, taken from elsewhere or made extreme; now and then bytes instead."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(7):
            case 0:
                del tokens[at : at + rng.choice((1, 1, 3, 20))]
            case 1:
                tokens[at:at] = tokens[at : at + rng.choice((1, 3, 30))]
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = tokens[other]
            case 4 | 5:
                numbers = [i for i, token in enumerate(tokens) if token.lstrip("-").isdigit()] or [at]
                tokens[rng.choice(numbers)] = rng.choice(NUMBERS)
            case _:
                tokens[at] = rng.choice("{}()[]<>\"'%@#,:=\\\0\n\u00ff")
        tokens = tokens or [" "]
    data = "".join(tokens).encode()
    return damaged_bytes(data, rng) if rng.random() < 0.2 else data


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes of which a few are changed, or the end or a part is missing."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not found:
            break
        at = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                del found[at:]
            case 1:
                del found[at : at + rng.randrange(1, 9)]
            case _:
                found[at] = rng.randrange(256)
    return bytes(found)


def damaged_program(data: bytes, rng: random.Random) -> bytes:
    """A `.tx8x` with its bytes, a member's bytes, a value of its manifest or words of its program changed."""
    kind = rng.randrange(8)
    if kind == 0:
        return damaged_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    if kind <= 3:
        manifest = json.loads(members["manifest.json"])
        for _ in range(rng.choice((1, 1, 3))):
            _damage_value(manifest, rng)
        members["manifest.json"] = json.dumps(manifest).encode()
    elif kind == 4:
        name = rng.choice(sorted(members))
        members[name] = damaged_bytes(members[name], rng)
    else:
        words = np.frombuffer(members["program.bin"], "<u8").copy()
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(words))
            words[at] ^= np.uint64(1 << rng.randrange(64)) if rng.random() < 0.7 else np.uint64(rng.getrandbits(64))
        members["program.bin"] = words.tobytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return packed.getvalue()


def _damage_value(manifest: Any, rng: random.Random) -> None:
    """Replace, double or remove one value somewhere in a JSON document, in place."""
    while True:
        places: list[Any] = list(manifest) if hasattr(manifest, "keys") else list(range(len(manifest)))
        if not places:
            return
        place = rng.choice(places)
        inner: Any = manifest[place]
        if hasattr(inner, "__setitem__") and inner and rng.random() < 0.8:
            manifest = inner
            continue
        match rng.randrange(4):
            case 0:
                del manifest[place]
            case 1 if hasattr(manifest, "append"):
                manifest.append(manifest[place])
            case _:
                manifest[place] = deepcopy(rng.choice(VALUES))
        return
