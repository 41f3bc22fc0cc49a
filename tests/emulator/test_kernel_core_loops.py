"""Loops in which the kernel core issues nothing: their turns are left out too, each tile's by itself, and the time is that of the
machine in Python."""

import time

import pytest

from hlo2tx8.device import native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.formats import Format
from hlo2tx8.device.isa import INSTRUCTIONS
from hlo2tx8.device.isa.ct_arith import CtAddVV
from hlo2tx8.device.isa.encoding import Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcEndIf, KcIf, KcLess, KcLoop, KcWait
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import model
from hlo2tx8.device.timing.model import follow

pytestmark = pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")

CHIP = load_chip()
ADD = next(kind for kind in INSTRUCTIONS if kind.MNEMONIC == "KC_VV_add")
TILE, COUNTER, SUM, BOUND, CONDITION = (Register(r) for r in (1, 4, 5, 6, 7))
DENSE = {"s1": 0, "n1": 1, "s2": 0, "n2": 1, "s3": 0, "n3": 1}
END, WAIT, BARRIER = Record(KcEnd, {}), Record(KcWait, {"engines": 63}), Record(KcBarrier, {})


def affine(rd: Register, c: int, r: Register, k: int) -> Record:
    none = {f"{letter}{i}": 0 for letter in "rk" for i in (2, 3, 4)}
    return Record(KcAffine, {"rd": rd, "c": c, "r1": r, "k1": k, **none})


def loop(turns: int | Register) -> Record:
    return Record(KcLoop, {"rd": COUNTER, "lo": 0, "hi": turns, "step": 1})


def add(n: int) -> Record:
    return Record(ADD, {"dst": 0, "a": 0, "b": 4096, "n": n}, Format.INT32)


def load(n: int) -> Record:
    return Record(Rdma, {"dst": 8192, "slot": 0, "offset": 0, "count": n, **DENSE}, Format.FP32)


def store(n: int) -> Record:
    return Record(Wdma, {"slot": 1, "offset": 0, "src": 8192, "count": n, **DENSE}, Format.FP32)


def programs(turns: int) -> dict[str, list[Record]]:
    vector = Record(CtAddVV, {"dst": 65536, "a": 8192, "b": 8192, "n": 4096}, Format.FP32)
    less = Record(KcLess, {"rd": CONDITION, "a": COUNTER, "b": 300})
    branch = [less, Record(KcIf, {"value": CONDITION}), add(64), Record(KcEndIf, {})]
    return {
        "scalars": [loop(turns), affine(SUM, 0, COUNTER, 512), END, load(2048)],
        "beside a transfer": [load(20480), vector, loop(turns), add(64), END, WAIT, store(2048)],
        "waiting": [load(20480), loop(turns), add(64), WAIT, END, store(2048)],
        "a branch": [load(20480), loop(turns), *branch, END, store(2048)],
        "as many as the tile says": [
            affine(BOUND, turns // 2, TILE, 7),
            load(4096),
            loop(BOUND),
            add(64),
            END,
            WAIT,
            BARRIER,
            load(9),
        ],
        "between others": [loop(turns), load(256), vector, END, loop(turns), add(64), END, WAIT, BARRIER, loop(turns), add(9), END],
    }


def program(name: str, turns: int) -> Program:
    code, origins = encode_records(programs(turns)[name])
    return Program(code, (), (), origins, CHIP.spm_limit)


@pytest.mark.parametrize("turns", [40, 700])
@pytest.mark.parametrize("name", programs(1))
def test_equals_python(name: str, turns: int) -> None:
    followed = CHIP.cycles.launch + sum(timed.cycles for _, _, timed in follow(program(name, turns), CHIP))
    assert model(program(name, turns), CHIP).cycles == pytest.approx(followed, rel=1e-9)


@pytest.mark.parametrize("name", programs(1))
def test_time_does_not_grow_with_turns(name: str) -> None:
    started = time.process_time()
    model(program(name, 1 << 27), CHIP)
    assert time.process_time() - started < 0.5
