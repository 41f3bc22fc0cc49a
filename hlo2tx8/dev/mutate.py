"""Does strict mode find what a broken compiler would do? `python -m hlo2tx8.dev.mutate --seed=0 --count=200`.

Programs compiled from the samples and from random graphs are broken one mutation at a time: a wait is dropped, a buffer is given
too little room, an address is moved out of its buffer, two instructions that depend on each other change places. Where that
changes a result, strict mode must fault. Exit code 1 if it faults for less than 99 % of those.
"""

import argparse
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import numpy as np
import yaml
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from hlo2tx8.compiler.driver import load_source, lower_stages
from hlo2tx8.compiler.pipeline import Stage
from hlo2tx8.dev.fuzz.draw import draw
from hlo2tx8.device import interpret
from hlo2tx8.device.chip import DEFAULT_PATH, Chip, load_chip
from hlo2tx8.device.faults import Fault
from hlo2tx8.device.isa import Engine, Role
from hlo2tx8.device.isa.encoding import Record, Register, decode_records, encode_records
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KC_SCALARS, KcAffine, KcBarrier, KcWait
from hlo2tx8.device.program import BufferUse, Program, SlotKind
from hlo2tx8.dialects import spm
from hlo2tx8.dialects.launch import kernels
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.hlo.signature import dtype_of, signature_of
from hlo2tx8.link import link
from hlo2tx8.link.library import encode_all
from hlo2tx8.options import Options

TILES, MESH = 4, (2, 2)
MOST_BYTES = 1 << 16  # of all slots of a program: numpy is slow, and larger programs have the same code
MOST_APART = 4  # records, of two instructions that change places
NEEDED = 0.99
SECONDS = 20  # of one run
NOT_SWAPPED = (*KC_CONTROL, *KC_SCALARS)


@dataclass(frozen=True)
class Subject:
    """What a program is compiled from, and its inputs."""

    name: str
    source: Path | str
    options: Options
    inputs: tuple[np.ndarray, ...] = ()

    def load(self) -> ModuleOp:
        return load_source(self.source, format="" if isinstance(self.source, Path) else "hlo")

    def program(self, chip: Chip, meddle: Callable[[Stage, ModuleOp], None] | None = None) -> tuple[Program, list[np.ndarray]]:
        """Its program, and the bytes of the inputs; `meddle` may change the IR after each stage."""
        module = self.load()
        ports = signature_of(module).inputs
        rng = np.random.default_rng(0)
        drawn = self.inputs or [(rng.normal(size=p.shape) * 3).astype(dtype_of(p.dtype)) for p in ports]
        for stage, lowered in lower_stages(module, self.options):
            if meddle is not None:
                meddle(stage, lowered)
        program = link(module, encode_all(module), chip)
        inputs = [port.to_device(np.asarray(array)) for port, array in zip(ports, drawn, strict=True)]
        return program, [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in inputs]


# ------------------------------------------------------------------------------------------------------------ mutations


def drop_wait(program: Program, rng: np.random.Generator) -> Program | None:
    """One wait without one of its engines or all of them, or one barrier less."""
    records = decode_records(program.code, program.origins)
    places = [i for i, r in enumerate(records) if r.kind is KcBarrier or (r.kind is KcWait and r.fields["engines"])]
    if not places:
        return None
    at = int(rng.choice(places))
    mask = records[at].fields.get("engines", 0)
    assert isinstance(mask, int)
    engines = [e for e in Engine if mask >> e & 1]
    left = mask & ~(1 << int(rng.choice(engines))) if engines and rng.random() < 0.5 else 0
    records[at] = replace(records[at], kind=KcWait, fields={"engines": left})
    return _encoded(program, records)


def shift_address(program: Program, rng: np.random.Generator) -> Program | None:
    """One operand moved out of its buffer, to another one or beside it."""
    if not program.uses:
        return None
    use = program.uses[int(rng.integers(len(program.uses)))]
    buffer = program.buffers[use.buffer]
    whole = buffer.copies * buffer.stride_bytes
    apart = [
        b for b in program.buffers if b.address >= buffer.address + whole or b.address + b.copies * b.stride_bytes <= buffer.address
    ]
    if apart and rng.random() < 0.7:
        delta = apart[int(rng.integers(len(apart)))].address - buffer.address
    else:
        delta = whole if rng.random() < 0.5 else -whole
    records = decode_records(program.code, program.origins)
    name = records[use.record].kind.FIELDS[use.operand].name
    operand = records[use.record].fields[name]
    if not isinstance(operand, Register):
        records[use.record] = replace(records[use.record], fields={**records[use.record].fields, name: operand + delta})
        return _encoded(program, records)
    used = {v.number for r in records for v in r.fields.values() if isinstance(v, Register)}
    free = max(set(range(2, 64)) - used - {v for r in records for v in [r.fields.get("rd")] if isinstance(v, int)})
    moved = Record(KcAffine, {"rd": free, "c": delta, "r1": operand, "k1": 1})
    records[use.record] = replace(records[use.record], fields={**records[use.record].fields, name: Register(free)})
    records.insert(use.record, moved)

    def after(number: int) -> int:
        return number + (number >= use.record)

    buffers = tuple(replace(b, first_record=after(b.first_record), last_record=after(b.last_record)) for b in program.buffers)
    uses = tuple(u._replace(record=after(u.record)) for u in program.uses)
    return replace(_encoded(program, records), buffers=buffers, uses=uses)


