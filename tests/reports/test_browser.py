"""The page in a browser: it draws, filters, follows links, moves its slider and stays quick, without an error on the console."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hlo2tx8.reports.facts import facts_of
from hlo2tx8.reports.page import page_of
from tests.reports.browser import Browser, found
from tests.reports.test_facts import GELU, NAMES, compiled, hostile, synthetic

pytestmark = pytest.mark.skipif(found() is None, reason="no chromium on this machine; .ci/run installs it where it can")
TABS = ("overview", "timeline", "groups", "graph", "source", "levels")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


@pytest.fixture(scope="module")
def gelu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    executable, shown = compiled(str(GELU))
    file = tmp_path_factory.mktemp("page") / "gelu.html"
    file.write_text(page_of([facts_of(executable, shown, "gelu", GELU)]))
    return file


def see(browser: Browser, tab: str) -> None:
    browser.click(f"#tab-{tab}")
    browser.wait(f"document.body.dataset.ready === '{tab}'")


@pytest.mark.parametrize("size", [(1280, 800), (1920, 1080)])
def test_every_tab_draws(browser: Browser, gelu: Path, size: tuple[int, int]) -> None:
    browser.resize(*size)
    browser.open(gelu)
    for tab in TABS:
        see(browser, tab)
        browser.wait(f"document.querySelector('#{tab}').innerText.length > 20")
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth"), f"{tab} is wider than the window"
        inked = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v && v < 255)"
        canvases = browser.run(f"[...document.querySelectorAll('#{tab} canvas')].map({inked})")
        assert sum(canvases) >= {"overview": 2, "timeline": 1}.get(tab, 0)
    assert not browser.errors


def test_a_line_shows_its_instructions_and_back(browser: Browser, gelu: Path) -> None:
    browser.open(gelu)
    see(browser, "source")
    browser.wait("document.querySelectorAll('#lines [data-line]').length > 5")
    browser.run("[...document.querySelectorAll('#lines [data-line]')].find(l => l.innerText.includes('tanh(')).click()")
    browser.wait("document.querySelector('#instructions').innerText.includes('tanh')")
    assert browser.run("document.querySelectorAll('#instructions [data-line]').length") == 1
    assert browser.run("document.querySelector('#about-line').innerText.includes('cycles')")
    browser.run("choose({ record: program().records.findIndex(r => r.includes('WDMA')) })")
    browser.wait("document.querySelector('#lines .on')?.innerText.includes('result')")
    assert not browser.errors


def test_the_slider_shows_every_level(browser: Browser, gelu: Path) -> None:
    browser.open(gelu)
    see(browser, "levels")
    shown = []
    for level, text in enumerate(("stablehlo.", "hlo.fusion", "xla.loop", "scf.for", "vec.load", "tx8.", "KC_halt")):
        browser.type("#level", str(level))
        browser.wait(f"document.querySelector('#ir').textContent.includes('{text}')")
        shown.append(browser.run("document.querySelector('#ir').textContent"))
    assert len(set(shown)) == 7
    assert not browser.errors


def test_the_timeline_zooms_and_folds(browser: Browser, gelu: Path) -> None:
    browser.open(gelu)
    see(browser, "timeline")
    series = "charts.get(document.querySelector('#runs')).getOption().series[0].data.length"
    browser.wait(f"{series} > 10")
    whole = browser.run(series)
    browser.click("#fold")
    assert 0 < browser.run(series) < whole
    browser.run("choose({ group: 0 })")
    for button in ("#toggle", "#zoom", "#whole"):
        browser.click(button)
    assert browser.run(series) == whole
    browser.type("#tile", "5")
    browser.wait("chosen.tile === 5")
    assert not browser.errors


def test_links_lead_from_a_group_to_its_graph_and_source(browser: Browser, gelu: Path) -> None:
    browser.open(gelu)
    see(browser, "groups")
    browser.click("#rows tr[data-number]")
    browser.wait("document.querySelector('#about-group h2')?.innerText === 'fusion'")
    browser.run("[...document.querySelectorAll('#about-group button')].find(b => b.innerText === 'graph').click()")
    browser.wait("document.querySelectorAll('#drawing g').length > 8")
    browser.run(
        "[...document.querySelectorAll('#drawing g')].find(g => g.textContent.includes('tanh')).dispatchEvent(new Event('click'))"
    )
    browser.wait("chosen.tab === 'source' && document.querySelector('#lines .on')?.innerText.includes('tanh')")
    assert not browser.errors


def test_two_programs_are_compared(browser: Browser, tmp_path: Path) -> None:
    executable, shown = compiled(str(GELU))
    slower, shown_too = compiled(GELU.read_text().replace("bf16", "f32"), format="hlo")
    file = tmp_path / "two.html"
    file.write_text(page_of([facts_of(slower, shown_too, "f32"), facts_of(executable, shown, "bf16", GELU)], is_comparison=True))
    browser.open(file)
    assert browser.run("chosen.tab") == "against"
    assert "more" in browser.run("document.querySelector('#pairs').innerText")
    browser.click("#pairs tbody tr")
    browser.wait("document.querySelector('#pairs .detail').innerText.includes('busy')")
    browser.click("#program-1")
    for tab in TABS:
        see(browser, tab)
    assert browser.run("program().name") == "bf16"
    assert not browser.errors


def test_markup_in_names_stays_text(browser: Browser, tmp_path: Path) -> None:
    executable, shown = compiled(hostile(), format="mlir")
    file = tmp_path / "hostile.html"
    file.write_text(page_of([facts_of(executable, shown, NAMES[0])]))
    browser.open(file)
    for tab in TABS:
        see(browser, tab)
        browser.run("choose({ group: 0 })")
    assert browser.run("document.querySelector('#title').innerText") == NAMES[0]
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert not browser.errors


def test_5000_groups_stay_smooth(browser: Browser, tmp_path: Path) -> None:
    executable, shown = compiled(str(GELU))
    file = tmp_path / "large.html"
    file.write_text(page_of([synthetic(facts_of(executable, shown, "large", GELU), 5_000)]))
    browser.open(file)
    assert browser.run("performance.getEntriesByName('ready')[0].startTime") < 2_000
    see(browser, "groups")
    started = time.monotonic()
    browser.type("#filter", "fusion_49")
    browser.wait("document.querySelector('#how-many').innerText.startsWith('111 of 5,000')")
    browser.type("#bound-filter", "NE")
    browser.wait("document.querySelector('#how-many').innerText.startsWith('36 of')")
    browser.click("th[data-sort='2']")
    assert browser.run("document.querySelectorAll('#rows tr[data-number]').length") <= 36
    browser.type("#filter", "")
    browser.run("document.querySelector('#rows').scrollTop = 30000")
    browser.wait(
        "Number(document.querySelector('#rows tr[data-number]')?.previousSibling.firstChild.style.height.slice(0, -2)) > 20000"
    )
    see(browser, "timeline")
    browser.click("#zoom")
    see(browser, "graph")
    assert time.monotonic() - started < 5
    assert not browser.errors
