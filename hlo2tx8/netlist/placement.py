"""Where the ops of a temporal epoch run on the chip: the grids of their netlist, on a mesh that may be smaller.

given     every op has the cores that the netlist says, but for where the first row and column are
moved     grids are as large, elsewhere
scaled    grids are halved until all ops have tiles of their own
turns     as many ops as have room are side by side, each on its grid or on all tiles if that is larger; then the next ones
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.netlist.model import Op

Kind: TypeAlias = Literal["given", "moved", "scaled", "turns"]
Size: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Placement:
    """The tiles of each op, and how they follow from its grid; in so many `turns` sets of ops have the mesh one after the other."""

    kind: Kind
    tiles: Mapping[str, Rectangle]
    turns: int = 1


def place(ops: Sequence[Op], mesh: Sequence[int]) -> Placement:
    """The tiles of ops, which come in an order in which they can run, on a mesh of so many rows and columns."""
    whole = mesh[0], mesh[1]
    if (found := _as_given(ops, whole)) is not None:
        return Placement("given", found)
    sizes = {op.name: size_of(op) for op in ops}
    part = 1
    while True:
        scaled = {name: (-(-rows // part), -(-columns // part)) for name, (rows, columns) in sizes.items()}
        if (found := _packed(scaled, whole)) is not None:
            return Placement("moved" if part == 1 else "scaled", found)
        if max(max(size) for size in scaled.values()) == 1:
            break
        part *= 2
    tiles: dict[str, Rectangle] = {}
    turn: dict[str, Size] = {}
    turns = 1
    for name, (rows, columns) in sizes.items():
        own = {name: (min(rows, whole[0]), min(columns, whole[1]))}
        found = _packed(turn | own, whole)
        if found is None:
            turn, turns, found = {}, turns + 1, _packed(own, whole)
        assert found is not None
        turn |= own
        tiles |= found
    return Placement("turns", tiles, turns)


def size_of(op: Op) -> Size:
    """Rows and columns of cores that an op occupies; one core of what is on none of the grid."""
    rows, columns = op.grid_size if op.cores else (1, 1)
    return (columns, rows) if op.grid_transpose and op.cores else (rows, columns)


def _as_given(ops: Sequence[Op], mesh: Size) -> dict[str, Rectangle] | None:
    """The cores of the netlist, from the first row and column that have some on; None if they do not fit, or ops share one."""
    cores = [core for op in ops for core in op.cores]
    if len(set(cores)) < len(cores) or not all(op.cores for op in ops) or not ops:
        return None
    row, column = (min(core[axis] for core in cores) for axis in (0, 1))
    if any(r - row >= mesh[0] or c - column >= mesh[1] for r, c in cores):
        return None
    return {op.name: Rectangle(op.grid_loc[0] - row, op.grid_loc[1] - column, *size_of(op)) for op in ops}


def _packed(sizes: Mapping[str, Size], mesh: Size) -> dict[str, Rectangle] | None:
    """Places for all, the tallest first and each where it is as far up and left as there is room; None if there is none for one."""
    found: dict[str, Rectangle] = {}
    taken: set[int] = set()
    for name, (rows, columns) in sorted(sizes.items(), key=lambda item: (-item[1][0], -item[1][1])):
        places = (Rectangle(r, c, rows, columns) for r in range(mesh[0] - rows + 1) for c in range(mesh[1] - columns + 1))
        place = next((place for place in places if not taken & set(place.tiles(mesh))), None)
        if place is None:
            return None
        found[name] = place
        taken |= set(place.tiles(mesh))
    return {name: found[name] for name in sizes}
