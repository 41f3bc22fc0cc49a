"""Every flag of the netlist commands, alone and with others, acts or is refused with a line that names it."""

import argparse
import io
import itertools
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.device.chip import DEFAULT_PATH
from hlo2tx8.tools.command_parser import CommandParser
from hlo2tx8.tools.main import main, parser

NETLIST = Path(__file__).parents[2] / "hlo_samples" / "netlists" / "softmax.yaml"
PART = 9
"""One of so many pairs is tried; of what always compiles fewer."""
HOST = {"inputs": "{}/in.npz", "params": "{}/params.json", "max_steps": "5"}
FLAGS: Mapping[str, Mapping[str, str]] = {
    "run": {
        **{
            "arch": "wormhole_b0",
            "on": "streams",
            "chip": "{}/chip.yaml",
            "placement": "chip",
            "mode": "strict",
            "level": "flat",
            "report": "true",
        },
        **HOST,
        "outputs": "{}/out.npz",
    },
    "debug": {
        "arch": "wormhole_b0",
        "on": "golden",
        "chip": "{}/chip.yaml",
        "placement": "chip",
        **HOST,
        "commands": "{}/commands",
    },
    "compile": {"arch": "wormhole_b0", "chip": "{}/chip.yaml", "placement": "chip", **HOST},
    "analyze": {"arch": "wormhole_b0", "chip": "{}/chip.yaml", "placement": "chip", "format": "yaml", **HOST},
    "report": {"arch": "wormhole_b0", "chip": "{}/chip.yaml", "placement": "chip", **HOST},
    "emit": {
        "arch": "blackhole",
        "grid": "4x4",
        "format": "Float16_b",
        "microbatch_size": "2",
        "microbatches": "2",
        "inputs": "{}/args.npz",
        "sparse": "true",
        "check": "true",
    },
    "check": {"arch": "wormhole_b0"},
    "show": {"arch": "wormhole_b0", "pipes": "true"},
}
"""A value for each flag, but for where it writes."""
COMPILING = ("compile", "analyze", "report")
MADE: Mapping[str, str] = {"compile": "folder", "report": "page.html", "emit": "made.yaml"}
"""What `--output` names."""
MODEL = """HloModule tiny
ENTRY main {
  x = f32[3,4] parameter(0)
  ROOT y = f32[3,4] exponential(x)
}
"""


def options(command: str) -> set[str]:
    """What `--help` lists of a command."""
    netlist = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)).choices["netlist"]
    commands = next(a for a in netlist._actions if isinstance(a, argparse._SubParsersAction)).choices
    assert isinstance(commands[command], CommandParser)
    return set(re.findall(r"--(\w+)", commands[command].format_help())) - {"help", "output"}


@pytest.mark.parametrize("command", FLAGS)
def test_all_flags_are_tried(command: str):
    assert options(command) - {name for name in options(command) if name.startswith("no")} == {*FLAGS[command]}


@pytest.mark.parametrize("command", FLAGS)
def test_flags_and_pairs_act_or_are_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    shapes = {"scores": (4, 1, 64, 128), "ones": (1, 1, 128, 128)}
    np.savez(tmp_path / "in.npz", **{name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    (tmp_path / "params.json").write_text(json.dumps({}))
    (tmp_path / "commands").write_text("execute\nqueues shares\n")
    (tmp_path / "chip.yaml").write_text(DEFAULT_PATH.read_text())
    np.savez(tmp_path / "args.npz", arg0=np.ones((3, 4), np.float32))
    (tmp_path / "tiny.hlo").write_text(MODEL)
    flags, file = FLAGS[command], tmp_path / "tiny.hlo" if command == "emit" else NETLIST
    made = tmp_path / MADE.get(command, "none")
    for names in (
        *((name,) for name in flags),
        *itertools.islice(itertools.combinations(flags, 2), 0, None, PART * (1 + (command in COMPILING))),
    ):
        text = [f"--{name}={flags[name].replace('{}', str(tmp_path))}" for name in names]
        monkeypatch.setattr("sys.stdin", io.StringIO("queues"))
        code = main(["netlist", command, *text, str(file), *([f"--output={made}"] if command in MADE else [])])
        found = capsys.readouterr()
        if code:
            assert code == 1 and re.match(r"error E1004: ", found.err), (names, found.err)
            assert any(f"--{name}" in found.err for name in names), (names, found.err)
        else:
            assert found.out and not found.err, (names, found.err)
            assert command not in MADE or made.stat().st_size
            assert "outputs" not in names or (tmp_path / "out.npz").stat().st_size
        (tmp_path / "out.npz").unlink(missing_ok=True)
        shutil.rmtree(made, ignore_errors=True)
