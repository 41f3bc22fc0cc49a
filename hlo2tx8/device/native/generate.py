"""Writes the generated headers of the native core into a folder: `python -m hlo2tx8.device.native.generate FOLDER`.

`isa.h` and `functions.h` come from the instruction classes, `approx.h` from the programs of `device.approx`; `made_of.h` holds
digests that tell a core built of other texts. The build calls this; none of them is kept under version control.
"""

import sys
from hashlib import sha256
from pathlib import Path

from hlo2tx8.device.approx import emit_c
from hlo2tx8.device.isa import declarations
from hlo2tx8.device.native import header


def texts() -> dict[str, str]:
    """The text of each header by file name."""
    found = {
        "isa.h": header.instructions_text(),
        "functions.h": header.functions_text(),
        "approx.h": emit_c.header_text(),
    }
    headers = sha256("".join(found.values()).encode()).hexdigest()
    made_of = f'#define DECLARATIONS_DIGEST "{declarations.digest()}"\n#define HEADERS_DIGEST "{headers}"\n'
    return found | {"made_of.h": f"/* Generated. Do not edit. */\n{made_of}"}


def write(folder: Path) -> None:
    """Writes the headers that are not there as they should be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
