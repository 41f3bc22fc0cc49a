"""Words: each term of docs/glossary.md stands there once, words it bans are nowhere, and a class name means one thing."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
FOLDERS = ("hlo2tx8", "tests", "benchmarks", "examples")
SOURCES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
NATIVE = sorted(file for file in (ROOT / "hlo2tx8").rglob("*.[ch]"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(file for file in (ROOT / "docs").rglob("*.md") if file != GLOSSARY)]
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def rows(section: str = "") -> Iterator[list[str]]:
    """Cells of the tables' rows on the page, or of one section."""
    text = GLOSSARY.read_text()
    if section:
        text = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith(("| term |", "| word |")):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


BANNED = {word: tuple(where.split(", ")) for word, _, where in rows("Words that are not used")}


def in_names(where: str) -> list[str]:
    return [word for word, banned in BANNED.items() if where in banned]


def words_of(name: str) -> str:
    """`WorkSplit` and `work_split` as ` work split `, so that words are found whole."""
    return f" {' '.join(word.lower() for word in _WORD.findall(name))} "


def has_word(words: str, banned: str) -> bool:
    banned = banned.replace("-", " ")
    return any(f" {banned}{end} " in words for end in ("", "s"))


def identifiers(tree: ast.AST) -> set[str]:
    """What the file itself names: classes, functions, arguments, variables, attributes it assigns, aliases."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.arg():
                found.add(node.arg)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
            case ast.alias(asname=str(name)):
                found.add(name)
            case _:
                pass
    return found


def prose(text: str, tree: ast.AST) -> str:
    """Docstrings and comments of a file."""
    strings = [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
    return "\n".join((*strings, *comments))


def test_each_term_stands_once_and_in_order():
    terms = [cells[0] for cells in rows() if len(cells) == 2]
    assert len(terms) >= 50
    assert len(terms) == len(set(terms))
    for section in ("Programs and their parts", "Schedules", "The chip and its emulator", "Tests", "Words that are not used"):
        found = [cells[0].lower() for cells in rows(section)]
        assert found
        if section != "Words that are not used":
            assert found == sorted(found)


def test_no_term_is_banned():
    assert not {cells[0] for cells in rows() if len(cells) == 2} & set(BANNED)
    assert {where for banned in BANNED.values() for where in banned} == {"names", "files", "prose"}


def test_banned_words_are_no_file_names():
    banned = [*in_names("names"), *in_names("files")]
    wrong = {
        str(file.relative_to(ROOT)): word
        for file in (*SOURCES, *NATIVE)
        for word in banned
        if has_word(words_of(file.stem), word) and (word in in_names("names") or words_of(file.stem).split() == [word])
    }
    assert not wrong, f"banned by docs/glossary.md: {wrong}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_banned_words_are_no_names_and_not_in_docstrings_or_comments(folder: str):
    wrong: list[str] = []
    for file in sorted((ROOT / folder).rglob("*.py")):
        text = file.read_text()
        tree = ast.parse(text)
        said = words_of(prose(text, tree))
        names = sorted(identifiers(tree))
        wrong += [
            f"{file.relative_to(ROOT)}: {name}" for name in names for word in in_names("names") if has_word(words_of(name), word)
        ]
        wrong += [f"{file.relative_to(ROOT)} says {word!r}" for word in in_names("prose") if has_word(said, word)]
    assert not wrong, "banned by docs/glossary.md:\n" + "\n".join(wrong)


def test_banned_words_are_not_in_pages_and_c():
    wrong = [
        f"{file.relative_to(ROOT)} says {word!r}"
        for file in (*PAGES, *NATIVE)
        for word in in_names("prose")
        if has_word(words_of(file.read_text()), word)
    ]
    assert not wrong, "banned by docs/glossary.md:\n" + "\n".join(wrong)


def test_a_class_name_means_one_thing():
    """Names that only rooms of the machine and its doors share are not looked at: none of them meets the other in a file."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "hlo2tx8").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(file.relative_to(ROOT / "hlo2tx8")))
    twice = {name: files for name, files in sorted(found.items()) if len(files) > 1}
    apart = {"device", "netlist", "pjrt", "spmd"}
    shared = {name: files for name, files in twice.items() if {file.split("/")[0] for file in files} - apart}
    assert not shared, f"class names with several meanings: {shared}"
