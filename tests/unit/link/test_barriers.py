"""Which tiles access which bytes, what tile 0 does alone, and where all tiles must meet."""

from dataclasses import replace

import numpy as np
import pytest

from hlo2tx8.device import interpret
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa.encoding import Operand, Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcEnd,
    KcEndIf,
    KcIf,
    KcLess,
    KcLoadScalar,
    KcLoop,
    KcMax,
    KcMin,
    KcMod,
)
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind
from hlo2tx8.link.assemble import assemble, code_of
from hlo2tx8.link.barriers import LaunchWork, Nest, Piece
from hlo2tx8.link.footprint import footprint_of
from hlo2tx8.link.specialize import specialize

TILES = 4
TILE = Register(1)


def store(slot: int, offset: Operand, count: Operand) -> Record:
    return Record(Wdma, {"slot": slot, "offset": offset, "src": 0, "count": count}, Format.UINT8)


def load(slot: int, offset: Operand, count: Operand) -> Record:
    return Record(Rdma, {"dst": 0, "slot": slot, "offset": offset, "count": count}, Format.UINT8)


def shared(kind: type, slot: int, size: int, share: int, distance: int) -> list[Record]:
    """Every tile accesses its share of so many bytes, `distance` times as far from the start as it is."""
    access = {Rdma: load, Wdma: store}[kind]
    return [
        Record(KcAffine, {"rd": Register(2), "c": size, "r1": TILE, "k1": -share, "r2": Register(0), "k2": 0}),
        Record(KcMin, {"rd": Register(3), "a": Register(2), "b": share}),
        Record(KcMax, {"rd": Register(2), "a": Register(3), "b": 0}),
        Record(KcLess, {"rd": Register(3), "a": 0, "b": Register(2)}),
        Record(KcIf, {"value": Register(3)}),
        Record(KcAffine, {"rd": Register(4), "c": 0, "r1": TILE, "k1": share * distance}),
        access(slot, Register(4), Register(2)),
        Record(KcEndIf),
    ]


def work(*records: Record) -> LaunchWork:
    code = code_of(records, (), (), TILES)
    return LaunchWork(code, code.footprint, name="launch")


def reached(records: list[Record]) -> dict[tuple[int, bool], list[tuple[int, int]]]:
    """Of each slot and direction the bytes by tile, (0, 0) for none."""
    found = footprint_of(records, TILES).accesses
    ends = {(a.slot, a.is_write): zip(a.first.tolist(), a.end.tolist(), strict=True) for a in found}
    return {key: [(first, end) if first < end else (0, 0) for first, end in pairs] for key, pairs in ends.items()}


def barriers(*pieces: Piece) -> list[str]:
    """The kinds of the records that a sequence of pieces becomes, but not what computes registers."""
    names = {KcBarrier: "barrier", KcIf: "if", KcLoop: "loop", Rdma: "load", Wdma: "store"}
    return [names[r.kind] for r in assemble(pieces, TILES).records if r.kind in names]


def test_shares():
    assert reached(shared(Wdma, 7, 150, 64, 1)) == {(7, True): [(0, 64), (64, 128), (128, 150), (0, 0)]}
    assert not footprint_of(shared(Wdma, 7, 150, 64, 1), TILES).is_alone
    assert footprint_of(shared(Wdma, 7, 64, 64, 1), TILES).is_alone
    assert footprint_of(shared(Rdma, 7, 150, 64, 1), TILES).is_alone


def test_shares_behind_a_branch():
    found = reached([*shared(Wdma, 7, 64, 64, 1), *shared(Wdma, 8, 150, 64, 1)])
    assert found == reached(shared(Wdma, 7, 64, 64, 1)) | reached(shared(Wdma, 8, 150, 64, 1))


def test_a_loop_reaches_what_all_its_turns_do():
    turns = Record(KcLoop, {"rd": Register(3), "lo": 0, "hi": 5, "step": 2})
    place = Record(KcAffine, {"rd": Register(2), "c": 8, "r1": TILE, "k1": 100, "r2": Register(3), "k2": 10})
    assert reached([turns, place, load(1, Register(2), 3), Record(KcEnd)])[1, False] == [
        (8 + 100 * tile, 8 + 100 * tile + 40 + 3) for tile in range(TILES)
    ]


def test_what_is_loaded_may_be_anything():
    number = Record(KcLoadScalar, {"rd": Register(2), "address": 0}, Format.INT32)
    ((first, end), *_) = reached([number, store(0, Register(2), 1)])[0, True]
    assert (first, end) == (0, 1 << 62)
    assert not footprint_of([number, store(0, Register(2), 1)], TILES).is_alone


@pytest.mark.parametrize(
    ("size", "kinds"),
    [
        (256, ["if", "store", "endif", "if", "load", "endif"]),  # each tile what it wrote itself
        (64, ["if", "store", "load"]),  # of tile 0, behind one guard
    ],
)
def test_equal_shares_need_no_barrier(size: int, kinds: list[str]):
    pieces = work(*shared(Wdma, 0, size, 64, 1)), work(*shared(Rdma, 0, size, 64, 1), *shared(Wdma, 1, size, 64, 1))
    assert "barrier" not in barriers(*pieces)
    assert barriers(*pieces)[:2] == kinds[:2]


