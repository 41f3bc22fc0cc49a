"""What a kernel does alike in each turn of a loop: its records, told apart one by one."""

from collections.abc import Sequence

import pytest

from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Record, Register
from hlo2tx8.device.isa.kc_control import KcAffine, KcEnd, KcEndIf, KcIf, KcLess, KcLoadScalar, KcLoop
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset, Wdma
from hlo2tx8.device.program import BufferUse
from hlo2tx8.link.assemble import code_of
from hlo2tx8.link.barriers import LinkedCode
from hlo2tx8.link.invariant_records import invariant_records

FIXED, CHANGED = 0, 1
TILE, NUMBER, OTHER = Register(1), Register(2), Register(3)


def load(slot: int, offset: int | Register = 0) -> Record:
    return Record(Rdma, {"dst": 0x10000, "slot": slot, "offset": offset, "count": 64}, Format.FP32)


def store(source: int = 0x10000) -> Record:
    return Record(Wdma, {"src": source, "slot": CHANGED, "offset": 0, "count": 64}, Format.FP32)


def fill() -> Record:
    return Record(TdmaMemset, {"dst": 0x10000, "value": 0, "n": 64}, Format.FP32)


def code(records: Sequence[Record], buffers: dict[int, int]) -> LinkedCode:
    """With these buffers, by record."""
    operand = {i: 1 if record.kind is Wdma else 0 for i, record in enumerate(records)}
    return code_of(records, [], [BufferUse(record, operand[record], number) for record, number in buffers.items()], 16)


PLACE = Record(KcAffine, {"rd": NUMBER, "c": 0, "r1": TILE, "k1": 256})
UNKNOWN = Record(KcLoadScalar, {"rd": NUMBER, "address": 0x8000}, Format.INT32)
IS_FIRST = Record(KcLess, {"rd": OTHER, "a": TILE, "b": 1})
LOOP = Record(KcLoop, {"rd": NUMBER, "lo": 0, "hi": 4, "step": 1})
KEPT: dict[str, tuple[Sequence[Record], dict[int, int]]] = {
    "a load": ([load(FIXED), store()], {0: 0, 1: 0}),
    "at a place of the tile": ([PLACE, load(FIXED, NUMBER), store()], {1: 0, 2: 0}),
    "on some tiles": ([IS_FIRST, Record(KcIf, {"value": OTHER}), load(FIXED), Record(KcEndIf), store()], {2: 0, 4: 0}),
    "behind a fill": ([fill(), load(FIXED), store()], {0: 0, 1: 0, 2: 0}),
    "read in a loop": ([load(FIXED), LOOP, store(), Record(KcEnd)], {0: 0, 2: 0}),
}
NOT_KEPT: dict[str, tuple[Sequence[Record], dict[int, int]]] = {
    "of what changes": ([load(CHANGED), store()], {0: 0, 1: 0}),
    "at a number that was loaded": ([UNKNOWN, load(FIXED, NUMBER), store()], {0: 1, 1: 0, 2: 0}),
    "in a loop": ([LOOP, load(FIXED, NUMBER), store(), Record(KcEnd)], {1: 0, 2: 0}),
    "where a loop counted": ([LOOP, Record(KcEnd), load(FIXED, NUMBER), store()], {2: 0, 3: 0}),
    "written again": ([load(FIXED), store(), load(CHANGED), store()], {0: 0, 1: 0, 2: 0, 3: 0}),
    "read before it is whole": ([load(FIXED), store(), load(FIXED), store()], {0: 0, 1: 0, 2: 0, 3: 0}),
    "with buffers that nobody knows": ([load(FIXED), store(), store(0x9000)], {0: 0, 1: 0}),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str):
    records, buffers = KEPT[name]
    (part,) = invariant_records(code(records, buffers), [True, False]).parts
    writers = [i for i, record in enumerate(records) if record.kind in (Rdma, TdmaMemset)]
    assert part.buffers == (0,) and list(part.records) == writers


@pytest.mark.parametrize("name", NOT_KEPT)
def test_not_kept(name: str):
    records, buffers = NOT_KEPT[name]
    assert invariant_records(code(records, buffers), [True, False]).parts == ()
