"""`hlo2tx8 oplib`: answers for an op and for a module; what cannot be answered is said in one line; flags in pairs."""

from itertools import combinations
from pathlib import Path

import pytest

from hlo2tx8.tools.main import main

SAMPLE = Path(__file__).parents[2] / "hlo_samples" / "elementwise" / "gelu_bf16_small.hlo"
METHODS = ("genOpCode", "getOpClockCycle", "getImmSpSize", "queryOpAttr", "inferShapes", "inferLayout")
FLAGS = {"dtype": "--dtype=float16", "sharding": "--sharding=2,4", "split": "--split=1,2", "code": "--code"}


def test_all_methods_are_answered(capsys: pytest.CaptureFixture[str]):
    assert main(["oplib", "Gemm", "--sharding=1,4,2"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in METHODS)
    assert "operand 1: sharding [1,1,2], split [1,1,1]" in out
    assert "temporalSliceShape  [2,4,32], [2,32,4]" in out


def test_each_op_of_a_module_is_asked_also_those_in_fusions(capsys: pytest.CaptureFixture[str]):
    assert main(["oplib", str(SAMPLE)]) == 0
    out = capsys.readouterr().out
    assert out.count("genOpCode") == out.count("queryOpAttr") > 8
    assert "stablehlo.tanh: (tensor<6x64x512xbf16>) -> (tensor<6x64x512xbf16>)" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tanhh"], "did you mean tanh"),
        (["tanh", "--dtype=int8"], "stablehlo.tanh takes no int8"),
        (["tanh", "--split=2"], "result of rank 2"),
        (["sort", "--split=1,2"], "cannot be shared out so"),
        ([str(SAMPLE), "--dtype=float32"], "--dtype is of an OP"),
        (["iota"], "no op with operands"),
        ([str(SAMPLE.parent)], "E1004"),
    ],
)
def test_what_cannot_be_answered_is_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["oplib", *argv]) == 1
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err


def test_flags_act_in_pairs(capsys: pytest.CaptureFixture[str]):
    acts = {"dtype": "xf16", "sharding": "sharding [2,4]", "split": "split [1,2]", "code": "KC_halt"}
    for names in combinations(FLAGS, 2):
        assert main(["oplib", "add", *(FLAGS[name] for name in names)]) == 0
        out = capsys.readouterr().out
        assert all(acts[name] in out for name in names), names
        assert not any(acts[name] in out for name in {*FLAGS} - {*names} - {"sharding", "split"}), names
