"""Writes `native/abi.h` from the tables of abi.py: `python -m hlo2tx8.pjrt.header [--check]`."""

import sys
from pathlib import Path

from hlo2tx8.pjrt.abi import arguments

PATH = Path(__file__).with_name("native") / "abi.h"
C_TYPES = {"p": "void *", "z": "size_t ", "q": "int64_t ", "i": "int32_t ", "f": "float ", "b": "bool "}


def header_text() -> str:
    """One structure per function: what its caller passes."""
    lines = ["/* Generated from hlo2tx8/pjrt/abi.py. Do not edit. */"]
    lines += ["#ifndef HLO2TX8_PJRT_ABI_H", "#define HLO2TX8_PJRT_ABI_H", ""]
    lines += ["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", ""]
    for name, fields in arguments().items():
        lines.append(f"struct {name}_args {{")
        lines.append("    size_t struct_size;\n    void *extension_start;")
        lines += [f"    {C_TYPES[code]}{field};" for code, field in fields]
        lines += ["};", ""]
    return "\n".join([*lines, "#endif", ""])


def main(arguments: list[str]) -> int:
    """0 if written or, with --check, up to date; 1 otherwise."""
    text = header_text()
    if "--check" in arguments:
        return 0 if PATH.exists() and PATH.read_text() == text else 1
    PATH.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
