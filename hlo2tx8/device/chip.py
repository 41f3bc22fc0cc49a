"""The chip description: every number of the machine, from one YAML file, strictly read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import isfinite, prod
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

DEFAULT_PATH = Path(__file__).with_name("chip.yaml")
MOST_TILES = 64  # that the emulator's core has room for
T = TypeVar("T")


class ChipError(ValueError):
    """A chip description that cannot be read; the message names file and key."""


@dataclass(frozen=True)
class Cycles:
    """Costs of the timing model, in cycles or bytes per cycle."""

    ct_startup: int
    ct_bytes_per_cycle: int
    ne_startup: int
    ne_tile_rows: int
    ne_tile_columns: int
    ne_tile_depth: int
    ne_arrays: int
    ne_int8_speedup: int
    dma_startup: int
    dma_bytes_per_cycle: int
    dma_min_run_bytes: int
    tdma_startup: int
    tdma_bytes_per_cycle: int
    tdma_min_run_bytes: int
    dte_startup: int
    dte_hop: int
    dte_bytes_per_cycle: int
    link_startup: int
    kc_vector_bytes_per_cycle: int
    issue: int
    wait: int
    barrier: int
    launch: int


@dataclass(frozen=True)
class Laws:
    """What the vendor has not published of instructions, None where it is not known: those instructions fault.

    Only the constants can be stated; of the others no law is known that could be executed.
    """

    satrelu_bound: float | None
    leakyrelu_slope: float | None
    lut_offset: None
    elem_mask: None
    maskgather: None
    bilinear: None
    factorize: None
    bitcount: None
    rand_gen: None


@dataclass(frozen=True)
class Chip:
    """Sizes in bytes, rates per second, `laws` of instructions, `cycles` for the timing model."""

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
    link_bytes_per_second: int
    peak_ops_per_second: Mapping[str, int]
    queue_depth: int
    laws: Laws
    cycles: Cycles

    @property
    def ddr_bytes_per_cycle(self) -> float:
        return self.ddr_bytes_per_second / self.clock_hz


@lru_cache(maxsize=8)
def load_chip(file: Path | str = "") -> Chip:
    """The chip of a YAML file, "" for the built-in one; ChipError if there is none or it is not sound."""
    path = Path(file or DEFAULT_PATH)
    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ChipError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ChipError(f"{path}: {error}") from None
    return read_chip(data, str(path))


def read_chip(data: Any, place: str) -> Chip:
    """The chip of a mapping as YAML and JSON give it; ChipError, which says it is from `place`, if it is not a sound one."""
    if not isinstance(data, dict):
        raise ChipError(f"{place}: not a mapping")
    values = dict(cast(Mapping[str, Any], data))
    for key, cls in (("laws", Laws), ("cycles", Cycles)):
        part = values.get(key)
        if not isinstance(part, dict):
            raise ChipError(f"{place}: {key} is not a mapping")
        values[key] = _strict(cls, cast(Mapping[str, Any], part), place, f"{key}.")
    chip = _strict(Chip, values, place, "")
    for holds, rule in (
        (prod(chip.mesh) == chip.tiles, "mesh must have as many tiles as the chip"),
        (chip.tiles <= MOST_TILES, f"tiles must be at most {MOST_TILES}"),
        (chip.spm_allocation_start < chip.spm_limit <= chip.spm_bytes, "spm_allocation_start < spm_limit <= spm_bytes must hold"),
        (chip.spm_alignment_bytes.bit_count() == 1, "spm_alignment_bytes must be a power of two"),
    ):
        if not holds:
            raise ChipError(f"{place}: {rule}")
    return chip


def _strict(cls: type[T], given: Mapping[str, Any], place: str, prefix: str) -> T:
    known = {f.name: f.type for f in fields(cls)}  # pyright: ignore[reportArgumentType]
    for key in sorted(set(given) - set(known), key=str):
        raise ChipError(f"{place}: unknown key {prefix}{key}")
    for key in sorted(set(known) - set(given)):
        raise ChipError(f"{place}: missing key {prefix}{key}")
    return cls(**{key: _value(given[key], known[key], f"{place}: {prefix}{key}") for key in known})


def _value(value: Any, type_: Any, place: str) -> Any:
    """A value of a field's type; numbers are not negative, and not zero where something is divided by them or counted."""
    if type_ is int:
        may_be_zero = place.rpartition(".")[2].endswith(("startup", "start", "issue", "wait", "barrier", "launch"))
        if isinstance(value, bool) or not isinstance(value, int) or value < (0 if may_be_zero else 1):
            raise ChipError(f"{place} must be a {'whole' if may_be_zero else 'positive whole'} number, not {value!r}")
    elif type_ is None and value is not None:
        raise ChipError(f"{place} must be null: no law is known, not {value!r}")
    elif type_ == float | None and value is not None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ChipError(f"{place} must be a number or null, not {value!r}")
        return float(value)
    elif type_ is str and not isinstance(value, str):
        raise ChipError(f"{place} must be text, not {value!r}")
    elif type_ == tuple[int, ...]:
        if not isinstance(value, list | tuple):
            raise ChipError(f"{place} must be a list, not {value!r}")
        return tuple(_value(item, int, place) for item in cast(Sequence[Any], value))
    elif type_ == Mapping[str, int]:
        if not isinstance(value, Mapping):
            raise ChipError(f"{place} must be a mapping, not {value!r}")
        items = cast(Mapping[Any, Any], value).items()
        return {_value(key, str, place): _value(item, int, f"{place}.{key}") for key, item in items}
    return value
