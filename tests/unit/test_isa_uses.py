"""docs/isa_uses.json says what selects each instruction: all are in it or have a reason, and a few sources are compiled to see."""

import re

import pytest

from hlo2tx8.dev.isa_uses import IDLE, ROOT, reason, selected, stored
from hlo2tx8.device.isa import INSTRUCTIONS

FILES = [(name, source) for name, source in stored().items() if (ROOT / source).is_file() and (ROOT / source).stat().st_size < 1000]


@pytest.mark.parametrize("kind", INSTRUCTIONS, ids=lambda kind: kind.MNEMONIC)
def test_an_instruction_is_selected_or_has_a_reason_why_not(kind):
    assert (kind.MNEMONIC in stored()) != bool(reason(kind.MNEMONIC))


@pytest.mark.parametrize("pattern", IDLE)
def test_a_reason_is_of_some_instruction(pattern: str):
    assert any(re.fullmatch(pattern, kind.MNEMONIC) for kind in INSTRUCTIONS)


@pytest.mark.parametrize(("name", "source"), FILES[::12])
def test_a_source_selects_its_instruction(name: str, source: str):
    assert name in selected(str(ROOT / source))
