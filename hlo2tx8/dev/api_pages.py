"""`make api-docs`: writes one Markdown page per room for mkdocs, which fills them with the docstrings of the modules.

Only what a docstring documents appears; names that begin with `_` and the generated tables of the emulator do not.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
INDEX = """# API reference

Made from the docstrings of the package. What users call is on the page of `hlo2tx8` itself; every other page is one room
of the compiler, the emulator or the doors, for those who work on them.

{links}
"""


def modules(folder: Path) -> Iterator[str]:
    """Dotted names of a room and of the modules in it, nested ones too, sorted; private modules are left out."""
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        if not any(part.startswith("_") and part != "__init__" for part in parts):
            yield ".".join(part for part in parts if part != "__init__")


def pages() -> dict[str, str]:
    """Name of each page below the site, and its text."""
    rooms = sorted(file.parent for file in PACKAGE.glob("*/__init__.py"))
    top = [f"hlo2tx8.{file.stem}" for file in sorted(PACKAGE.glob("*.py")) if not file.stem.startswith("_")]
    found = {"hlo2tx8.md": _page("hlo2tx8", ["hlo2tx8", *top])}
    found |= {f"{room.name}.md": _page(room.name, list(modules(room))) for room in rooms}
    links = "\n".join(f"- [{name.removesuffix('.md')}]({name})" for name in found)
    return {"index.md": INDEX.format(links=links), **found}


def _page(title: str, names: Sequence[str]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {name}" for name in names)]) + "\n"


def main(argv: Sequence[str]) -> int:
    """Write all pages into the folder given."""
    (target,) = map(Path, argv)
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (target / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
