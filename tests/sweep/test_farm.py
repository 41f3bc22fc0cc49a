"""Tasks on processes, local and of Dask: every task is answered once, whatever its process does."""

from pathlib import Path
from typing import Any

import pytest

from hlo2tx8.errors import InputError
from hlo2tx8.sweep.child import Answered
from hlo2tx8.sweep.farm import TaskFarm

CHILD = """
import os, sys, time
from hlo2tx8.sweep.child import serve

def answer(task):
    print("said on stdout")
    if task == "dies":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    if task == "hangs":
        time.sleep(100)
    if task == "raises":
        raise ValueError("no")
    return {"twice": 2 * task}

serve(answer)
"""
TASKS: list[Any] = [1, "dies", 2, "raises", "hangs", 3, 4]


@pytest.fixture
def child(tmp_path: Path) -> str:
    path = tmp_path / "answers.py"
    path.write_text(CHILD)
    return str(path)


def checked(found: dict[int, Answered]) -> None:
    answers: dict[int, Any] = {number: answered.answers for number, answered in found.items()}
    assert answers == {
        **{0: ({"twice": 2},), 2: ({"twice": 4},), 5: ({"twice": 6},), 6: ({"twice": 8},)},
        **{1: (), 3: ({"lost": "ValueError: no"},), 4: ()},
    }
    assert found[1].lost.startswith("exit code 3: ") and found[1].lost.endswith("last words")
    assert found[4].lost == "no answer within 1 s"


def test_crashes_and_hangs_are_a_tasks_own(child: str) -> None:
    with TaskFarm([child], limit=1) as farm:
        checked(dict(farm.run(TASKS)))
        assert list(farm.run([])) == []
        assert dict(farm.run([5]))[0].answers == ({"twice": 10},)


def test_a_process_has_the_next_task_while_it_is_quick(child: str) -> None:
    """What the next one does is its own, also if the process had it before it was waited for."""
    tasks = [1, 2, "dies", 3, 4, "hangs", 5, 6, "raises", 7, "x" * 70_000, 8]
    with TaskFarm([child], limit=1) as farm:
        found = dict(farm.run(tasks))
        (process,) = farm.children
        process.ask("1", following="2")
        assert process.ask("3").answers == ({"twice": 6},)
    for number, task in enumerate(tasks):
        if task in ("dies", "hangs"):
            assert found[number].answers == () and found[number].lost
        elif task != "raises":
            assert found[number].answers == ({"twice": 2 * task},)


def test_several_processes_share_tasks(child: str) -> None:
    with TaskFarm([child], jobs=3) as farm:
        assert {number: answered.answers for number, answered in farm.run(range(20))} == {n: ({"twice": 2 * n},) for n in range(20)}


def test_whoever_stops_early_leaves_no_process(child: str) -> None:
    with TaskFarm([child], jobs=2) as farm:
        next(farm.run(TASKS))
        processes = [each.process for each in farm.children if each.process is not None]
    assert all(process.wait(10) is not None for process in processes)


def test_a_scheduler_answers_as_processes_do(child: str) -> None:
    pytest.importorskip("distributed")
    with TaskFarm([child], jobs=2, scheduler="local", limit=1) as farm:
        found = dict(farm.run([1, 2, 3, 4]))
    assert [found[number].answers for number in range(4)] == [({"twice": 2 * n},) for n in (1, 2, 3, 4)]


def test_a_scheduler_that_is_not_there(child: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("hlo2tx8.sweep.farm.CONNECT_SECONDS", 1)
    for address in ("tcp://127.0.0.1:9", "nowhere", "sql://x"):
        with pytest.raises(InputError, match="does not answer"), TaskFarm([child], scheduler=address):
            pass
