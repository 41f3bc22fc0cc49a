"""What a page shows: figures that add up to the report's, text that is no markup, and nothing of other files."""

import base64
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device.isa.fields import Engine
from hlo2tx8.device.timing.native import time_program
from hlo2tx8.device.timing.notes import NoteKind, Notes
from hlo2tx8.device.timing.timeline import follow
from hlo2tx8.errors import InputError
from hlo2tx8.options import Options
from hlo2tx8.reports.against import comparison
from hlo2tx8.reports.facts import Facts, facts_of
from hlo2tx8.reports.page import page_of
from hlo2tx8.reports.shown import Shown
from hlo2tx8.reports.sources import files_of, places_of
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.tools.main import main
from hlo2tx8.tools.saved import parsed

SAMPLES = Path(__file__).parents[2] / "hlo_samples"
GELU = SAMPLES / "elementwise" / "gelu_bf16_small.hlo"
NAMES = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ title }}", "größe ⟨µ⟩ 微", "a\\u2028'b`${c}")


def compiled(source: object, **more: Any) -> tuple[Executable, Shown]:
    shown = Shown()
    return compile_source(source, Options(explain=True), show=shown, **more), shown


def several(x: Any, w: Any) -> Any:
    y = jnp.tanh(x @ w)
    z = jax.lax.fori_loop(0, 3, lambda _, v: jnp.sort(v * 0.5, axis=-1), y)
    return z / z.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def executable() -> tuple[Executable, Shown]:
    return compiled(several, args=(jnp.ones((96, 64)), jnp.ones((64, 80))))


@pytest.fixture(scope="module")
def facts(executable: tuple[Executable, Shown]) -> Any:
    return facts_of(*executable, "several").values


def test_groups_add_up_to_the_report(facts: Any, executable: tuple[Executable, Shown]) -> None:
    report = executable[0].report
    assert len(facts["groups"]) > 2
    assert sum(g["cycles"] for g in facts["groups"]) + report.launch == pytest.approx(report.cycles)
    moved = sum(sum(g["read"].values()) + sum(g["written"].values()) for g in facts["groups"])
    assert moved == report.ddr_bytes == sum(sum(t.get(e, 0) for e in ("RDMA", "WDMA")) for t in facts["tile_bytes"])
    assert [number for g in facts["groups"] for first, end in g["records"] for number in range(first, end)] == [
        *range(len(facts["records"]))
    ]


def test_bandwidth_is_all_that_is_moved(facts: Any) -> None:
    cycles, rates = (np.array(column) for column in facts["ddr"])
    assert (np.diff(cycles) * rates[:-1]).sum() == pytest.approx(facts["report"]["bytes accessed"], rel=0.02)


def test_groups_have_their_text_at_every_level(facts: Any, executable: tuple[Executable, Shown]) -> None:
    texts: Any = facts_of(*executable).texts
    known = [g for g in facts["groups"] if g["kernel"] >= 0]
    assert known
    for group in known:
        kernel = texts["kernels"][group["kernel"]]
        assert set(texts["levels"][kernel["name"]]) == {"loops", "flat", "vector", "scheduled"}
        assert kernel["fused"].count("hlo.fusion") >= 1


def test_a_stored_program_has_the_same_page(executable: tuple[Executable, Shown], tmp_path: Path) -> None:
    executable[0].save(path := tmp_path / "several.tx8x")
    loaded = Executable.load(path)
    again = facts_of(loaded, Shown.of(loaded, lambda text: parsed(text, "ir")), "several")
    fresh = facts_of(*executable, "several")
    unlike = {name for name, value in fresh.values.items() if json.dumps(again.values[name]) != json.dumps(value)}
    assert unlike <= {"explanation"}
    assert list(again.texts["levels"]) == list(fresh.texts["levels"])


