"""What a compilation leaves to the garbage collector is collected late, but it is collected."""

import gc
import weakref

import pytest

from hlo2tx8.compiler import garbage_collection as garbage


class Node:
    """Garbage once it is left alone: it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_old_at_once_and_collected_when_there_is_much(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(garbage.Uncollected, "MOST", 10_000)
    monkeypatch.setattr(garbage.Uncollected, "PART", 0)
    monkeypatch.setattr(garbage, "UNCOLLECTED", garbage.Uncollected())
    with garbage.no_garbage_collection():
        assert not gc.isenabled()
        left = weakref.ref(Node())
    assert gc.isenabled()
    gc.collect(1)
    assert left() is not None
    kept: list[list[int]] = []
    while left() is not None and len(kept) < 20_000:
        with garbage.no_garbage_collection():
            kept += ([] for _ in range(1000))
    assert 10_000 <= len(kept) < 20_000


def test_where_there_is_more_than_garbage_it_may_be_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(garbage.Uncollected, "MOST", 1000)
    monkeypatch.setattr(garbage.Uncollected, "PART", 1)
    monkeypatch.setattr(garbage, "UNCOLLECTED", garbage.Uncollected())
    left = weakref.ref(Node())
    kept: list[list[int]] = []
    for _ in range(3):
        with garbage.no_garbage_collection():
            kept += ([] for _ in range(900))
    assert left() is not None and garbage.UNCOLLECTED.most > 10_000


def test_a_collector_that_is_off_stays_off_and_what_others_froze_stays_frozen():
    gc.disable()
    try:
        with garbage.no_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.freeze()
    try:
        with garbage.no_garbage_collection():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_much_garbage_of_one_compilation_is_collected_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(garbage.Uncollected, "MOST", 1000)
    monkeypatch.setattr(garbage, "UNCOLLECTED", garbage.Uncollected())
    gc.collect()
    before = weakref.ref(Node())
    gc.freeze()
    gc.unfreeze()  # it is old
    with garbage.no_garbage_collection():
        nodes = [Node() for _ in range(2000)]
        left = weakref.ref(nodes[0])
        del nodes
    assert left() is None and before() is not None
    assert garbage.UNCOLLECTED.count < 1000
