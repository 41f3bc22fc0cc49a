"""The native core is made of the instruction classes: what was generated for it is what would be generated now."""

from hashlib import sha256
from pathlib import Path

import pytest

from hlo2tx8.device import native
from hlo2tx8.device.isa import INSTRUCTIONS, declarations
from hlo2tx8.device.isa.base import instruction
from hlo2tx8.device.isa.exactness import ALWAYS
from hlo2tx8.device.isa.expressions import number
from hlo2tx8.device.isa.forms import CtV
from hlo2tx8.device.native import generate, loader
from hlo2tx8.device.native.header import functions_text

NATIVE = Path(loader.__file__).parent


@pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")
def test_core_was_built_of_todays_headers() -> None:
    texts = generate.texts()
    made_of = texts.pop("made_of.h")
    digest = sha256("".join(texts.values()).encode()).hexdigest()
    core = loader.load()
    assert not isinstance(core, str)
    found = loader.made_of(core.library)
    assert found == loader.MadeOf(declarations.digest(), digest), loader.REBUILD
    assert digest in made_of


@pytest.mark.skipif(not native.available(), reason=f"no native core: {native.why_not()}")
def test_a_core_of_other_classes_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    loader.load.cache_clear()
    monkeypatch.setattr(declarations, "digest", lambda: "other")
    try:
        with pytest.warns(RuntimeWarning, match=r"built of other instruction classes; build it again: make native"):
            assert isinstance(loader.load(), str)
    finally:
        loader.load.cache_clear()


def test_headers_are_written_once(tmp_path: Path) -> None:
    generate.write(tmp_path)
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    generate.write(tmp_path)
    assert times == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert not any((NATIVE / name).exists() for name in times), "generated headers are not kept beside the sources"


def test_an_element_instruction_must_say_when_it_is_exact() -> None:
    facts = {"MNEMONIC": "CGRATensor_ArithOp_V_V_thing", "OPCODE": 9, "EXPRESSION": number("x")}
    with pytest.raises(TypeError, match="CtThing does not say which of its results are EXACT"):
        instruction(type("CtThing", (CtV,), dict(facts)))
    made = instruction(type("CtThing", (CtV,), {**facts, "EXACT": ALWAYS}))
    assert "[9] = {.is_known = 1, .form = FORM_UNARY, .shape = SHAPE_ONE, .function = FN_ct_thing" in functions_text((made,))


@pytest.mark.parametrize("cls", INSTRUCTIONS, ids=lambda c: c.__name__)
def test_every_form_is_one_of_the_core(cls: type) -> None:
    names = (NATIVE / "core.h").read_text()
    assert f"FORM_{cls.FORM}" in names
    assert f"SHAPE_{cls.SHAPE}" in names


def test_digest_changes_with_an_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    before = declarations.digest()
    monkeypatch.setattr(INSTRUCTIONS[2], "EXPRESSION", number("2 / x"))
    assert declarations.digest() != before
