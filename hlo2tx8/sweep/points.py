"""The points of a sweep: each module on each chip of the cross product, and a key of everything that its result depends on."""

import base64
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from hlo2tx8.sweep.parameters import ChipAxis, Description, changed


@dataclass(frozen=True)
class ModuleSource:
    """A module to compile: what it is called, its content, and the format that says how to read it."""

    name: str
    data: bytes
    format: str = ""


@dataclass(frozen=True)
class Point:
    """A module on a chip with options. `labels`: the chip's parameters as given, by name."""

    source: ModuleSource
    labels: Mapping[str, str]
    chip: Description
    options: Mapping[str, Any]

    def task(self) -> dict[str, Any]:
        """What `measure` is sent."""
        module = base64.b64encode(self.source.data).decode()
        return {"chip": self.chip, "module": module, "format": self.source.format, "options": dict(self.options)}

    @cached_property
    def key(self) -> str:
        """A hash of the task; the same in every process."""
        return sha256(json.dumps(self.task(), sort_keys=True).encode()).hexdigest()[:32]

    @property
    def known(self) -> dict[str, Any]:
        """The columns that are known before anything is compiled."""
        labels = " ".join(f"{name}={label}" for name, label in self.labels.items())
        return {"key": self.key, "workload": self.source.name, "chip": labels, "options": json.dumps(self.options, sort_keys=True)}


def point(
    source: ModuleSource, axes: Sequence[ChipAxis], choice: Sequence[int], base: Description, options: Mapping[str, Any]
) -> Point:
    """The point of a choice: the number of a value for each parameter."""
    changes: dict[str, Any] = {}
    labels: dict[str, str] = {}
    for axis, number in zip(axes, choice, strict=True):
        changes |= axis.changes[number]
        labels[axis.name] = axis.labels[number]
    return Point(source, labels, changed(base, changes), options)


def cross_product(
    sources: Sequence[ModuleSource], axes: Sequence[ChipAxis], base: Description, options: Mapping[str, Any]
) -> Iterator[Point]:
    """Every module on every chip, in the order of what is given."""
    choices = list(itertools.product(*(range(len(axis.labels)) for axis in axes)))
    return (point(source, axes, choice, base, options) for source in sources for choice in choices)
