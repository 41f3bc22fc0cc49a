"""Groups by bands that do not fit as phases of one kernel are made anew for less room, at last half as many in a kernel."""

from pathlib import Path

from xdsl.ir import Operation

from hlo2tx8.compiler.driver import load_source, lower_module
from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.emitters.band_phases import is_of_bands
from hlo2tx8.emitters.emit_fusions import fusion_name
from hlo2tx8.fusion.take_apart import take_apart_bands
from hlo2tx8.options import Level, Options
from hlo2tx8.schedule.plan_band_group import PHASE_SHARES
from hlo2tx8.schedule.work_split import Target

SOURCE = Path(__file__).parents[2] / "hlo" / "group" / "band_phases_made_anew.hlo"


def num_fusions(op: Operation) -> int:
    return sum(isinstance(inner, FusionOp) and fusion_name(inner) != "copy_fusion" for inner in op.walk())


def num_phases(op: Operation) -> int:
    return sum(isinstance(inner, GroupOp) for inner in op.walk()) - 1 if isinstance(op, GroupOp) and is_of_bands(op) else 1


def test_a_group_that_never_fits_ends_in_smaller_ones() -> None:
    module = load_source(SOURCE.read_text(), format="hlo")
    lower_module(module, Options(until=Level.FUSED))
    group = next(op for op in module.walk() if isinstance(op, GroupOp) and is_of_bands(op))
    target = Target(Rates.of(load_chip("")), 0)
    phases, fusions = num_phases(group), num_fusions(group)
    for attempt in range(1, len(PHASE_SHARES) + 1):
        found = take_apart_bands(group, target)
        assert sum(map(num_fusions, found)) == fusions
        if len(found) > 1:
            break
        (group,) = (op for op in found if isinstance(op, GroupOp))
        assert group.attempt == attempt
    assert len(found) > 1
    assert max(map(num_phases, found)) <= -(-phases // 2)
