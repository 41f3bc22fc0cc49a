"""`run --level=all`: agreement is exit code 0; a level that differs, or a kernel that does not write everything, is named."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.dialects.xla import IndexingMapAttr
from hlo2tx8.emitters.loop import LoopEmitter
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.options import Options
from hlo2tx8.tools.every_level import first_difference
from hlo2tx8.tools.main import main
from hlo2tx8.tools.platforms import Source
from hlo2tx8.tools.reference import Reference

TEXT = """HloModule m
ENTRY main {
  x = f32[40] parameter(0)
  ROOT r = f32[40] negate(x)
}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "m.hlo"
    file.write_text(TEXT)
    return str(file)


def test_all_agree(path: str, capsys: pytest.CaptureFixture[str]):
    assert main(["run", "--level=all", path]) == 0
    error = capsys.readouterr().err
    assert "hlo, fused, loops, flat, vector, scheduled, program, native core, strict mode: close enough" in error
    assert "every element of every result is written once" in error


def test_another_answer_is_named(path: str):
    x = np.ones(40, np.float32)
    source = Source(path, partial(load_source, path))
    wrong = Reference([x], lambda: [np.zeros(40)])
    assert first_difference(source, Options(), [x], wrong).startswith("hlo: mismatch in output 0 f32[40]: 40 of 40 elements")


def test_a_kernel_that_leaves_elements_out_is_named(path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    emit = LoopEmitter.emit

    def shortened(self: LoopEmitter, match: object) -> object:
        module = emit(self, match)  # pyright: ignore[reportArgumentType]
        for op in module.walk():
            if op.name == "xla.loop":
                text = str(op.properties["map"].data)
                op.properties["map"] = IndexingMapAttr(IndexingMap.parse(text.replace("lane in [0, 39]", "lane in [0, 38]")))
        return module

    monkeypatch.setattr(LoopEmitter, "emit", shortened)
    assert main(["run", "--level=all", path]) == 1
    assert "loops: error E1006: negate_fusion writes element [39] of result 0 0 times, not once" in capsys.readouterr().err
