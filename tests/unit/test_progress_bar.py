"""The progress bar: only on a terminal, only for long work, gone at the end, never backwards."""

import io

import pytest

from hlo2tx8.runtime import progress_bar
from hlo2tx8.runtime.progress_bar import CLEAR, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress_bar.time, "perf_counter", lambda: now[0])
    return now


def test_a_terminal_sees_long_work(clock: list[float]):
    terminal = Terminal()
    with shown(terminal) as watch:
        for second, part in ((1, 0.1), (3, 0.5), (4, 0.3)):
            clock[0] = second
            watch(part, "a-pass")
    bar = "█" * 15 + "░" * 15
    lines = [f"compiling {bar}  50 %  {second} s  a-pass" for second in (3, 4)]
    assert terminal.getvalue() == f"{CLEAR}{lines[0]}{CLEAR}{lines[1]}{CLEAR}"


@pytest.mark.parametrize(("stream", "second"), [(Terminal(), 1), (io.StringIO(), 100)], ids=["short", "no terminal"])
def test_nothing_is_shown(clock: list[float], stream: io.StringIO, second: float):
    with shown(stream) as watch:
        clock[0] = second
        watch(0.5, "a-pass")
    assert stream.getvalue() == ""
