"""Tensor manipulations between a tensor and the op that reads it: whole tiles are moved, repeated, or their insides transposed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hlo2tx8.netlist.fields import Place, choice, items_of, means, number, pairs_of, refuse_name, schema_of, several, whole
from hlo2tx8.netlist.formats import Array, xp
from hlo2tx8.netlist.shapes import TILE, Shape
from hlo2tx8.netlist.tree import Items, Node, Scalar

NAMES = ("transpose", "broadcast", "hslice", "hstack", "vslice", "vstack", "pad", "tile_broadcast")
MOST = 1 << 16
_COUNT = schema_of(whole(0, MOST))
_BROADCAST = {"type": "object", "properties": dict.fromkeys("rcz", _COUNT), "additionalProperties": False}
TMS: Mapping[str, Any] = {
    "anyOf": [
        {"enum": [None, "None", "none", "null", "~", ""]},
        {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "transpose"},
                    {
                        "type": "object",
                        "properties": {
                            "broadcast": {
                                "type": "object",
                                "properties": dict.fromkeys("rcz", _COUNT),
                                "additionalProperties": False,
                            },
                            **dict.fromkeys(("hslice", "hstack", "vslice", "vstack"), _COUNT),
                            "pad": schema_of(several(number, 3)),
                            "tile_broadcast": schema_of(choice("r", "c")),
                        },
                        "additionalProperties": False,
                    },
                ]
            },
        },
    ]
}


@dataclass(frozen=True)
class Tm:
    """`args` is (dimension, count) of a broadcast, (tile rows, tile columns, value) of a pad, else a count or a dimension."""

    name: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.name, *map(str, self.args)))


@means(TMS)
def read_tms(node: Node, place: Place) -> tuple[Tm, ...]:
    """A list of manipulations; None, or nothing, is an empty one."""
    if isinstance(node, Scalar) and node.text in ("", "None", "none", "null", "~"):
        return ()
    found: list[Tm] = []
    for item in items_of(node, place):
        if isinstance(item, Scalar):
            if item.text != "transpose":
                refuse_name(item.text, ("transpose",), "tensor manipulation without argument", place, item.line)
            found.append(Tm("transpose"))
            continue
        for key, value in pairs_of(item, place):
            found += _read(key.text, value, place.at(key.text), key.line)
    return tuple(found)


def _read(name: str, node: Node, place: Place, line: int) -> list[Tm]:
    match name:
        case "broadcast":
            return [Tm(name, (choice("r", "c", "z")(d, place), whole(1, MOST)(n, place))) for d, n in pairs_of(node, place)]
        case "hslice" | "hstack" | "vslice" | "vstack":
            return [Tm(name, (whole(name.endswith("stack") ^ 1, MOST)(node, place),))]
        case "pad":
            items = items_of(node, place)
            if len(items) != 3:
                place.refuse(f"has {len(items)} values instead of 3", line)
            rt, ct = several(whole(0, MOST), 2)(Items(items[:2], line, 3), place)
            return [Tm(name, (rt, ct, number(items[2], place)))]
        case "tile_broadcast":
            return [Tm(name, (choice("r", "c")(node, place),))]
        case _:
            return refuse_name(name, NAMES, "tensor manipulation", place, line)


def shape_after(tms: Sequence[Tm], shape: Shape) -> Shape:
    """The shape that the manipulations make of a shape; ValueError if one does not divide it."""
    for tm in tms:
        shape = _SHAPES[tm.name](shape, *tm.args)
        if shape.num_tiles > 1 << 40:
            raise ValueError(f"{tm} makes more than 2^40 tiles")
    return shape


def _transposed(shape: Shape) -> Shape:
    return Shape(shape.z, shape.ct, shape.rt)


def _repeated(shape: Shape, dim: str, count: int) -> Shape:
    return Shape(*(size * (count if d == dim else 1) for d, size in zip("zrc", (shape.z, shape.rt, shape.ct), strict=True)))


def _padded(shape: Shape, rt: int, ct: int, _: float) -> Shape:
    return Shape(shape.z, shape.rt + rt, shape.ct + ct)


def _unchanged(shape: Shape, _: str) -> Shape:
    return shape


def _sliced(rows: int, columns: int) -> Callable[[Shape, int], Shape]:
    def after(shape: Shape, count: int) -> Shape:
        size = shape.rt if rows else shape.ct
        if size % count:
            raise ValueError(f"{'v' if rows else 'h'}slice {count} of {shape}")
        return Shape(shape.z * count, shape.rt // (count if rows else 1), shape.ct // (count if columns else 1))

    return after


def _stacked(rows: int, columns: int) -> Callable[[Shape, int], Shape]:
    def after(shape: Shape, count: int) -> Shape:
        if shape.z % (count := count or shape.z):
            raise ValueError(f"{'v' if rows else 'h'}stack {count} of {shape}")
        return Shape(shape.z // count, shape.rt * (count if rows else 1), shape.ct * (count if columns else 1))

    return after


_SHAPES: Mapping[str, Callable[..., Shape]] = {
    "transpose": _transposed,
    "broadcast": _repeated,
    "hslice": _sliced(0, 1),
    "hstack": _stacked(0, 1),
    "vslice": _sliced(1, 0),
    "vstack": _stacked(1, 0),
    "pad": _padded,
    "tile_broadcast": _unchanged,
}


def apply_tms(tms: Sequence[Tm], tensor: Array) -> Array:
    """A tensor [z, rows, columns] of whole tiles after the manipulations, which fit it; see `shape_after`."""
    for tm in tms:
        tensor = _APPLIED[tm.name](tensor, *tm.args)
    return tensor


def pad(tensor: Array, rt: int, ct: int, value: float) -> Array:
    """Tile rows and columns of a value, appended."""
    return xp(tensor).pad(tensor, ((0, 0), (0, rt * TILE), (0, ct * TILE)), constant_values=value)


def unpad(tensor: Array, rt: int, ct: int) -> Array:
    """Without its last tile rows and columns."""
    return tensor[:, : tensor.shape[1] - rt * TILE, : tensor.shape[2] - ct * TILE]


def _swapped(tensor: Array) -> Array:
    return tensor.swapaxes(1, 2)


def _tiled(tensor: Array, dim: str, count: int) -> Array:
    return xp(tensor).tile(tensor, tuple(count if d == dim else 1 for d in "zrc"))


def _hslice(tensor: Array, count: int) -> Array:
    z, rows, columns = tensor.shape
    return tensor.reshape(z, rows, count, columns // count).transpose(0, 2, 1, 3).reshape(z * count, rows, columns // count)


def _hstack(tensor: Array, count: int) -> Array:
    z, rows, columns = tensor.shape
    count = count or z
    return tensor.reshape(z // count, count, rows, columns).transpose(0, 2, 1, 3).reshape(z // count, rows, count * columns)


def _vslice(tensor: Array, count: int) -> Array:
    z, rows, columns = tensor.shape
    return tensor.reshape(z * count, rows // count, columns)


def _vstack(tensor: Array, count: int) -> Array:
    z, rows, columns = tensor.shape
    count = count or z
    return tensor.reshape(z // count, count * rows, columns)


def tile_broadcast(tensor: Array, dim: str) -> Array:
    """Row 0 (r) of every tile in all its rows, or column 0 (c) in all its columns."""
    if dim == "r":
        return xp(tensor).repeat(tensor[:, ::TILE], TILE, axis=1)
    return xp(tensor).repeat(tensor[:, :, ::TILE], TILE, axis=2)


_APPLIED: Mapping[str, Callable[..., Array]] = {
    "transpose": _swapped,
    "broadcast": _tiled,
    "hslice": _hslice,
    "hstack": _hstack,
    "vslice": _vslice,
    "vstack": _vstack,
    "pad": pad,
    "tile_broadcast": tile_broadcast,
}
