"""Which engines a program computes on."""

from hlo2tx8.device.isa import BY_OPCODE, Engine
from hlo2tx8.device.isa.encoding import decode_records
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KC_SCALARS, KcLoop
from hlo2tx8.device.program import Program
from hlo2tx8.link.linker import FOREVER
from hlo2tx8.link.seams import turns_of

COMPUTING = (Engine.NE, Engine.CT, Engine.KC, Engine.TDMA, Engine.DTE)
"""In the order they are named."""
NOTHING = "none"
ONLY_MOVED = "DMA"


def engines_of(program: Program, records: slice = slice(None)) -> str:
    """`NE+CT`: engines of instructions that compute or rearrange; `DMA` where data only passes SPM, `none` where nothing moves.

    Loops, addresses and waits of the kernel core do not count, vector operations on it do.
    """
    opcodes = {int(word) & 0xFFFF for word in program.code[records, 0]}
    kinds = [BY_OPCODE[opcode] for opcode in sorted(opcodes)]
    found = {kind.ENGINE for kind in kinds if kind not in (*KC_CONTROL, *KC_SCALARS)}
    named = [engine.name for engine in COMPUTING if engine in found]
    return "+".join(named) or (ONLY_MOVED if found else NOTHING)


def launched(program: Program) -> dict[str, tuple[int, str]]:
    """For each name of a kernel, an update or a copy: how often the program launches it, and the engines that it computes on. Turns
    of loops count where the program says how many there are.
    """
    found: dict[str, tuple[int, str]] = {}
    ends = [*(launch.first for launch in program.launches[1:]), len(program.code)]
    for launch, end, turns in zip(program.launches, ends, _turns(program), strict=False):
        times, engines = found.get(launch.name, (0, ""))
        found[launch.name] = (times + turns, engines or engines_of(program, slice(launch.first, end)))
    return found


def _turns(program: Program) -> list[int]:
    """How often the loops around each launch run it."""
    found = [1] * len(program.launches)
    loops = decode_records(program.code, program.origins)
    for begin, (record, end) in enumerate(zip(loops, program.code[:, 3].tolist(), strict=True)):
        turns = len(turns_of(record)) if record.kind is KcLoop and record.fields["hi"] != FOREVER else 1
        if turns != 1:
            found = [n * turns if begin < la.first < end else n for n, la in zip(found, program.launches, strict=True)]
    return found