def swap_instructions(program: Program, rng: np.random.Generator) -> Program | None:
    """Two instructions of a straight line of code, one of which needs what the other does, or a wait and what it is for."""
    records = decode_records(program.code, program.origins)
    pairs = [(i, j) for i in range(len(records)) for j in range(i + 1, min(i + MOST_APART, len(records)))]
    pairs = [(i, j) for i, j in pairs if _is_dependent(program, records, i, j)]
    if not pairs:
        return None
    i, j = pairs[int(rng.integers(len(pairs)))]
    order = [*range(i), *range(i + 1, j + 1), i, *range(j + 1, len(records))] if j == i + 1 else None
    order = order or [*range(i), *range(i + 1, j), j, i, *range(j + 1, len(records))]
    place = {old: new for new, old in enumerate(order)}
    uses = tuple(BufferUse(place[u.record], u.operand, u.buffer) for u in program.uses)
    return replace(_encoded(program, [records[k] for k in order]), uses=uses)


def _is_dependent(program: Program, records: Sequence[Record], i: int, j: int) -> bool:
    """May records i and j change places, with only arithmetic between them that does not reach i, and does their order matter?"""
    first, second, between = records[i], records[j], records[i + 1 : j]
    if any(r.kind is not KcAffine or Register(_rd(r)) in first.fields.values() for r in between):
        return False
    kinds = {first.kind, second.kind}
    if KcWait in kinds and kinds != {KcWait}:
        wait, other = (first, second) if first.kind is KcWait else (second, first)
        mask = wait.fields["engines"]
        is_for = isinstance(mask, int) and mask >> other.kind.ENGINE & 1
        return other.kind not in NOT_SWAPPED and bool(is_for if wait is second else other.kind.ENGINE is Engine.KC)
    if kinds & set(NOT_SWAPPED):
        return False
    a, b = (_places(program, records, k) for k in (i, j))
    return any(place in b and (is_write or b[place]) for place, is_write in a.items())


def _rd(record: Record) -> int:
    rd = record.fields["rd"]
    return rd.number if isinstance(rd, Register) else rd


def _places(program: Program, records: Sequence[Record], at: int) -> dict[object, bool]:
    """Buffers and DDR slots a record touches, and whether it writes them."""
    fields, found = records[at].kind.FIELDS, dict[object, bool]()
    for use in program.uses:
        if use.record == at:
            found[use.buffer] = found.get(use.buffer, False) or fields[use.operand].role is Role.SPM_WRITE
    if "slot" in records[at].fields:
        found["slot", records[at].fields["slot"]] = any(f.role is Role.DDR_WRITE for f in fields)
    return found


def _encoded(program: Program, records: Sequence[Record]) -> Program:
    code, origins = encode_records(records)
    return replace(program, code=code, origins=origins)


def shrink_buffer(subject: Subject, chip: Chip, rng: np.random.Generator) -> Program | None:
    """The program with one buffer that got less room than it needs; the others may come to lie in it."""

    def shrink(stage: Stage, module: ModuleOp) -> None:
        if stage.step.name == "insert-waits":
            allocs = [op for kernel in kernels(module).values() for op in kernel.walk() if isinstance(op, spm.AllocOp)]
            if allocs:
                alloc = allocs[int(rng.integers(len(allocs)))]
                less = int(alloc.size_bytes * rng.uniform(0, 0.9)) // 16 * 16
                alloc.properties["size"] = IntegerAttr(less, i64)

    return subject.program(chip, shrink)[0]


# ------------------------------------------------------------------------------------------------------------ verdicts


@dataclass(frozen=True)
class Verdict:
    """Of one mutation: did it change a result, and what did strict mode say; `fault` is empty if nothing."""

    kind: str
    subject: str
    is_changed: bool
    fault: str


