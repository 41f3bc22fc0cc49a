"""Parameters of chips, the points of a cross product, and what follows from their times."""

import re
from typing import Any

import pytest

from hlo2tx8.device.chip import DEFAULT_PATH, Chip, described, load_chip, read_chip
from hlo2tx8.device.proxies import area, power
from hlo2tx8.errors import InputError
from hlo2tx8.sweep.fronts import ALL, front, steps, with_mean
from hlo2tx8.sweep.measure import measure
from hlo2tx8.sweep.page import page
from hlo2tx8.sweep.parameters import axes, changed
from hlo2tx8.sweep.points import ModuleSource, cross_product

BASE = described(DEFAULT_PATH)
ADD = b"HloModule m\nENTRY e { a = f32[1000] parameter(0)\n ROOT b = f32[1000] add(a, a) }"


def chip_of(*texts: str) -> Chip:
    """The chip of parameters with one value each."""
    found: dict[str, Any] = {}
    for axis in axes(texts, BASE):
        found |= axis.changes[0]
    return read_chip(changed(BASE, found), "here")


def test_parameters_change_the_description() -> None:
    assert chip_of() == load_chip()
    chip = chip_of("spm=1.5M", "tiles=2x8", "ddr=409.6", "clock=1000", "cycles.ct_bytes_per_cycle=256", "queue_depth=1K")
    assert (chip.spm_bytes, chip.spm_limit) == (3 << 19, (3 << 19) - 65536)
    assert (chip.tiles, chip.mesh) == (16, (2, 8))
    assert (chip.ddr_bytes_per_second, chip.clock_hz) == (409_600_000_000, 10**9)
    assert (chip.cycles.ct_bytes_per_cycle, chip.queue_depth) == (256, 1000)
    assert chip_of("spm_bytes=4M").spm_bytes == 4 << 20
    assert described(DEFAULT_PATH) == BASE


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("warp=1",), "a chip has no parameter 'warp'"),
        (("laws.elem_mask=1",), "a chip has no parameter 'laws.elem_mask'"),
        (("name=x",), "a chip has no parameter 'name'"),
        (("mesh=4x4",), "a chip has no parameter 'mesh'"),
        (("ddr",), "no values in 'ddr'"),
        (("ddr=,",), "no values in 'ddr=,'"),
        (("ddr=fast",), "ddr cannot be 'fast'"),
        (("ddr=-1",), "ddr cannot be '-1'"),
        (("ddr=nan",), "ddr cannot be 'nan'"),
        (("ddr=1e999",), "ddr cannot be '1e999'"),
        (("spm=0",), "spm cannot be '0'"),
        (("spm=0.3",), "spm cannot be '0.3'"),
        (("spm=1T",), "spm cannot be '1T'"),
        (("tiles=16",), "tiles cannot be '16'"),
        (("tiles=0x4",), "tiles cannot be '0x4'"),
        (("spm=1M", "spm_bytes=1M"), "spm and spm_bytes both change spm_bytes"),
        (("ddr=1", "ddr=2"), "ddr and ddr both change ddr_bytes_per_second"),
    ],
)
def test_what_is_no_parameter(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        axes(texts, BASE)


def test_points_are_the_same_everywhere_and_differ_by_all_that_decides() -> None:
    source, other = ModuleSource("a", ADD, "hlo"), ModuleSource("a", ADD + b"\n", "hlo")
    parameters = axes(["ddr=200,400,200", "spm=3M,6M"], BASE)
    points = list(cross_product([source, other], parameters, BASE, {"search": "fast"}))
    assert len({point.key for point in points}) == len(points) == 8
    assert [p.known["chip"] for p in points[:3]] == ["ddr=200 spm=3M", "ddr=200 spm=6M", "ddr=400 spm=3M"]
    assert points[0].key != next(cross_product([source], parameters, BASE, {"search": "full"})).key
    # The built-in chip's own values make the built-in chip, whatever it is called.
    assert points[0].key == next(cross_product([ModuleSource("b", ADD, "hlo")], [], BASE, {"search": "fast"})).key


def measured(*texts: str, module: bytes = ADD) -> dict[str, Any]:
    return measure(next(cross_product([ModuleSource("a", module, "hlo")], axes(texts, BASE), BASE, {})).task())


def test_a_point_is_a_chips_cycles_or_a_reason() -> None:
    one = measured()
    assert (one["status"], one["area"], one["power"]) == ("ok", area(load_chip()), power(load_chip()))
    assert one["cycles"] >= one["bound_cycles"] > 2000
    again = measured("ddr=200")
    assert {**again, "cpu_seconds": 0} == {**one, "cpu_seconds": 0}
    assert measured("clock=1953.125")["microseconds"] < one["microseconds"]
    large = measured("tiles=9x9")
    assert (large["status"], large["why"]) == ("refused", "tiles must be at most 64")
    assert measured("spm=128K")["why"] == "spm_allocation_start < spm_limit <= spm_bytes must hold"
    assert measured(module=b"HloModule")["status"] == "refused"


@pytest.mark.parametrize("mesh", ["1x1", "8x8", "2x4", "3x5"])
def test_any_mesh_compiles(mesh: str) -> None:
    assert measured(f"tiles={mesh}")["status"] == "ok"


def test_proxies_grow_with_each_part_and_may_be_unknown() -> None:
    chip = load_chip()
    for text in (
        "spm=6M",
        "tiles=8x8",
        "ddr=400",
        "cycles.ne_arrays=8",
        "cycles.ct_bytes_per_cycle=256",
        "cycles.dma_bytes_per_cycle=256",
    ):
        larger = chip_of(text)
        assert area(larger) > area(chip)
        assert power(larger) > power(chip)
    assert area(chip_of("clock=2000")) == area(chip)
    assert power(chip_of("clock=2000")) > power(chip)
    without = read_chip({key: value for key, value in BASE.items() if key != "proxies"}, "here")
    assert area(without) is power(without) is None


def row(chip: str, time: float, cost: float | None, workload: str = "w", status: str = "ok") -> dict[str, Any]:
    return {"workload": workload, "chip": chip, "status": status, "why": "", "microseconds": time, "area": cost, "power": cost}


def test_fronts_have_what_nothing_beats() -> None:
    rows = [row("a", 10, 1), row("b", 5, 2), row("c", 7, 3), row("d", 5, 4), row("e", 1, 9), row("f", 5, 2), row("g", 0, None)]
    assert [r["chip"] for r in front(rows, "area")] == ["a", "b", "e"]
    assert front([], "area") == []


def test_steps_compare_equal_chips_only() -> None:
    parameters = axes(["ddr=200,400", "spm=3M,6M"], BASE)
    rows = [
        row("ddr=200 spm=3M", 8, 1),
        row("ddr=400 spm=3M", 4, 2),
        row("ddr=200 spm=6M", 6, 3),
        row("ddr=400 spm=6M", 0, 0, status="refused"),
    ]
    found = list(steps(with_mean(rows), parameters))
    assert [(s.parameter, s.before, s.after, round(s.time, 9), round(s.area, 9), s.count) for s in found] == [
        ("ddr", "200", "400", 0.5, 2, 1),
        ("spm", "3M", "6M", 0.75, 3, 1),
    ]


def test_the_mean_is_of_chips_that_have_all_workloads() -> None:
    rows = [row("a", 2, 1), row("a", 8, 1, "v"), row("b", 2, 1), row("b", 2, 1, "v", status="refused")]
    assert [(r["chip"], r["microseconds"]) for r in with_mean(rows) if r["workload"] == ALL] == [("a", 4)]


def test_names_do_not_break_out_of_the_page() -> None:
    rows = [row("ddr=200", 2, 1, "</script><b>&"), row("ddr=400", 1, 2, "</script><b>&"), row("x", 0, 0, "<i>", "refused")]
    text = page(rows, with_mean(rows), list(steps(with_mean(rows), axes(["ddr=200,400"], BASE))))
    assert "<b>" not in text
    assert "<i>" not in text
    assert "ddr 200 → 400" in text
