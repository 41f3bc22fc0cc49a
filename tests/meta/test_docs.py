"""Pages about the code say what the code says."""

import re
from pathlib import Path

import pytest

from hlo2tx8.errors import ERRORS, Hlo2tx8Error

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: e.__name__)
def test_every_error_code_has_a_page(error: type[Hlo2tx8Error]):
    page = ROOT / "docs" / "errors" / f"{error.default_code}.md"
    assert page.read_text().startswith(f"# {error.default_code}: ")


def test_pages_and_codes_are_the_same():
    pages = {page.stem for page in (ROOT / "docs" / "errors").glob("*.md")}
    codes = {code for file in (ROOT / "hlo2tx8").rglob("*.py") for code in re.findall(r"\bE1\d{3}\b", file.read_text())}
    assert codes == pages
    assert len({error.default_code for error in ERRORS}) == len(ERRORS)


def test_make_targets_explain_themselves():
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == set(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE))


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
