"""Random programs of tiles that load boxes of DDR, send them to each other, multiply, store and overwrite, from barrier to barrier:
the native core, which puts loads off also across barriers and sends them without a copy, leaves the same bytes as the definition.

Within a phase each tile touches no region of SPM that another one sends to or gathers from, and nobody stores to DDR that others
read, so no program depends on who comes first; strict mode says so.
"""

from dataclasses import replace

import numpy as np
import pytest
from native_cases import DENSE_LEVELS

from hlo2tx8.device import interpret, native
from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.dte import DteGather, DteMulticast
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEndIf, KcIf, KcLess, KcWait
from hlo2tx8.device.isa.lsu import Rdma, TdmaMemset, Wdma
from hlo2tx8.device.isa.ne import NeGemm
from hlo2tx8.device.program import Program, Slot, SlotKind

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

TILES = 4
CHIP: Chip = replace(load_chip(), tiles=TILES, mesh=(2, 2))
WAIT = Record(KcWait, {"engines": (1 << Engine.KC) - 1})
ROWS, WIDTH, BLOCKS = 32, 64, 2
BLOCK = ROWS * WIDTH * 4
REGION = BLOCKS * BLOCK  # bytes: an operand of [32, 128] in blocks, or one of [64, 64]
REGIONS = 6
SPM_BYTES = REGIONS * REGION
IN, MIDDLE, OUT = 0, 1, 2
MIDDLE_BYTES = 1 << 18


def only(tile: int, records: list[Record]) -> list[Record]:
    """The records on one tile alone."""
    less = [Record(KcLess, {"rd": 60 + i, "a": Register(1), "b": tile + i}) for i in (0, 1)]
    is_it = Record(KcAffine, {"rd": 62, "c": 0, "r1": Register(61), "k1": 1, "r2": Register(60), "k2": -1})
    return [*less, is_it, Record(KcIf, {"value": Register(62)}), *records, Record(KcEndIf)]


