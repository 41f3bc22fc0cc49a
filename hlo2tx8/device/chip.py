"""The chip description: every number of the machine, from one YAML file, strictly read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from math import isfinite, prod
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

DEFAULT_PATH = Path(__file__).with_name("chip.yaml")
ATTAINED_PATH = Path(__file__).with_name("chip_attained.yaml")
"""The built-in chip with the DDR rates that the vendor's own test attains."""
PERMILLE = 1000
_PART = re.compile(r"(.*)@([1-9]\d*)")
_ROOM = re.compile(r"(.*)#([1-9]\d*)")
MOST_TILES = 64  # that the emulator's core has room for
MOST_DESTINATIONS = 31  # that a packet of DTE names
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
    program_bytes_per_cycle: int


@dataclass(frozen=True)
class Beats:
    """Cycles per beat of vector instructions; an instruction's COST names one of these.

    A beat is as many bytes as CT, or the kernel core's vector unit, takes in a cycle if the operation is simple.
    """

    simple: int
    ct_low_precision: int
    ct_function: int
    kc_round: int
    kc_count: int
    kc_divide: int
    kc_root: int
    kc_function: int
    kc_remainder: int
    kc_angle: int
    kc_power: int

    def of(self, cost: str) -> int:
        """Cycles per beat of instructions of that COST."""
        return getattr(self, cost)


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
class Proxies:
    """Areas and powers of a chip's parts in relative units, which `hlo2tx8.device.proxies` adds up."""

    area_product: int
    area_lane_byte: int
    area_port_byte: int
    area_spm_kib: int
    area_tile: int
    area_ddr_gigabyte: int
    power_product: int
    power_lane_byte: int
    power_port_byte: int
    power_ddr_gigabyte: int
    power_area_permille: int


@dataclass(frozen=True)
class Chip:
    """Sizes in bytes, rates per second, `laws` of instructions, `cycles` and `beats` for the timing model, `proxies` if stated.

    Tiles share `ddr_bytes_per_second`, of which `ddr_read_permille` are attained by reading and `ddr_write_permille` by writing.
    `link_bytes_per_second` go to all `link_neighbours` together; `chip_mesh`: columns and rows of chips, () if not said.
    `chip_rings`: are there links between the ends of each row, and of each column. `chip_block`: columns and rows of the blocks
    that chips are numbered by.
    """

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
    ddr_read_permille: int
    ddr_write_permille: int
    link_bytes_per_second: int
    link_neighbours: int
    pcie_bytes_per_second: int
    queue_depth: int
    laws: Laws
    cycles: Cycles
    beats: Beats
    chip_mesh: tuple[int, ...] = ()
    chip_rings: tuple[int, ...] = ()
    chip_block: tuple[int, ...] = ()
    proxies: Proxies | None = None

    @property
    def ddr_bytes_per_cycle(self) -> float:
        """What all tiles together move from and to DDR at most."""
        return self.ddr_bytes_per_second / self.clock_hz

    @property
    def ddr_read_charge(self) -> float:
        """Bytes of the shared rate that a byte read takes."""
        return PERMILLE / self.ddr_read_permille

    @property
    def ddr_write_charge(self) -> float:
        """Bytes of the shared rate that a byte written takes."""
        return PERMILLE / self.ddr_write_permille

    def part(self, tiles: int) -> "Chip":
        """So many tiles of the chip, for kernels that some tiles run: they share its DDR, and send each other nothing."""
        return replace(self, tiles=tiles, mesh=(1, 1))

    def with_room(self, room_bytes: int) -> "Chip":
        """The chip for kernels that have so many bytes of the scratchpads, as something stays in the others."""
        return replace(self, spm_limit=min(self.spm_limit, self.spm_allocation_start + room_bytes))

    @property
    def neighbour_bytes_per_second(self) -> float:
        """From a chip to one of its neighbours."""
        return self.link_bytes_per_second / self.link_neighbours


