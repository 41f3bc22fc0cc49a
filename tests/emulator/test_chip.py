"""The chip description: the built-in one is the published machine, and a file is read strictly."""

import re
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hlo2tx8.device import chip as chip_module
from hlo2tx8.device.chip import ATTAINED_PATH, DEFAULT_PATH, Beats, Chip, ChipError, Cycles, Laws, load_chip
from hlo2tx8.device.isa import INSTRUCTIONS

PACKAGE = Path(chip_module.__file__).parents[1]
PEAKS = {"int8": 256 * 10**12, "bf16": 128 * 10**12}
"""Operations per second, as published."""


def description() -> dict[str, Any]:
    return yaml.safe_load(DEFAULT_PATH.read_text())


def write(path: Path, data: object) -> Path:
    path.write_text(yaml.safe_dump(data))
    return path


def test_the_built_in_chip() -> None:
    chip = load_chip()
    assert (chip.tiles, chip.mesh, chip.spm_bytes) == (16, (4, 4), 3 << 20)
    assert (chip.spm_allocation_start, chip.spm_limit, chip.spm_alignment_bytes) == (0x10000, 0x2EFFFF + 1, 256)
    assert chip.ddr_bytes_per_cycle == pytest.approx(204.8)
    c = chip.cycles
    macs_per_cycle = chip.tiles * c.ne_arrays * (c.ne_tile_rows * c.ne_tile_depth * c.ne_tile_columns)
    assert 2 * macs_per_cycle * chip.clock_hz == PEAKS["bf16"]
    assert 2 * macs_per_cycle * c.ne_int8_speedup * chip.clock_hz == PEAKS["int8"]
    assert (chip.link_bytes_per_second, chip.link_neighbours, chip.neighbour_bytes_per_second) == (200 * 10**9, 4, 50 * 10**9)
    assert chip.pcie_bytes_per_second == 64 * 10**9
    assert chip.ddr_read_charge == chip.ddr_write_charge == 1.0


def test_the_attained_rates_are_a_variant() -> None:
    """A published test moved 155.8 GB/s reading and 165.8 GB/s writing."""
    chip, plain = load_chip(ATTAINED_PATH), load_chip()
    assert chip.ddr_bytes_per_second * chip.ddr_read_permille // 1000 == 155_800_000_000
    assert chip.ddr_bytes_per_second * chip.ddr_write_permille // 1000 == 165_800_000_000
    assert replace(chip, name=plain.name, ddr_read_permille=1000, ddr_write_permille=1000) == plain


def test_a_variant_states_what_differs(tmp_path: Path) -> None:
    write(tmp_path / "chip.yaml", description())
    path = write(tmp_path / "quick.yaml", {"base": "chip.yaml", "name": "quick", "cycles": {"issue": 0}})
    chip = load_chip(path)
    assert chip == replace(load_chip(), name="quick", cycles=replace(load_chip().cycles, issue=0))
    for name, data, message in (
        ("itself", {"base": "itself.yaml"}, "is based on itself"),
        ("nothing", {"base": "none.yaml"}, "No such file"),
        ("number", {"base": 3}, "base must be the name of a file, not 3"),
        ("unknown", {"base": "chip.yaml", "beats": {"warp": 1}}, "unknown key beats.warp"),
        ("faster", {"base": "chip.yaml", "ddr_read_permille": 1001}, "ddr_write_permille must be <= 1000"),
    ):
        with pytest.raises(ChipError, match=re.escape(message)):
            load_chip(write(tmp_path / f"{name}.yaml", data))


def test_a_file_of_the_same_content_is_the_same_chip(tmp_path: Path) -> None:
    assert load_chip(write(tmp_path / "chip.yaml", description())) == load_chip()
    quick = description()
    quick["cycles"]["issue"] = 0
    quick["name"] = "quick"
    chip = load_chip(write(tmp_path / "quick.yaml", quick))
    assert (chip.name, chip.cycles.issue) == ("quick", 0)