def load(rng: np.random.Generator, region: int, slot: int) -> Record:
    """Half of a region, or all of it, as rows that are apart in DDR: by blocks, by rows, or in pieces."""
    start = region * REGION
    stride = int(rng.choice((64, 128, 256)))
    level = {"s1": stride, "n1": ROWS, "s2": 0, "n2": 1, "s3": 0, "n3": 1}
    match rng.integers(0, 5):
        case 0:
            level |= {"s2": int(rng.choice((64, 8192))), "n2": BLOCKS}
        case 1:
            start += BLOCK * int(rng.integers(0, 2))
        case 2:
            level |= {"n1": ROWS // 2}
            start += BLOCK // 2 * int(rng.integers(0, 4))
        case 3:
            level |= {"n1": ROWS // 2, "s2": 8192, "n2": 2, "s3": 64, "n3": BLOCKS}
        case _:
            level |= {"s1": WIDTH}
    offset = int(rng.integers(0, MIDDLE_BYTES // 8 - 16384)) // 64 * 256 + int(rng.choice((0, 0, 0, 4)))
    return Record(Rdma, {"dst": start, "slot": slot, "offset": offset, "count": WIDTH, **level}, Format.FP32)


def own_record(rng: np.random.Generator, tile: int, mine: list[int], stores: bool) -> Record:
    """What touches only these regions of the tile's own, and DDR as others do not."""
    region, other, third = (int(r) for r in rng.choice(mine, 3))
    start = region * REGION
    match rng.choice(6, p=(0.45, 0.25, 0.1, 0.08, 0.07, 0.05)):
        case 1 if len({region, other, third}) == 3:
            rows, columns, depth = [(ROWS, 128, ROWS), (ROWS, WIDTH, WIDTH), (2 * ROWS, WIDTH, WIDTH)][int(rng.integers(0, 3))]
            sizes = {"rows": rows, "columns": columns, "depth": depth, "batch": 1}
            left = {"transpose_left": int(columns == 128), "transpose_right": 1}
            places = {"dst": other * REGION, "psum": other * REGION, "left": start, "right": third * REGION}
            return Record(NeGemm, sizes | left | places | {"accumulate": int(rng.integers(0, 2))}, Format.FP32, Format.TF32)
        case 2:
            n = int(rng.choice((4, 300, REGION // 4)))
            return Record(TdmaMemset, {"dst": start, "value": 0, "n": n, "s1": 0, "n1": 1, "s2": 0, "n2": 1}, Format.FP32)
        case 3:
            return Record(CtAddVV, {"dst": start, "a": other * REGION, "b": start, "n": int(rng.choice((40, 2000)))}, Format.FP32)
        case 4 if stores:
            part = MIDDLE_BYTES // TILES
            where = {"offset": tile * part + int(rng.integers(0, part - REGION)) // 256 * 256, "count": REGION // 4}
            return Record(Wdma, {"slot": MIDDLE, "src": start, **where, **DENSE_LEVELS}, Format.FP32)
        case _:
            return load(rng, region, IN if stores or rng.random() < 0.5 else MIDDLE)


def phase(rng: np.random.Generator, is_linked: bool) -> list[Record]:
    """Up to a barrier: some regions are only sent to, by one tile each, the same ones of the tiles of a mask; one is only gathered
    from."""
    stores = bool(rng.random() < 0.4)
    *sent, gathered = (int(r) for r in rng.choice(REGIONS, 4, replace=False))
    taken = {r: int(rng.integers(0, TILES)) for r in sent} if is_linked else {}
    gathers = is_linked and rng.random() < 0.2
    records: list[Record] = []
    for tile in range(TILES):
        mine = [r for r in range(REGIONS) if (r not in taken or taken[r] == tile) and not (gathers and r == gathered)]
        sends: list[Record] = []
        for region, sender in taken.items():
            if sender != tile:
                continue
            to = int(rng.integers(1, 1 << TILES)) & ~(1 << tile) or 1 << (tile + 1) % TILES
            first, n = [(0, REGION), (0, BLOCK), (BLOCK, BLOCK), (BLOCK // 2, BLOCK // 2), (1024, 6000)][int(rng.integers(0, 5))]
            at = region * REGION + first
            sends.append(Record(DteMulticast, {"dst": at, "src": at, "n": n // 4, "tiles": to}, Format.FP32))
        before = [own_record(rng, tile, mine, stores) for _ in range(int(rng.integers(0, 3)))]
        kept = [r for r in mine if r not in taken] or mine
        after = [own_record(rng, tile, kept, stores) for _ in range(int(rng.integers(0, 6)))]
        if gathers and kept:
            box = {"count": 64, "s1": 128, "n1": int(rng.integers(1, 16)), "s2": 0, "n2": 1, "s3": 0, "n3": 1}
            places = {"dst": int(rng.choice(kept)) * REGION, "src": gathered * REGION, "tile": (tile + 1) % TILES}
            sends += [Record(DteGather, places | box, Format.FP32), WAIT]
        records += only(tile, [*before, WAIT, *sends, *after])
    return [*records, WAIT, Record(KcBarrier)]


def random_program(seed: int) -> Program:
    """Loads all of SPM first, and stores it in the end."""
    rng = np.random.default_rng(seed)
    here = Record(KcAffine, {"rd": 2, "c": 0, "r1": Register(1), "k1": SPM_BYTES})
    whole = {"offset": Register(2), "count": SPM_BYTES // 4, **DENSE_LEVELS}
    first = Record(Rdma, {"dst": 0, "slot": IN, **whole}, Format.FP32)
    last = Record(Wdma, {"slot": OUT, "src": 0, **whole}, Format.FP32)
    clear = Record(
        Wdma, {"slot": MIDDLE, "src": 0, "offset": Register(3), "count": MIDDLE_BYTES // TILES // 4, **DENSE_LEVELS}, Format.FP32
    )
    part = Record(KcAffine, {"rd": 3, "c": 0, "r1": Register(1), "k1": MIDDLE_BYTES // TILES})
    phases = [r for _ in range(int(rng.integers(3, 12))) for r in phase(rng, bool(rng.random() < 0.8))]
    code, origins = encode_records([here, part, first, WAIT, clear, WAIT, Record(KcBarrier), *phases, last, WAIT])
    sizes = (max(TILES * SPM_BYTES, MIDDLE_BYTES), MIDDLE_BYTES, TILES * SPM_BYTES)
    kinds = (SlotKind.INPUT, SlotKind.SCRATCH, SlotKind.OUTPUT)
    slots = tuple(Slot(k, 0, "float32", (s // 4,), s) for k, s in zip(kinds, sizes, strict=True))
    return Program(code, slots, (), origins, CHIP.spm_limit)


def arrays(program: Program, seed: int) -> list[np.ndarray]:
    given = np.random.default_rng(seed).standard_normal(program.slots[IN].size_bytes // 4).astype(np.float32)
    return [given.view(np.uint8), *(np.zeros(s.size_bytes, np.uint8) for s in program.slots[1:])]


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_equals_definition(first: int) -> None:
    for seed in range(first, first + 10):
        program = random_program(seed)
        expected = arrays(program, seed)
        interpret.run(program, expected, CHIP)
        for threads in (1, 3):
            actual = arrays(program, seed)
            native.run(program, actual, CHIP, threads)
            wrong = np.nonzero(actual[OUT] != expected[OUT])[0]
            assert not wrong.size, f"seed {seed}, {threads} threads: {wrong.size} bytes from {wrong[:1]}"


@pytest.mark.parametrize("seed", range(4))
def test_programs_are_without_races(seed: int) -> None:
    program = random_program(seed)
    interpret.run_strict(program, arrays(program, seed), CHIP)