def test_other_shares_need_one():
    assert barriers(work(*shared(Wdma, 0, 256, 64, 1)), work(*shared(Rdma, 0, 256, 32, 1), store(1, 0, 1))).count("barrier") == 1
    assert barriers(work(*shared(Wdma, 0, 256, 64, 1)), work(*shared(Rdma, 1, 256, 32, 1), store(2, 0, 1))).count("barrier") == 0


def test_what_is_read_is_not_overwritten_too_early():
    everybody = work(load(0, 0, 64), *shared(Wdma, 1, 256, 64, 1))
    assert barriers(everybody, work(*shared(Wdma, 0, 64, 64, 1))).count("barrier") == 1


def nest(*pieces: Piece) -> Nest:
    return Nest(Record(KcLoop, {"rd": Register(2), "lo": 0, "hi": 3, "step": 1}), Record(KcEnd), list(pieces))


def test_the_next_turn_counts():
    """Nothing in a turn is in the way of what follows it there, but the next turn is."""
    write, read = work(*shared(Wdma, 0, 256, 64, 1)), work(*shared(Rdma, 0, 256, 32, 1), *shared(Wdma, 1, 256, 32, 1))
    assert barriers(nest(read, write)) == ["loop", "barrier", "if", "load", "if", "store", "barrier", "if", "store"]


def test_a_loop_of_tile_0():
    write = work(*shared(Wdma, 0, 64, 64, 1))
    assert barriers(nest(write, work(*shared(Wdma, 1, 64, 64, 1)))) == ["if", "loop", "store", "store"]
    assert barriers(nest(write, work(load(0, 0, 64), *shared(Wdma, 1, 256, 64, 1))))[:4] == ["loop", "barrier", "if", "store"]


def test_work_that_meets_itself():
    few, many = (shared(Wdma, 0, size, 64, 1) for size in (64, 256))
    meeting = Record(KcBarrier)
    assert barriers(work(*few, meeting, *shared(Rdma, 0, 64, 64, 1), *few)) == ["if", "store", "load", "store"]
    both = work(*many, meeting, load(0, 0, 256), *many), work(*shared(Wdma, 1, 256, 64, 1))
    assert barriers(*both) == ["if", "store", "barrier", "load", "if", "store", "barrier", "if", "store"]


# ------------------------------------------------------------------------------------------------------------ tile 0


def drawn(rng: np.random.Generator, depth: int) -> list[Record]:
    """Records that compute registers 2 to 6 and store a byte at a place they make."""
    records: list[Record] = []

    def operand() -> Operand:
        return Register(int(rng.integers(0, 7))) if rng.random() < 0.7 else int(rng.integers(-3, 9))

    for _ in range(int(rng.integers(1, 6))):
        target = Register(int(rng.integers(2, 7)))
        kind = int(rng.integers(0, 8))
        if kind < 3:
            fields = {
                "rd": target,
                "c": operand(),
                "r1": operand(),
                "k1": int(rng.integers(-2, 3)),
                "r2": operand(),
                "k2": operand(),
            }
            records.append(Record(KcAffine, fields))
            records.append(Record(KcMod, {"rd": target, "a": target, "b": 61}))
        elif kind == 3:
            records.append(Record(KcLess if rng.random() < 0.5 else KcMin, {"rd": target, "a": operand(), "b": operand()}))
        elif kind == 4:
            records.append(Record(KcLoadScalar, {"rd": target, "address": int(rng.integers(0, 8))}, Format.UINT8))
        elif kind == 5:
            records += [Record(KcMod, {"rd": Register(7), "a": operand(), "b": 61}), store(0, Register(7), 1)]
            records.append(Record(TdmaMemset, {"dst": 0, "value": int(rng.integers(1, 200)), "n": 8}, Format.UINT8))
        elif depth:
            if kind == 6:
                block = Record(KcIf, {"value": operand()}), Record(KcEndIf)
            else:
                block = Record(KcLoop, {"rd": target, "lo": operand(), "hi": int(rng.integers(0, 4)), "step": 1}), Record(KcEnd)
            records += [block[0], *drawn(rng, depth - 1), block[1]]
    return records


@pytest.mark.parametrize("seed", range(60))
def test_tile_0_does_the_same(seed: int):
    rng = np.random.default_rng(seed)
    records = [r for _ in range(4) for r in drawn(rng, 3)]
    special, sources = specialize(records)
    assert sources == sorted(sources) and len(special) == len(sources)
    chip = replace(load_chip(), tiles=1, mesh=(1, 1))
    found: list[bytes] = []
    for some in (records, special):
        code, origins = encode_records(some)
        image = np.zeros(64, np.uint8)
        slots = (Slot(SlotKind.OUTPUT, 0, "uint8", (64,), 64),)
        interpret.run(Program(code, slots, (), origins, chip.spm_bytes), [image], chip)
        found.append(image.tobytes())
    assert found[0] == found[1]
