"""Pages written by hand whose marked blocks are generated: the IR of a sample at a level, and the rooms of the package.

<!-- generated: level flat -->
...
<!-- end -->
"""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
DOCS = PACKAGE.parent / "docs"
SAMPLE = Path("hlo_samples/elementwise/gelu_bf16.hlo")
_BLOCK = re.compile(r"(<!-- generated: (\w+)((?: \w+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
_ORIGIN = re.compile(r' \{loc = "[^"]*"\}')


def filled_page(name: str) -> str:
    """The page docs/`name` with every marked block as it should be today."""
    return _BLOCK.sub(_fill, (DOCS / name).read_text())


def _fill(match: re.Match[str]) -> str:
    begin, kind, argument, end = match.groups()
    match kind:
        case "level":
            return f"{begin}```\n{level_text(argument.strip())}\n```\n{end}"
        case "rooms":
            return f"{begin}\n{rooms_table()}\n\n{end}"
        case _:
            raise ValueError(f"no generated block is of kind {kind!r}")


def level_text(name: str) -> str:
    """The sample at a level; source locations in the listing only, and of the levels from LOOPS to SCHEDULED the kernel alone."""
    from hlo2tx8.options import Level
    from hlo2tx8.runtime.compile import compile_source

    level = Level[name.upper()]
    path = PACKAGE.parent / SAMPLE
    text = _ORIGIN.sub("", compile_source(path).as_text(name)).replace(str(path), path.name).rstrip()
    if not Level.LOOPS <= level < Level.PROGRAM:
        return text
    kernel = text[text.index("  builtin.module @fusion") : text.rindex("}")].rstrip()
    return "\n".join(line.removeprefix("  ") for line in kernel.splitlines())


def rooms_table() -> str:
    """One row per room: what its docstring says it is for."""
    from hlo2tx8.dev.isa_page import table

    rooms = sorted(file.parent for file in PACKAGE.glob("*/__init__.py"))
    return table(("room", "what it is for"), [(f"`{room.name}`", _first_line(room / "__init__.py")) for room in rooms])


def _first_line(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
