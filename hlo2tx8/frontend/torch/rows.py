"""All rows of the table, and which ops torch takes apart because they have none."""

# pyright: basic

from functools import cache
from typing import Any

from hlo2tx8.frontend.torch import (
    arithmetic,
    buckets,
    drawing,
    indexing,
    making,
    ordering,
    pointwise,
    products,
    reductions,
    resizing,
    shaping,
    special,
    transforms,
    windows,
)
from hlo2tx8.frontend.torch.package import torch_module
from hlo2tx8.frontend.torch.table import Row, Rows

FAMILIES = (
    arithmetic,
    buckets,
    drawing,
    indexing,
    making,
    ordering,
    pointwise,
    products,
    reductions,
    resizing,
    shaping,
    special,
    transforms,
    windows,
)
ROWS: Rows = {name: row for family in FAMILIES for name, row in family.ROWS.items()}
"""By name of the op, or of one overload of it as `where.self`; ops of other namespaces as `prims::iota`."""


def row_of(name: str) -> Row | None:
    """The row of an op with its overload; None if there is none."""
    return ROWS.get(name) or ROWS.get(name.partition(".")[0])


@cache
def decompositions(is_exported: bool) -> dict[Any, Any]:
    """How torch takes ops apart that have no row: core ATen's decompositions, then all others that it has. An exported program
    keeps composite ops that have a row.
    """
    torch = torch_module()
    core = dict(torch_module("export").default_decompositions().materialize()) if is_exported else {}
    found = {**torch_module("_decomp").decomposition_table, **torch_module("_decomp").core_aten_decompositions(), **core}
    return {op: f for op, f in found.items() if isinstance(op, torch._ops.OpOverload) and not _has_row(op)}


def _has_row(op: Any) -> bool:
    name = op._schema.name.removeprefix("aten::")
    return name in ROWS or f"{name}.{op._schema.overload_name}" in ROWS
