"""What `make size` counts, and when it complains."""

from pathlib import Path

from hlo2tx8.dev.size import Budget, lines_by_room, over_budget, read_budget


def test_generated_files_and_empty_ones_do_not_count(tmp_path: Path):
    room = tmp_path / "hlo2tx8" / "device"
    (room / "native").mkdir(parents=True)
    (room / "one.py").write_text('"""One."""\n\nx = 1\n')
    (room / "native" / "two.c").write_text("int two;\n")
    (room / "native" / "made.h").write_text("/* Generated from the instruction classes. Do not edit. */\nint x;\n")
    (tmp_path / "hlo2tx8" / "top.py").write_text("x = 1\n")
    (tmp_path / "hlo2tx8" / "py.typed").write_text("")
    names = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.*")]
    assert lines_by_room(tmp_path, names) == {"device": 4, "top": 1}


def test_what_is_over_budget_is_named():
    budget = read_budget("total = 10\n[rooms]\na = 5\nb = 4\n")
    assert over_budget({"a": 5, "b": 4}, budget) == []
    assert over_budget({"a": 6, "b": 4}, budget) == ["a has 1 lines more than its budget"]
    assert over_budget({"a": 5, "b": 4}, Budget(8, budget.rooms)) == ["in all there are 1 lines too many"]
    assert over_budget({"a": 5, "b": 4, "c": 1}, budget) == ["c has no budget in size.toml"]
    assert over_budget({"a": 5}, budget) == ["b is in size.toml and does not exist"]
