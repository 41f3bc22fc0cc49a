"""`.jaxexport` files through Python and the command line; damaged ones."""

import random
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import hlo2tx8
from hlo2tx8.errors import Hlo2tx8Error, InputError
from hlo2tx8.frontend.sources import load
from hlo2tx8.tools.main import main

X, W = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)


def written(path: Path, *, rows: str = "2") -> bytes:
    """A file of an exported function of trees; rows may be the name of an open size."""
    shapes = export.symbolic_args_specs((X, {"w": W}), (f"{rows}, 3", {"w": "3, 4"}))
    function = jax.jit(lambda x, given: {"y": x @ given["w"], "sum": jnp.sum(x)})
    data = bytes(export.export(function)(*shapes).serialize())
    path.write_bytes(data)
    return data


def test_a_file_is_called_as_the_function_is(tmp_path: Path):
    written(tmp_path / "f.jaxexport")
    found = hlo2tx8.compile(tmp_path / "f.jaxexport")(X, {"w": W})
    np.testing.assert_array_equal(found["y"], X @ W)
    assert found["sum"] == X.sum()


def test_open_sizes_are_bound_by_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    written(tmp_path / "f.jaxexport", rows="n")
    executable = hlo2tx8.compile(str(tmp_path / "f.jaxexport"), args=(X, W))
    np.testing.assert_array_equal(executable(X, {"w": W})["y"], X @ W)
    assert main(["compile", str(tmp_path / "f.jaxexport")]) == 1
    assert "unknown sizes: input 0 is tensor<?x3xf32>" in capsys.readouterr().err


def test_the_command_line_takes_it_by_suffix_and_by_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = written(tmp_path / "f.jaxexport")
    (tmp_path / "f.bin").write_bytes(data)
    assert main(["run", str(tmp_path / "f.jaxexport")]) == 0
    assert main(["run", "--input_format=jaxexport", str(tmp_path / "f.bin")]) == 0
    assert capsys.readouterr().err.count("close enough") == 2


def test_damaged_files_are_refused(tmp_path: Path):
    data, generator = written(tmp_path / "f.jaxexport"), random.Random(0)
    for damaged in (b"", b"hello", data[:50], data[:-100], b"\xff" * len(data)):
        with pytest.raises(InputError, match=r"no function that jax\.export has serialized"):
            load(damaged, format="jaxexport")
    for _ in range(50):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            changed[generator.randrange(len(data))] = generator.randrange(256)
        try:
            load(bytes(changed), format="jaxexport")
        except Hlo2tx8Error:
            continue