@lru_cache(maxsize=64)
def load_chip(file: Path | str = "") -> Chip:
    """The chip of a YAML file, "" for the built-in one; ChipError if there is none or it is not sound. With "@4" behind it, four of
    its tiles, see `Chip.part`; with "#4096", so much room in their scratchpads, see `Chip.with_room`.

    A file may name another one as its `base`, from its own folder on, and then states only what differs: keys of the chip, and of
    its sections laws, cycles, beats and proxies.
    """
    if found := _ROOM.fullmatch(str(file)):
        return load_chip(found[1]).with_room(int(found[2]))
    if found := _PART.fullmatch(str(file)):
        return load_chip(found[1]).part(int(found[2]))
    path = Path(file or DEFAULT_PATH)
    return read_chip(described(path), str(path))


def described(path: Path, users: Sequence[Path] = ()) -> Any:
    """What a file and those it is based on say, unchecked; `users` are the files that are based on this one."""
    if path in users:
        raise ChipError(f"{path}: is based on itself")
    try:
        data = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ChipError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ChipError(f"{path}: {error}") from None
    if not isinstance(data, dict) or "base" not in data:
        return cast(Any, data)
    changes = dict(cast(Mapping[str, Any], data))
    base = changes.pop("base")
    if not isinstance(base, str):
        raise ChipError(f"{path}: base must be the name of a file, not {base!r}")
    given: Any = described(path.parent / base, (*users, path))
    if not isinstance(given, dict):
        raise ChipError(f"{path}: its base {base} is not a mapping")
    merged = dict(cast(Mapping[str, Any], given))
    for key, value in changes.items():
        old = merged.get(key)
        is_section = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = {**cast(Mapping[str, Any], old), **cast(Mapping[str, Any], value)} if is_section else value
    return merged


def read_chip(data: Any, place: str) -> Chip:
    """The chip of a mapping as YAML and JSON give it; ChipError, which says it is from `place`, if it is not a sound one."""
    if not isinstance(data, dict):
        raise ChipError(f"{place}: not a mapping")
    values = dict(cast(Mapping[str, Any], data))
    for key, cls in (("laws", Laws), ("cycles", Cycles), ("beats", Beats), ("proxies", Proxies)):
        part = values.get(key)
        if part is None and key == "proxies":
            continue
        if not isinstance(part, dict):
            raise ChipError(f"{place}: {key} is not a mapping")
        values[key] = _strict(cls, cast(Mapping[str, Any], part), place, f"{key}.")
    chip = _strict(Chip, values, place, "")
    for holds, rule in (
        (prod(chip.mesh) == chip.tiles, "mesh must have as many tiles as the chip"),
        (chip.tiles <= MOST_TILES, f"tiles must be at most {MOST_TILES}"),
        (chip.spm_allocation_start < chip.spm_limit <= chip.spm_bytes, "spm_allocation_start < spm_limit <= spm_bytes must hold"),
        (len(chip.chip_mesh) in (0, 2), "chip_mesh must be columns and rows, or empty"),
        (len(chip.chip_rings) in (0, 2), "chip_rings must be of rows and of columns, or empty"),
        (
            not chip.chip_block or [a % b for a, b in zip(chip.chip_mesh, chip.chip_block, strict=False)] == [0, 0],
            "chip_block must be columns and rows that divide those of chip_mesh, or empty",
        ),
        (chip.spm_alignment_bytes.bit_count() == 1, "spm_alignment_bytes must be a power of two"),
        (
            max(chip.ddr_read_permille, chip.ddr_write_permille) <= PERMILLE,
            "ddr_read_permille and ddr_write_permille must be <= 1000",
        ),
    ):
        if not holds:
            raise ChipError(f"{place}: {rule}")
    return chip


def _strict(cls: type[T], given: Mapping[str, Any], place: str, prefix: str) -> T:
    known = {f.name: f.type for f in fields(cls)}  # pyright: ignore[reportArgumentType]
    for key in sorted(set(given) - set(known), key=str):
        raise ChipError(f"{place}: unknown key {prefix}{key}")
    optional = {f.name for f in fields(cls) if f.default is not MISSING}  # pyright: ignore[reportArgumentType]
    for key in sorted(set(known) - set(given) - optional):
        raise ChipError(f"{place}: missing key {prefix}{key}")
    return cls(**{key: _value(given[key], known[key], f"{place}: {prefix}{key}") for key in known if key in given})


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
    return value
