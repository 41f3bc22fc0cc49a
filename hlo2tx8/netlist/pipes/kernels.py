"""What the kernel of an op takes of its inputs on each core, in which order, and what it has then made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from hlo2tx8.netlist.formats import Array
from hlo2tx8.netlist.model import FusedOp, Op, ScheduledOp
from hlo2tx8.netlist.ops import KINDS
from hlo2tx8.netlist.shapes import Blocked, Shape

SPLIT, WHOLE = True, False


@dataclass(frozen=True)
class Intake:
    """A core at (r, c) takes of an input [z, rt, ct] the tiles [:, rows[r], columns[c]], in `order`; it frees `unit` at once."""

    rows: Array
    columns: Array
    order: Array
    unit: int

    @property
    def tiles(self) -> int:
        return len(self.order)

    @property
    def depth(self) -> int:
        """How many z there are."""
        return self.tiles // (self.rows.shape[1] * self.columns.shape[1])


@dataclass(frozen=True)
class Turn:
    """`repeats` times: of each input so many units are taken, then so many tiles of output are made."""

    repeats: int
    units: tuple[int, ...]
    made: int


def kept_of(op: Op, number: int) -> int:
    """How many tiles of an input a kernel keeps and uses again and again; 0 if it takes all that it uses."""
    return 1 if number in op.attributes.get("single_tile", ()) else op.attributes.get("kernel_broadcast", {}).get(number, 0)


def intake_of(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> Intake:
    """Of an input that has this shape after its manipulations. ValueError where the grid does not divide it."""
    grid_rows, grid_columns = op.grid_size
    rows, columns, order, unit = _KERNELS.get(_kernel(op), _blocks)(op, number, shape, fused)
    at_rows = _shares(shape.rt, grid_rows, "rows") if rows is SPLIT else np.tile(np.arange(shape.rt), (grid_rows, 1))
    if _kernel(op) == "depthwise" and number == 0:
        taps: int = op.attributes["m_k"]
        at_columns = _shares(shape.ct // taps, grid_columns, "columns")
        at_columns = (at_columns[:, None] + np.arange(taps)[:, None] * (shape.ct // taps)).reshape(grid_columns, -1)
    elif _kernel(op) == "sparse" and number in (0, 2):
        slabs = op.attributes.get("fracture_factor", 1)
        at_columns = np.repeat(_shares(shape.ct, slabs, "columns"), grid_columns // slabs, axis=0)
    else:
        at_columns = (
            _shares(shape.ct, grid_columns, "columns") if columns is SPLIT else np.tile(np.arange(shape.ct), (grid_columns, 1))
        )
    tiles = shape.z * at_rows.shape[1] * at_columns.shape[1]
    return Intake(at_rows, at_columns, _order(tiles, *order), gcd(unit, tiles))


def _shares(size: int, parts: int, what: str) -> Array:
    if size % parts:
        raise ValueError(f"{size} tile {what} of an input are not divided among {parts} {what} of cores")
    return np.arange(size).reshape(parts, -1)


_Order = tuple[tuple[int, ...], tuple[int, ...]]
_Taken = tuple[bool, bool, _Order, int]


def _order(tiles: int, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Tiles [z, rows, columns] in the order of the axes of a finer shape; row by row where that does not divide them."""
    if tiles % int(np.prod(sizes[1:], dtype=np.int64)):
        return np.arange(tiles)
    return np.arange(tiles).reshape(sizes).transpose(axes).reshape(-1)


def _kernel(op: Op) -> str:
    return "sparse" if op.attributes.get("identity") else op.type