@pytest.mark.parametrize("name", ["elementwise/gelu_bf16_small.hlo", "reduce/softmax_f32.hlo", "dot/gemm_bf16.hlo"])
def test_notes_are_what_the_definition_follows(name: str) -> None:
    """Of a program in which no turns are left out in either."""
    executable, _ = compiled(str(SAMPLES / name))
    program, chip = executable.program, executable.chip
    notes = Notes(1 << 18)
    if time_program(program.code, chip, None, notes) is None:
        pytest.skip("no native core on this machine")
    timeline, report = follow(program, chip, 1 << 20)
    if (notes.rows["what"] == NoteKind.TURNS).any() or any(p.turns for p in timeline.pauses):
        assert executable.report.cycles == pytest.approx(notes.rows["end"].max() + report.launch)
        return
    rows = notes.of(NoteKind.INSTRUCTION)
    found = sorted(
        zip(
            rows["tile"],
            rows["record"],
            np.round(rows["start"] + report.launch, 3),
            np.round(rows["end"] + report.launch, 3),
            strict=True,
        )
    )
    wanted = sorted(
        (t, s.record, round(s.start, 3), round(s.end, 3)) for s in timeline.slices if s.engine != Engine.KC for t in s.tiles
    )
    np.testing.assert_allclose(np.array(found, float), np.array(wanted, float), atol=2e-3)


def hostile() -> str:
    """A module whose names and places are markup."""
    place = "".join(f"#loc{n} = loc({json.dumps(name, ensure_ascii=False)})\n" for n, name in enumerate(NAMES))
    body = "".join(f"  %{n + 1} = stablehlo.exponential %{n} : tensor<8x64xf32> loc(#loc{n})\n" for n in range(len(NAMES)))
    return f"""{place}module @"{NAMES[0]}" {{
  func.func @main(%0: tensor<8x64xf32>) -> tensor<8x64xf32> {{
{body}    return %{len(NAMES)} : tensor<8x64xf32>
  }}
}}
""".replace("(%0", "(%arg0").replace("exponential %0 ", "exponential %arg0 ")


def blocks(page: str) -> list[Any]:
    found = re.findall(r'<script type="application/gzip" id="\w+">([A-Za-z0-9+/=]*)</script>', page)
    return [json.loads(gzip.decompress(base64.b64decode(each))) for each in found]


def test_names_are_never_markup() -> None:
    executable, shown = compiled(hostile(), format="mlir")
    page = page_of([facts_of(executable, shown, NAMES[0])])
    assert page.count("<script") == 4 and page.count("</script>") == 4
    assert "alert(1)" not in page.replace("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;", "")
    assert {origin["hlo"] for origin in blocks(page)[0]["origins"]} >= set(NAMES)


def test_a_page_loads_nothing_and_is_the_same_each_time() -> None:
    executable, shown = compiled(str(GELU))
    page = page_of([facts_of(executable, shown, "gelu", GELU)])
    assert page == page_of([facts_of(executable, shown, "gelu", GELU)])
    without_library = re.sub(r"<script>\s*/\*.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)\s*=\s*"|@import|url\(', without_library)
    assert [line.strip() for line in GELU.read_text().splitlines()[:3]] == [
        line.strip() for line in blocks(page)[0]["files"][0]["pieces"][0]["lines"][:3]
    ]


def test_only_python_is_taken_from_this_machine(tmp_path: Path) -> None:
    (secret := tmp_path / "key").write_text("secret\n")
    (model := tmp_path / "model.py").write_text("".join(f"x{n} = {n}\n" for n in range(9_000)))
    found = files_of(places_of([f"{secret}:1 a", f"{model}:5000:3 b", f"{tmp_path}/gone.py:1 c", "no place"]), None)
    by_name: dict[str, Any] = {str(file["name"]): file for file in found}
    assert not by_name[str(secret)]["pieces"] and "neither" in by_name[str(secret)]["missing"]
    assert [(p["first"], len(p["lines"])) for p in by_name[str(model)]["pieces"]] == [(4988, 25)]
    assert "not on this machine" in by_name[f"{tmp_path}/gone.py"]["missing"]


def test_without_jinja2_there_is_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(InputError, match=r"jinja2(.|\n)*pip install 'hlo2tx8\[report\]'"):
        hlo2tx8.report(str(GELU), output=tmp_path / "x.html")


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1, 1, 1, 1, 3)])
def test_programs_of_any_shape_have_a_page(shape: tuple[int, ...], tmp_path: Path) -> None:
    assert len(hlo2tx8.report(lambda x: jnp.exp(x) + 1, (jnp.ones(shape, jnp.bfloat16),), output=tmp_path / "x.html")) > 1 << 20
    assert (tmp_path / "x.html").exists()


