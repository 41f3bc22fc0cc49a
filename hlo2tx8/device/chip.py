"""The chip description: every number of the machine, from one YAML file, strictly read."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

DEFAULT_PATH = Path(__file__).with_name("chip.yaml")
T = TypeVar("T")


class ChipError(ValueError):
    """A chip description that cannot be read; the message names file and key."""


@dataclass(frozen=True)
class Cycles:
    """Costs of the timing model, in cycles or bytes per cycle."""

    ct_startup: int
    ct_bytes_per_cycle: int
    dma_startup: int
    dma_bytes_per_cycle: int
    dma_min_run_bytes: int
    tdma_startup: int
    tdma_bytes_per_cycle: int
    tdma_min_run_bytes: int
    kc_vector_bytes_per_cycle: int
    issue: int
    wait: int
    barrier: int
    launch: int


@dataclass(frozen=True)
class Chip:
    """Sizes in bytes, rates per second, `cycles` for the timing model."""

    name: str
    tiles: int
    mesh: tuple[int, ...]
    clock_hz: int
    spm_bytes: int
    spm_limit: int
    spm_allocation_start: int
    spm_alignment_bytes: int
    ddr_bytes: int
    ddr_bytes_per_second: int
    ddr_alignment_bytes: int
    peak_ops_per_second: Mapping[str, float]
    queue_depth: int
    cycles: Cycles

    @property
    def ddr_bytes_per_cycle(self) -> float:
        return self.ddr_bytes_per_second / self.clock_hz


@lru_cache(maxsize=8)
def load_chip(file: Path | str = "") -> Chip:
    """The chip of a YAML file, "" for the built-in one; ChipError for a missing file, an unknown or a missing key."""
    path = Path(file or DEFAULT_PATH)
    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ChipError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ChipError(f"{path}: {error}") from None
    if not isinstance(data, dict):
        raise ChipError(f"{path}: not a mapping")
    values = dict(cast(Mapping[str, Any], data))
    values["cycles"] = _strict(Cycles, values.get("cycles"), path, "cycles.")
    values["mesh"] = tuple(values.get("mesh", ()))
    return _strict(Chip, values, path, "")


def _strict(cls: type[T], values: Any, path: Path, prefix: str) -> T:
    if not isinstance(values, dict):
        raise ChipError(f"{path}: {prefix or 'top level'} is not a mapping")
    given = dict(cast(Mapping[str, Any], values))
    known = {f.name for f in fields(cls)}  # pyright: ignore[reportArgumentType]
    for key in sorted(set(given) - known):
        raise ChipError(f"{path}: unknown key {prefix}{key}")
    for key in sorted(known - set(given)):
        raise ChipError(f"{path}: missing key {prefix}{key}")
    return cls(**given)
