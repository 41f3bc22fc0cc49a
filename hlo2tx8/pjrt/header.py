"""Writes `abi.h` from the tables of abi.py into a folder: `python -m hlo2tx8.pjrt.header FOLDER`. The build calls this."""

import sys
from pathlib import Path

from hlo2tx8.pjrt.abi import arguments

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


def write(folder: Path) -> None:
    """Writes `abi.h` if it is not there as it should be."""
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "abi.h", header_text()
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
