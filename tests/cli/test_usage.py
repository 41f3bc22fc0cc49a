"""The command line as a user meets it: defaults, usage errors, one clear line per mistake, never a traceback."""

import argparse
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hlo2tx8
from hlo2tx8.compiler.pipeline import PIPELINE
from hlo2tx8.options import Level
from hlo2tx8.tools.main import main, parser

SAMPLES = Path(__file__).parents[2] / "hlo_samples"


def test_defaults_are_those_of_run_hlo_module():
    args = parser().parse_args(["run", "a.hlo"])
    assert (args.platform, args.reference_platform, args.iterations) == ("tx8", "default", 1)
    assert args.random_init_input_literals
    assert not (args.print_literals or args.use_large_float_range or args.isolate_instructions)
    assert args.abs_error_bound is None
    assert args.rel_error_bound is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("--report", True),
        ("--report=1", True),
        ("--report=TRUE", True),
        ("--report=0", False),
        ("--report=false", False),
        ("--noreport", False),
    ],
)
def test_switches_take_an_optional_value(text: str, value: bool):
    args = parser().parse_args(["run", text, "a.hlo"])
    assert (args.report, args.files) == (value, ["a.hlo"])


@pytest.mark.parametrize("command", ["run", "compile", "profile", "check", "bisect"])
def test_every_switch_does(command: str):
    commands = next(action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    switches = {action.dest for action in commands.choices[command]._actions if isinstance(action, argparse._StoreTrueAction)}
    assert {"verify", "traceback", "reassociate", "xla_disable_all_hlo_passes"} <= switches
    for name in switches:
        for value, meant in (("1", True), ("true", True), ("0", False), ("false", False)):
            assert vars(parser().parse_args([command, f"--{name}={value}", "a.hlo"]))[name] is meant


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["run"], "error E1004: no module to run"),
        (["run", "nowhere.hlo"], "error E1004: no file nowhere.hlo"),
        (["run", "--platform=gpu", "a.hlo"], "error E1004: unknown platform 'gpu'; there are tx8, interpreter, cpu"),
        (["run", "--chip=nowhere.yaml", "a.hlo"], "error E1004: no chip description nowhere.yaml"),
        (["run", "--xla_dump_hlo_pass_re=(", "a.hlo"], "error E1004: '(' is not a regular expression"),
        (["run", "--filter=(", "a.hlo"], "error E1004: '(' is not a regular expression"),
        (["run", "--xla_dump_to=d", "--xla_dump_emitter_re=lopp", "a.hlo"], "E1004: no emitter's name has 'lopp'\n  hint: batch"),
        (["run", "--step_elements=-1", "a.hlo"], "error E1004: step_elements is -1"),
        (["run", "--timeout=-1", "a.hlo"], "error E1004: timeout is -1.0"),
        (["run", "--timeout=nan", "a.hlo"], "error E1004: timeout is nan"),
        (["run", "--dump_results=/dev/null/d", "--compare_each", "a.hlo"], "error E1004: /dev/null is not a folder"),
        (["compile", "--xla_dump_to=/dev/null", "a.hlo"], "error E1004: /dev/null is not a folder"),
        (["bisect", "--write=/dev/null/b.hlo", "a.hlo"], "error E1004: /dev/null is not a folder"),
        (["compile", "--until=flat", "-o", "x", "a.hlo"], "error E1004: --output is of programs, and --until prints the module"),
        (["run", "--until=flat", "--trace=f", "a.hlo"], "error E1004: --trace is of runs, and --until prints the module"),
        (["run", "--level=flat", "--platform=cpu", "a.hlo"], "error E1004: --level is of tx8, and --platform is cpu"),
        (["run", "--level=vector", "--mode=strict", "a.hlo"], "error E1004: --mode is how a program runs on tx8, and none does"),
        (["compile", "nowhere.hlo"], "error E1004: no file nowhere.hlo"),
        (["compile", str(SAMPLES)], "is not a file"),
    ],
)
def test_a_mistake_is_one_clear_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.foo", "", "error E1004: Unrecognized file extension 'foo'"),
        ("a.mlir", "func.func @f() {\n  nothing.known\n}", "Operation nothing.known is not registered"),
        ("a.mlir", '"func.return"() : () -> ()', "Operation does not verify"),
    ],
)
def test_opt_says_what_it_cannot_read(name: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / name).write_text(text)
    assert main(["opt", str(tmp_path / name)]) == 1
    assert message in capsys.readouterr().err


def test_what_ddr_cannot_hold_is_refused_before_inputs_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    module = tmp_path / "large.hlo"
    shape = "f32[40000,40000,20]"
    module.write_text(f"HloModule large\nENTRY main {{\n  a = {shape} parameter(0)\n  ROOT r = {shape} negate(a)\n}}\n")
    assert main(["run", str(module)]) == 1
    assert "error E1005: f32[40000,40000,20] needs 128,000,000,000 bytes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("no-such-pass", "error E1004: Unrecognized passes: ['no-such-pass']\n  hint: hlo2tx8 opt --help lists all passes"),
        ("inlin", "error E1004: Unrecognized passes: ['inlin']\n  hint: did you mean inline?"),
        ("vectorize,{", "Expected pass name here"),
        ("vectorize{steps", "Expected equals, space or end of arguments here"),
        ("vectorize{steps=1}", "error E1004: Provided arguments"),
    ],
)
def test_a_wrong_list_of_passes_is_named(passes: str, message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["opt", "-p", passes, str(SAMPLES / "control" / "cache_f32.mlir")]) == 1
    assert message in capsys.readouterr().err


