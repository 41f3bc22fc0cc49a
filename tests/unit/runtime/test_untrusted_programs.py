"""A program from a file finds nothing of other programs in the memory that it is given."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.host_memory import RECYCLED_BYTES, allocate
from hlo2tx8.errors import ContainerError, DeviceError
from hlo2tx8.options import Level, Mode, Options
from hlo2tx8.runtime import container

TEXT = """HloModule add
ENTRY main {
  x = f32[64,1024] parameter(0)
  ROOT r = f32[64,1024] add(x, x)
}
"""
CANARY = 0xA5


def leave_canaries(size_bytes: int) -> None:
    """Recycled memory of that size holds a secret afterwards."""
    held = [allocate(size_bytes) for _ in range(8)]
    for array in held:
        array[...] = CANARY


def test_cleared_memory_holds_nothing_of_before():
    leave_canaries(2 * RECYCLED_BYTES)
    assert not np.any(allocate(2 * RECYCLED_BYTES, cleared=True))


@pytest.fixture
def stores_nothing(tmp_path: Path) -> Path:
    """The file of a program with a result that ends at once."""
    compiled = hlo2tx8.compile(TEXT)
    without_stores = replace(compiled.program, code=compiled.program.code[-1:].copy(), launches=(), uses=(), origins=("",))
    path = tmp_path / "stores_nothing.tx8x"
    container.write(replace(compiled, program=without_stores), path)
    return path


@pytest.mark.parametrize("mode", ["fast", "definition"])
def test_results_that_are_never_stored_are_zeros(mode: Mode, stores_nothing: Path):
    loaded = container.read(stores_nothing)
    leave_canaries(64 * 1024 * 4)
    assert not np.any(replace(loaded, options=Options(mode=mode)).run(np.ones((64, 1024), np.float32)))


def test_in_a_session_too(stores_nothing: Path):
    with hlo2tx8.Session() as session:
        session.load(stores_nothing)
        request, y = session.new_request_context(), np.full((64, 1024), CANARY, np.float32)
        request.bind_arg(1, y)
        request.finish_io_binding()
        request.run()
        request.sync()
    assert not y.any()


def test_strict_mode_names_them(stores_nothing: Path):
    loaded = replace(container.read(stores_nothing), options=Options(mode="strict"))
    with pytest.raises(DeviceError, match=r"byte 0 of output 0 .* is never stored"):
        loaded.run(np.ones((64, 1024), np.float32))


def test_a_program_from_a_file_gives_what_it_gave(tmp_path: Path):
    compiled, x = hlo2tx8.compile(TEXT), np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024)
    compiled.save(tmp_path / "add.tx8x")
    np.testing.assert_array_equal(container.read(tmp_path / "add.tx8x").run(x), compiled.run(x))


def test_members_are_unpacked_when_they_are_asked_for_and_as_large_as_they_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sound, large = tmp_path / "sound.tx8x", tmp_path / "large.tx8x"
    hlo2tx8.compile(TEXT).save(sound)
    unpacked: list[str] = []
    read = zipfile.ZipFile.read

    def noted(self: zipfile.ZipFile, name: str) -> bytes:
        unpacked.append(name)
        return read(self, name)

    monkeypatch.setattr(zipfile.ZipFile, "read", noted)
    loaded = container.read(sound)
    assert unpacked == ["manifest.json", "program.bin", "constants.safetensors"]
    assert "stablehlo.add" in loaded.as_text(Level.HLO)
    assert unpacked[3:] == ["ir/hlo.mlir"]
    for changed, limit in (("manifest.json", 1 << 26), ("program.bin", 1 << 20), ("constants.safetensors", 1 << 17)):
        with zipfile.ZipFile(sound) as old, zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, bytes(limit + 1) if name == changed else read(old, name))
        unpacked.clear()
        with pytest.raises(ContainerError, match=f"{changed} has {limit + 1} bytes, "):
            container.read(large)
        assert changed not in unpacked


def flipped(data: bytes) -> bytes:
    """Compressed bytes of a member are others."""
    at = data.index(member := b"program.bin") + len(member)
    return data[:at] + bytes(byte ^ 0xFF for byte in data[at : at + 9]) + data[at + 9 :]


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("chip", lambda _: 3.5),
        ("chip", lambda chip: chip | {"cycles": "few"}),
        ("inputs", lambda ports: []),
        ("inputs", lambda ports: ports * 2),
        ("inputs", lambda ports: [ports[0] | {"layout": [1, 1]}]),
        ("outputs", lambda ports: [ports[0] | {"shape": [-64, 1024]}]),
        ("outputs", lambda ports: [ports[0] | {"dtype": "float3"}]),
        ("slots", lambda slots: [slot | {"size_bytes": 8} for slot in slots]),
        ("slots", lambda slots: 5),
        ("launches", lambda launches: [launches[0] | {"first": 1 << 40}]),
        ("num_instructions", lambda count: 1 << 50),
        ("spm_bytes", lambda count: 1 << 50),
        ("options", lambda options: options | {"mode": "slow"}),
        ("", flipped),
        ("", lambda data: data[: len(data) // 3]),
    ],
)
def test_what_is_changed_in_a_file_is_an_error_of_ours(key: str, change: Callable[[Any], Any], tmp_path: Path):
    path = tmp_path / "changed.tx8x"
    hlo2tx8.compile(TEXT).save(path)
    if not key:
        path.write_bytes(change(path.read_bytes()))
    else:
        with zipfile.ZipFile(path) as file:
            members = {name: file.read(name) for name in file.namelist()}
        manifest = json.loads(members["manifest.json"])
        members["manifest.json"] = json.dumps(manifest | {key: change(manifest[key])}).encode()
        with zipfile.ZipFile(path, "w") as file:
            for name, data in members.items():
                file.writestr(name, data)
    with pytest.raises(ContainerError) as caught:
        container.read(path).as_text(Level.VECTOR)
    assert caught.value.code == "E1007"