def run(program: Program, inputs: Sequence[np.ndarray], chip: Chip, how: str) -> "tuple[bytes, ...] | Fault":
    """The outputs `in order`, `late` or `strict`; TimeoutError after SECONDS: control that depends on data may never end."""
    constants = program.constants
    slots: list[np.ndarray] = []
    for slot in program.slots:
        match slot.kind:
            case SlotKind.INPUT:
                slots.append(inputs[slot.index].copy())
            case SlotKind.CONSTANT:
                slots.append(np.ascontiguousarray(constants[slot.index]).reshape(-1).view(np.uint8).copy())
            case SlotKind.OUTPUT if slot.takes_over is not None:
                slots.append(inputs[slot.takes_over].copy())
            case _:
                slots.append(np.zeros(slot.size_bytes, np.uint8))
    before = signal.signal(signal.SIGALRM, _stop)
    signal.alarm(SECONDS)
    try:
        if how == "in order":
            interpret.run(program, slots, chip)
        else:
            interpret.run_strict(program, slots, chip, checks=how == "strict")
    except Fault as fault:
        return fault
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return tuple(data.tobytes() for slot, data in zip(program.slots, slots, strict=True) if slot.kind is SlotKind.OUTPUT)


def judge(subject: Subject, chip: Chip, seed: int) -> Iterator[Verdict]:
    """One mutation of each kind that the program has room for; nothing if it is too large or does not compile."""
    try:
        program, inputs = subject.program(chip)
    except Hlo2tx8Error as error:
        print(f"{subject.name} does not compile: {error}", flush=True)
        return
    if sum(slot.size_bytes for slot in program.slots) > MOST_BYTES:
        return
    try:
        sound = run(program, inputs, chip, "strict")
    except TimeoutError:
        return
    if isinstance(sound, Fault):
        raise sound
    rng = np.random.default_rng(seed)
    mutants = {kind.__name__: kind(program, rng) for kind in (drop_wait, shift_address, swap_instructions)}
    mutants["shrink_buffer"] = shrink_buffer(subject, chip, rng)
    for kind, mutant in mutants.items():
        if mutant is None:
            continue
        try:
            fault = run(mutant, inputs, chip, "strict")
            found = str(fault) if isinstance(fault, Fault) else ""
            is_changed = any(run(mutant, inputs, chip, how) != sound for how in ("late", "in order"))
        except TimeoutError:
            continue  # no result, no wrong one
        yield Verdict(kind, subject.name, is_changed, found)


def subjects(samples: Path, chip_file: Path, seed: int) -> Iterator[Subject]:
    """The samples, then random graphs without end."""
    options = Options(chip=chip_file)
    for path in sorted(p for p in samples.rglob("*.*") if p.suffix in (".hlo", ".mlir")):
        yield Subject(path.stem, path, options)
    while True:
        case = draw(seed)
        yield Subject(f"graph {seed}", case.graph.to_hlo(""), replace(options, step_elements=case.step_elements), case.arrays)
        seed += 1


def small_chip(directory: Path) -> Path:
    """A description of the chip with few tiles: all do the same, and numpy does one after the other."""
    data = yaml.safe_load(DEFAULT_PATH.read_text()) | {"tiles": TILES, "mesh": list(MESH)}
    path = directory / "small.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def main() -> int:
    """Break programs, print what strict mode missed and the counts."""
    parser = argparse.ArgumentParser(prog="python -m hlo2tx8.dev.mutate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first random graph, and of the mutations")
    parser.add_argument("--count", type=int, default=200, help="number of programs")
    parser.add_argument("--samples", type=Path, default=Path("hlo_samples"), help="folder of modules")
    args = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    done = 0
    with tempfile.TemporaryDirectory() as directory:
        chip_file = small_chip(Path(directory))
        for number, subject in enumerate(subjects(args.samples, chip_file, args.seed)):
            verdicts = list(judge(subject, load_chip(chip_file), args.seed + number))
            for v in verdicts:
                counts[v.kind, "made"] += 1
                counts[v.kind, "changed"] += v.is_changed
                counts[v.kind, "caught"] += v.is_changed and bool(v.fault)
                if v.is_changed and not v.fault:
                    print(f"missed: {v.kind} of {v.subject}, seed {args.seed + number}", flush=True)
            done += bool(verdicts)
            if verdicts and done % 20 == 0:
                print(f"{done} programs", flush=True)
            if done == args.count:
                break
    kinds = sorted({kind for kind, _ in counts})
    for kind in kinds:
        made, changed, caught = (counts[kind, what] for what in ("made", "changed", "caught"))
        print(f"{kind}: {made} made, {changed} change a result, {caught} of them fault")
    changed, caught = (sum(counts[kind, what] for kind in kinds) for what in ("changed", "caught"))
    print(f"{done} programs: {caught} of {changed} mutations that change a result fault ({caught / max(changed, 1):.2%})")
    return 0 if caught >= NEEDED * changed else 1


if __name__ == "__main__":
    sys.exit(main())