def test_opt_goes_on_from_what_compile_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """From each level to the next, on kernels too."""
    printed: dict[Level, str] = {}
    for level in list(Level)[: Level.PROGRAM]:
        assert main(["compile", f"--until={level.name}", str(SAMPLES / "dot" / "batched_f32.hlo")]) == 0
        printed[level] = capsys.readouterr().out
    for level, text in printed.items():
        (tmp_path / "a.mlir").write_text(text)
        passes = [stage.step.name for stage in PIPELINE if stage.after == level + 1]
        assert main(["opt", "-p", ",".join(passes), str(tmp_path / "a.mlir")]) == 0
        if level + 1 in printed:
            assert capsys.readouterr().out.strip() == printed[Level(level + 1)].strip()


def test_opt_says_what_it_is_called(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["opt", "--help"])
    assert capsys.readouterr().out.startswith("usage: hlo2tx8 opt ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["run", "--report=maybe", "a.hlo"], "error E1004: --report is a switch and cannot be 'maybe'\n  hint: --report"),
        (["run", "--rapport", "a.hlo"], "error E1004: unrecognized arguments: --rapport\n  hint: did you mean --report?"),
        (["run", "--rep", "a.hlo"], "error E1004: unrecognized arguments: --rep"),
        (["frob"], "error E1004: argument COMMAND: invalid choice: 'frob'"),
        *(
            (
                [command, flag, "a.hlo"],
                f"error E1004: unrecognized arguments: {flag}\n  hint: {flag.partition('=')[0]} is a flag of",
            )
            for command in ("profile", "check", "bisect")
            for flag in ("--until=flat", "--report")
        ),
        (["run", "--mode=slow", "a.hlo"], "error E1004: argument --mode: invalid choice: 'slow'"),
        (["run", "--iterations=0", "a.hlo"], "error E1004: argument --iterations: 0 is less than 1"),
        (["run", "--abs_error_bound=nan", "a.hlo"], "error E1004: argument --abs_error_bound: nan is no bound, which is 0 or more"),
        (["run", "--rel_error_bound=-1", "a.hlo"], "error E1004: argument --rel_error_bound: -1 is no bound, which is 0 or more"),
        (["profile", "--top=-1", "a.hlo"], "error E1004: argument --top: -1 is less than 0"),
        (["bisect", "--iterations=0", "a.hlo"], "error E1004: argument --iterations: 0 is less than 1"),
        (["opt", "--foo"], "error E1004: unrecognized arguments: --foo\n  hint: hlo2tx8 opt --help"),
        (["opt", "--pass=inline"], "error E1004: unrecognized arguments: --pass=inline\n  hint: did you mean --passes"),
    ],
)
def test_a_wrong_flag_is_one_line_with_a_hint(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert len(error.splitlines()) == 2


def test_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"hlo2tx8 {hlo2tx8.__version__}\n"


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["run", "--until=nowhere", "a.hlo"])
    assert caught.value.code == 2
    assert "the levels are hlo, fused, loops" in capsys.readouterr().err


def test_failures_are_counted_over_all_files(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "nowhere.hlo", "neither.hlo", "--iterations=2"]) == 1
    error = capsys.readouterr().err
    assert re.search(r"\*\* Running neither.hlo \*\*\n", error)
    assert error.endswith("4/4 runs failed.\n")


def test_a_place_that_cannot_be_written_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = str(SAMPLES / "elementwise" / "rank0.hlo")
    assert main(["compile", file, "-o", str(tmp_path / "no" / "such" / "place.tx8x")]) == 1
    assert capsys.readouterr().err == f"error E1004: {tmp_path}/no/such/place.tx8x: there is no folder {tmp_path}/no/such\n"


def test_an_interrupted_run_ends_at_once():
    """In the middle of a run that would take hours: the prompt within a second, no traceback."""
    command = [sys.executable, "-m", "hlo2tx8", "run", "--iterations=100000", "--reference_platform="]
    child = subprocess.Popen([*command, str(SAMPLES / "elementwise" / "gelu_f32.hlo")], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    while "ran in" not in child.stderr.readline():
        pass
    child.send_signal(signal.SIGINT)
    started = time.perf_counter()
    rest = child.communicate(timeout=30)[1]
    assert child.returncode == 130
    assert rest.endswith("interrupted\n")
    assert "Traceback" not in rest
    assert time.perf_counter() - started < 5  # a second, on a machine that does nothing else


def test_traces_of_several_modules_get_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = str(SAMPLES / "elementwise" / "rank0.hlo")
    assert main(["run", f"--trace={tmp_path / 'out.json'}", "--reference_platform=", file, file]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.1.json", "out.json"]
    assert f"Trace: {tmp_path / 'out.1.json'}" in capsys.readouterr().err


def test_a_trace_is_of_a_program(capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--trace=out.json", "--level=loops", str(SAMPLES / "elementwise" / "rank0.hlo")]) == 1
    assert "error E1004: --trace is of programs, and --level runs the IR" in capsys.readouterr().err
