"""Runs damaged programs, to be called in a process of its own: `python mutate.py FIRST LAST` tries these seeds.

A damaged program ends, faults, or is stopped; it never writes outside of its slots, and where both tiers end they agree. Prints the
outcomes as JSON.
"""

import faulthandler
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import numpy as np

from hlo2tx8.device import interpret, native
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.faults import Fault, FaultKind
from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS
from hlo2tx8.device.isa.encoding import HEADER_WORDS, RECORD_WORDS, Record, Register, encode_records
from hlo2tx8.device.isa.fields import SPM_ROLES, Role
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcEndIf, KcIf, KcLoop
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import Program, Slot, SlotKind

CHIP = replace(load_chip(), tiles=2, spm_bytes=1 << 16, spm_limit=1 << 16)
SLOT_BYTES = 1 << 13
GUARD = 0x5C
GUARD_BYTES = 1 << 16
SECONDS = 1.0
CONTROL = (KcLoop, KcEnd, KcIf, KcEndIf, KcBarrier)
COMPUTE = [cls for cls in INSTRUCTIONS if cls not in CONTROL and cls.FORMATS]
STEP_WORD = HEADER_WORDS + [f.name for f in KcLoop.FIELDS].index("step")
OTHERS = {"tile": Register(6), "tiles": Register(7)}  # the other tile, and its bit
EDGES = (0, 1, 2, 3, 63, 64, 65, 255, 256, 4095, 1 << 13, (1 << 16) - 1, 1 << 16, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1)


class TimeUpError(Exception):
    """The program runs for too long."""


def stop(number: int, frame: FrameType | None) -> None:
    raise TimeUpError


def base_program(rng: np.random.Generator) -> list[Record]:
    """A loop that loads, computes with a few instructions on plausible operands, and stores."""
    body = [Record(KcAffine, {"rd": 5, "c": 0, "r1": Register(4), "k1": 512, "r2": Register(1), "k2": 2048})]
    body += [
        Record(KcAffine, {"rd": 6, "c": 1, "r1": Register(1), "k1": -1}),
        Record(KcAffine, {"rd": 7, "c": 2, "r1": Register(1), "k1": -1}),
    ]
    body.append(Record(Rdma, {"dst": 0, "slot": 0, "offset": Register(5), "count": 2048}, Format.RAW8))
    for _ in range(int(rng.integers(1, 6))):
        cls = COMPUTE[int(rng.integers(len(COMPUTE)))]
        pairs = [(t, s) for t in cls.FORMATS for s in cls.FORMATS2 or (Format.INT8,) if cls.takes(t, s, Rounding.NEAREST_EVEN)]
        fmt, fmt2 = pairs[int(rng.integers(len(pairs)))]
        fields: dict[str, int | Register] = {f.name: plausible(f.role, f.least, f.most, rng) for f in cls.FIELDS}
        fields |= {name: other for name, other in OTHERS.items() if name in fields}
        body.append(Record(cls, fields, fmt, fmt2))
    body.append(Record(Wdma, {"slot": 1, "offset": Register(5), "src": 0, "count": 1024}, Format.RAW8))
    if rng.random() < 0.3:
        body = [Record(KcIf, {"value": Register(1)}), *body, Record(KcEndIf)]
    return [Record(KcLoop, {"rd": 4, "lo": 0, "hi": 3, "step": 1}), *body, Record(KcEnd), Record(KcBarrier)]


def plausible(role: Role, least: int | None, most: int | None, rng: np.random.Generator) -> int:
    match role:
        case _ if role in SPM_ROLES:
            return int(rng.integers(0, 2048))
        case Role.COUNT | Role.STRIDE:
            low = least or 0
            return int(rng.integers(low, min(most or 9, low + 9) + 1))
        case Role.SLOT | Role.REGISTER:
            return int(rng.integers(0, 2))
        case _:
            low = max(least or 0, 0)
            return int(rng.integers(low, min(11 if most is None else most, 11) + 1))


def damage(code: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some words set to edge values or random ones, bits turned, records dropped, doubled or exchanged."""
    code = code.copy()
    if rng.random() < 0.02:
        code[0, STEP_WORD] = 0  # by chance this is too rare
    for _ in range(int(rng.integers(1, 4))):
        at, word = int(rng.integers(len(code))), int(rng.integers(RECORD_WORDS if rng.random() < 0.4 else 10))
        match rng.integers(6):
            case 0:
                code[at, word] = np.uint64(EDGES[int(rng.integers(len(EDGES)))])
            case 1:
                code[at, word] = np.uint64((1 << 64) - 1 - EDGES[int(rng.integers(len(EDGES)))])
            case 2:
                code[at, word] ^= np.uint64(1 << int(rng.integers(64)))
            case 3:
                code[at, word] = rng.integers(0, 1 << 63, dtype=np.uint64)
            case 4:
                code = code[[i for i in range(len(code)) if i != at]] if len(code) > 1 else code
            case _:
                code[[at, int(rng.integers(len(code)))]] = code[[int(rng.integers(len(code))), at]]
    return code


def attempt(run: Callable[[list[np.ndarray]], None]) -> tuple[str, int, bytes]:
    """(outcome, record of the fault, bytes of the output) of one run between guards."""
    room = [np.full(SLOT_BYTES + 2 * GUARD_BYTES, GUARD, np.uint8) for _ in range(2)]
    slots = [r[GUARD_BYTES:-GUARD_BYTES] for r in room]
    slots[0][:] = np.random.default_rng(1).integers(0, 256, SLOT_BYTES)
    slots[1][:] = 0
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        run(slots)
        outcome = ("ends", -1, b"".join(s.tobytes() for s in slots))
    except Fault as fault:
        record = -1 if fault.kind is FaultKind.ILLEGAL_OPCODE else fault.place.record
        outcome = (f"faults {fault.kind.name}", record, b"")
    except TimeUpError:
        outcome = ("stopped", -1, b"")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for r in room:
        assert (r[:GUARD_BYTES] == GUARD).all() and (r[-GUARD_BYTES:] == GUARD).all(), "written outside of a slot"
    return outcome


def try_seed(seed: int, compare: bool) -> str:
    """Outcome of one damaged program in the native core, compared with the definition if it did not have to be stopped."""
    rng = np.random.default_rng(seed)
    try:
        code, origins = encode_records(base_program(rng))
    except ValueError:
        return "not encoded"
    slots = tuple(Slot(SlotKind.OUTPUT, i, "uint8", (SLOT_BYTES,), SLOT_BYTES) for i in range(2))
    program = Program(damage(code, rng), slots, (), origins, CHIP.spm_bytes)
    outcome = attempt(lambda s: native.run(program, s, CHIP, 1))
    if compare and outcome[0] != "stopped":
        defined = attempt(lambda s: interpret.run(program, s, CHIP))
        if defined[0] != "stopped":
            assert defined[0].split()[0] == outcome[0].split()[0], f"seed {seed}: {defined[:2]} defined, {outcome[:2]} native"
            assert defined[1:] == outcome[1:], f"seed {seed}: {defined[:2]} defined, {outcome[:2]} native, or other bytes"
    return outcome[0]


def main() -> None:
    """Every fourth seed is compared with the definition."""
    faulthandler.enable()
    signal.signal(signal.SIGALRM, stop)
    outcomes = Counter(try_seed(seed, compare=seed % 4 == 0) for seed in range(int(sys.argv[1]), int(sys.argv[2])))
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