def test_the_command_writes_a_page_of_modules_programs_and_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(GELU), "-o", str(page := tmp_path / "a.html"), "--against", str(GELU)]) == 0
    assert "compiled in" in capsys.readouterr().out
    assert len(blocks(page.read_text())) == 5
    assert main(["report", str(GELU), "-o", str(tmp_path / "no" / "a.html")]) == 1
    (sums := tmp_path / "m.hlo").write_text("""HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY main { x = f32[32] parameter(0)
  y = f32[32] exponential(x)
  r = f32[32] all-reduce(y), to_apply=add
  ROOT z = f32[32] negate(r) }
""")
    assert main(["report", str(sums), "--chips=2", "-o", str(page)]) == 0
    assert "part 0" in blocks(page.read_text())[0]["name"]


def test_a_comparison_says_what_takes_longer_and_why(tmp_path: Path) -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        return jnp.sort(jnp.tanh(x @ w) @ v, axis=-1)

    args = (jnp.ones((256, 128)), jnp.ones((128, 256)), jnp.ones((256, 96)))
    options = Options(matmul_precision="highest")
    slow, fast = (facts_of(compile_source(f, each, args=args), Shown()) for each in (options, Options()))
    found: Any = comparison(slow, fast)
    assert [n for pair in found["pairs"] for n in pair["a"]] == [*range(len(slow.values["groups"]))]
    assert [n for pair in found["pairs"] for n in pair["b"]] == [*range(len(fast.values["groups"]))]
    totals = [sum(pair["cycles"][side] for pair in found["pairs"]) + found["launch"][side] for side in (0, 1)]
    assert totals == pytest.approx([each.values["report"]["cycles"] for each in (slow, fast)])
    longer = max(found["pairs"], key=lambda pair: pair["cycles"][0] - pair["cycles"][1])
    assert longer["reasons"][0].endswith("cycles more")
    assert {"CT", "NE"} & {reason.split()[0] for reason in longer["reasons"]}  # parts of operands are made and multiplied
    same: Any = comparison(slow, slow)
    assert not any(pair["reasons"] for pair in same["pairs"]) and len(same["pairs"]) == len(slow.values["groups"])


def test_the_library_is_the_one_that_is_named() -> None:
    import hashlib

    folder = Path(hlo2tx8.__file__).parent / "reports" / "echarts"
    assert hashlib.sha256((folder / "echarts.min.js").read_bytes()).hexdigest() in (folder / "README.md").read_text()


def synthetic(facts: Facts, num: int) -> Facts:
    """Facts with so many groups, which follow each other: the one group of another program again and again."""
    values: Any = dict(facts.values)
    group, total = values["groups"][0], values["report"]["cycles"]
    cycles = total / num
    bounds = ("NE", "CT", "DDR")
    values["groups"] = [
        group
        | {
            "name": f"fusion_{n}",
            "cycles": cycles * (1 + n % 7 / 7),
            "start": n * cycles,
            "end": (n + 1) * cycles,
            "share": 1 / num,
            "bound": bounds[n % 3],
        }
        for n in range(num)
    ]
    return Facts(facts.name, values, facts.texts)
