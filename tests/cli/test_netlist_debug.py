"""`hlo2tx8 netlist debug`: runs stop where they are told to, what is there is shown, and what is wrong ends a script."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.netlist.debug import Debugger, Recorder
from hlo2tx8.netlist.epochs import Golden, Made, Segment
from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.golden import machine_of, rules_of
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.netlist.tensors import Tensor
from hlo2tx8.tools.main import main

NETLISTS = Path(__file__).parents[2] / "hlo_samples" / "netlists"


def follow(tmp_path: Path, name: str, commands: Sequence[str], *flags: str) -> int:
    """The exit code of a script of commands."""
    (file := tmp_path / "commands").write_text("\n".join(commands))
    return main(["netlist", "debug", str(NETLISTS / f"{name}.yaml"), f"--commands={file}", *flags])


def test_breakpoints_steps_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    commands = ["st 2", "vars", "break $at >= 2  # after the first turn", "break graph report", "c", "list", "until 36", "vars $at"]
    assert follow(tmp_path, "training", [*commands, "c", "forget 2", "break", "until end", "vars"]) == 0
    found = capsys.readouterr().out
    assert "run_fwd:33: var:" in found
    assert "$p_microbatch_count = 2\n" in found
    assert "breakpoint 1: $at >= 2\nrun_fwd:43: " in found
    assert "->    43    varinst: [$slot, incwrap, $c_size, 4]\n" in found
    assert "turn 1 of 2 from line 35\n" in found
    assert "run_fwd:36: execute" in found
    assert "$at = 2 (static)\n" in found
    assert "breakpoint 2: graph report\nrun_opt:50: execute" in found
    assert "run_opt:50: execute: {graph_name: report, queue_settings: {pairs: {prologue" in found
    assert "all programs have ended\nparameter $p_microbatch_count = 2\n" in found


def test_pointers_and_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.savez(
        tmp_path / "in.npz", x=np.full((4, 1, 32, 64), 3.0), weight=np.full((1, 1, 32, 64), 2.0), gradient=np.ones((1, 1, 32, 64))
    )
    commands = ["execute", "queues", "tensor y 1 0,31,56", "tensor x", "result forward 0", "ops fwd"]
    assert follow(tmp_path, "training", commands, f"--inputs={tmp_path / 'in.npz'}") == 0
    found = capsys.readouterr().out
    rows = {words[0]: words for line in found.splitlines() if (words := line.split())}
    assert rows["y"][:7] == ["y", "queue", "4", "2", "0", "0", "2"]
    assert rows["log"][:6] == ["log", "ram", "4", "2", "0", "2"]
    assert rows["x[1]"][4:] == ["Float16_b", "3", "3", "3", "0", "0.0%", "0"]
    assert "\n" + " ".join(["           6"] * 8) + "\n" in found
    assert "A  forward  multiply  [0, 0]  1x1   1  1x1     1x2 r   2       Float16_b, Float16_b -> Float16_b" in found


@pytest.mark.parametrize("on", ["golden", "tx8"])
def test_backends_are_compared_op_by_op(on: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert follow(tmp_path, "softmax", ["execute", "diff 0"], f"--on={on}") == 0
    assert "total    matmul           8 of 8" in (found := capsys.readouterr().out)
    assert found.endswith("no op differs\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("jump", "'jump' is no command"),
        ("q", "'q' is short for queues, quit"),
        ("step 0", "'0' is no number from 1 on"),
        ("until 34000", "no instruction is in line 34000; one is in line 50"),
        ("break graph nothing", "there is no graph 'nothing' but fwd, opt, report"),
        ("break $at = 2", "'$at = 2' is not $variable == 3"),
        ("forget 3", "there is no breakpoint 3"),
        ("queues nothing", "there is no queue or ram 'nothing'"),
        ("tensor y 0", "queue y: nothing is in 0; 0 are there"),
        ("tensor weight 0 0,0", "ram weight: nothing is in 0"),
        ("result forward", "nothing was executed yet"),
        ("vars $nothing", "there is no variable $nothing"),
        ("quit now", "nothing comes after the command"),
        ('diff "', "No closing quotation"),
    ],
)
def test_a_wrong_command_ends_a_script(command: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert follow(tmp_path, "training", ["# a remark", command, "step"]) == 1
    found = capsys.readouterr()
    assert message in found.err
    assert found.err.endswith(f"line 2: {command}\n")
    assert "run_fwd" not in found.out


def test_a_run_that_fails_ends_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert follow(tmp_path, "training", ["continue"], "--max_steps=1") == 1
    assert "stopped after 1 turns of loops" in capsys.readouterr().err


@dataclass(frozen=True)
class Wrong:
    """A backend that has one op wrong."""

    backend: Golden

    def run(self, segment: Segment, sources: Mapping[str, Tensor], before: Mapping[str, Array]) -> Made:
        made = self.backend.run(segment, sources, before)
        total = made.left["total"]
        return replace(made, left={**made.left, "total": replace(total, data=total.data * 2)})


def test_the_op_that_differs_is_named():
    netlist = read_file(NETLISTS / "softmax.yaml")
    golden = Golden(rules_of(netlist, "grayskull"))
    debugger = Debugger(machine_of(netlist, (recorder := Recorder(golden)), None, {}), recorder)
    debugger.go(lambda *_: False)
    assert [found.op.name for found in debugger.differences(1, Wrong(golden), golden) if not found.verdict.agrees] == ["total"]


def test_a_prompt_survives_errors_and_interrupts():
    here, there = pty.openpty()
    command = [sys.executable, "-m", "hlo2tx8.tools.main", "netlist", "debug", str(NETLISTS / "softmax.yaml")]
    process = subprocess.Popen(command, stdin=there, stdout=there)
    os.close(there)
    found = ""

    def read_to(text: str) -> None:
        nonlocal found
        while text not in found:
            assert select.select([here], [], [], 60)[0], found
            found += os.read(here, 1000).decode()
        found = found.partition(text)[2]

    try:
        read_to("(netlist) ")
        while not select.select([here], [], [], 0.5)[0]:  # one that comes before readline waits is not seen by it
            process.send_signal(signal.SIGINT)
        read_to("interrupted; `quit` ends")
        os.write(here, b"nonsense\n")
        read_to("'nonsense' is no command")
        os.write(here, b"continue\n")
        read_to("all programs have ended")
        os.write(here, b"quit\n")
        assert process.wait(10) == 0
    finally:
        process.kill()
        os.close(here)
