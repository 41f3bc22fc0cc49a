"""Parameters of a chip that a sweep varies: `spm=1.5M,3M` is a name and the changes of the description that each value means."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hlo2tx8.errors import InputError

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([KMG]?)")
_MESH = re.compile(r"([1-9]\d*)x([1-9]\d*)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3}
Description = Mapping[str, Any]
"""What a chip file says."""


@dataclass(frozen=True)
class ChipAxis:
    """A parameter's name, its values as given, and for each the changes of the description: `key` or `section.key` → value."""

    name: str
    labels: tuple[str, ...]
    changes: tuple[Mapping[str, Any], ...]


def _number(text: str, kilo: int) -> int:
    """A positive whole number; K, M and G are powers of `kilo`. ValueError if it is none."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError("a number, perhaps with K, M or G behind it")
    number = float(found[1]) * kilo ** _POWERS[found[2]]
    if number < 1 or number != int(number):
        raise ValueError("a positive whole number")
    return int(number)


def _spm(text: str, base: Description) -> Mapping[str, Any]:
    """Bytes; what lies behind the last legal address stays as large."""
    size = _number(text, 1024)
    return {"spm_bytes": size, "spm_limit": size - (base["spm_bytes"] - base["spm_limit"])}


def _tiles(text: str, _: Description) -> Mapping[str, Any]:
    found = _MESH.fullmatch(text)
    if found is None:
        raise ValueError("rows x columns of tiles, as 4x8")
    mesh = [int(found[1]), int(found[2])]
    return {"tiles": mesh[0] * mesh[1], "mesh": mesh}


def _times(key: str, factor: int) -> Callable[[str, Description], Mapping[str, Any]]:
    def changes(text: str, _: Description) -> Mapping[str, Any]:
        found = float(text) * factor
        if not 1 <= found < 2**63:
            raise ValueError("a positive number")
        return {key: round(found)}

    return changes


NAMED: Mapping[str, Callable[[str, Description], Mapping[str, Any]]] = {
    "tiles": _tiles,
    "spm": _spm,
    "ddr": _times("ddr_bytes_per_second", 10**9),
    "clock": _times("clock_hz", 10**6),
}
"""Parameters that have names of their own: rows x columns, bytes of SPM per tile, GB/s, MHz."""


def keys_of(base: Description) -> dict[str, Any]:
    """What a description says by key; those of its sections as `section.key`."""
    found: dict[str, Any] = {}
    for key, value in base.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{name}": v for name, v in cast(Description, value).items()}
        else:
            found[key] = value
    return found


def axis(text: str, base: Description) -> ChipAxis:
    """The parameter and values of `name=value,value`; InputError for one that the chip does not have, or no number."""
    name, equals, listed = text.partition("=")
    labels = tuple(dict.fromkeys(part.strip() for part in listed.split(",") if part.strip()))
    if not equals or not labels:
        raise InputError("E1004", f"no values in {text!r}", hint="name=value,value")
    keys = {key for key, value in keys_of(base).items() if isinstance(value, int) and not isinstance(value, bool)}
    if name not in NAMED and name not in keys:
        raise InputError("E1004", f"a chip has no parameter {name!r}", hint=", ".join([*NAMED, *sorted(keys - {"tiles"})]))
    changes: list[Mapping[str, Any]] = []
    for label in labels:
        try:
            if name in NAMED:
                changes.append(NAMED[name](label, base))
            else:
                is_size = "bytes" in name and not name.endswith("per_second")
                changes.append({name: _number(label, 1024 if is_size else 1000)})
        except (ValueError, OverflowError) as error:
            raise InputError("E1004", f"{name} cannot be {label!r}", hint=str(error)) from None
    return ChipAxis(name, labels, tuple(changes))


def axes(texts: Sequence[str], base: Description) -> list[ChipAxis]:
    """The parameters of a sweep; InputError also if two of them change the same key."""
    found = [axis(text, base) for text in texts]
    owners: dict[str, str] = {}
    for one in found:
        for key in one.changes[0]:
            if key in owners:
                raise InputError("E1004", f"{owners[key]} and {one.name} both change {key}")
            owners[key] = one.name
    return found


def changed(base: Description, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The description with changes, `key` or `section.key` → value."""
    found = {key: dict(cast(Description, value)) if isinstance(value, Mapping) else value for key, value in base.items()}
    for name, value in changes.items():
        section, dot, key = name.partition(".")
        if dot:
            found[section][key] = value
        else:
            found[name] = value
    return found
