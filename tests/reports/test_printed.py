"""Text of IR that is printed quickly is the text that xDSL prints."""

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr

from hlo2tx8.options import Level, Options
from hlo2tx8.reports.printed import text_of
from hlo2tx8.runtime.compile import compile_source

SOFTMAX = Path(__file__).parents[2] / "hlo_samples" / "reduce" / "softmax_f32.hlo"
ODD = 'größe ⟨µ⟩ "quoted" a\\b\n\tend\x7f'


def test_text_is_what_str_gives() -> None:
    def check(level: Level, name: str, module: ModuleOp) -> None:
        module.attributes["odd"] = StringAttr(ODD)
        assert text_of(module) == str(module), (level, name)
        seen.add(level)

    seen: set[Level] = set()
    compile_source(str(SOFTMAX), Options(), show=check)
    assert seen >= {Level.HLO, Level.FUSED, Level.LOOPS, Level.SCHEDULED}
