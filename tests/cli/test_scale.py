"""`hlo2tx8 scale`: a table, JSON and a picture; pieces of a tiny model compile; plans that divide nothing are refused."""

import json
from pathlib import Path
from typing import Any

import jax
import pytest

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.options import Options
from hlo2tx8.spmd.link_plan import BoxMove, LinkPlan
from hlo2tx8.tools.main import main
from hlo2tx8.tools.scale import piece_costs as pieces
from hlo2tx8.tools.scale.llama import DP, PP, TP, Llama
from hlo2tx8.tools.scale.step_pieces import STAGES, Piece, ends_step, stage_step, sums

TINY = Llama(layers=2, hidden=64, heads=2, kv_heads=2, ffn=64, vocabulary=64, sequence=16, dtype="bfloat16")
FLAGS = [f"--{name}={getattr(TINY, name)}" for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary", "sequence")]


def per_argument(text: str, count: int, options: Options) -> pieces.CompiledPiece:
    """What pieces cost here: nothing is compiled."""
    whole = ((0, 4096),)
    plan = LinkPlan((BoxMove(0, 0, count - 1, whole, whole),), ((4096,),))
    return pieces.CompiledPiece(1000.0 * int(text), 64.0, plans=((plan, (2,), 3),) if count > 1 else ())


def per_argument_both_ways(text: str, count: int, options: Options) -> tuple[pieces.CompiledPiece, pieces.CompiledPiece]:
    """One third of it forwards."""
    kept = 32.0 * int(text)
    return pieces.CompiledPiece(1000.0 * int(text), kept, kept), pieces.CompiledPiece(2000.0 * int(text), 64.0)


def num_arguments(piece: Piece, axes: object) -> str:
    """Instead of a piece's text."""
    return str(len(jax.tree.leaves(piece[1])))


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "compiled", per_argument)
    monkeypatch.setattr(pieces, "compiled_both_ways", per_argument_both_ways)
    monkeypatch.setattr(pieces, "lowered", num_arguments)


@pytest.fixture
def rows(nothing_compiled: None, capsys: pytest.CaptureFixture[str]) -> Any:

    def found(*flags: str) -> Any:
        assert main(["scale", *FLAGS, "--batch=4", "--format=json", *flags]) == 0
        return json.loads(capsys.readouterr().out)["rows"]

    return found


def test_a_row_for_each_plan(rows: Any, tmp_path: Path) -> None:
    found = rows(f"--svg={tmp_path / 'a.svg'}", "--plan=1x1x1", "--plan=2x1x1", "--plan=4x1x1", "--plan=1x2x1")
    assert [row["plan"]["microbatches"] for row in found] == [4, 2, 1, 4]
    assert found[0]["time"]["replica_links"] == 0 < found[1]["time"]["replica_links"]
    assert found[0]["time"]["tensor_links"] == 0 < found[3]["time"]["tensor_links"]
    assert all(row["tokens_per_second"] == pytest.approx(4 * 16 / row["seconds"]) for row in found)
    assert (tmp_path / "a.svg").read_text().count("<circle") == 4


def test_stages_have_a_bubble_and_fewer_parameters(rows: Any) -> None:
    one, two, gpipe = rows("--plan=1x1x1")[0], rows("--plan=1x1x2")[0], rows("--plan=1x1x2", "--schedule=gpipe")[0]
    assert one["time"]["bubble"] == 0 < two["time"]["bubble"]
    assert two["time"]["stage_links"] > 0
    assert two["memory_bytes"] < one["memory_bytes"]
    assert gpipe["memory_bytes"] > two["memory_bytes"]


def test_text_names_the_plan_and_the_shares(nothing_compiled: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", *FLAGS, "--batch=4", "--plan=2x2x1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("65.9 k parameters")
    assert "2x2x1" in out
    assert "2 x 2" in out


def test_sums_are_compiled_with_all_parts() -> None:
    text = pieces.lowered(sums(TINY, 1, 2, 1, has_ends=False), {DP: 2})
    cost = pieces.compiled(text, 2, Options()).cost(ChipMesh(2, 1), load_chip(""))
    assert 0 < cost.link_cycles < cost.cycles


def test_a_stage_hands_on_what_its_forward_program_keeps() -> None:
    """Each of the two programs is one, and between them are more bytes than come in: queries, weights of the attention, gates."""
    text = pieces.lowered(stage_step(TINY, 1, 1, 1), {PP: STAGES, TP: 1})
    forward, backward = pieces.compiled_both_ways(text, STAGES, Options())
    activation = TINY.sequence * TINY.hidden * 2
    weights = TINY.heads * TINY.sequence**2 * 2
    assert forward.kept_bytes > 7 * activation + weights
    assert forward.memory_bytes >= forward.kept_bytes
    assert 0 == backward.kept_bytes < forward.cycles < backward.cycles
    assert not forward.plans


def test_pieces_add_up_where_tensors_have_parts() -> None:
    texts = [
        pieces.lowered(stage_step(TINY, 2, 1, 1), {PP: STAGES, TP: 2}),
        pieces.lowered(ends_step(TINY, 2, 1, is_first=True), {PP: STAGES, TP: 2}),
        pieces.lowered(ends_step(TINY, 2, 1, is_first=False), {TP: 2}),
    ]
    assert [text.count("stablehlo.all_reduce") for text in texts] == [4, 1, 4]
    assert [text.count("stablehlo.collective_permute") for text in texts] == [1, 1, 0]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "no --plan"),
        (["--plan=2x2"], "three numbers"),
        (["--plan=3x1x1"], "no multiple of 3 replicas"),
        (["--plan=1x4x1"], "--heads=2 is no multiple of 4"),
        (["--plan=1x1x3"], "--layers=2 is no multiple of 3 stages"),
        (["--plan=1x1x1", "--heads=5"], "--heads=5"),
    ],
)
def test_plans_that_divide_nothing_are_refused(flags: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", *FLAGS, "--batch=4", *flags]) == 1
    assert says in capsys.readouterr().err