def _by_blocks(of: Blocked | ScheduledOp, order: str, rows: int, columns: int) -> tuple[_Order, int]:
    """By ublocks of an op, or of a step of one; a unit is an ublock."""
    ur, uc = of.ublock
    if rows % ur or columns % uc:
        return ((-1, rows, columns), (0, 1, 2)), 1
    axes = (0, 1, 3, 2, 4) if order == "r" else (0, 3, 1, 2, 4)
    return ((-1, rows // ur, ur, columns // uc, uc), axes), ur * uc


def _blocks(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    rows, columns = shape.rt // op.grid_size[0], shape.ct // op.grid_size[1]
    return SPLIT, SPLIT, *_by_blocks(op, op.ublock_order, rows, columns)


def _matmul(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    if number > 1:
        return _blocks(op, number, shape, fused)
    return _factor(op, number, op.attributes, "min_buffer_input" in op.attributes and op.attributes["min_buffer_input"] == number)


def _factor(of: Blocked | ScheduledOp, number: int, attributes: Mapping[str, int], is_least: bool) -> _Taken:
    (mr, mc), (ur, uc) = of.mblock, of.ublock
    steps, depth = attributes.get("m_k", 1), attributes.get("u_kt", 1)
    if number == 0:
        return SPLIT, WHOLE, ((-1, mr, ur, steps, depth), (0, 3, 1, 2, 4)), (1 if is_least else mr) * ur * depth
    return WHOLE, SPLIT, ((-1, steps, depth, mc, uc), (0, 1, 3, 2, 4)), (1 if is_least else mc) * uc * depth


def _sparse(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    if number > 2:
        return _blocks(op, number, shape, fused)
    if number != 1:
        return (
            SPLIT,
            SPLIT,
            ((-1,), (0,)),
            1 if number else shape.rt // op.grid_size[0] * (shape.ct // op.attributes.get("fracture_factor", 1)),
        )
    depth = op.attributes["u_kt"]
    return WHOLE, SPLIT, ((-1, depth, op.mblock[1], op.ublock[1]), (0, 2, 1, 3)), op.mblock[1] * op.ublock[1] * depth


def _depthwise(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    (mr, mc), (ur, uc) = op.mblock, op.ublock
    if number == 0:
        return SPLIT, SPLIT, ((-1, mr, ur, op.attributes["m_k"], mc, uc), (0, 3, 4, 1, 2, 5)), mr * ur * uc
    return (WHOLE, SPLIT, ((-1,), (0,)), mc * uc) if number == 1 else _blocks(op, number, shape, fused)


def _reduce(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    return _maximum(op, op.attributes["dim"], op.attributes, shape, op.grid_size, op.ublock_order)


def _maximum(
    of: Blocked | ScheduledOp, dim: str, attributes: Mapping[str, int], shape: Shape, grid: tuple[int, ...], order: str
) -> _Taken:
    (mr, mc), (ur, uc) = of.mblock, of.ublock
    match dim:
        case "r":
            steps, depth = attributes.get("m_k", shape.rt), attributes.get("u_kt", 1)
            return WHOLE, SPLIT, ((-1, steps, depth, mc, uc), (0, 3, 1, 2, 4)), uc * depth
        case "c":
            steps, depth = attributes.get("m_k", shape.ct), attributes.get("u_kt", 1)
            return SPLIT, WHOLE, ((-1, mr, ur, steps, depth), (0, 1, 3, 2, 4)), ur * depth
        case "rc":
            return WHOLE, WHOLE, ((-1,), (0,)), 1
        case _:
            return SPLIT, SPLIT, *_by_blocks(of, order, shape.rt // grid[0], shape.ct // grid[1])


def _all(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    return WHOLE, WHOLE, ((-1,), (0,)), 1


def _tilizer(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    return SPLIT, WHOLE, ((-1,), (0,)), 1


def _fused(op: Op, number: int, shape: Shape, fused: Mapping[str, FusedOp]) -> _Taken:
    """As the first step that reads it does. ValueError if cores would have to share what steps make."""
    steps = fused[op.attributes["fused_op_id"]].steps
    parts: dict[str, tuple[bool, bool]] = {"output": (SPLIT, SPLIT)}
    name, taken = f"input{number}", None
    for step in reversed(steps):
        made = parts.pop(step.output, (SPLIT, SPLIT))
        for place, source in enumerate(step.inputs):
            rows, columns = _needs(step, place, made, op.grid_size)
            if parts.setdefault(source, (rows, columns)) != (rows, columns):
                raise ValueError(f"{source} is divided among cores where one step reads it, and whole where another does")
        if name in step.inputs:
            taken = step, step.inputs.index(name)
    if taken is None:
        return _blocks(op, number, shape, fused)
    rows, columns = parts[name]
    step, place = taken
    family = KINDS[step.type].family
    if family == "matmul":
        *_, order, unit = _factor(step, place, step.attributes, is_least=True)
    elif family == "reduce":
        *_, order, unit = _maximum(step, step.attributes.get("dim", "r"), step.attributes, shape, op.grid_size, op.ublock_order)
    else:
        high = shape.rt // op.grid_size[0] if rows is SPLIT else shape.rt
        wide = shape.ct // op.grid_size[1] if columns is SPLIT else shape.ct
        order, unit = _by_blocks(step, op.ublock_order, high, wide)
    return rows, columns, order, unit


def _needs(step: ScheduledOp, place: int, made: tuple[bool, bool], grid: tuple[int, int]) -> tuple[bool, bool]:
    """Are rows and columns of a step's input divided among cores, if those of its output are?"""
    rows, columns = made
    family = KINDS[step.type].family
    if family == "matmul":
        rows, columns = (rows, WHOLE) if place == 0 else (WHOLE, columns)
    elif family == "reduce":
        dim = step.attributes.get("dim", "r")
        rows, columns = rows and "r" not in dim, columns and "c" not in dim
    for tm in step.tms.get(place, ()):
        if tm.name == "broadcast":
            rows, columns = rows and tm.args[0] != "r", columns and tm.args[0] != "c"
    return rows or grid[0] == 1, columns or grid[1] == 1


_KERNELS = {
    "matmul": _matmul,
    "sparse": _sparse,
    "depthwise": _depthwise,
    "reduce": _reduce,
    "embedding": _all,
    "tilizer": _tilizer,
    "fused_op": _fused,
}


def turns_of(op: Op, intakes: Sequence[Intake], fused: Mapping[str, FusedOp]) -> tuple[Turn, ...]:
    """What a core does for an input: elementwise ops go on by ublocks, products by steps of their depth, others by z."""
    made = op.t * op.core_tiles[0] * op.core_tiles[1]
    ublock = op.ublock[0] * op.ublock[1]
    units = [intake.tiles // intake.unit for intake in intakes]
    if is_elementwise(op, fused) and all(intake.unit == ublock and intake.tiles == made for intake in intakes):
        return (Turn(made // ublock, (1,) * len(intakes), ublock),)
    if op.type == "matmul" and not op.attributes.get("identity"):
        group = op.attributes["m_k"] * (intakes[0].depth // op.t)
        if not any(count % (op.t * group) for count in units[:2]) and not any(count % op.t for count in units[2:]):
            each = (units[0] // op.t // group, units[1] // op.t // group)
            last = Turn(1, (*each, *(count // op.t for count in units[2:])), made // op.t)
            return (Turn(group - 1, (*each, *(0 for _ in units[2:])), 0), last) * op.t
    parts = gcd(op.t, made, *units)
    return (Turn(parts, tuple(count // parts for count in units), made // parts),)


def is_elementwise(op: Op, fused: Mapping[str, FusedOp]) -> bool:
    """Does each element of the output depend on the same elements of the inputs only?"""
    if op.type == "fused_op":
        return all(KINDS[step.type].family not in ("matmul", "reduce") for step in fused[op.attributes["fused_op_id"]].steps)
    return KINDS[op.type].family in ("copy", "sfpu", "binary", "quant") or op.type == "drainer"
