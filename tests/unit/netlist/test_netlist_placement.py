"""Where ops of a netlist run on the mesh: their own cores if these fit, else moved, scaled or in turns; never two on one tile."""

from dataclasses import replace
from pathlib import Path

import pytest

from hlo2tx8.device.chip import load_chip
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.netlist.edges import sent_by
from hlo2tx8.netlist.epochs import Golden, executed_epochs
from hlo2tx8.netlist.golden import rules_of, run_netlist
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.model import Op
from hlo2tx8.netlist.placement import Placement, place
from hlo2tx8.netlist.reader import read_file
from hlo2tx8.netlist.tx8 import Tx8
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable

SAMPLES = Path(__file__).parents[3] / "hlo_samples" / "netlists"
MESH = (4, 4)


def ops(*grids: tuple[int, int, int, int]) -> list[Op]:
    """Ops at these rows and columns, of so many rows and columns of cores."""
    op = next(iter(read_file(SAMPLES / "softmax.yaml").ops.values()))
    return [replace(op, name=f"op{n}", grid_loc=(r, c), grid_size=(h, w)) for n, (r, c, h, w) in enumerate(grids)]


def tiles_of(found: Placement) -> list[tuple[int, ...]]:
    return [tile.tiles(MESH) for tile in found.tiles.values()]


def test_cores_that_fit_are_tiles_wherever_the_first_of_them_is():
    found = place(ops((2, 7, 1, 2), (3, 6, 2, 1), (5, 7, 1, 3)), MESH)
    assert found == Placement("given", {"op0": Rectangle(0, 1, 1, 2), "op1": Rectangle(1, 0, 2, 1), "op2": Rectangle(3, 1, 1, 3)})


def test_rows_and_columns_of_a_turned_grid_change_places():
    turned = [replace(op, grid_transpose=True) for op in ops((0, 0, 1, 3))]
    assert place(turned, MESH).tiles == {"op0": Rectangle(0, 0, 3, 1)}


@pytest.mark.parametrize(
    ("grids", "kind", "turns"),
    [
        ([(0, column, 1, 1) for column in range(10)], "moved", 1),
        ([(0, 0, 4, 4), (0, 4, 4, 4)], "scaled", 1),
        ([(0, 0, 8, 8)], "scaled", 1),
        ([(row, column, 1, 1) for row in range(4) for column in range(5)], "turns", 2),
        ([(0, 0, 8, 8), *((row, 8, 1, 1) for row in range(16))], "turns", 2),
    ],
)
def test_what_does_not_fit_is_moved_scaled_or_in_turns(grids: list[tuple[int, int, int, int]], kind: str, turns: int):
    found = place(ops(*grids), MESH)
    assert (found.kind, found.turns, len(found.tiles)) == (kind, turns, len(grids))
    assert all(tiles_of(found))
    if kind != "turns":
        every = [tile for tiles in tiles_of(found) for tile in tiles]
        assert len(every) == len(set(every))


def test_each_op_is_computed_by_its_own_tiles():
    netlist = read_file(SAMPLES / "softmax.yaml")
    (epoch,) = executed_epochs(expand(netlist))
    chip = Tx8(rules_of(netlist, netlist.devices.arches[-1]), Options())
    chip.prepare([epoch])
    (executable,) = chip.compiled.values()
    placed = place(epoch.segments[0].ops, load_chip("").mesh)
    assert placed.kind == "given"
    used = [set(tiles) for tiles in tiles_of(placed)]
    busy = {n for n, tile in enumerate(executable.report.tiles) if any(tile[e].instructions for e in ("CT", "NE"))}
    assert busy == set().union(*used)
    assert len(executable.program.launches) == 2 * len(used)


def test_several_inputs_are_under_way_at_once():
    """An op works on an input while those behind it work on those before: less than one after the other, with the same results."""
    netlist = read_file(SAMPLES / "softmax.yaml")
    rules = rules_of(netlist, netlist.devices.arches[-1])
    (epoch,) = executed_epochs(expand(netlist))
    chip, alone = Tx8(rules, Options()), Tx8(rules, Options())
    assert chip.inputs_at_once(epoch) == 2
    key = chip.executable(epoch.segments[0], {}, 2)
    one = alone.executable(epoch.segments[0], {})
    assert key is not None and one is not None
    taken, each = chip.compiled[key], alone.compiled[one]
    assert isinstance(taken, Executable) and isinstance(each, Executable)
    work = each.report.cycles - each.report.overhead["launch"]
    assert taken.report.cycles - taken.report.overhead["launch"] < 1.6 * work
    found, expected = run_netlist(netlist, chip, None, {}), run_netlist(netlist, Golden(rules), None, {})
    assert chip.runs[key] == 2
    assert all(abs(found[name] - expected[name]).max() < 0.01 for name in expected)


@pytest.mark.parametrize(("name", "inputs"), [("training", 1), ("sparse", 1), ("softmax", 2)])
def test_what_depends_on_the_input_before_is_one_by_one(name: str, inputs: int):
    netlist = read_file(SAMPLES / f"{name}.yaml")
    rules = rules_of(netlist, netlist.devices.arches[-1])
    epoch = executed_epochs(expand(netlist))[0]
    assert Tx8(rules, Options()).inputs_at_once(epoch) == inputs
    assert Tx8(rules, Options(), "chip").inputs_at_once(epoch) == 1


def test_results_do_not_depend_on_where_ops_run():
    netlist = read_file(SAMPLES / "fused.yaml")
    rules = rules_of(netlist, netlist.devices.arches[-1])
    placed, spread = (run_netlist(netlist, Tx8(rules, Options(), where), None, {}) for where in ("netlist", "chip"))
    assert placed.keys() == spread.keys()
    assert all(abs(placed[name] - spread[name]).max() < 0.05 for name in placed)


PRODUCT = """HloModule product
ENTRY main {
  x = bf16[512,512] parameter(0)
  y = bf16[512,512] parameter(1)
  ROOT z = bf16[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_links_have_the_bytes_that_tiles_send():
    """A product whose operands mesh rows and columns share goes over links, each of which has a panel of one of them."""
    used = sent_by(compile_source(PRODUCT, Options())).links
    neighbours = {(a, b) for a in range(16) for b in range(16) if abs(a // 4 - b // 4) + abs(a % 4 - b % 4) == 1}
    assert used and used.keys() <= neighbours
    assert set(used.values()) == {512 * 512 * 2 // 4}
