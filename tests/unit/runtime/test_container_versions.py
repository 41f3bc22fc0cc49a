"""Containers of the previous format are read; what a newer minor version has added is left out."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import ContainerError
from hlo2tx8.runtime.container import PRODUCER

OLD = Path(__file__).with_name("format_4.tx8x")
"""Written when format 4 was the newest: `cache[i] = x + [1, ..., 15, 16.5]` in place, and that row. Not to be written again."""
ROW = np.array([*range(1, 16), 16.5], np.float32)


def check_runs(path: Path) -> None:
    cache, x = np.zeros((8, 16), np.float32), np.full((1, 16), 2, np.float32)
    updated, row = hlo2tx8.load(str(path)).run(cache, x, np.int32(3))
    cache[3] = ROW + 2
    np.testing.assert_array_equal(updated, cache)
    np.testing.assert_array_equal(row[0], ROW + 2)


def rewritten(path: Path, **changes: object) -> Path:
    new = path.with_name("new.tx8x")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(new, "w") as file:
        for member in old.namelist():
            data = old.read(member)
            file.writestr(member, json.dumps(json.loads(data) | changes) if member == "manifest.json" else data)
    return new


def test_a_file_of_the_previous_format_is_read(tmp_path: Path):
    with zipfile.ZipFile(OLD) as file:
        assert json.loads(file.read("manifest.json"))["format_version"] == 4
    check_runs(OLD)


def test_newer_minor_versions_are_read_without_what_they_add(tmp_path: Path):
    path = tmp_path / "sum.tx8x"
    path.write_bytes(OLD.read_bytes())
    check_runs(rewritten(path, format_version="5.3.1", producer="hlo2tx8 9", colour="green"))
    for version in ("5.1.0", "4.0.0"):
        with pytest.raises(ContainerError, match="colour is unknown"):
            hlo2tx8.load(str(rewritten(path, format_version=version, colour="green")))


def test_a_container_says_who_wrote_it(tmp_path: Path):
    path = tmp_path / "sum.tx8x"
    hlo2tx8.compile("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }").save(path)
    with zipfile.ZipFile(path) as file:
        manifest = json.loads(file.read("manifest.json"))
    assert (manifest["format_version"], manifest["producer"]) == ("5.1.0", PRODUCER)
