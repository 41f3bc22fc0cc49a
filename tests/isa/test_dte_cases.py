"""DTE against copies written out in Python, in both tiers and in strict mode: unicast, multicast, gather, and what they refuse."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from hlo2tx8.device import interpret, native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.dte import DteGather, DteMulticast, DteUnicast
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEndIf, KcIf, KcLess, KcMod, KcWait
from hlo2tx8.device.isa.kc_move import KcVIota
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

TILES = 4
CHIP = replace(load_chip(), tiles=TILES, mesh=(2, 2))
SPM_BYTES = 1 << 14  # of each tile that a test loads and stores
WAIT = Record(KcWait, {"engines": (1 << Engine.KC) - 1})
SYNC = (WAIT, Record(KcBarrier))
TILE, HERE, OTHER = Register(1), Register(2), Register(3)
HEAD = (
    Record(KcAffine, {"rd": 2, "c": 0, "r1": TILE, "k1": SPM_BYTES}),
    Record(KcAffine, {"rd": 3, "c": 1, "r1": TILE, "k1": 1}),
    Record(KcMod, {"rd": 3, "a": OTHER, "b": TILES}),
)
RUNS = {
    "definition": lambda p, s: interpret.run(p, s, CHIP),
    "strict": lambda p, s: interpret.run_strict(p, s, CHIP),
    "native": lambda p, s: native.run(p, s, CHIP, 1),
    "native with threads": lambda p, s: native.run(p, s, CHIP, TILES),
}
TIERS = [t for t in RUNS if not t.startswith("native") or native.available()]


def run(tier: str, *records: Record) -> tuple[np.ndarray, np.ndarray]:
    """(SPM at first, SPM after the records), [tiles, bytes]; all tiles meet before and after."""
    whole = {"offset": HERE, "count": SPM_BYTES}
    load = Record(Rdma, {"dst": 0, "slot": 0, **whole}, Format.RAW8)
    store = Record(Wdma, {"slot": 1, "src": 0, **whole}, Format.RAW8)
    code, origins = encode_records([*HEAD, load, *SYNC, *records, *SYNC, store, WAIT])
    slots = tuple(Slot(kind, 0, "uint8", (TILES * SPM_BYTES,), TILES * SPM_BYTES) for kind in (SlotKind.INPUT, SlotKind.OUTPUT))
    before = np.random.default_rng(4).integers(0, 256, (TILES, SPM_BYTES), dtype=np.uint8)
    after = np.zeros_like(before)
    RUNS[tier](Program(code, slots, (), origins, CHIP.spm_bytes), [before.reshape(-1), after.reshape(-1)])
    return before, after


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("fmt", [Format.RAW8, Format.BF16, Format.FP32, Format.RAW128], ids=lambda f: f.name)
def test_unicast_around_a_ring(fmt: Format, tier: str) -> None:
    n = 4000 // fmt.bytes - 1
    expected, after = run(tier, Record(DteUnicast, {"dst": 8003, "src": 3, "n": n, "tile": OTHER}, fmt))
    for tile in range(TILES):
        expected[(tile + 1) % TILES, 8003 : 8003 + n * fmt.bytes] = expected[tile, 3 : 3 + n * fmt.bytes]
    assert after.tobytes() == expected.tobytes()


@pytest.mark.parametrize("tier", TIERS)
def test_multicast_from_one_tile(tier: str) -> None:
    sent = Record(DteMulticast, {"dst": 100, "src": 9000, "n": 25, "tiles": 0b1010}, Format.FP32)
    expected, after = run(tier, *only(0, sent))
    expected[[1, 3], 100:200] = expected[0, 9000:9100]
    assert after.tobytes() == expected.tobytes()


BOXES = [
    {"count": 5, "s1": 7, "n1": 3, "s2": 40, "n2": 2, "s3": 100, "n3": 4},
    {"count": 1, "s1": 3, "n1": 50},
    {"count": 4, "s1": 0, "n1": 6, "s2": 4, "n2": 2},
    {"count": 3, "s1": 2, "n1": 2},
    {"count": 33},
]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("box", BOXES, ids=str)
def test_gather_of_boxes(box: dict[str, int], tier: str) -> None:
    full = {"s1": 0, "n1": 1, "s2": 0, "n2": 1, "s3": 0, "n3": 1} | box
    expected, after = run(tier, Record(DteGather, {"dst": 8001, "src": 17, "tile": OTHER, **box}, Format.INT16))
    turns = product(range(full["n3"]), range(full["n2"]), range(full["n1"]))
    starts = [17 + 2 * (i3 * full["s3"] + i2 * full["s2"] + i1 * full["s1"]) for i3, i2, i1 in turns]
    for tile in range(TILES):
        source = expected[(tile + 1) % TILES]
        dense = np.concatenate([source[s : s + 2 * full["count"]] for s in starts])
        expected[tile, 8001 : 8001 + dense.size] = dense
    assert after.tobytes() == expected.tobytes()


LIMIT = CHIP.spm_limit
SEND = {"dst": 8192, "src": 0, "n": 4, "tile": OTHER}
CAST = {"dst": 8192, "src": 0, "n": 4, "tiles": 8}
GATHER = {"dst": 8192, "src": 0, "tile": OTHER, "count": 4}
BOUNDS, DESCRIPTOR = FaultKind.OUT_OF_BOUNDS, FaultKind.BAD_DESCRIPTOR
REFUSED = [
    (BOUNDS, Record(DteUnicast, SEND | {"tile": TILES}, Format.FP32)),
    (BOUNDS, Record(DteUnicast, SEND | {"dst": LIMIT - 15}, Format.FP32)),
    (BOUNDS, Record(DteUnicast, SEND | {"src": LIMIT - 15}, Format.FP32)),
    (BOUNDS, Record(DteUnicast, SEND | {"n": 1 << 62}, Format.FP32)),
    (BOUNDS, Record(DteMulticast, CAST | {"tiles": 1 << TILES}, Format.FP32)),
    (BOUNDS, Record(DteMulticast, CAST | {"tiles": -1 << 63}, Format.FP32)),
    (BOUNDS, Record(DteMulticast, CAST | {"dst": -1}, Format.FP32)),
    (BOUNDS, Record(DteGather, GATHER | {"src": LIMIT - 15}, Format.FP32)),
    (BOUNDS, Record(DteGather, GATHER | {"dst": LIMIT - 15}, Format.FP32)),
    (BOUNDS, Record(DteGather, GATHER | {"s3": 1 << 60, "n3": 1 << 60}, Format.FP32)),
    (DESCRIPTOR, Record(DteUnicast, SEND | {"tile": TILE}, Format.FP32)),
    (DESCRIPTOR, Record(DteUnicast, SEND | {"tile": -1}, Format.FP32)),
    (DESCRIPTOR, Record(DteUnicast, SEND | {"n": -1}, Format.FP32)),
    (DESCRIPTOR, Record(DteMulticast, CAST | {"tiles": 0}, Format.FP32)),
    (DESCRIPTOR, Record(DteMulticast, CAST | {"tiles": 9}, Format.FP32)),
    (DESCRIPTOR, Record(DteMulticast, CAST | {"tiles": (1 << 32) - 1}, Format.FP32)),
    (DESCRIPTOR, Record(DteGather, GATHER | {"tile": TILE}, Format.FP32)),
    (DESCRIPTOR, Record(DteGather, GATHER | {"count": 0}, Format.FP32)),
    (DESCRIPTOR, Record(DteGather, GATHER | {"n2": 0}, Format.FP32)),
]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("kind", "record"), REFUSED)
def test_refused(kind: FaultKind, record: Record, tier: str) -> None:
    with pytest.raises(Fault) as caught:
        run(tier, record)
    assert (caught.value.kind, caught.value.place.record, caught.value.place.tile) == (kind, len(HEAD) + 3, 0)


def only(tile: int, *records: Record) -> list[Record]:
    """The records on one tile alone; registers 60 to 62."""
    less = [Record(KcLess, {"rd": 60 + i, "a": TILE, "b": tile + i}) for i in (0, 1)]
    is_it = Record(KcAffine, {"rd": 62, "c": 0, "r1": Register(61), "k1": 1, "r2": Register(60), "k2": -1})
    return [*less, is_it, Record(KcIf, {"value": Register(62)}), *records, Record(KcEndIf)]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("tile", [0, 3])
def test_a_tile_that_has_not_begun_and_one_that_is_done(tile: int, tier: str) -> None:
    """Every tile has its scratchpad from the first to the last record; a machine used again starts with zeros."""
    made = Record(KcVIota, {"dst": 0, "n": 64, "start": 7, "step": 1, "div": 1, "mod": 64}, Format.INT32)
    sent = Record(DteUnicast, {"dst": 4096, "src": 0, "n": 64, "tile": 3 - tile}, Format.INT32)
    store = Record(Wdma, {"slot": 0, "offset": 0, "src": 4096, "count": 64}, Format.INT32)
    code, origins = encode_records([*only(tile, made, sent, WAIT), Record(KcBarrier), *only(3 - tile, store, WAIT)])
    program = Program(code, (Slot(SlotKind.OUTPUT, 0, "int32", (64,), 256),), (), origins, CHIP.spm_bytes)
    for _ in range(2):
        out = np.zeros(256, np.uint8)
        RUNS[tier](program, [out])
        assert out.view(np.int32).tolist() == list(range(7, 71))
    if tier != "strict":
        code, origins = encode_records([store])
        out = np.ones(256, np.uint8)
        RUNS[tier](replace(program, code=code, origins=origins), [out])
        assert not out.any()
