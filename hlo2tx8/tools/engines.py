"""Which engines a program computes on."""

from hlo2tx8.device.isa import BY_OPCODE, Engine
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KC_SCALARS
from hlo2tx8.device.program import Program

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
    """For each name of a kernel, an update or a copy: how many launches of it the program has, and the engines that it
    computes on.
    """
    found: dict[str, tuple[int, str]] = {}
    ends = [*(launch.first for launch in program.launches[1:]), len(program.code)]
    for launch, end in zip(program.launches, ends, strict=False):
        times, engines = found.get(launch.name, (0, ""))
        found[launch.name] = (times + 1, engines or engines_of(program, slice(launch.first, end)))
    return found
