"""The section test-config of a netlist: what the host pushes where nothing else is given, and when results are near enough."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hlo2tx8.netlist.fields import Place, choice, known, means, nonempty, number, several, text, whole
from hlo2tx8.netlist.tree import Node, is_nothing


@means({"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}]})
def tile_range(node: Node, place: Place) -> tuple[int, ...]:
    """Rows or columns of a tile from the first to the last, counted from 1; empty if not limited."""
    return () if is_nothing(node) else several(whole(0, 32), 2)(node, place)


@dataclass(frozen=True)
class Stimulus:
    """What the host pushes where no inputs are given."""

    type: str = known(nonempty, "Uniform")
    uniform_lower_bound: float = known(number, -1.0)
    uniform_upper_bound: float = known(number, 1.0)
    normal_mean: float = known(number, 0.0)
    normal_stddev: float = known(number, 0.25)
    constant_value: float = known(number, 0.0)
    debug_tile_id_base: float = known(number, 0.0)
    debug_tile_id_step: float = known(number, 1.0)
    step_start: float = known(number, 0.0)
    step_increment: float = known(number, 1.0)
    matmul_ident_name: str = known(text, "")
    enc_tile_byte_size: int = known(whole(), 4096)
    zero_strip_freq: float = known(number, 0.0)
    zero_ublock_freq: float = known(number, 0.0)
    zero_tile_freq: float = known(number, 0.0)
    nz_strips: int = known(whole(), 0)
    nz_ublocks: int = known(whole(), 0)
    nz_tiles: int = known(whole(), 0)
    set_tile_rows: tuple[int, ...] = known(tile_range, ())
    set_tile_cols: tuple[int, ...] = known(tile_range, ())
    overrides: Mapping[str, "Stimulus"] = field(default_factory=dict[str, "Stimulus"])


@dataclass(frozen=True)
class Comparison:
    """When a result is near enough to the one expected."""

    type: Literal["Exact", "AllClose", "AllCloseHw"] = known(choice("Exact", "AllClose", "AllCloseHw"), "AllCloseHw")
    atol: float = known(number, 1e-3)
    rtol: float = known(number, 1e-4)
    check_pct: float = known(number, 1.0)
    check_pcc: float = known(number, 0.999)
    verbosity: str = known(text, "")
    method: str = known(text, "")
    check_tile_rows_range: tuple[int, ...] = known(tile_range, ())
    check_tile_cols_range: tuple[int, ...] = known(tile_range, ())
    overrides: Mapping[str, "Comparison"] = field(default_factory=dict[str, "Comparison"])


@dataclass(frozen=True)
class TestConfig:
    """The section test-config; `others` are parts of it that mean nothing here."""

    __test__ = False
    args: Mapping[str, str] = field(default_factory=dict[str, str])
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    comparison: Comparison = Comparison(atol=0.01, rtol=0.15, check_pct=0.80, check_pcc=0.99)
    stimulus: Stimulus = Stimulus()
    others: Mapping[str, Any] = field(default_factory=dict[str, Any])
