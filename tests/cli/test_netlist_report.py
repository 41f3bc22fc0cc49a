"""`hlo2tx8 netlist report`: one page that loads nothing, with every op, queue, fused op and pipe, and the cycles of `analyze`."""

from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from hlo2tx8.netlist.drawings import Diagram, diagram_drawing
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.tools.main import main

SAMPLES = Path(__file__).parents[2] / "hlo_samples" / "netlists"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Text of a page, whose elements must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.names: set[str] = set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(name for name, _ in attrs)}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


@pytest.mark.parametrize("name", ["softmax", "emitted", "two_devices"])
def test_a_page_has_all_and_loads_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = SAMPLES / f"{name}.yaml"
    assert main(["netlist", "report", str(file), "-o", str(tmp_path / "x.html")]) == 0
    page = Page((tmp_path / "x.html").read_text())
    assert not {"src", "script", "link", "iframe", "img"} & page.names
    netlist = read_file(file)
    known = (*netlist.graphs, *netlist.fused_ops, *(p.name for p in netlist.programs), *netlist.ops, *netlist.queues)
    assert all(any(text.startswith(name) for text in page.texts) for name in known)
    capsys.readouterr()
    assert main(["netlist", "analyze", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.endswith("%") and not line.startswith(("epoch", "slowest"))]
    assert rows and all(row[-2] in page.texts for row in rows)


def test_a_folder_has_a_page_and_what_is_not_supported_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, page = tmp_path / "out", tmp_path / "x.html"
    assert main(["netlist", "compile", str(SAMPLES / "softmax.yaml"), "-o", str(folder)]) == 0
    assert main(["netlist", "report", str(folder), "-o", str(page)]) == 0
    assert "cycles a tensor" in page.read_text()
    large = tmp_path / "<large>.yaml"
    large.write_text((SAMPLES / "softmax.yaml").read_text().replace("buf_size_mb: 2", "buf_size_mb: 200", 1))
    assert main(["netlist", "report", "--arch=grayskull", str(large), "-o", str(page)]) == 1
    assert "L1Size" in capsys.readouterr().err
    assert any("buffers of 3361280 bytes" in text for text in Page(page.read_text()).texts)


def test_lines_of_a_diagram_pass_beside_boxes():
    names = "abcd"
    lines = [(x, y, "") for x, y in pairwise(names)]
    drawn = diagram_drawing(Diagram({name: (name, "", "op") for name in names}, (*lines, ("a", "d", "<far>"))))
    assert "&lt;far&gt;" in drawn and "<far>" not in drawn
    assert drawn.count("<path") == 4 and drawn.count("H") == 2  # through two columns
    assert "are not drawn" in diagram_drawing(Diagram({str(n): ("", "", "op") for n in range(500)}, ()))
    assert diagram_drawing(Diagram({}, ())).startswith("<svg")