BROKEN: dict[str, tuple[str, Any, str]] = {
    "text for a number": ("tiles", "sixteen", "tiles must be a positive whole number, not 'sixteen'"),
    "fraction": ("spm_bytes", 3.5, "spm_bytes must be a positive whole number, not 3.5"),
    "truth": ("queue_depth", True, "queue_depth must be a positive whole number, not True"),
    "no rate": ("ddr_bytes_per_second", 0, "ddr_bytes_per_second must be a positive whole number, not 0"),
    "negative": ("spm_allocation_start", -1, "spm_allocation_start must be a whole number, not -1"),
    "number for a name": ("name", 8, "name must be text, not 8"),
    "number for a list": ("mesh", 16, "mesh must be a list, not 16"),
    "text in a list": ("mesh", [4, "4"], "mesh must be a positive whole number, not '4'"),
    "another mesh": ("mesh", [4, 5], "mesh must have as many tiles as the chip"),
    "limit beyond SPM": ("spm_limit", (3 << 20) + 1, "spm_allocation_start < spm_limit <= spm_bytes must hold"),
    "odd alignment": ("spm_alignment_bytes", 100, "spm_alignment_bytes must be a power of two"),
    "cycles of nothing": ("cycles", None, "cycles is not a mapping"),
    "unknown key": ("voltage", 1, "unknown key voltage"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_values(name: str, tmp_path: Path) -> None:
    key, value, message = BROKEN[name]
    path = write(tmp_path / "chip.yaml", description() | {key: value})
    with pytest.raises(ChipError, match=re.escape(f"{path}: {message}")):
        load_chip(path)


@pytest.mark.parametrize("key", [f.name for f in fields(Chip) if f.default is MISSING])
def test_no_key_may_be_missing(key: str, tmp_path: Path) -> None:
    data = description()
    del data[key]
    with pytest.raises(ChipError, match=f"{key} is not a mapping" if key in ("cycles", "laws", "beats") else f"missing key {key}"):
        load_chip(write(tmp_path / "chip.yaml", data))


def test_a_mesh_of_chips_may_be_there(tmp_path: Path) -> None:
    data = description()
    assert load_chip(write(tmp_path / "chip.yaml", data | {"chip_mesh": [4, 2]})).chip_mesh == (4, 2)
    with pytest.raises(ChipError, match="chip_mesh must be columns and rows, or empty"):
        load_chip(write(tmp_path / "wrong.yaml", data | {"chip_mesh": [4]}))
    del data["chip_mesh"]
    assert load_chip(write(tmp_path / "without.yaml", data)).chip_mesh == ()


def test_keys_of_cycles(tmp_path: Path) -> None:
    for change, message in (
        ({"warp": 9}, "unknown key cycles.warp"),
        ({"wait": "long"}, "cycles.wait must be a whole number"),
        ({"ct_bytes_per_cycle": 0}, "cycles.ct_bytes_per_cycle must be a positive whole number"),
    ):
        data = description()
        data["cycles"] |= change
        with pytest.raises(ChipError, match=message):
            load_chip(write(tmp_path / f"{message}.yaml", data))
    data = description()
    del data["cycles"]["wait"]
    with pytest.raises(ChipError, match=r"missing key cycles\.wait"):
        load_chip(write(tmp_path / "none.yaml", data))


def test_laws(tmp_path: Path) -> None:
    """Constants are numbers or null; of the others no law is known."""
    data = description()
    data["laws"] |= {"satrelu_bound": 6, "leakyrelu_slope": -0.5}
    laws = load_chip(write(tmp_path / "set.yaml", data)).laws
    assert (laws.satrelu_bound, laws.leakyrelu_slope, laws.bitcount) == (6.0, -0.5, None)
    for key, value, message in (
        ("satrelu_bound", "six", "satrelu_bound must be a number or null, not 'six'"),
        ("leakyrelu_slope", float("inf"), "leakyrelu_slope must be a number or null, not inf"),
        ("satrelu_bound", True, "satrelu_bound must be a number or null, not True"),
        ("bitcount", 1, "bitcount must be null: no law is known, not 1"),
    ):
        data = description()
        data["laws"][key] = value
        with pytest.raises(ChipError, match=re.escape(f"laws.{message}")):
            load_chip(write(tmp_path / f"{message}.yaml", data))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ChipError, match="No such file"):
        load_chip(tmp_path / "none.yaml")
    for text, message in (("[1, 2]", "not a mapping"), ("", "not a mapping"), ("a: [", "while parsing")):
        path = tmp_path / f"{len(text)}.yaml"
        path.write_text(text)
        with pytest.raises(ChipError, match=message):
            load_chip(path)
    path.write_bytes(DEFAULT_PATH.read_bytes().replace(b"tiles", b"til\xffs"))
    with pytest.raises(ChipError, match="unacceptable character #x00ff"):
        load_chip(path)


def test_many_tiles(tmp_path: Path) -> None:
    for tiles, is_sound in ((64, True), (65, False)):
        path = write(tmp_path / f"{tiles}.yaml", description() | {"tiles": tiles, "mesh": [tiles, 1]})
        if is_sound:
            assert load_chip(path).tiles == tiles
        else:
            with pytest.raises(ChipError, match="tiles must be at most 64"):
                load_chip(path)


def test_every_field_is_used() -> None:
    """A number that nothing reads is no fact about the machine."""
    sources = [file.read_text() for file in sorted(PACKAGE.rglob("*.py"))]
    unread = {f.name for cls in (Chip, Cycles) for f in fields(cls) if not any(re.search(rf"\.{f.name}\b", s) for s in sources)}
    assert not unread
    assert {f.name for f in fields(Beats)} == {cls.COST for cls in INSTRUCTIONS}
    assert {f.name for f in fields(Laws)} == {cls.LAW for cls in INSTRUCTIONS if cls.LAW}
