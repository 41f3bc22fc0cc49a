"""Records of every instruction with operands drawn from what its fields declare."""

from collections.abc import Iterator

import numpy as np

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import INSTRUCTIONS, Field, Instruction, Operands, Role
from hlo2tx8.device.isa.base import violation
from hlo2tx8.device.isa.encoding import NUM_REGISTERS, Record, Register

WIDE = (-(1 << 62), -1, 0, 1, (1 << 31) - 1, 1 << 40, (1 << 63) - 1)
"""Immediates at the edges of what 64 bits hold."""


def codes(cls: type[Instruction]) -> Iterator[tuple[Format, Format, Rounding]]:
    """All formats and roundings an instruction takes; INT8 stands for a format that is not used."""
    for fmt in cls.FORMATS or (Format.INT8,):
        for fmt2 in cls.FORMATS2 or (Format.INT8,):
            yield from ((fmt, fmt2, rounding) for rounding in Rounding if cls.takes(fmt, fmt2, rounding))


def draw(cls: type[Instruction], rng: np.random.Generator, fmt: Format = Format.INT8, fmt2: Format = Format.INT8) -> dict[str, int]:
    """Field values that satisfy the constraints for these formats, registers for fields that are one."""
    for _ in range(1000):
        values = {f.name: _value(f, rng) for f in cls.FIELDS}
        if "full_n" in values:
            values |= {"full_n": values["n"] * 7, "full_u": values["u"] * 7}
        if "rn1" in values:
            values |= {f"wn{i}": values[f"rn{4 - i}"] for i in (1, 2, 3)}
        if "kernel_h" in values:  # small windows fit into images, and hold a point of them
            for name in values:
                if name.startswith(("kernel_", "dilation_", "pad_")):
                    values[name] = int(rng.integers(1, 6)) if name[0] != "p" else int(rng.integers(2))
            values |= {"kernel_h": values["kernel_h"] + 1, "kernel_w": values["kernel_w"] + 1}
        if "zp" in values and fmt2 is not Format.INT8:
            values["zp"] = 0
        if violation(cls, Operands(values, fmt, fmt2)) is None:
            return values
    raise AssertionError(f"{cls.MNEMONIC}: no operands satisfy its constraints")


def _value(f: Field, rng: np.random.Generator) -> int:
    match f.role:
        case Role.REGISTER:
            return int(rng.integers(0, NUM_REGISTERS))
        case Role.IMMEDIATE if f.least is None:
            return int(rng.choice(WIDE))
        case Role.SLOT:
            return int(rng.integers(0, 9))
        case Role.COUNT | Role.STRIDE | Role.IMMEDIATE:
            least = f.least or 0
            return int(rng.integers(least, min(f.most or least + 99, least + 99) + 1))
        case _:
            return int(rng.integers(0, 1 << 20))


def record(cls: type[Instruction], rng: np.random.Generator) -> Record:
    """Drawn values, about every third one in a register instead."""
    choices = list(codes(cls))
    fmt, fmt2, rounding = choices[int(rng.integers(len(choices)))]
    fields = {
        name: Register(int(rng.integers(NUM_REGISTERS))) if rng.random() < 0.3 else value
        for name, value in draw(cls, rng, fmt, fmt2).items()
    }
    return Record(cls, fields, fmt, fmt2, rounding, f"{cls.MNEMONIC} in program.py:7")


def by_name() -> list[type[Instruction]]:
    return sorted(INSTRUCTIONS, key=lambda cls: cls.MNEMONIC)
